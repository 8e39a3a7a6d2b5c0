//! Shows an overview of a dataset, the probable mistakes in its data, or one of its nodes.

use std::{collections::BTreeMap, path::Path};

use anyhow::anyhow;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{App, AppError, Explain, Perform, Result, data::list::index_state, dataset};
use agent_dataset::{Base, Summary, nodes_of_id, stark::Origin};
use agent_index::languages;
use agent_kb::{Direction, Kb, NodeId, RelationId};

/// Maximum number of neighbours shown per relation and direction.
const MAX_NEIGHBORS: usize = 10;

/// A dataset, and which part of it to show.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset
    #[arg(value_name = "N")]
    pub name: String,
    /// Show the fields with the share of nodes that have each field, the edges per node, and
    /// probable mistakes
    #[arg(long, conflicts_with = "node")]
    #[serde(default)]
    pub issues: bool,
    /// Show the node with this id: its fields and edges
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
}

/// The requested view of a dataset.
#[expect(clippy::large_enum_variant, reason = "only one reply exists at a time")]
pub enum Reply {
    /// An overview of the whole dataset.
    Dataset(Overview),
    /// The fields with the share of nodes that have each field, the edges per node, and probable
    /// mistakes.
    Issues(Summary),
    /// The nodes with the requested id.
    Nodes(Nodes),
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dataset(overview) => overview.record().serialize(out),
            Self::Issues(summary) => summary.serialize(out),
            Self::Nodes(nodes) => BTreeMap::from([("nodes", nodes.records())]).serialize(out),
        }
    }
}

impl Perform for Request {
    const NAME: &'static str = "data_show";
    const SUMMARY: &'static str =
        "Show the contents of a dataset, its likely mistakes, or one of its nodes";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        if self.issues && self.node.is_some() {
            return Err(AppError::usage(anyhow!("--issues cannot be combined with --node")));
        }
        let base = app.home.get(&self.name)?;
        let kb = Kb::open(&base.kb_dir())?;
        if let Some(id) = &self.node {
            return Ok(Reply::Nodes(Nodes::of_id(kb, id)?));
        }
        if self.issues {
            if app.home.pending_version(&self.name)?.is_some() {
                app.watch.notice(&dataset::waiting(&self.name));
            }
            return Ok(Reply::Issues(Summary::of_base(&base)?));
        }
        let index = index_state(&base, app);
        let shown = |path: &Path| app.shown_path(path).display().to_string();
        let (source, path) = (shown(Path::new(&base.record.source)), shown(&base.path));
        Ok(Reply::Dataset(Overview { base, kb, index, source, path }))
    }
}

/// An overview of a dataset.
pub struct Overview {
    base: Base,
    kb: Kb,
    index: &'static str,
    source: String,
    path: String,
}

/// An overview of a dataset, as JSON.
#[derive(Serialize)]
pub struct OverviewRecord<'a> {
    /// Name of the dataset.
    pub name: &'a str,
    /// Title of the dataset, for display.
    pub title: &'a str,
    /// Licence of the data.
    pub licence: &'a str,
    /// Languages whose word forms the word search knows.
    pub languages: String,
    /// Path of the file or directory from which the dataset was imported; over a network, only its
    /// name.
    pub source: &'a str,
    /// Directory that holds the files of the installed dataset; over a network, its path below the
    /// home directory.
    pub path: &'a str,
    /// Digest of the nodes and edges.
    pub fingerprint: &'a str,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of edges.
    pub edges: u64,
    /// Number of labelled questions.
    pub queries: u64,
    /// Number of labelled questions in each split.
    pub splits: &'a BTreeMap<String, u64>,
    /// Number of nodes of each type.
    pub types: BTreeMap<&'a str, u64>,
    /// Types of the nodes that may be answers.
    pub candidate_types: Vec<&'a str>,
    /// Number of nodes that may be answers.
    pub candidates: usize,
    /// Number of edges of each relation.
    pub relations: BTreeMap<&'a str, u64>,
    /// Names of all fields that nodes have.
    pub fields: &'a [String],
    /// For a dataset of the STaRK benchmark: which one, and which edges were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stark: Option<Origin>,
    /// State of the dataset's index: `ready`, `none`, `outdated` (made from other data) or
    /// `damaged`.
    pub index: &'static str,
}

