//! Changes single nodes of an installed base: replaces, adds and deletes nodes with their edges, so
//! that unchanged data need not be sent again. The result is the next version of the base.
//!
//! ```text
//! file of nodes    one object per line, as in nodes.jsonl, and optionally "edges":
//!                  {"id": "T-7", "type": "ticket", "name": "..", "details": {..},
//!                   "edges": {"has_customer": ["C-3"]}}
//! file of ids      one id per line, as ID or TYPE:ID; the node is deleted with all its edges
//! ```
//!
//! A node with the type and id of a node of the base replaces that node's name, document and
//! fields; any other node is added after the nodes of the base. For each relation that a line
//! names, the given targets replace all targets of the node; other edges stay. Nodes keep their
//! order, so the new version equals an import of the changed data. Documents are rendered with the
//! templates of the base.
//!
//! In a base whose ids are node numbers, a deletion turns the ids into keys, so that every other
//! node keeps its id.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::{
    Base, DatasetError, Home, ImportOptions, ImportReport, Phase, ProblemKind, Progress, Result,
    error::{Fault, LineError, Problems},
    ids::nodes_of_id,
    install::{Content, Install, Watch},
    lines::Lines,
    neutral::{NodeKey, json_message},
    queries::QuerySources,
};
use agent_kb::{Direction, Kb, KbMeta, KbWriter, NodeId, RelationId};

/// Maximum total length in bytes of the lines of a file of changes; the lines are held in memory.
pub const MAX_CHANGE_BYTES: u64 = 1 << 30;
/// Remedy for an id that several nodes have.
const WITH_TYPE: &str = "write the type before it, as in ticket:7";
/// Number of nodes between two progress reports and checks of the stop flag.
const NODES_PER_REPORT: u32 = 4096;

/// Files with the changes.
#[derive(Clone, Debug, Default)]
pub struct Upsert {
    /// Nodes to replace or add, one JSON object per line.
    pub nodes: Option<PathBuf>,
    /// Ids of nodes to delete, one per line.
    pub deleted: Option<PathBuf>,
}

/// A node to replace or add: a line of the file of nodes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// Number of the line.
    #[serde(skip)]
    line: u64,
    #[serde(rename = "id", deserialize_with = "key")]
    key: String,
    #[serde(rename = "type")]
    node_type: String,
    name: String,
    details: Option<Map<String, Value>>,
    #[serde(default)]
    edges: BTreeMap<String, Vec<NodeKey>>,
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    NodeKey::deserialize(deserializer).map(|id| id.to_string())
}

