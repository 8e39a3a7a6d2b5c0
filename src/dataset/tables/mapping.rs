//! The mapping from tables to nodes and edges: reads and writes mapping files, parses table
//! options, and describes each table in one line.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use serde::Deserialize;
use toml::Spanned;

use crate::{DatasetError, encoding::Encoding, tables::Reading};
use agent_ground::files;

/// Name of the mapping file in a directory.
pub const MAPPING_FILE: &str = "mapping.toml";
/// Maximum size of a mapping, bytes.
const MAX_MAPPING_BYTES: u64 = 1 << 20;
/// Separator that marks a column of JSON lists.
pub(super) const JSON_LIST: &str = "json";

/// A mapping from tables to nodes and edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Title, for display; empty uses the title of `dataset.toml`.
    pub title: String,
    /// Licence, for display; empty uses the licence of `dataset.toml`.
    pub licence: String,
    /// Candidate types; empty uses those of `dataset.toml`.
    pub candidate_types: Vec<String>,
    /// How text files are read.
    pub reading: Reading,
    /// Tables with one node per row; nodes are numbered in this order.
    pub nodes: Vec<NodesTable>,
    /// Tables with one edge per row.
    pub edges: Vec<EdgesTable>,
}

/// A table with one node per row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesTable {
    /// The file, relative to the mapping.
    pub file: String,
    /// The table, in a database.
    #[serde(default)]
    pub table: Option<String>,
    /// Type of the nodes.
    #[serde(rename = "type")]
    pub node_type: String,
    /// Column of ids; `None` numbers the rows.
    #[serde(default)]
    pub id: Option<String>,
    /// Column of names; `None` uses the id.
    #[serde(default)]
    pub name: Option<String>,
    /// Columns of fields; `None` uses all columns except id, name and relations.
    #[serde(default)]
    pub fields: Option<Vec<String>>,
    /// Separators of the columns with several values, by column.
    #[serde(default)]
    pub lists: BTreeMap<String, String>,
    /// Columns with ids of other nodes.
    #[serde(default)]
    pub relations: Vec<Link>,
    /// Types of the columns whose values become nodes, by column; columns may share a type.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// First line of the table in the mapping file (from 1); 0 without a mapping file.
    #[serde(skip)]
    pub line: u64,
}

/// A column with ids of other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The column.
    pub column: String,
    /// Relation from the row's node to the other nodes.
    pub relation: String,
    /// Type of the other nodes.
    pub to: String,
}

/// A table with one edge per row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgesTable {
    /// The file, relative to the mapping.
    pub file: String,
    /// The table, in a database.
    #[serde(default)]
    pub table: Option<String>,
    /// Source of the edges.
    pub source: End,
    /// Target of the edges.
    pub target: End,
    /// Relation of all edges; exclusive with `relation_column`.
    #[serde(default)]
    pub relation: Option<String>,
    /// Column with the relation of each edge.
    #[serde(default)]
    pub relation_column: Option<String>,
    /// First line of the table in the mapping file (from 1); 0 without a mapping file.
    #[serde(skip)]
    pub line: u64,
}

/// One end of the edges of a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Column of ids.
    pub column: String,
    /// Type of the nodes.
    #[serde(rename = "type")]
    pub node_type: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MappingFile {
    title: String,
    licence: String,
    candidate_types: Vec<String>,
    encoding: Option<Encoding>,
    missing: Option<Vec<String>>,
    nodes: Vec<Spanned<NodesTable>>,
    edges: Vec<Spanned<EdgesTable>>,
}

impl Mapping {
    /// Reads a mapping file.
    ///
    /// # Errors
    /// [`DatasetError::BadToml`], [`DatasetError::Io`].
    pub fn read(path: &Path) -> Result<Mapping, DatasetError> {
        let text = files::read_text(path, MAX_MAPPING_BYTES);
        let text = text.map_err(DatasetError::io("read", path))?;
        let bad = |line, message| DatasetError::BadToml { path: path.to_path_buf(), line, message };
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let parsed: MappingFile = toml::from_str(&text).map_err(|error| {
            let at = line(error.span().map_or(0, |span| span.start));
            let message = error.message().lines().next().unwrap_or_default();
            let hint = "`agent data guess` writes a mapping that can be edited";
            bad(at as u64, format!("{message}; {hint}"))
        })?;
        if parsed.nodes.is_empty() {
            let message = "it has no [[nodes]]; name at least one table of nodes";
            return Err(bad(0, message.to_owned()));
        }
        let nodes = parsed.nodes.into_iter().map(|table| {
            let at = line(table.span().start) as u64;
            NodesTable { line: at, ..table.into_inner() }
        });
        let edges = parsed.edges.into_iter().map(|table| {
            let at = line(table.span().start) as u64;
            EdgesTable { line: at, ..table.into_inner() }
        });
        Ok(Mapping {
            title: parsed.title,
            licence: parsed.licence,
            candidate_types: parsed.candidate_types,
            reading: Reading { encoding: parsed.encoding, missing: parsed.missing },
            nodes: nodes.collect(),
            edges: edges.collect(),
        })
    }

