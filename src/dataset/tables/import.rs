//! Imports tables by a mapping. A table of nodes is read twice, first for the nodes and then for
//! their links; a table of edges is read once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::{Component, Path, PathBuf},
    rc::Rc,
    sync::atomic::AtomicBool,
};

use serde_json::{Map, Value};

use crate::{
    DatasetError, Home, ImportOptions, ImportReport, Phase, ProblemKind, Progress, Result,
    error::{Fault, LineError, Problems},
    ids::Ids,
    install::{Content, GraphWriter, Install, Watch},
    links,
    neutral::{TOML_FILE, read_toml},
    queries::{QUERIES_FILE, answer_ids_in},
    tables::{
        EdgesTable, End, Link, MAPPING_FILE, Mapping, NodesTable, Reading,
        mapping::value_relation,
        rows::{Row, Table, items},
    },
};
use agent_ground::words::is_of_people;
use agent_kb::NodeId;

/// Minimum number of labelled questions that show which types nobody asks for.
const MIN_LABELLED: usize = 100;
/// Number of rows between two progress reports and checks of the stop flag.
const ROWS_PER_REPORT: u64 = 4096;

/// Imports the tables of a mapping as base `name` of `home`. `source` is the directory of the
/// tables, or the file that holds all of them. Question files and `dataset.toml` in a directory
/// have the neutral format.
///
/// Progress is counted in tables. Memory: as for [`crate::import_neutral`].
///
/// # Errors
/// Any [`DatasetError`]; no files are then left behind, and an installed base with that name is
/// unchanged.
pub fn import_tables(
    (source, mapping): (&Path, &Mapping),
    home: &Home,
    name: &str,
    options: &ImportOptions,
    on_progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<ImportReport> {
    let mut watch = Watch { on_progress, stop };
    links::refuse_outside(source)?;
    let (nodes, edges) = open_tables(source, mapping)?;
    let (mut meta, templates) = read_toml(source)?;
    for (own, given) in [(&mut meta.title, &mapping.title), (&mut meta.licence, &mapping.licence)] {
        if !given.is_empty() {
            own.clone_from(given);
        }
    }
    let mut meta_file = TOML_FILE;
    if !mapping.candidate_types.is_empty() {
        meta.candidate_types.clone_from(&mapping.candidate_types);
        meta_file = MAPPING_FILE;
    }
    if !mapping.said_as.is_empty() {
        meta.said_as.clone_from(&mapping.said_as);
        meta_file = MAPPING_FILE;
    }
    let mut install = Install::begin(home, name, source, options)?;
    install.graph.templates = templates;
    let Install { graph, problems, repeated_rows, .. } = &mut install;
    let mut import = Import {
        graph,
        ids: Ids::default(),
        values: HashMap::new(),
        answer_types: BTreeSet::new(),
        edges: &mapping.edges,
        files: BTreeMap::new(),
        rejected: HashSet::new(),
        incomplete_types: BTreeSet::new(),
        rows: Vec::new(),
        n_repeated: repeated_rows,
    };
    for (at, (spec, table)) in nodes.iter().enumerate() {
        let mut report = || watch.report(Phase::Nodes, at as u64, nodes.len() as u64);
        import.nodes((at, spec, table), problems, &mut report)?;
    }
    watch.report(Phase::Nodes, nodes.len() as u64, nodes.len() as u64)?;
    if import.graph.writer.n_nodes() == 0 {
        // The problems of the rows explain why there are no nodes.
        std::mem::take(problems).finish()?;
        return Err(DatasetError::no_nodes(source));
    }
    let questions = options.questions.clone().unwrap_or_else(|| source.join(QUERIES_FILE));
    let parts = import.unlabelled_parts(nodes.iter().map(|(spec, _)| *spec), &questions);
    import.answer_types.retain(|kind| !parts.contains(kind));
    let are_all = |spec: &NodesTable| {
        spec.values.is_empty() && !import.is_linking(spec) && !parts.contains(&spec.node_type)
    };
    if meta.candidate_types.is_empty() && !mapping.nodes.iter().all(are_all) {
        meta.candidate_types = import.answer_types.iter().cloned().collect();
    }
    let links = |spec: &NodesTable| !spec.relations.is_empty() || !spec.values.is_empty();
    let linking: Vec<_> = nodes.iter().enumerate().filter(|(_, (spec, _))| links(spec)).collect();
    let total = (linking.len() + edges.len()) as u64;
    for (done, (at, (spec, table))) in (0..).zip(&linking) {
        let mut report = || watch.report(Phase::Edges, done, total);
        import.links((*at, spec, table), problems, &mut report)?;
    }
    for (done, (spec, table)) in (linking.len() as u64..).zip(&edges) {
        import.edges(spec, table, problems, &mut || watch.report(Phase::Edges, done, total))?;
    }
    watch.report(Phase::Edges, total, total)?;
    install.lost_nodes = !import.incomplete_types.is_empty();
    let tables = nodes.iter().map(|(_, table)| table).chain(edges.iter().map(|(_, table)| table));
    // A table that is mapped twice is reported once.
    let mut seen = HashSet::new();
    let tables = tables.filter(|table| seen.insert(table.place()));
    install.repairs = tables.flat_map(Table::repairs).collect();
    (install.meta, install.meta_file) = (meta, meta_file);
    install.finish(&mut watch)
}

type CheckedTables<'a> = (Vec<(&'a NodesTable, Table)>, Vec<(&'a EdgesTable, Table)>);

/// Opens the tables of a mapping and checks that the mapped columns and types exist.
fn open_tables<'a>(source: &Path, mapping: &'a Mapping) -> Result<CheckedTables<'a>> {
    let root = if source.is_dir() { source } else { source.parent().unwrap_or(source) };
    let mut problems = Problems::new(false);
    let types: BTreeSet<&str> =
        mapping.nodes.iter().map(|table| table.node_type.as_str()).collect();
    let reading = &mapping.reading;
    let mut check = Check { root, reading, types, files: BTreeMap::new(), problems: &mut problems };
    let mut nodes = Vec::new();
    for spec in &mapping.nodes {
        let Some(table) = check.table(&spec.file, spec.table.as_deref(), spec.line) else {
            continue;
        };
        let links = spec.relations.iter().map(|link| link.column.as_str());
        let fields = spec.fields.iter().flatten().map(String::as_str);
        let named = spec.id.iter().chain(&spec.name).map(String::as_str);
        let lists = spec.lists.keys().chain(spec.values.keys()).chain(spec.meanings.keys());
        let lists = lists.map(String::as_str);
        check.columns(&table, spec.line, named.chain(fields).chain(links).chain(lists))?;
        for (column, to) in &spec.values {
            if !check.types.contains(to.as_str()) {
                continue;
            }
            let message = format!(
                "values of \"{column}\" cannot be of type \"{to}\", whose nodes are table rows"
            );
            let hint = format!(
                "name another type, or write ids of {to} in the column and list it in relations"
            );
            check.add(&table.place(), spec.line, message, hint);
        }
        for link in &spec.relations {
            check.node_type(&table, spec.line, &link.to);
        }
        nodes.push((spec, table));
    }
    let mut edges = Vec::new();
    for spec in &mapping.edges {
        let Some(table) = check.table(&spec.file, spec.table.as_deref(), spec.line) else {
            continue;
        };
        let ends = [spec.source.column.as_str(), spec.target.column.as_str()];
        let columns = ends.into_iter().chain(spec.relation_column.as_deref());
        check.columns(&table, spec.line, columns)?;
        for end in [&spec.source, &spec.target] {
            check.node_type(&table, spec.line, &end.node_type);
        }
        if spec.relation.is_some() == spec.relation_column.is_some() {
            let message = "the edges need exactly one of relation and relation_column";
            let hint = "give relation or relation_column";
            check.add(&table.place(), spec.line, message, hint);
        }
        edges.push((spec, table));
    }
    problems.finish()?;
    Ok((nodes, edges))
}

