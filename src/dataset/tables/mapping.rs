//! The mapping from tables to nodes and edges: reads and writes mapping files, parses the
//! command-line options for tables, and describes each table in one line.

use std::{collections::BTreeMap, fmt::Write as _, ops::Range, path::Path};

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toml::Spanned;

use crate::{
    DatasetError, Result,
    encoding::Encoding,
    error::line_at,
    tables::{
        Reading,
        rows::{Row, items, text_of_cell},
    },
};
use agent_ground::{
    files,
    words::{singular, snake},
};

/// Name of the mapping file in a directory of tables.
pub const MAPPING_FILE: &str = "mapping.toml";
/// Maximum size of a mapping file, in bytes.
const MAX_MAPPING_BYTES: u64 = 1 << 20;
/// Value in place of a separator for a column whose cells are JSON lists.
pub(super) const JSON_LIST: &str = "json";

/// A mapping from tables to nodes and edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Title of the dataset, for display; if empty, the title in `dataset.toml` is used.
    pub title: String,
    /// Licence of the dataset, for display; if empty, the licence in `dataset.toml` is used.
    pub licence: String,
    /// Names of the types whose nodes may be answers; if empty, the types in `dataset.toml` are
    /// used.
    pub candidate_types: Vec<String>,
    /// Other words that people use for a type or relation, by its name; if empty, those in
    /// `dataset.toml` are used.
    pub said_as: BTreeMap<String, Vec<String>>,
    /// How text files are decoded and cleaned.
    pub reading: Reading,
    /// Tables with one node per row. Nodes are numbered in the order of these tables and of their
    /// rows.
    pub nodes: Vec<NodesTable>,
    /// Tables with one edge per row.
    pub edges: Vec<EdgesTable>,
}

/// A table with one node per row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesTable {
    /// Path of the file, relative to the mapping file.
    pub file: String,
    /// Name of the table, if the file is a database.
    pub table: Option<String>,
    /// Name of the nodes' type.
    #[serde(rename = "type")]
    pub node_type: String,
    /// Name of the column with the ids; `None` makes ids from type and row number, such as
    /// `paper-3`.
    pub id: Option<String>,
    /// Names of the columns with the names of the nodes; the texts of several columns, such as
    /// first and last name, are joined by spaces. If empty, the id is the name.
    #[serde(default, deserialize_with = "one_or_several")]
    pub name: Vec<String>,
    /// Names of the columns that become fields; `None` uses all columns except the columns of the
    /// id, the name and the relations.
    pub fields: Option<Vec<String>>,
    /// Separator of the list items in a cell, by column; only for columns whose cells hold several
    /// values.
    #[serde(default)]
    pub lists: BTreeMap<String, String>,
    /// Columns that hold ids of other nodes.
    #[serde(default)]
    pub relations: Vec<Link>,
    /// Columns whose values become nodes, each with the type of these nodes; several columns may
    /// have the same type.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// What the codes in a column mean, by column and code. A code is imported as its meaning; one
    /// with an empty meaning stays as it is.
    #[serde(default)]
    pub meanings: BTreeMap<String, BTreeMap<String, String>>,
    /// Number of the line in the mapping file at which the table begins (from 1); 0 without a
    /// mapping file.
    #[serde(skip)]
    pub line: u64,
}

/// A column that holds ids of other nodes, with the relation to these nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of the column.
    pub column: String,
    /// Name of the relation from the row's node to the other nodes.
    pub relation: String,
    /// Name of the other nodes' type.
    pub to: String,
}

/// A table with one edge per row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgesTable {
    /// Path of the file, relative to the mapping file.
    pub file: String,
    /// Name of the table, if the file is a database.
    pub table: Option<String>,
    /// Column and type of the edges' source nodes.
    pub source: End,
    /// Column and type of the edges' target nodes.
    pub target: End,
    /// Name of the relation of all edges. Exactly one of `relation` and `relation_column` is set.
    pub relation: Option<String>,
    /// Name of the column with the relation of each edge.
    pub relation_column: Option<String>,
    /// Number of the line in the mapping file at which the table begins (from 1); 0 without a
    /// mapping file.
    #[serde(skip)]
    pub line: u64,
}

/// Column with the ids of the nodes at one end of the edges, and the type of these nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Name of the column with the ids.
    pub column: String,
    /// Name of the nodes' type.
    #[serde(rename = "type")]
    pub node_type: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MappingFile {
    title: String,
    licence: String,
    candidate_types: Vec<String>,
    said_as: BTreeMap<String, Vec<String>>,
    encoding: Option<Encoding>,
    missing: Option<Vec<String>>,
    nodes: Vec<Spanned<NodesTable>>,
    edges: Vec<Spanned<EdgesTable>>,
}