    /// Formats the mapping as a mapping file.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Mapping of tables to nodes and edges; edit it, then import the directory. A list of `fields`\n\
             # leaves out other columns. `candidate_types` are the types of possible answers [default: all].\n",
        );
        for (key, value) in [("title", &self.title), ("licence", &self.licence)] {
            if !value.is_empty() {
                let _ = writeln!(text, "{key} = {}", quoted(value));
            }
        }
        match self.candidate_types.as_slice() {
            [] => {
                let types = self.nodes.iter().take(1).map(|table| table.node_type.as_str());
                let _ = writeln!(text, "# candidate_types = {}", list(types));
            }
            types => {
                let types = types.iter().map(String::as_str);
                let _ = writeln!(text, "candidate_types = {}", list(types));
            }
        }
        if let Some(encoding) = self.reading.encoding {
            let _ = writeln!(text, "encoding = {}", quoted(encoding.name()));
        }
        if let Some(missing) = &self.reading.missing {
            let _ = writeln!(text, "missing = {}", list(missing.iter().map(String::as_str)));
        }
        self.nodes.iter().for_each(|table| table.write(&mut text));
        self.edges.iter().for_each(|table| table.write(&mut text));
        text
    }

    /// Returns a one-line description of each table.
    pub fn lines(&self) -> Vec<String> {
        let nodes = self.nodes.iter().map(NodesTable::describe);
        nodes.chain(self.edges.iter().map(EdgesTable::describe)).collect()
    }
}

/// Quotes a text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", texts.map(quoted).collect::<Vec<_>>().join(", "))
}

/// Writes the first lines of a table.
fn write_head(text: &mut String, kind: &str, file: &str, table: Option<&str>) {
    let _ = write!(text, "\n[[{kind}]]\nfile = {}\n", quoted(file));
    if let Some(table) = table {
        let _ = writeln!(text, "table = {}", quoted(table));
    }
}

/// Returns the name of a table, for display.
fn table_label(file: &str, table: Option<&str>) -> String {
    table.map_or_else(|| file.to_owned(), |table| format!("{file}:{table}"))
}

impl NodesTable {
    fn write(&self, text: &mut String) {
        write_head(text, "nodes", &self.file, self.table.as_deref());
        let _ = writeln!(text, "type = {}", quoted(&self.node_type));
        for (key, column) in [("id", &self.id), ("name", &self.name)] {
            if let Some(column) = column {
                let _ = writeln!(text, "{key} = {}", quoted(column));
            }
        }
        if let Some(fields) = &self.fields {
            let _ = writeln!(text, "fields = {}", list(fields.iter().map(String::as_str)));
        }
        if !self.lists.is_empty() {
            let lists = self.lists.iter();
            let lists = lists.map(|(column, by)| format!("{} = {}", quoted(column), quoted(by)));
            let _ = writeln!(text, "lists = {{ {} }}", lists.collect::<Vec<_>>().join(", "));
        }
        if !self.relations.is_empty() {
            text.push_str("relations = [\n");
            for Link { column, relation, to } in &self.relations {
                let [column, relation, to] = [column, relation, to].map(|text| quoted(text));
                let _ =
                    writeln!(text, "  {{ column = {column}, relation = {relation}, to = {to} }},");
            }
            text.push_str("]\n");
        }
        if !self.values.is_empty() {
            let values = self.values.iter();
            let values = values.map(|(column, to)| format!("{} = {}", quoted(column), quoted(to)));
            let _ = writeln!(text, "values = {{ {} }}", values.collect::<Vec<_>>().join(", "));
        }
    }

