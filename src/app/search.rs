//! Ranks the nodes of a base for a text or an expression of the query language.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    App, AppError, Effort, LlmArgs, Perform, Resources, Result, SandboxArgs, TOP, Top, dataset,
    llm, open_system, system_name, unassisted,
};
use agent_index::IndexedBase;
use agent_infer::{self as infer, HitRecord};
use agent_kb::{
    NodeId, NodeSet,
    answer::AnswerValue,
    filter::{Condition, matching},
};
use agent_retrieve::{Answer, Detail, Filtered, check_query};
use agent_systems as systems;

/// Name of the system that ranks by default.
pub const SYSTEM: &str = "bm25f";

/// A base, a text or expression to search for, and how to rank.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(value_name = "N")]
    pub dataset: String,
    /// Search for this text; with the default system, nodes whose id or name equals it come first
    #[arg(value_name = "TEXT", required_unless_present = "query")]
    pub text: Option<String>,
    /// Instead of ranking for a text, search all nodes with an expression of fields, phrases,
    /// ranges and fuzzy terms, such as +brand:northpeak "steel bottle"~1 -plastic price:[5 TO 20];
    /// needs the index part `query`
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true,
        conflicts_with_all = ["text", "system", "explain"])]
    pub query: Option<String>,
    /// Keep only nodes that meet this condition: site=Munich, priority=high,urgent,
    /// created>=2025-03, status!=closed; may be given several times
    #[arg(long = "where", value_name = "CONDITION", conflicts_with = "query")]
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub filter: Vec<Condition>,
    /// Rank with this system
    #[arg(long, value_name = "SYSTEM", default_value = SYSTEM,
        help = format!("Rank with {}", systems::choices()))]
    #[serde(default = "system")]
    pub system: String,
    /// Print at most this many nodes, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = TOP)]
    #[serde(default = "crate::top")]
    pub k: Top,
    /// Explain the rank of each node
    #[arg(long)]
    #[serde(default)]
    pub explain: bool,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

pub(crate) fn system() -> String {
    SYSTEM.to_owned()
}

/// A ranking of the nodes of a base.
pub struct Reply {
    pub(crate) base: Arc<IndexedBase>,
    pub(crate) answer: Answer,
}

impl Reply {
    /// Returns the ranked nodes, best first; equal scores by ascending node id.
    pub fn hits(&self) -> Vec<HitRecord<'_>> {
        infer::hits(&self.base.kb, &self.answer)
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        BTreeMap::from([("hits", self.hits())]).serialize(out)
    }
}

/// Returns the nodes that meet all conditions; `None` without conditions.
///
/// # Errors
/// If a condition is invalid, or there are too many. In a base with texts in other languages than
/// English, also for a limit such as `27.500`, which may be 27500 or 27.5.
pub fn filtered(base: &IndexedBase, conditions: &[Condition]) -> Result<Option<NodeSet>> {
    if conditions.is_empty() {
        return Ok(None);
    }
    let mut limits = conditions.iter().flat_map(Condition::limits);
    if let Some(message) = limits.find_map(|limit| base.doubtful_number(limit)) {
        return Err(AppError::usage(anyhow::anyhow!(message)));
    }
    let nodes = matching(&base.kb, conditions);
    Ok(Some(nodes.map_err(|error| AppError::usage(error.into()))?))
}

/// Returns the nodes of `among` (all if `None`) whose id equals the text or, if no node has this
/// id, the nodes that may be answers and whose name equals the text; ascending.
fn called(base: &IndexedBase, text: &str, among: Option<&NodeSet>) -> Vec<NodeId> {
    let (kb, text) = (&base.kb, text.trim());
    let mut nodes = if kb.has_keys() { kb.nodes_of_key(text) } else { Vec::new() };
    if nodes.is_empty() {
        let whole = text.to_lowercase();
        nodes = base.entities.exact_mentions(text).into_iter().flat_map(|own| own.nodes).collect();
        nodes.retain(|&node| {
            kb.candidate_types().contains(&kb.node_type(node))
                && kb.name(node).to_lowercase() == whole
        });
    }
    nodes.retain(|&node| among.is_none_or(|among| among.contains(node)));
    nodes
}

/// Puts nodes at the top of a ranking of at most `k` nodes, with the best score.
fn put_first(answer: &mut Answer, first: Vec<NodeId>, k: usize) {
    let AnswerValue::Nodes { nodes } = &mut answer.value else { return };
    let score = nodes.first().map_or(1.0, |best| best.1);
    for node in first.into_iter().take(k).rev() {
        let place = nodes.iter().position(|(own, _)| *own == node);
        place.map(|place| nodes.remove(place));
        nodes.insert(0, (node, score));
        let explained = place.filter(|place| *place < answer.explanations.len());
        let own = explained.map(|place| answer.explanations.remove(place));
        if own.is_some() || !answer.explanations.is_empty() {
            answer.explanations.insert(0, own.unwrap_or_default());
        }
    }
    nodes.truncate(k);
    answer.explanations.truncate(k);
}

impl Perform for Request {
    const NAME: &'static str = "search";
    const SUMMARY: &'static str = "Rank the nodes of a dataset by relevance to a text";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let k = self.k.get();
        if let Some(query) = &self.query {
            let base = dataset::open(&dataset::find(&self.dataset, app)?, app)?;
            let answer =
                Answer::from_ranking(base.query_index()?.search(&base.kb, query, &[], k)?);
            return Ok(Reply { base, answer });
        }
        let text = check_query(self.text.as_deref().unwrap_or_default())?;
        let base = dataset::open(&dataset::find(&self.dataset, app)?, app)?;
        let nodes = filtered(&base, &self.filter)?;
        if nodes.as_ref().is_some_and(NodeSet::is_empty) {
            let dataset = &self.dataset;
            app.watch.notice(&format!(
                "no node meets the conditions; `agent data facets {dataset}` shows their values"
            ));
        }
        let first = match self.system == SYSTEM {
            true => called(&base, text, nodes.as_ref()),
            // Other systems keep their own ranking.
            false => Vec::new(),
        };
        let name = system_name(&self.system, &self.dataset, app)?;
        let is_asked = !systems::request_bounds(&name, Effort::None)?.is_empty();
        let llm = llm::open_if_configured(&self.llm, is_asked, app)?;
        let resources = Resources::new(llm.as_ref(), self.sandbox.places(app)?, app);
        let mut system = open_system(&name, &base, &resources)?;
        if let Some(nodes) = nodes {
            system = Box::new(Filtered::new(system, base.clone(), nodes));
        }
        let detail = Detail { explained_count: if self.explain { k } else { 0 }, paths: false };
        let mut answer = system.answer(text, k, detail)?;
        put_first(&mut answer, first, k);
        unassisted(&answer, app);
        Ok(Reply { base, answer })
    }
}