/// Checks a mapping against the tables.
struct Check<'a> {
    root: &'a Path,
    reading: &'a Reading,
    types: BTreeSet<&'a str>,
    /// Opened tables by path of their file.
    files: BTreeMap<PathBuf, Rc<[Table]>>,
    problems: &'a mut Problems,
}

impl Check<'_> {
    /// Adds a problem of the mapping at `line` of the mapping file. Without a mapping file, `line`
    /// is 0 and the problem is at line 1 of the table.
    fn add(
        &mut self,
        table: &Path,
        line: u64,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let fault = Fault::new(ProblemKind::BadColumn, message, hint);
        match line {
            0 => self.problems.add(table, 1, fault),
            line => self.problems.add(&self.root.join(MAPPING_FILE), line, fault),
        }
    }

    /// Returns all tables of a file, which is opened at the first call only.
    fn tables_of(&mut self, path: &Path) -> Result<Rc<[Table]>, String> {
        if let Some(known) = self.files.get(path) {
            return Ok(known.clone());
        }
        if !path.is_file() {
            return Err("no such file".to_owned());
        }
        let all: Rc<[Table]> =
            Table::all(path, self.reading).map_err(|error| error.to_string())?.into();
        self.files.insert(path.to_path_buf(), all.clone());
        Ok(all)
    }

    fn table(&mut self, file: &str, name: Option<&str>, line: u64) -> Option<Table> {
        let relative = Path::new(file);
        let is_below = relative.components().all(|part| matches!(part, Component::Normal(_)));
        let path = self.root.join(relative);
        let found = match is_below && !file.is_empty() {
            true => self.tables_of(&path).and_then(|all| Table::find(&all, name)),
            false => Err("it is not below the directory of the mapping".to_owned()),
        };
        let report = |why: String| {
            let why = why.replace(&format!("{}: ", path.display()), "");
            let message = format!("cannot read {file:?}: {why}");
            self.add(&path, line, message, "correct the file or leave the table out");
        };
        found.map_err(report).ok()
    }

    fn columns<'b>(
        &mut self,
        table: &Table,
        line: u64,
        wanted: impl Iterator<Item = &'b str>,
    ) -> Result<()> {
        let columns = table.columns()?;
        let missing: BTreeSet<&str> =
            wanted.filter(|name| !columns.iter().any(|column| column == name)).collect();
        for name in missing {
            let message = format!("{} has no column \"{name}\"", table.label());
            let hint = format!("its columns are: {}", columns.join(", "));
            self.add(&table.place(), line, message, hint);
        }
        Ok(())
    }

    fn node_type(&mut self, table: &Table, line: u64, name: &str) {
        if !self.types.contains(name) {
            let message = format!("no table has nodes of type \"{name}\"");
            let types: Vec<&str> = self.types.iter().copied().collect();
            let hint = format!("the types are: {}", types.join(", "));
            self.add(&table.place(), line, message, hint);
        }
    }
}