/// Makes the next version of base `name` of `home` by changing single nodes of its current version.
///
/// Calls `on_progress` and checks `stop` several times per second. Time: linear in the size of the
/// base, which is read and written once. Memory: as for an import, plus the lines of the files of
/// changes.
///
/// # Errors
/// Any [`DatasetError`]; the installed base is then unchanged. All problems of the files are
/// reported together, whether or not the import is lenient.
pub fn import_upsert(
    upsert: &Upsert,
    home: &Home,
    name: &str,
    options: &ImportOptions,
    on_progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<ImportReport> {
    let mut watch = Watch { on_progress, stop };
    let served = home.get(name)?;
    if served.record.stark.is_some() {
        return Err(DatasetError::BadInput(format!(
            "\"{name}\" has documents in the form of the STaRK benchmark, so single nodes cannot be \
             changed; change its files, and give them with --from"
        )));
    }
    let kb = Kb::open(&served.kb_dir())?;
    let mut problems = Problems::new(false);
    let (changes, deleted) = read(upsert, &kb, &mut problems)?;
    problems.finish()?;
    let path = upsert.nodes.as_deref().unwrap_or(Path::new(""));
    let options = ImportOptions { lenient: false, ..options.clone() };
    let mut install = Install::begin(home, name, Path::new(&served.record.source), &options)?;
    install.graph.templates.clone_from(&served.record.templates);
    install.keeps_templates = true;
    install.meta = meta(&kb, &served);
    // This directory has no question files, so the questions of the previous version are kept.
    install.questions = QuerySources::in_dir(&install.staging.kb_dir());
    let written = Written::write(&kb, (changes, &deleted), path, &mut install, &mut watch)?;
    written.write_edges(path, &mut install, &mut watch)?;
    install.finish(&mut watch)
}

/// Returns the description of a base.
fn meta(kb: &Kb, base: &Base) -> KbMeta {
    let candidates = kb.candidate_types();
    let candidate_types = match candidates.len() == kb.types().len() {
        true => Vec::new(),
        false => candidates.iter().map(|&kind| kb.type_name(kind).to_owned()).collect(),
    };
    KbMeta {
        title: base.record.title.clone(),
        licence: base.record.licence.clone(),
        candidate_types,
        languages: kb.manifest().languages,
        said_as: kb.manifest().said_as.clone(),
    }
}

/// Reads the nodes to replace or add, in file order, and the nodes to delete.
fn read(
    upsert: &Upsert,
    kb: &Kb,
    problems: &mut Problems,
) -> Result<(Vec<Change>, HashSet<NodeId>)> {
    let mut deleted = HashSet::new();
    each_line(upsert.deleted.as_deref(), problems, |id, _| {
        let nodes = nodes_of_id(kb, id.trim());
        let fault = |kind, message, hint| Err(Fault::new(kind, message, hint).with_excerpt(id));
        match nodes.as_slice() {
            [node] if deleted.insert(*node) => Ok(()),
            [_] => fault(ProblemKind::DuplicateId, "the id occurs twice", "remove one line"),
            [] => fault(ProblemKind::UnknownNode, "no node has this id", "remove the line"),
            _ => {
                let message = "nodes of several types have this id";
                fault(ProblemKind::BadId, message, WITH_TYPE)
            }
        }
    })?;
    let (mut changes, mut seen) = (Vec::new(), HashSet::new());
    each_line(upsert.nodes.as_deref(), problems, |text, line| {
        let change: Change = serde_json::from_str(text).map_err(|error| {
            let hint = "write one {\"id\": \"..\", \"type\": \"..\", \"name\": \"..\", \"details\": \
                {}, \"edges\": {\"relation\": [\"id\"]}} per line";
            Fault::new(ProblemKind::BadJson, json_message(&error), hint).with_excerpt(text)
        })?;
        let Change { key, node_type, .. } = &change;
        let fault = |message: String, hint| {
            Err(Fault::new(ProblemKind::DuplicateId, message, hint).with_excerpt(text))
        };
        if !seen.insert((node_type.clone(), key.clone())) {
            return fault(format!("id \"{key}\" occurs twice"), "keep one of the two nodes");
        }
        match existing(kb, node_type, key) {
            Some(node) if deleted.contains(&node) => {
                let hint = "remove it from one of the two files";
                return fault(format!("id \"{key}\" is both replaced and deleted"), hint);
            }
            None if !kb.has_keys() => {
                if let Some(node) = kb.nodes_of_key(key).first()
                    && !deleted.contains(node)
                {
                    let kind = kb.type_name(kb.node_type(*node));
                    let hint = "delete that node too, or use another id";
                    return fault(format!("the node with id {key} is of type {kind}"), hint);
                }
            }
            _ => {}
        }
        changes.push(Change { line, ..change });
        Ok(())
    })?;
    Ok((changes, deleted))
}

/// Calls `read` with each nonempty line and its number; adds the returned faults to `problems`.
fn each_line(
    path: Option<&Path>,
    problems: &mut Problems,
    mut read: impl FnMut(&str, u64) -> Result<(), Fault>,
) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let mut lines = Lines::open(path)?;
    let mut bytes = 0;
    while let Some((number, line)) = lines.next()? {
        let Some(text) = problems.ok(path, number, line.text())? else { continue };
        bytes += text.len() as u64;
        if bytes > MAX_CHANGE_BYTES {
            return Err(DatasetError::too_long(path, MAX_CHANGE_BYTES));
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        problems.ok(path, number, read(text, number))?;
    }
    Ok(())
}

/// Returns the node with this type and id.
fn existing(kb: &Kb, node_type: &str, key: &str) -> Option<NodeId> {
    let kind = kb.type_id(node_type)?;
    kb.nodes_of_key(key).into_iter().find(|&node| kb.node_type(node) == kind)
}

impl Change {
    /// Writes the node, or adds the fault of its content to the problems of the import.
    fn push(&self, key: Option<&str>, path: &Path, install: &mut Install) -> Result<()> {
        let Change { line, node_type, name, details, .. } = self;
        let no_details = Map::new();
        let details = details.as_ref().unwrap_or(&no_details);
        let content = Content { node_type, name, details };
        let pushed = install.graph.push_node(key, &content);
        let pushed = pushed.map_err(|error| error.map(|fault| fault.with_excerpt(name)));
        install.problems.ok(path, *line, pushed).map(drop)
    }
}

/// The nodes of the new version.
struct Written<'a> {
    kb: &'a Kb,
    /// For each node of the previous version, its number in the new version; `None` if the node is
    /// deleted.
    moved: Vec<Option<NodeId>>,
    /// The replaced nodes, then the added nodes, each with its number; numbers ascend.
    changed: Vec<(NodeId, Change)>,
    /// Positions of the added nodes in `changed`, by id.
    added: HashMap<String, Vec<usize>>,
}