impl Overview {
    /// Returns the overview as JSON.
    pub fn record(&self) -> OverviewRecord<'_> {
        let Overview { base, kb, index, source, path } = self;
        let manifest = kb.manifest();
        let mut relations: BTreeMap<&str, u64> = BTreeMap::new();
        for &(_, relation, _, edges) in &manifest.tuples {
            if let Some(name) = manifest.relations.get(usize::from(relation)) {
                *relations.entry(name).or_default() += edges;
            }
        }
        let counts = manifest.type_counts.iter().map(|&n| u64::from(n));
        OverviewRecord {
            name: &base.name,
            title: &base.record.title,
            licence: &base.record.licence,
            languages: languages(kb).to_string(),
            source,
            path,
            fingerprint: &base.record.fingerprint,
            nodes: base.record.n_nodes,
            edges: base.record.n_edges,
            queries: base.record.n_queries,
            splits: &base.record.splits,
            types: manifest.types.iter().map(String::as_str).zip(counts).collect(),
            candidate_types: kb.candidate_types().iter().map(|&id| kb.type_name(id)).collect(),
            candidates: kb.candidates().len(),
            relations,
            fields: kb.field_names(),
            stark: base.record.stark,
            index,
        }
    }
}

/// All nodes that have one id in the user's data; nodes of several types may share an id.
pub struct Nodes {
    kb: Kb,
    nodes: Vec<NodeId>,
}

impl Nodes {
    /// # Errors
    /// If no node has the id.
    fn of_id(kb: Kb, id: &str) -> Result<Nodes> {
        let nodes = nodes_of_id(&kb, id);
        if nodes.is_empty() {
            let hint = format!("ids look like {:?}", kb.key(0));
            return Err(anyhow!("no node has the id {id:?}")).hint(hint);
        }
        Ok(Nodes { kb, nodes })
    }

    /// Returns the nodes as JSON.
    pub fn records(&self) -> Vec<NodeRecord<'_>> {
        self.nodes.iter().map(|&node| node_of(&self.kb, node)).collect()
    }
}

/// A node as JSON.
#[derive(Serialize)]
pub struct NodeRecord<'a> {
    /// Id of the node in the base, from 0.
    pub id: NodeId,
    /// Id of the node in the user's data.
    pub key: String,
    /// Type of the node.
    #[serde(rename = "type")]
    pub node_type: &'a str,
    /// Name of the node.
    pub name: &'a str,
    /// Whether the node may be an answer.
    pub is_candidate: bool,
    /// Names of the node's fields, each with its text.
    pub fields: Vec<(&'a str, &'a str)>,
    /// The node's edges, grouped by relation and direction.
    pub edges: Vec<Edges<'a>>,
}

/// The edges of one relation that leave or enter a node.
#[derive(Serialize)]
pub struct Edges<'a> {
    /// Name of the relation.
    pub relation: &'a str,
    /// `out` for edges that leave the node, `in` for edges that enter it.
    pub direction: &'static str,
    /// Number of edges.
    pub count: usize,
    /// The first ten neighbours, each as its id in the user's data and its name.
    pub first: Vec<(String, &'a str)>,
}

fn node_of(kb: &Kb, node: NodeId) -> NodeRecord<'_> {
    let mut edges = Vec::new();
    for at in 0..kb.relations().len() {
        let Ok(at) = u16::try_from(at) else { break };
        let relation = RelationId(at);
        for (direction, way) in [(Direction::Out, "out"), (Direction::In, "in")] {
            let neighbors = kb.neighbors(node, relation, direction);
            let first = neighbors.iter().take(MAX_NEIGHBORS);
            let first = first.map(|&other| (kb.key(other).into_owned(), kb.name(other))).collect();
            let (relation, count) = (kb.relation_name(relation), neighbors.len());
            edges.push(Edges { relation, direction: way, count, first });
        }
    }
    edges.retain(|of| of.count > 0);
    NodeRecord {
        id: node,
        key: kb.key(node).into_owned(),
        node_type: kb.type_name(kb.node_type(node)),
        name: kb.name(node),
        is_candidate: kb.is_candidate(node),
        fields: kb.fields(node).map(|(field, text)| (kb.field_name(field), text)).collect(),
        edges,
    }
}