/// An import of tables in progress.
struct Import<'a> {
    graph: &'a mut GraphWriter,
    ids: Ids,
    /// Nodes made from values, by node type and value in lower case.
    values: HashMap<(String, String), NodeId>,
    /// Node types that are candidates by default: the types of rows that are not also edges.
    answer_types: BTreeSet<String>,
    /// Tables with one edge per row.
    edges: &'a [EdgesTable],
    /// For each node type, the name of the first table with nodes of the type, for messages.
    files: BTreeMap<String, String>,
    /// Rows that have no node of their own and therefore yield no edges, as index of the table and
    /// number of the row (from 1).
    rejected: HashSet<(usize, u64)>,
    /// Node types for which some rows yielded no node.
    incomplete_types: BTreeSet<String>,
    /// Digest of the row from which each node was made, by node number.
    rows: Vec<u64>,
    /// Number of rows dropped because an earlier row with the same id has the same cells.
    n_repeated: &'a mut u64,
}

/// Reports progress; returns an error once the caller has set the stop flag.
type ReportProgress<'a> = dyn FnMut() -> Result<()> + 'a;

/// Passes each row of a table, with its number (from 1), to `on_row`.
fn each_row(
    table: &Table,
    problems: &mut Problems,
    report: &mut ReportProgress<'_>,
    on_row: &mut dyn FnMut(&mut Problems, u64, Row) -> Result<()>,
) -> Result<()> {
    report()?;
    let mut n = 0;
    table.each(problems, &mut |problems, row| {
        n += 1;
        if n % ROWS_PER_REPORT == 0 {
            report()?;
        }
        on_row(problems, n, row)?;
        Ok(true)
    })
}

