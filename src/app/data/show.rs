//! Shows an overview of a dataset, the probable mistakes in its data, or one of its nodes.

use std::{collections::BTreeMap, path::Path};

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, Explain, Perform, Result, data::list::index_state, dataset, refused};
use agent_dataset::{Base, Summary, nodes_of_id, stark::Origin};
use agent_index::languages;
use agent_kb::{Direction, Kb, NodeId};

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
#[derive(Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// An overview of the whole dataset.
    Dataset(Overview),
    /// The fields with the share of nodes that have each field, the edges per node, and probable
    /// mistakes.
    Issues(Summary),
    /// The nodes with the requested id.
    Nodes {
        /// All nodes that have the id in the user's data; nodes of several types may share an id.
        nodes: Vec<Node>,
    },
}

impl Perform for Request {
    const NAME: &'static str = "data_show";
    const SUMMARY: &'static str =
        "Show the contents of a dataset, its likely mistakes, or one of its nodes";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        if self.issues && self.node.is_some() {
            return refused("--issues cannot be combined with --node");
        }
        let base = app.home.get(&self.name)?;
        let kb = Kb::open(&base.kb_dir())?;
        if let Some(id) = &self.node {
            return nodes(&kb, id);
        }
        if self.issues {
            if app.home.pending_version(&self.name)?.is_some() {
                app.watch.notice(&dataset::waiting(&self.name));
            }
            return Ok(Reply::Issues(Summary::of_base(&base)?));
        }
        Ok(Reply::Dataset(overview(base, &kb, app)))
    }
}

/// An overview of a dataset.
#[derive(Serialize)]
pub struct Overview {
    /// Name of the dataset.
    pub name: String,
    /// Title of the dataset, for display.
    pub title: String,
    /// Licence of the data.
    pub licence: String,
    /// Languages whose word forms the word search knows.
    pub languages: String,
    /// Path of the file or directory from which the dataset was imported; over a network, only its
    /// name.
    pub source: String,
    /// Directory that holds the files of the installed dataset; over a network, its path below the
    /// home directory.
    pub path: String,
    /// Digest of the nodes and edges.
    pub fingerprint: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of edges.
    pub edges: u64,
    /// Number of labelled questions.
    pub queries: u64,
    /// Number of labelled questions in each split.
    pub splits: BTreeMap<String, u64>,
    /// Number of nodes of each type.
    pub types: BTreeMap<String, u64>,
    /// Types of the nodes that may be answers.
    pub candidate_types: Vec<String>,
    /// Number of nodes that may be answers.
    pub candidates: usize,
    /// Number of edges of each relation.
    pub relations: BTreeMap<String, u64>,
    /// Names of all fields that nodes have.
    pub fields: Vec<String>,
    /// For a dataset of the STaRK benchmark: which one, and which edges were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stark: Option<Origin>,
    /// State of the dataset's index: `ready`, `none`, `outdated` (made from other data) or
    /// `damaged`.
    pub index: &'static str,
}

fn overview(base: Base, kb: &Kb, app: &App) -> Overview {
    let manifest = kb.manifest();
    let mut relations: BTreeMap<String, u64> = BTreeMap::new();
    for &(_, relation, _, edges) in &manifest.tuples {
        if let Some(name) = manifest.relations.get(usize::from(relation)) {
            *relations.entry(name.clone()).or_default() += edges;
        }
    }
    let counts = manifest.type_counts.iter().map(|&n| u64::from(n));
    let candidate_types = kb.candidate_types().iter();
    let shown = |path: &Path| app.shown_path(path).display().to_string();
    Overview {
        languages: languages(kb).to_string(),
        source: shown(Path::new(&base.record.source)),
        path: shown(&base.path),
        types: manifest.types.iter().cloned().zip(counts).collect(),
        candidate_types: candidate_types.map(|&id| kb.type_name(id).to_owned()).collect(),
        candidates: kb.candidates().len(),
        relations,
        fields: kb.field_names().to_vec(),
        index: index_state(&base, app),
        name: base.name,
        title: base.record.title,
        licence: base.record.licence,
        fingerprint: base.record.fingerprint,
        nodes: base.record.n_nodes,
        edges: base.record.n_edges,
        queries: base.record.n_queries,
        splits: base.record.splits,
        stark: base.record.stark,
    }
}

/// Returns all nodes whose id in the user's data is `id`.
///
/// # Errors
/// If no node has the id.
fn nodes(kb: &Kb, id: &str) -> Result<Reply> {
    let nodes = nodes_of_id(kb, id);
    if nodes.is_empty() {
        let hint = format!("ids look like {:?}", kb.key(0));
        return Err(anyhow!("no node has the id {id:?}")).hint(hint);
    }
    Ok(Reply::Nodes { nodes: nodes.into_iter().map(|node| node_of(kb, node)).collect() })
}

/// A node, with its fields and edges.
#[derive(Serialize)]
pub struct Node {
    /// Id of the node in the base, from 0.
    pub id: NodeId,
    /// Id of the node in the user's data.
    pub key: String,
    /// Type of the node.
    #[serde(rename = "type")]
    pub node_type: String,
    /// Name of the node.
    pub name: String,
    /// Whether the node may be an answer.
    pub is_candidate: bool,
    /// Names of the node's fields, each with its text.
    pub fields: Vec<(String, String)>,
    /// The node's edges, grouped by relation and direction.
    pub edges: Vec<Edges>,
}

/// The edges of one relation that leave or enter a node.
#[derive(Serialize)]
pub struct Edges {
    /// Name of the relation.
    pub relation: String,
    /// `out` for edges that leave the node, `in` for edges that enter it.
    pub direction: &'static str,
    /// Number of edges.
    pub count: usize,
    /// The first ten neighbours, each as its id in the user's data and its name.
    pub first: Vec<(String, String)>,
}

fn node_of(kb: &Kb, node: NodeId) -> Node {
    let mut edges = Vec::new();
    for relation in kb.relations().iter().filter_map(|name| kb.relation_id(name)) {
        for (direction, way) in [(Direction::Out, "out"), (Direction::In, "in")] {
            let neighbors = kb.neighbors(node, relation, direction);
            let named = |&other: &NodeId| (kb.key(other).into_owned(), kb.name(other).to_owned());
            let first = neighbors.iter().take(MAX_NEIGHBORS).map(named).collect();
            let (relation, count) = (kb.relation_name(relation).to_owned(), neighbors.len());
            edges.push(Edges { relation, direction: way, count, first });
        }
    }
    edges.retain(|of| of.count > 0);
    let fields = kb.fields(node);
    Node {
        id: node,
        key: kb.key(node).into_owned(),
        node_type: kb.type_name(kb.node_type(node)).to_owned(),
        name: kb.name(node).to_owned(),
        is_candidate: kb.is_candidate(node),
        fields: fields.map(|(of, text)| (kb.field_name(of).to_owned(), text.to_owned())).collect(),
        edges,
    }
}