    fn describe(&self) -> String {
        let mut parts = vec![match &self.id {
            Some(id) => format!("id {id}"),
            None => "ids by row".to_owned(),
        }];
        parts.extend(self.name.as_ref().map(|name| format!("name {name}")));
        match self.fields.as_deref() {
            Some([]) => {}
            Some(fields) => parts.push(format!("fields {}", fields.join(" "))),
            None => parts.push("all other columns as fields".to_owned()),
        }
        let links = self.relations.iter();
        parts.extend(links.map(|link| format!("{} -{}-> {}", link.column, link.relation, link.to)));
        let values = self.values.iter();
        parts.extend(
            values.map(|(column, to)| {
                format!("{column} -{}-> {to} (values)", value_relation(column))
            }),
        );
        let table = table_label(&self.file, self.table.as_deref());
        format!("{table}: one {} per row: {}", self.node_type, parts.join(", "))
    }
}

impl EdgesTable {
    fn write(&self, text: &mut String) {
        write_head(text, "edges", &self.file, self.table.as_deref());
        for (key, end) in [("source", &self.source), ("target", &self.target)] {
            let (column, node_type) = (quoted(&end.column), quoted(&end.node_type));
            let _ = writeln!(text, "{key} = {{ column = {column}, type = {node_type} }}");
        }
        let keys = [("relation", &self.relation), ("relation_column", &self.relation_column)];
        for (key, value) in keys {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {}", quoted(value));
            }
        }
    }

    fn describe(&self) -> String {
        let relation = match (&self.relation, &self.relation_column) {
            (Some(relation), _) => relation.clone(),
            (None, Some(column)) => format!("column {column}"),
            (None, None) => "?".to_owned(),
        };
        let table = table_label(&self.file, self.table.as_deref());
        let end = |end: &End| format!("{} ({})", end.column, end.node_type);
        let (source, target) = (end(&self.source), end(&self.target));
        format!("{table}: one edge per row: {source} -{relation}-> {target}")
    }
}

/// A table of nodes given as an option; omitted parts are guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableHint {
    /// The file.
    pub file: String,
    /// Type of the nodes.
    pub node_type: String,
    /// Column of ids.
    pub id: Option<String>,
    /// Column of names.
    pub name: Option<String>,
    /// Columns with ids of other nodes.
    pub relations: Vec<Link>,
}

impl std::str::FromStr for TableHint {
    type Err = String;

    /// Parses `FILE:TYPE` or `FILE:TYPE:id=COLUMN,name=COLUMN,COLUMN->TYPE,COLUMN=RELATION->TYPE`;
    /// the parts after the type are optional and in any order.
    fn from_str(text: &str) -> Result<TableHint, String> {
        let form = "write FILE:TYPE:id=COLUMN,name=COLUMN,COLUMN->TYPE";
        let mut parts = text.splitn(3, ':');
        let (file, node_type) = (parts.next().unwrap_or_default(), parts.next());
        let Some(node_type) = node_type.filter(|of| !of.is_empty() && !file.is_empty()) else {
            return Err(format!("it has no type; {form}"));
        };
        let mut hint = TableHint {
            file: file.to_owned(),
            node_type: node_type.to_owned(),
            ..TableHint::default()
        };
        for part in parts.next().unwrap_or_default().split(',').filter(|part| !part.is_empty()) {
            if let Some((column, to)) = part.split_once("->") {
                hint.relations.push(link(column.trim(), to.trim()));
            } else if let Some(column) = part.strip_prefix("id=") {
                hint.id = Some(column.to_owned());
            } else if let Some(column) = part.strip_prefix("name=") {
                hint.name = Some(column.to_owned());
            } else {
                return Err(format!("{part:?} is not a valid part; {form}"));
            }
        }
        Ok(hint)
    }
}

/// Returns the link of `COLUMN` or `COLUMN=RELATION` to a type.
fn link(column: &str, to: &str) -> Link {
    let (column, relation) = match column.split_once('=') {
        Some((column, relation)) => (column, relation.to_owned()),
        None => (column, relation_of(column)),
    };
    Link { column: column.to_owned(), relation, to: to.to_owned() }
}

impl std::str::FromStr for EdgesTable {
    type Err = String;