impl Import<'_> {
    /// Returns both ends of the edges to which a table of nodes is also mapped; none if its rows
    /// are only nodes.
    fn ends_of(&self, spec: &NodesTable) -> impl Iterator<Item = &End> {
        let is_same = |one: &&EdgesTable| one.file == spec.file && one.table == spec.table;
        self.edges.iter().filter(is_same).flat_map(|one| [&one.source, &one.target])
    }

    /// Whether the rows of a table of nodes are also edges.
    fn is_linking(&self, spec: &NodesTable) -> bool {
        self.ends_of(spec).next().is_some()
    }

    /// Returns the types whose rows have no name and link to rows other than people, such as
    /// reviews of films, if at least [`MIN_LABELLED`] questions are labelled, and none has such a
    /// row as an answer: few labels do not show that nobody asks for these rows.
    /// These types are not candidates by default: word search finds the texts of their rows with
    /// the rows that they link to.
    fn unlabelled_parts<'s>(
        &self,
        nodes: impl Iterator<Item = &'s NodesTable>,
        questions: &Path,
    ) -> BTreeSet<String> {
        let is_part = |spec: &&NodesTable| {
            let is_owned =
                |link: &Link| !spec.lists.contains_key(&link.column) && !is_of_people(&link.to);
            spec.name.is_empty() && spec.relations.iter().any(is_owned)
        };
        let mut parts: BTreeSet<String> =
            nodes.filter(is_part).map(|spec| spec.node_type.clone()).collect();
        let answers = if parts.is_empty() { Vec::new() } else { answer_ids_in(questions) };
        let is_answer = |kind: &String| {
            let prefix = format!("{kind}:");
            let mut ids = answers.iter().flatten().map(|id| id.strip_prefix(&prefix).unwrap_or(id));
            ids.any(|id| self.ids.get(kind, id).is_some())
        };
        parts.retain(|kind| answers.len() >= MIN_LABELLED && !is_answer(kind));
        parts
    }

    /// Writes the nodes of a table.
    fn nodes(
        &mut self,
        (at, spec, table): (usize, &NodesTable, &Table),
        problems: &mut Problems,
        report: &mut ReportProgress<'_>,
    ) -> Result<()> {
        let place = table.place();
        self.files.entry(spec.node_type.clone()).or_insert_with(|| table.label());
        let linking: HashSet<&str> =
            spec.relations.iter().map(|link| link.column.as_str()).collect();
        // A duplicate id does not make the type incomplete, because its node exists.
        let (before, mut n_twice) = (problems.count(), 0);
        let n_nodes = self.graph.writer.n_nodes();
        each_row(table, problems, report, &mut |problems, n, mut row| {
            spec.spell_out(&mut row);
            let is_new = self.node(spec, n, &row, &linking).map_err(|error| {
                error.map(|fault| {
                    n_twice += u64::from(fault.kind == ProblemKind::DuplicateId);
                    fault.with_excerpt(&row.excerpt())
                })
            });
            match problems.ok(&place, row.line, is_new)? {
                Some(true) => {}
                repeated => {
                    self.rejected.insert((at, n));
                    *self.n_repeated += u64::from(repeated.is_some());
                }
            }
            Ok(())
        })?;
        if self.graph.writer.n_nodes() > n_nodes && !self.is_linking(spec) {
            self.answer_types.insert(spec.node_type.clone());
        }
        if problems.count() > before + n_twice {
            self.incomplete_types.insert(spec.node_type.clone());
        }
        Ok(())
    }

    /// Adds a problem if `edge`, to nodes of `types`, has a fault. If a node is unknown and some
    /// rows of these types yielded no node, the problem counts as a consequence of the problems of
    /// these rows.
    fn check(
        &self,
        edge: Result<(), LineError>,
        types: &[&str],
        (place, row): (&Path, &Row),
        problems: &mut Problems,
    ) -> Result<()> {
        let edge = edge.map_err(|error| {
            error.map(|fault| {
                let follows = fault.kind == ProblemKind::UnknownNode
                    && types.iter().any(|node_type| self.incomplete_types.contains(*node_type));
                fault.with_excerpt(&row.excerpt()).following(follows)
            })
        });
        problems.ok(place, row.line, edge).map(drop)
    }

    /// Writes the node of the `n`-th row (from 1); returns false, and writes nothing, if an earlier
    /// row with the same id has the same cells.
    fn node(
        &mut self,
        spec: &NodesTable,
        n: u64,
        row: &Row,
        linking: &HashSet<&str>,
    ) -> Result<bool, LineError> {
        let key = key_of(spec, n, row).ok_or_else(|| {
            let column = spec.id.as_deref().unwrap_or_default();
            let message = format!("the row has no id: column \"{column}\" is empty");
            Fault::new(ProblemKind::BadId, message, "give it one, or leave the row out")
        })?;
        if let Some(node) = self.ids.get(&spec.node_type, &key) {
            if self.rows.get(node as usize) == Some(&row.digest()) {
                return Ok(false);
            }
            let message = format!("the {} \"{key}\" occurs twice", spec.node_type);
            let hint = "ids are unique within a type; keep one of the rows";
            return Err(Fault::new(ProblemKind::DuplicateId, message, hint).into());
        }
        let names: Vec<String> = spec.name.iter().filter_map(|column| row.text(column)).collect();
        let name = (!names.is_empty()).then(|| names.join(" "));
        let details = details(spec, row, linking);
        let content = Content {
            node_type: &spec.node_type,
            name: name.as_deref().unwrap_or(&key),
            details: &details,
        };
        let node = self.graph.push_node(Some(&key), &content)?;
        self.ids.insert(&spec.node_type, &key, node);
        self.rows.resize(node as usize, 0);
        self.rows.push(row.digest());
        Ok(true)
    }

    /// Writes the edges from the nodes of a table to linked nodes and to nodes made from values.
    fn links(
        &mut self,
        (at, spec, table): (usize, &NodesTable, &Table),
        problems: &mut Problems,
        report: &mut ReportProgress<'_>,
    ) -> Result<()> {
        let place = table.place();
        // The first reading, for nodes, has reported the problems of rows.
        let mut reported_before = Problems::new(true);
        // The reading of the edges reports the problems of their ends.
        let ends: Vec<String> = self.ends_of(spec).map(|end| end.column.clone()).collect();
        each_row(table, &mut reported_before, report, &mut |reported, n, mut row| {
            spec.spell_out(&mut row);
            if self.rejected.contains(&(at, n)) {
                return Ok(());
            }
            let key = key_of(spec, n, &row);
            let Some(source) = key.and_then(|key| self.ids.get(&spec.node_type, &key)) else {
                return Ok(());
            };
            for Link { column, relation, to } in &spec.relations {
                let separator = spec.lists.get(column).map(String::as_str);
                let problems = if ends.contains(column) { &mut *reported } else { &mut *problems };
                for id in row.texts(column, separator) {
                    let target = self.find(to, &id).map_err(LineError::from);
                    let edge =
                        target.and_then(|target| self.graph.push_edge(source, relation, target));
                    self.check(edge, &[to], (&place, &row), problems)?;
                }
            }
            for (column, to) in &spec.values {
                let separator = spec.lists.get(column).map(String::as_str);
                let relation = value_relation(column);
                for value in row.texts(column, separator) {
                    let edge = self
                        .value(to, &value, &spec.codes_of(column, &value))
                        .and_then(|target| self.graph.push_edge(source, &relation, target));
                    self.check(edge, &[], (&place, &row), problems)?;
                }
            }
            Ok(())
        })
    }

    /// Returns the node of type `to` made from a value, with the codes for it as aliases; writes it
    /// when the value occurs first.
    fn value(&mut self, to: &str, value: &str, codes: &[&str]) -> Result<NodeId, LineError> {
        let folded = (to.to_owned(), value.to_lowercase());
        if let Some(&known) = self.values.get(&folded) {
            return Ok(known);
        }
        let alias = (!codes.is_empty()).then(|| ("alias".to_owned(), codes.join("; ").into()));
        let content = Content { node_type: to, name: value, details: &alias.into_iter().collect() };
        let node = self.graph.push_node(Some(value), &content)?;
        self.values.insert(folded, node);
        Ok(node)
    }

    /// Writes the edges of a table of edges.
    fn edges(
        &mut self,
        spec: &EdgesTable,
        table: &Table,
        problems: &mut Problems,
        report: &mut ReportProgress<'_>,
    ) -> Result<()> {
        let place = table.place();
        each_row(table, problems, report, &mut |problems, _, row| {
            let ends = self.ends(spec, &row).map_err(LineError::from);
            let edge = ends.and_then(|(source, relation, target)| {
                self.graph.push_edge(source, &relation, target)
            });
            let types = [&spec.source, &spec.target].map(|end| end.node_type.as_str());
            self.check(edge, &types, (&place, &row), problems)
        })
    }

    /// Returns the source, the relation and the target of the edge in a row.
    fn ends(&self, spec: &EdgesTable, row: &Row) -> Result<(NodeId, String, NodeId), Fault> {
        let cell = |column: &str| {
            row.text(column).ok_or_else(|| {
                let message = format!("the row has no {column}");
                Fault::new(ProblemKind::BadId, message, "fill it in, or leave the row out")
            })
        };
        let end = |end: &End| self.find(&end.node_type, &cell(&end.column)?);
        let relation = match (&spec.relation, &spec.relation_column) {
            (Some(relation), _) => relation.clone(),
            (None, column) => cell(column.as_deref().unwrap_or_default())?,
        };
        Ok((end(&spec.source)?, relation, end(&spec.target)?))
    }

    /// Finds the node of a type with an id. An integer may end with `.0`, because some programs
    /// write integers so in columns with empty cells.
    fn find(&self, node_type: &str, id: &str) -> Result<NodeId, Fault> {
        let whole = || self.ids.get(node_type, id.strip_suffix(".0")?);
        self.ids.get(node_type, id).or_else(whole).ok_or_else(|| {
            let file = self.files.get(node_type).map_or("", String::as_str);
            let message = format!("no {node_type} has the id \"{id}\"");
            Fault::unknown_node(message, file, &self.ids.describe(node_type), node_type)
        })
    }
}

/// Returns the key of the node in the `n`-th row (from 1): the cell of the id column or, without
/// such a column, type and row number such as `paper-3`; `None` if the cell is empty.
fn key_of(spec: &NodesTable, n: u64, row: &Row) -> Option<String> {
    match &spec.id {
        Some(column) => row.text(column),
        None => Some(format!("{}-{n}", spec.node_type)),
    }
}

/// Returns the fields of the node in a row.
fn details(spec: &NodesTable, row: &Row, linking: &HashSet<&str>) -> Map<String, Value> {
    let is_free = |column: &str| {
        spec.id.as_deref() != Some(column)
            && !spec.name.iter().any(|name| name == column)
            && !linking.contains(column)
    };
    let cell = |column: &String| {
        let value = row.cells.get(column)?;
        let separator = spec.lists.get(column).map(String::as_str);
        let value = match separator {
            Some(_) => Value::Array(items(value, separator)),
            None => value.clone(),
        };
        Some((column.clone(), value))
    };
    match &spec.fields {
        Some(fields) => fields.iter().filter_map(cell).collect(),
        None => row.cells.keys().filter(|column| is_free(column)).filter_map(cell).collect(),
    }
}