impl Mapping {
    /// Reads a mapping file.
    ///
    /// # Errors
    /// [`DatasetError::BadInput`] if the file is invalid, [`DatasetError::Io`] if it cannot be
    /// read.
    pub fn read(path: &Path) -> Result<Mapping> {
        let text = files::read_text(path, MAX_MAPPING_BYTES);
        let text = text.map_err(DatasetError::io("read", path))?;
        let parsed: MappingFile = toml::from_str(&text).map_err(|error| {
            let hint = "`agent data guess` writes a mapping that can be edited";
            DatasetError::bad_toml(path, &text, &error, hint)
        })?;
        if parsed.nodes.is_empty() {
            let message = "it has no [[nodes]]; name at least one table of nodes";
            return Err(DatasetError::bad_input(path, message));
        }
        let line_of = |span: Range<usize>| line_at(&text, span.start);
        let nodes = parsed.nodes.into_iter();
        let nodes = nodes.map(|own| NodesTable { line: line_of(own.span()), ..own.into_inner() });
        let edges = parsed.edges.into_iter();
        let edges = edges.map(|own| EdgesTable { line: line_of(own.span()), ..own.into_inner() });
        Ok(Mapping {
            title: parsed.title,
            licence: parsed.licence,
            candidate_types: parsed.candidate_types,
            said_as: parsed.said_as,
            reading: Reading { encoding: parsed.encoding, missing: parsed.missing },
            nodes: nodes.collect(),
            edges: edges.collect(),
        })
    }

    /// Formats the mapping as the text of a mapping file.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Mapping of tables to nodes and edges; edit it, then import the directory. A list of `fields`\n\
             # leaves out other columns. `candidate_types` are the types of possible answers [default: all].\n\
             # `said_as` has other words for types and relations, `meanings` what the codes of a column mean.\n",
        );
        for (key, value) in [("title", &self.title), ("licence", &self.licence)] {
            write_text(&mut text, key, Some(value).filter(|value| !value.is_empty()));
        }
        if self.candidate_types.is_empty() {
            let types = self.nodes.iter().take(1).map(|table| &table.node_type);
            let _ = writeln!(text, "# candidate_types = {}", list(types));
        } else {
            let _ = writeln!(text, "candidate_types = {}", list(&self.candidate_types));
        }
        if !self.said_as.is_empty() {
            let words = self.said_as.iter().map(|(name, words)| (name, list(words)));
            let _ = writeln!(text, "said_as = {}", inline_table(words));
        }
        write_text(&mut text, "encoding", self.reading.encoding.map(Encoding::name));
        if let Some(missing) = &self.reading.missing {
            let _ = writeln!(text, "missing = {}", list(missing));
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

/// Reads a text, or a list of texts.
fn one_or_several<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a column or a list of columns")]
    enum Columns {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Columns::deserialize(input)? {
        Columns::One(column) => vec![column],
        Columns::Several(columns) => columns,
    })
}