impl<'a> Written<'a> {
    /// Writes all nodes: the nodes of the previous version in their order, then the new nodes.
    fn write(
        kb: &'a Kb,
        (changes, deleted): (Vec<Change>, &HashSet<NodeId>),
        path: &Path,
        install: &mut Install,
        watch: &mut Watch<'_>,
    ) -> Result<Written<'a>> {
        let (mut replaced, mut new) = (HashMap::new(), Vec::new());
        for change in changes {
            match existing(kb, &change.node_type, &change.key) {
                Some(node) => drop(replaced.insert(node, change)),
                None => new.push(change),
            }
        }
        let mut numbered = new.iter().zip(kb.n_nodes()..);
        let is_keyed = kb.has_keys()
            || !deleted.is_empty()
            || numbered.any(|(change, number)| change.key != number.to_string());
        let (mut moved, mut changed) = (Vec::with_capacity(kb.n_nodes() as usize), Vec::new());
        for node in 0..kb.n_nodes() {
            if node.is_multiple_of(NODES_PER_REPORT) {
                watch.report(Phase::Nodes, node.into(), kb.n_nodes().into())?;
            }
            if deleted.contains(&node) {
                moved.push(None);
                continue;
            }
            moved.push(Some(install.graph.writer.n_nodes()));
            let key = kb.key(node);
            let key = is_keyed.then_some(&*key);
            match replaced.remove(&node) {
                Some(change) => {
                    let number = install.graph.writer.n_nodes();
                    change.push(key, path, install)?;
                    changed.push((number, change));
                }
                None => copy(kb, node, key, &mut install.graph.writer)?,
            }
        }
        let mut added = HashMap::<String, Vec<usize>>::new();
        for change in new {
            added.entry(change.key.clone()).or_default().push(changed.len());
            let number = install.graph.writer.n_nodes();
            change.push(is_keyed.then_some(&change.key), path, install)?;
            changed.push((number, change));
        }
        // An invalid node is not written, so the numbers of the nodes after it would be wrong.
        std::mem::replace(&mut install.problems, Problems::new(false)).finish()?;
        Ok(Written { kb, moved, changed, added })
    }

    /// Writes all edges: the edges of the previous version that stay, then the edges in the file of
    /// nodes.
    fn write_edges(&self, path: &Path, install: &mut Install, watch: &mut Watch<'_>) -> Result<()> {
        let kb = self.kb;
        let mut done = 0;
        for (index, relation) in kb.relations().iter().enumerate() {
            watch.report(Phase::Edges, done, kb.n_edges())?;
            let id = RelationId(index as u16);
            for node in 0..kb.n_nodes() {
                let targets = kb.neighbors(node, id, Direction::Out);
                done += targets.len() as u64;
                let Some(source) = self.number(node) else { continue };
                let change = self.changed.binary_search_by_key(&source, |(number, _)| *number);
                let change = change.ok().and_then(|at| self.changed.get(at));
                if change.is_some_and(|(_, change)| change.edges.contains_key(relation)) {
                    continue;
                }
                for target in targets.iter().filter_map(|&target| self.number(target)) {
                    install.graph.writer.push_edge(source, relation, target)?;
                    install.graph.n_pushed += 1;
                }
            }
        }
        for (source, change) in &self.changed {
            let edges = change.edges.iter();
            for (relation, id) in edges.flat_map(|(name, ids)| ids.iter().map(move |id| (name, id)))
            {
                let id = id.to_string();
                let target = self.target(&change.node_type, relation, &id);
                let pushed = target
                    .map_err(LineError::from)
                    .and_then(|target| install.graph.push_edge(*source, relation, target))
                    .map_err(|error| error.map(|fault| fault.with_excerpt(&id)));
                install.problems.ok(path, change.line, pushed)?;
            }
        }
        Ok(())
    }

    /// Returns the new number of a node of the previous version; `None` if the node is deleted.
    fn number(&self, node: NodeId) -> Option<NodeId> {
        self.moved.get(node as usize).copied().flatten()
    }

    /// Finds the node to which an edge leads. If several nodes have the id, returns the node of the
    /// type to which edges of the relation already lead from nodes of the type `from`.
    fn target(&self, from: &str, relation: &str, id: &str) -> Result<NodeId, Fault> {
        let kb = self.kb;
        let mut found = self.nodes_of(id);
        if found.len() > 1 {
            let is_known = |kind: &str| {
                kb.tuples().iter().any(|tuple| {
                    kb.relation_name(tuple.relation) == relation
                        && kb.type_name(tuple.source) == from
                        && kb.type_name(tuple.target) == kind
                })
            };
            found.retain(|(_, kind)| is_known(kind));
        }
        match found.as_slice() {
            [(node, _)] => Ok(*node),
            [] => {
                let message = format!("{relation} refers to \"{id}\", but no node has this id");
                let hint = "add the node, or remove the edge";
                Err(Fault::new(ProblemKind::UnknownNode, message, hint))
            }
            _ => {
                let message =
                    format!("{relation} refers to \"{id}\", but several nodes have this id");
                Err(Fault::new(ProblemKind::BadId, message, WITH_TYPE))
            }
        }
    }

    /// Returns the nodes of the new version that have the id `id`, with their types; if there are
    /// none, reads `id` as `type:id`.
    fn nodes_of(&self, id: &str) -> Vec<(NodeId, &str)> {
        let kb = self.kb;
        let old = |node: NodeId| Some((self.number(node)?, kb.type_name(kb.node_type(node))));
        let new = |id: &str| {
            let places = self.added.get(id).into_iter().flatten();
            places
                .filter_map(|&at| self.changed.get(at))
                .map(|(node, one)| (*node, &*one.node_type))
        };
        let mut found: Vec<(NodeId, &str)> =
            nodes_of_id(kb, id).into_iter().filter_map(old).chain(new(id)).collect();
        if found.is_empty()
            && let Some((kind, id)) = id.split_once(':')
        {
            found.extend(new(id).filter(|(_, of)| *of == kind));
        }
        found
    }
}