    /// Parses `FILE:RELATION:COLUMN->TYPE,COLUMN->TYPE`, source first.
    fn from_str(text: &str) -> Result<EdgesTable, String> {
        let form = "write FILE:RELATION:COLUMN->TYPE,COLUMN->TYPE";
        let end = |text: &str| {
            let (column, node_type) = text.split_once("->")?;
            Some(End { column: column.trim().to_owned(), node_type: node_type.trim().to_owned() })
        };
        let parsed = (|| {
            let (file, rest) = text.split_once(':')?;
            let (relation, ends) = rest.split_once(':')?;
            let (source, target) = ends.split_once(',')?;
            Some(EdgesTable {
                file: file.to_owned(),
                table: None,
                source: end(source)?,
                target: end(target)?,
                relation: Some(relation.to_owned()),
                relation_column: None,
                line: 0,
            })
        })();
        parsed.ok_or_else(|| format!("it does not have the expected form; {form}"))
    }
}

/// Returns the relation name of a column: `has_brand` for `brand_id`, but `also_bought` unchanged.
pub(super) fn relation_of(column: &str) -> String {
    match without_id(column) {
        Some(stem) => format!("has_{stem}"),
        None => snake(column),
    }
}

/// Returns the relation to the values of a column: `has_site` for `site` or `sites`.
pub(super) fn value_relation(column: &str) -> String {
    format!("has_{}", singular(&without_id(column).unwrap_or_else(|| snake(column))))
}

/// Returns the stem of a column name with an id suffix: `brand` for `brand_id`, `brandId` or
/// `Brand IDs`; `None` for other names.
pub(super) fn without_id(column: &str) -> Option<String> {
    let name = snake(column);
    let suffixes = ["_ids", "_id", "_keys", "_key", "_refs", "_ref", "_codes", "_code", "_fk"];
    let stem = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix))?;
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// Converts a name to lower case with underscores: `brandId` and `Brand Id` become `brand_id`.
pub(super) fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut before_lower = false;
    for c in name.trim().chars() {
        if c.is_alphanumeric() {
            if c.is_uppercase() && before_lower {
                text.push('_');
            }
            text.extend(c.to_lowercase());
        } else if !text.ends_with('_') && !text.is_empty() {
            text.push('_');
        }
        before_lower = c.is_lowercase() || c.is_numeric();
    }
    text.trim_end_matches('_').to_owned()
}

/// Guesses the singular of an English noun from its ending.
pub(super) fn singular(name: &str) -> String {
    let keep = ["ss", "us", "is", "series", "species", "news"];
    if keep.iter().any(|ending| name.ends_with(ending)) {
        return name.to_owned();
    }
    if let Some(stem) = name.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return format!("{stem}y");
    }
    for ending in ["sses", "shes", "ches", "xes", "zes"] {
        if name.ends_with(ending) {
            return name.strip_suffix("es").unwrap_or(name).to_owned();
        }
    }
    name.strip_suffix('s').filter(|stem| !stem.is_empty()).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_and_columns_become_types_and_relations() {
        let told = ["categories", "products", "classes", "boxes", "status", "series", "bus", "s"];
        let expected = ["category", "product", "class", "box", "status", "series", "bus", "s"];
        assert_eq!(told.map(singular), expected);
        assert_eq!(
            ["brandId", "Brand ID", "SKU", "a--b "].map(snake),
            ["brand_id", "brand_id", "sku", "a_b"]
        );
        assert_eq!(
            ["brand_id", "alsoBought", "_id"].map(relation_of),
            ["has_brand", "also_bought", "id"]
        );
    }

    #[test]
    fn options_are_read_and_refused_with_the_form() {
        let hint: TableHint =
            "p.csv:product:id=sku,name=title,brand_id->brand,by=made_by->maker".parse().unwrap();
        assert_eq!((hint.id.as_deref(), hint.name.as_deref()), (Some("sku"), Some("title")));
        let links: Vec<&str> = hint.relations.iter().map(|link| link.relation.as_str()).collect();
        assert_eq!(links, ["has_brand", "made_by"]);
        assert!("p.csv".parse::<TableHint>().unwrap_err().contains("has no type; write FILE:TYPE"));
        assert!("p.csv:product:sku".parse::<TableHint>().unwrap_err().contains("\"sku\""));
        let edges: EdgesTable = "e.csv:bought:a->product, b->product".parse().unwrap();
        assert_eq!((edges.target.column.as_str(), edges.source.column.as_str()), ("b", "a"));
        assert!("e.csv:bought".parse::<EdgesTable>().is_err());
    }
}