/// Quotes a text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// Formats keys with their values, which are TOML, as an inline table.
fn inline_table<'a>(pairs: impl Iterator<Item = (&'a String, String)>) -> String {
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{} = {value}", quoted(key))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Formats keys with their texts as an inline table.
fn inline_texts(texts: &BTreeMap<String, String>) -> String {
    inline_table(texts.iter().map(|(key, text)| (key, quoted(text))))
}

/// Writes a line with a key and a text, if there is a text.
fn write_text(out: &mut String, key: &str, text: Option<impl AsRef<str>>) {
    if let Some(text) = text {
        let _ = writeln!(out, "{key} = {}", quoted(text.as_ref()));
    }
}

/// Writes the first lines of a table's entry in a mapping file.
fn write_head(text: &mut String, kind: &str, file: &str, table: Option<&String>) {
    let _ = write!(text, "\n[[{kind}]]\nfile = {}\n", quoted(file));
    write_text(text, "table", table);
}

/// Returns the name of a file and, in a database, of its table, for display.
fn table_label(file: &str, table: Option<&str>) -> String {
    table.map_or_else(|| file.to_owned(), |table| format!("{file}:{table}"))
}

impl NodesTable {
    fn write(&self, text: &mut String) {
        write_head(text, "nodes", &self.file, self.table.as_ref());
        write_text(text, "type", Some(&self.node_type));
        write_text(text, "id", self.id.as_ref());
        match self.name.as_slice() {
            [] | [_] => write_text(text, "name", self.name.first()),
            several => {
                let _ = writeln!(text, "name = {}", list(several));
            }
        }
        if let Some(fields) = &self.fields {
            let _ = writeln!(text, "fields = {}", list(fields));
        }
        if !self.lists.is_empty() {
            let _ = writeln!(text, "lists = {}", inline_texts(&self.lists));
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
            let _ = writeln!(text, "values = {}", inline_texts(&self.values));
        }
        if !self.meanings.is_empty() {
            let columns = self.meanings.iter().map(|(column, own)| (column, inline_texts(own)));
            let _ = writeln!(text, "meanings = {}", inline_table(columns));
        }
    }

    /// Replaces the codes in a row by what they mean.
    pub(super) fn spell_out(&self, row: &mut Row) {
        for (column, meanings) in &self.meanings {
            let Some(value) = row.cells.get_mut(column) else { continue };
            let separator = self.lists.get(column).map(String::as_str);
            let is_list = separator.is_some() || value.is_array();
            let mut items = items(value, separator);
            for item in &mut items {
                let meaning = text_of_cell(item).and_then(|code| meanings.get(&code));
                if let Some(meaning) = meaning.filter(|meaning| !meaning.is_empty()) {
                    *item = Value::String(meaning.clone());
                }
            }
            *value = match items.pop() {
                Some(only) if !is_list => only,
                last => Value::Array(items.into_iter().chain(last).collect()),
            };
        }
    }

    /// Returns the codes of a column that mean `meaning`, ascending.
    pub(super) fn codes_of(&self, column: &str, meaning: &str) -> Vec<&str> {
        let of_column = self.meanings.get(column).into_iter().flatten();
        let codes = of_column.filter(|(_, own)| own.as_str() == meaning);
        codes.map(|(code, _)| code.as_str()).collect()
    }

    fn describe(&self) -> String {
        let mut parts = vec![match &self.id {
            Some(id) => format!("id {id}"),
            None => "ids by row".to_owned(),
        }];
        if !self.name.is_empty() {
            parts.push(format!("name {}", self.name.join(" + ")));
        }
        match self.fields.as_deref() {
            Some([]) => {}
            Some(fields) => parts.push(format!("fields {}", fields.join(" "))),
            None => parts.push("all other columns as fields".to_owned()),
        }
        let links = self.relations.iter();
        parts.extend(links.map(|link| format!("{} -{}-> {}", link.column, link.relation, link.to)));
        for (column, to) in &self.values {
            parts.push(format!("{column} -{}-> {to} (values)", value_relation(column)));
        }
        let table = table_label(&self.file, self.table.as_deref());
        format!("{table}: one {} per row: {}", self.node_type, parts.join(", "))
    }
}

impl EdgesTable {
    fn write(&self, text: &mut String) {
        write_head(text, "edges", &self.file, self.table.as_ref());
        for (key, end) in [("source", &self.source), ("target", &self.target)] {
            let (column, node_type) = (quoted(&end.column), quoted(&end.node_type));
            let _ = writeln!(text, "{key} = {{ column = {column}, type = {node_type} }}");
        }
        write_text(text, "relation", self.relation.as_ref());
        write_text(text, "relation_column", self.relation_column.as_ref());
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

/// A table of nodes described on the command line; omitted parts are guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableHint {
    /// Path of the file.
    pub file: String,
    /// Name of the nodes' type.
    pub node_type: String,
    /// Name of the column with the ids.
    pub id: Option<String>,
    /// Name of the column with the names of the nodes, or names of several columns separated by
    /// `+`.
    pub name: Option<String>,
    /// Columns that hold ids of other nodes.
    pub relations: Vec<Link>,
}

impl std::str::FromStr for TableHint {
    type Err = String;

    /// Parses `FILE:TYPE` or `FILE:TYPE:id=COLUMN,name=COLUMN,COLUMN->TYPE,COLUMN=RELATION->TYPE`;
    /// the parts after the type are optional and may come in any order. `name=COLUMN+COLUMN` joins
    /// the texts of two columns.
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

/// Returns the link to type `to` that `COLUMN` or `COLUMN=RELATION` describes.
fn link(column: &str, to: &str) -> Link {
    let (column, relation) = match column.split_once('=') {
        Some((column, relation)) => (column, relation.to_owned()),
        None => (column, relation_of(column)),
    };
    Link { column: column.to_owned(), relation, to: to.to_owned() }
}

impl std::str::FromStr for EdgesTable {
    type Err = String;

    /// Parses `FILE:RELATION:COLUMN->TYPE,COLUMN->TYPE`; the first column holds the sources of the
    /// edges, the second the targets.
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

/// Returns the name of the relation for a column of ids: `has_brand` for `brand_id`, `has_job` for
/// `job_no`, but `also_bought` for `also_bought`.
pub(super) fn relation_of(column: &str) -> String {
    match without_id(column).or_else(|| without_number(column)) {
        Some(stem) => format!("has_{stem}"),
        None => snake(column),
    }
}

/// Returns the name of the relation to the nodes made from a column's values: `has_site` for `site`
/// or `sites`.
pub(super) fn value_relation(column: &str) -> String {
    format!("has_{}", singular(&without_id(column).unwrap_or_else(|| snake(column))))
}

/// Returns the stem of a column name with an id suffix: `brand` for `brand_id`, `brandId` or
/// `Brand IDs`; `None` for other names.
pub(super) fn without_id(column: &str) -> Option<String> {
    let name = snake(column);
    let mut suffixes =
        "_ids _id _keys _key _refs _ref _codes _code _cd _fk _login _username".split(' ');
    let stem = suffixes.find_map(|suffix| name.strip_suffix(suffix))?;
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// Returns the stem of a column name that ends with a word for a number, which may be an id: `job`
/// for `job_no`; `None` for other names.
pub(super) fn without_number(column: &str) -> Option<String> {
    let name = snake(column);
    let stem = ["_no", "_nr", "_number"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
    (!stem.is_empty()).then(|| stem.to_owned())
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
            ["brand_id", "alsoBought", "_id", "Job No."].map(relation_of),
            ["has_brand", "also_bought", "id", "has_job"]
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