/// Writes a node of the previous version without changes.
fn copy(kb: &Kb, node: NodeId, key: Option<&str>, writer: &mut KbWriter) -> Result<()> {
    let own = |(id, text): (_, &str)| (kb.field_name(id).to_owned(), text.to_owned());
    let fields: Vec<(String, String)> = kb.fields(node).map(own).collect();
    let (kind, name, text) = (kb.type_name(kb.node_type(node)), kb.name(node), kb.text(node));
    match key {
        Some(key) => writer.push_keyed_node(key, kind, name, text, &fields)?,
        None => writer.push_node(kind, name, text, &fields)?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write, fs};

    use super::*;
    use crate::{Split, Update, import_neutral, load_split, sample::random::Stream};

    const RELATIONS: [&str; 2] = ["cites", "in"];

    #[derive(Clone, Default)]
    struct Node {
        year: usize,
        edges: BTreeMap<&'static str, BTreeSet<usize>>,
    }

    /// The nodes of a base in their order, by their numbers, which are also their ids.
    type Nodes = Vec<(usize, Node)>;

    fn line(id: usize, node: &Node, with_edges: bool) -> String {
        let edges: BTreeMap<&str, Vec<String>> = match with_edges {
            true => node.edges.iter().map(|(name, ends)| (*name, texts(ends))).collect(),
            false => BTreeMap::new(),
        };
        let kind = ["paper", "venue"][id % 2];
        let mut line = serde_json::json!({"id": id.to_string(), "type": kind,
            "name": format!("node {id}"), "details": {"year": node.year}});
        if with_edges {
            line["edges"] = serde_json::json!(edges);
        }
        line.to_string()
    }

    fn texts(ids: &BTreeSet<usize>) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    /// Imports nodes from files in neutral format; returns the base.
    fn whole(nodes: &Nodes, home: &Home, name: &str) -> Base {
        let dir = tempfile::tempdir().unwrap();
        let mut edges = "src_id\trelation\tdst_id\n".to_owned();
        for (id, node) in nodes {
            for (name, end) in
                node.edges.iter().flat_map(|(name, ends)| ends.iter().map(move |end| (name, end)))
            {
                writeln!(edges, "{id}\t{name}\t{end}").unwrap();
            }
        }
        let lines: Vec<String> = nodes.iter().map(|(id, node)| line(*id, node, false)).collect();
        fs::write(dir.path().join("nodes.jsonl"), lines.join("\n")).unwrap();
        fs::write(dir.path().join("edges.tsv"), edges).unwrap();
        fs::create_dir(dir.path().join("split")).unwrap();
        let asked = &nodes[0].0;
        fs::write(dir.path().join("qa.csv"), format!("id,query,answer_ids\n1,what,[{asked}]\n"))
            .unwrap();
        fs::write(dir.path().join("split/val.index"), "1\n").unwrap();
        let options = ImportOptions::default();
        let stop = AtomicBool::new(false);
        import_neutral(dir.path(), home, name, &options, &mut |_| {}, &stop).unwrap().base
    }

    fn changed(
        home: &Home,
        name: &str,
        nodes: Option<&str>,
        deleted: Option<&str>,
    ) -> Result<ImportReport, DatasetError> {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: Option<&str>| {
            let path = dir.path().join(name);
            text.map(|text| fs::write(&path, text).unwrap()).map(|()| path)
        };
        let upsert =
            Upsert { nodes: file("changes.jsonl", nodes), deleted: file("gone.txt", deleted) };
        let update = Some(Update { allow_loss: true });
        let options = ImportOptions { update, ..ImportOptions::default() };
        import_upsert(&upsert, home, name, &options, &mut |_| {}, &AtomicBool::new(false))
    }

    #[test]
    fn many_random_changes_equal_a_whole_import() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let mut stream = Stream::new(1, "changes", 0);
        let mut nodes: Nodes = (0..40).map(|id| (id, Node::default())).collect();
        whole(&nodes, &home, "changed");
        let (mut next, mut n_changes) = (nodes.len(), 0);
        for round in 0..30 {
            let mut upserted = BTreeMap::new();
            for _ in 0..stream.below(50) {
                let id = match stream.below(2) {
                    0 => nodes[stream.below(nodes.len())].0,
                    _ => next,
                };
                next += usize::from(id == next);
                upserted.insert(id, Node { year: stream.below(3000), ..Node::default() });
            }
            let mut gone = BTreeSet::new();
            for _ in 0..stream.below(24) {
                let id = nodes[1 + stream.below(nodes.len() - 1)].0;
                if !upserted.contains_key(&id) && nodes.len() > 20 {
                    gone.insert(id);
                }
            }
            nodes.retain(|(id, _)| !gone.contains(id));
            nodes
                .iter_mut()
                .flat_map(|(_, node)| node.edges.values_mut())
                .for_each(|ends| ends.retain(|end| !gone.contains(end)));
            let known: Vec<usize> =
                nodes.iter().map(|(id, _)| *id).chain(upserted.keys().copied()).collect();
            n_changes += upserted.len() + gone.len();
            let mut lines = String::new();
            for (id, mut node) in upserted {
                for name in RELATIONS {
                    if stream.below(2) == 0 {
                        continue;
                    }
                    let ends = (0..stream.below(4)).map(|_| known[stream.below(known.len())]);
                    node.edges.insert(name, ends.collect());
                }
                writeln!(lines, "{}", line(id, &node, true)).unwrap();
                match nodes.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, old)) => {
                        old.year = node.year;
                        old.edges.extend(node.edges);
                    }
                    None => nodes.push((id, node)),
                }
            }
            let report =
                changed(&home, "changed", Some(&lines), Some(&texts(&gone).join("\n"))).unwrap();
            let rebuilt = whole(&nodes, &home, "whole");
            let prints = [&report.base.record.fingerprint, &rebuilt.record.fingerprint];
            assert_eq!(prints[0], prints[1], "round {round}");
            assert_eq!(report.base.record.n_queries, 1);
        }
        assert!(n_changes >= 800, "{n_changes} changes");
    }

    #[test]
    fn ids_stay_when_numbered_nodes_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let source = tempfile::tempdir().unwrap();
        let nodes: Vec<String> = (0..3)
            .map(|id| format!("{{\"id\": {id}, \"type\": \"paper\", \"name\": \"p{id}\"}}"))
            .collect();
        fs::write(source.path().join("nodes.jsonl"), nodes.join("\n")).unwrap();
        let template = "[templates]\npaper = \"paper {name}\"";
        fs::write(source.path().join("dataset.toml"), template).unwrap();
        let edges = "src_id\trelation\tdst_id\n0\tcites\t2\n1\tcites\t2\n";
        fs::write(source.path().join("edges.tsv"), edges).unwrap();
        fs::write(source.path().join("qa.csv"), "id,query,answer_ids\n1,what,\"[0, 2]\"\n")
            .unwrap();
        fs::create_dir(source.path().join("split")).unwrap();
        fs::write(source.path().join("split/val.index"), "1\n").unwrap();
        let (options, stop) = (ImportOptions::default(), AtomicBool::new(false));
        import_neutral(source.path(), &home, "papers", &options, &mut |_| {}, &stop).unwrap();
        // Added behind the others, with the next number: the ids stay numbers.
        let added = r#"{"id": 3, "type": "paper", "name": "p3", "edges": {"cites": [2, "0"]}}"#;
        let base = changed(&home, "papers", Some(added), None).unwrap().base;
        let kb = Kb::open(&base.kb_dir()).unwrap();
        assert!(!kb.has_keys() && kb.n_edges() == 4);
        assert_eq!(kb.text(3), "paper p3\n", "with the template of the base");
        let base = changed(&home, "papers", None, Some("0\n")).unwrap().base;
        let kb = Kb::open(&base.kb_dir()).unwrap();
        let ids: Vec<String> = (0..kb.n_nodes()).map(|node| kb.key(node).into_owned()).collect();
        assert_eq!((ids.join(" ").as_str(), kb.n_edges()), ("1 2 3", 2));
        assert_eq!(load_split(&base, &Split::Val).unwrap()[0].answers, [1], "the node with id 2");
    }

    #[test]
    fn a_template_stays_after_the_last_node_of_its_type_and_new_data_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let source = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(source.path().join(name), text).unwrap();
        let paper = r#"{"id": "a", "type": "paper", "name": "A"}"#;
        let venue = r#"{"id": "v", "type": "venue", "name": "V"}"#;
        write("nodes.jsonl", &format!("{paper}\n{venue}\n"));
        write("edges.tsv", "src_id\trelation\tdst_id\na\tin\tv\n");
        write("dataset.toml", "[templates]\nvenue = \"venue {name}\"\n");
        let stop = AtomicBool::new(false);
        let import = || {
            let update = Some(Update { allow_loss: true });
            let options = ImportOptions { update, ..ImportOptions::default() };
            import_neutral(source.path(), &home, "papers", &options, &mut |_| {}, &stop)
        };
        import().unwrap();
        changed(&home, "papers", None, Some("v\n")).unwrap();
        let base = changed(&home, "papers", Some(venue), None).unwrap().base;
        assert_eq!(Kb::open(&base.kb_dir()).unwrap().text(1), "venue V\n");
        write("nodes.jsonl", paper);
        write("edges.tsv", "src_id\trelation\tdst_id\n");
        let error = import().unwrap_err().to_string();
        assert!(error.contains("no node has the type \"venue\""), "{error}");
    }

    #[test]
    fn wrong_changes_are_all_named_and_nothing_changes() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let base = whole(&(0..4).map(|id| (id, Node::default())).collect(), &home, "base");
        let lines = [
            r#"{"id": "0", "type": "paper", "name": "a", "colour": 1}"#,
            r#"{"id": "2", "type": "paper", "name": "a"}"#,
            r#"{"id": "2", "type": "paper", "name": "again"}"#,
            r#"{"id": "3", "type": "venue", "name": "deleted too"}"#,
        ];
        let error = changed(&home, "base", Some(&lines.join("\n")), Some("3\n9\n3\n")).unwrap_err();
        let text = error.to_string();
        for part in [
            "unknown field `colour`",
            "id \"2\" occurs twice",
            "id \"3\" is both replaced and deleted",
            "gone.txt:2: no node has this id",
            "gone.txt:3: the id occurs twice",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let line = r#"{"id": "2", "type": "paper", "name": "a", "edges": {"cites": ["3", "17"]}}"#;
        let error = changed(&home, "base", Some(line), Some("3\n")).unwrap_err().to_string();
        assert!(error.contains("cites refers to \"3\", but no node has this id"), "{error}");
        assert!(error.contains("cites refers to \"17\""), "{error}");
        assert_eq!(home.get("base").unwrap().record.fingerprint, base.record.fingerprint);
    }
}
