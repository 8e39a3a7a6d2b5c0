//! Inputs of the prompt for a first program of a category, in addition to the texts about the base
//! and the tools: queries with answers, metapaths with the share of answers that they reach, worked
//! examples, results of entity linking, documents of answers, and the best available program.
//!
//! All inputs come from training queries of the category. The examples depend on the seed and the
//! number of the draft, so that the prompts for different drafts show different queries.

use serde_json::{Value, json};

use crate::{
    Ablation, Result, Run,
    actor::{
        Actor,
        advice::advice_from_others,
        drafts::DraftRequest,
        execution_trace::{cut, named, number},
    },
    mine::{self, LinkSource, MinedPattern, Step},
    trial::{generator, mean},
    wording::{self, Wording},
};
use agent_dataset::LabelledQuery;
use agent_ground::words::quoted;
use agent_index::IndexedBase;
use agent_kb::{Direction, NodeId, NodeSet};
use agent_sandbox::program::Program;

/// Maximum number of queries with answers in a prompt.
pub(super) const EXAMPLES: usize = 14;
/// Maximum number of answers that a prompt shows per query.
const NAMED_ANSWERS: usize = 2;
/// Maximum number of metapaths in a prompt.
const METAPATHS: usize = 10;
/// Maximum number of worked examples in a prompt.
const WORKED: usize = 2;
/// Maximum number of edges that are followed for a worked example; also the maximum number of
/// neighbours per answer and relation with which linked entities are compared.
const WORKED_EDGES: usize = 20_000;
/// Maximum number of queries whose linked entities a prompt shows.
const LINKED: usize = 3;
/// Maximum number of linked entities that a prompt shows per query.
const LINKED_NODES: usize = 6;
/// Maximum number of queries whose linked entities are counted by strength.
const COUNTED: usize = 60;
/// Maximum number of linked entities per query and type.
const COUNTED_NODES: usize = 4;
/// Lower bounds of the classes into which linked entities are divided by strength, descending.
const STRENGTHS: [f32; 4] = [0.8, 0.5, 0.2, 0.0];
/// Maximum number of documents of answers in a prompt.
const DOCUMENTS: usize = 2;
/// Maximum length in characters of a document.
const DOCUMENT_CHARS: usize = 1_500;
/// Maximum length in characters of a query's text.
const QUERY_CHARS: usize = 400;
/// Number of the first of the random generator's streams from which example queries are drawn; each
/// draw has its own stream.
const EXAMPLE_STREAM: u64 = 2 << 40;

impl Run<'_> {
    /// Returns the inputs of the prompt for a first program; without metapaths if none were mined.
    pub(super) fn first_inputs(&self, actor: &Actor, request: &DraftRequest) -> Value {
        let DraftRequest { name, tried, queries, best, .. } = request;
        let ranked = ranked(actor.mined.as_deref().unwrap_or_default(), queries);
        let mut inputs = self.prompt_inputs(actor, name);
        inputs["schema"] = actor.briefing.schema.as_str().into();
        inputs["queries"] = self.solved_queries(tried);
        inputs["metapaths"] = self.metapaths(&ranked, queries);
        inputs["worked"] = self.worked_examples(&ranked, tried);
        inputs["links"] = self.links(tried, queries);
        inputs["documents"] = self.documents(tried);
        inputs["best"] = self.standing(&best.program, queries, &best.train_on(queries));
        inputs["elsewhere"] = advice_from_others(&actor.accepted_advice, name);
        inputs
    }

    /// Draws at most `n` of the training queries at random, from both wordings. Different values of
    /// `sample` give different draws.
    pub(super) fn examples(&self, queries: &[usize], n: usize, sample: u32) -> Vec<usize> {
        let mut rng = generator(self.options.seed, EXAMPLE_STREAM + u64::from(sample));
        let wording = |at: usize| Wording::detect(&self.train.queries[at].text);
        wording::sample(queries, n, wording, &mut rng)
    }

    /// Formats training queries with their wording and their first answers, for a prompt.
    pub(super) fn solved_queries(&self, examples: &[usize]) -> Value {
        let solved = |&at: &usize| {
            let LabelledQuery { text, answers, .. } = &self.train.queries[at];
            let names = answers.iter().take(NAMED_ANSWERS).map(|&node| named(&self.base.kb, node));
            json!({
                "text": cut(text, QUERY_CHARS),
                "wording": Wording::detect(text).name(),
                "n": answers.len(),
                "answers": names.collect::<Vec<_>>(),
            })
        };
        examples.iter().map(solved).collect()
    }

    /// Formats a program with its mean reciprocal rank on `queries`, overall and by wording, for a
    /// prompt. `ranks` are its reciprocal ranks on these queries.
    pub(super) fn standing(&self, program: &Program, queries: &[usize], ranks: &[f32]) -> Value {
        let wording = |&at: &usize| Wording::detect(&self.train.queries[at].text);
        let by_wording: Vec<(Wording, f32)> =
            queries.iter().map(wording).zip(ranks.iter().copied()).collect();
        json!({
            "source": if program.is_module() { "" } else { program.source() },
            "score": mean(ranks),
            "n": queries.len(),
            "by_wording": wording::means_by_wording(&by_wording),
        })
    }

    /// Mines the metapaths that prompts show, once in a run, unless mining is disabled.
    pub(super) fn mine_for_prompts(&mut self, actor: &mut Actor) -> Result<()> {
        if actor.mined.is_none() && !self.options.lacks(Ablation::Mining) {
            self.report_phase("mining metapaths for prompts");
            actor.mined = Some(self.mine()?);
        }
        Ok(())
    }

    /// Describes the best metapaths, one per line, with the share of answers that each reaches.
    fn metapaths(&self, ranked: &[RankedPattern<'_>], queries: &[usize]) -> Value {
        let kb = &self.base.kb;
        let line = |one: &RankedPattern<'_>| {
            let pattern = &one.mined.pattern;
            let shares = one.reached.iter().map(|&(at, reached)| {
                let all = mine::mined_answer_count(&self.train.queries[at]).max(1);
                f64::from(reached.count_ones()) / all as f64
            });
            let share: f64 = shares.sum();
            let all = kb.nodes_of_type(pattern.target).len() as f64;
            let found = match pattern.source {
                LinkSource::Named => "named",
                LinkSource::Described => "described (found by search)",
            };
            let steps: Vec<String> =
                pattern.steps.iter().map(|step| self.written_step(step)).collect();
            format!(
                "from {} that is {found}: [{}] to {}: {:.0} % of the answers of {} queries, any \
                 answer of {} of them, among about {:.0} nodes a query",
                kb.type_name(pattern.start),
                steps.join(", "),
                kb.type_name(pattern.target),
                100.0 * share / queries.len().max(1) as f64,
                queries.len(),
                one.reached.len(),
                all / one.mined.bits.exp2()
            )
        };
        ranked.iter().take(METAPATHS).map(line).collect()
    }

    /// Formats a step of a metapath as the function `walk` takes it, such as `"of_brand:out"`.
    fn written_step(&self, step: &Step) -> String {
        let relation = self.base.kb.relation_name(step.relation);
        match step.direction {
            Direction::Out => format!("\"{relation}:out\""),
            Direction::In => format!("\"{relation}:in\""),
            Direction::Any => format!("\"{relation}\""),
        }
    }

    /// Describes paths along the best metapaths, each from an entity that an example query names to
    /// an answer to the query.
    fn worked_examples(&self, ranked: &[RankedPattern<'_>], examples: &[usize]) -> Value {
        let mut lines: Vec<String> = Vec::new();
        for one in ranked {
            let pattern = &one.mined.pattern;
            if lines.len() == WORKED || pattern.source != LinkSource::Named {
                continue;
            }
            let reaches = |at: &&usize| one.reached.iter().any(|pair| pair.0 == **at);
            let at = examples.iter().find(reaches);
            let found = at.and_then(|&at| {
                let query = &self.train.queries[at];
                Some((query, find_path(&self.base, query, pattern)?))
            });
            let Some((query, (strength, path))) = found else { continue };
            let mut line = format!("query: {}\nlink gives ", cut(&query.text, QUERY_CHARS));
            line += &format!("{} {}", named(&self.base.kb, path[0]), number(strength));
            for (step, &node) in pattern.steps.iter().zip(&path[1..]) {
                let end = named(&self.base.kb, node);
                line += &format!("\n{} leads to {end}", self.written_step(step));
            }
            line += ", a right answer";
            lines.push(line);
        }
        lines.into()
    }

    /// Returns lines with the entities that `link` finds in some example queries, and lines that
    /// say how often linked entities are an answer or its neighbour.
    fn links(&self, examples: &[usize], queries: &[usize]) -> Value {
        let mut lines: Vec<String> = Vec::new();
        let mut add_line = |call: String, text: &str| {
            let found = self.base.entities.link(&self.base.kb, text, &[], COUNTED_NODES).ranking();
            let node = |&(node, strength): &(NodeId, f32)| {
                format!("{} {}", named(&self.base.kb, node), number(strength))
            };
            let nodes: Vec<String> = found.iter().take(LINKED_NODES).map(node).collect();
            lines.push(format!("{call}: {}", nodes.join("; ")));
        };
        for &at in examples.iter().take(LINKED) {
            let text = &self.train.queries[at].text;
            add_line(format!("query = {}\nlink(query)", cut(text, QUERY_CHARS)), text);
            if let Some(&name) = quoted(text).first() {
                add_line("link(quoted(query)[0])".to_owned(), name);
            }
        }
        lines.extend(self.link_counts(queries));
        lines.into()
    }

    /// Returns one line per class of strength: how many entities are linked with this strength, and
    /// how many of them are an answer or a neighbour of an answer.
    fn link_counts(&self, queries: &[usize]) -> Vec<String> {
        let mut counts = [(0_usize, 0_usize); STRENGTHS.len()];
        for &at in queries.iter().take(COUNTED) {
            let query = &self.train.queries[at];
            let near = self.neighborhood(&query.answers[..mine::mined_answer_count(query)]);
            let found = self.base.entities.link(&self.base.kb, &query.text, &[], COUNTED_NODES);
            for &(node, strength) in found.as_slice() {
                let class = STRENGTHS.iter().position(|&least| strength >= least);
                let Some(count) = class.and_then(|class| counts.get_mut(class)) else { continue };
                count.0 += 1;
                count.1 += usize::from(near.contains(node));
            }
        }
        let line = |(at, &(n, near)): (usize, &(usize, usize))| {
            let most = at.checked_sub(1).and_then(|at| STRENGTHS.get(at)).copied().unwrap_or(1.0);
            (n > 0).then(|| {
                format!(
                    "of {n} nodes linked with strength {} to {most} on queries of the category, \
                     {near} are an answer or joined to one",
                    STRENGTHS[at]
                )
            })
        };
        counts.iter().enumerate().filter_map(line).collect()
    }

    /// Returns `nodes` together with their neighbours, at most [`WORKED_EDGES`] neighbours per node
    /// and relation.
    fn neighborhood(&self, nodes: &[NodeId]) -> NodeSet {
        let kb = &self.base.kb;
        let mut near = nodes.to_vec();
        for &node in nodes {
            for relation in (0..kb.relations().len()).map(|at| agent_kb::RelationId(at as u16)) {
                let all = kb.neighbors(node, relation, Direction::Any);
                near.extend(all.iter().take(WORKED_EDGES));
            }
        }
        NodeSet::new(near)
    }

    /// Returns the document of the first answer of some example queries, at most [`DOCUMENTS`].
    fn documents(&self, examples: &[usize]) -> Value {
        let kb = &self.base.kb;
        let document = |&at: &usize| {
            let query = &self.train.queries[at];
            let &answer = query.answers.first()?;
            let text: String = kb.text(answer).chars().take(DOCUMENT_CHARS).collect();
            let rest = if text.len() < kb.text(answer).len() { "\n[cut]" } else { "" };
            Some(json!({
                "query": cut(&query.text, QUERY_CHARS),
                "node": named(kb, answer),
                "text": format!("{}{rest}", text.trim_end()),
            }))
        };
        examples.iter().filter_map(document).take(DOCUMENTS).collect()
    }
}

/// A mined metapath with the answers that it reaches in the queries of a category.
struct RankedPattern<'a> {
    mined: &'a MinedPattern,
    /// Positions of the category's queries, each with the answers that the metapath reaches.
    reached: Vec<(usize, mine::AnswerBits)>,
}

/// Returns the metapaths that reach answers of a category's queries, sorted by the information that
/// they give about these answers, descending. Equally informative metapaths stay in the order of
/// `mined`.
fn ranked<'a>(mined: &'a [MinedPattern], queries: &[usize]) -> Vec<RankedPattern<'a>> {
    let own = NodeSet::new(queries.iter().map(|&at| at as NodeId).collect());
    let is_own = |at: usize| own.contains(at as NodeId);
    let of_own = |mined: &'a MinedPattern| {
        let covered = mined.coverage.iter().filter(|pair| is_own(pair.0));
        let covered: f64 = covered.map(|pair| f64::from(pair.1)).sum();
        let reached = mined.reached.iter().filter(|pair| is_own(pair.0)).copied().collect();
        (covered > 0.0).then_some((covered * mined.bits, RankedPattern { mined, reached }))
    };
    let mut ranked: Vec<(f64, RankedPattern<'a>)> = mined.iter().filter_map(of_own).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|pair| pair.1).collect()
}

/// Finds the query's strongest linked entity from which a pattern leads to an answer. Returns the
/// strength of the link and the path from the entity to the answer; `None` if no such path is found
/// within [`WORKED_EDGES`] edges.
fn find_path(
    base: &IndexedBase,
    query: &LabelledQuery,
    pattern: &mine::Pattern,
) -> Option<(f32, Vec<NodeId>)> {
    let answers = NodeSet::new(query.answers[..mine::mined_answer_count(query)].to_vec());
    let mut left = WORKED_EDGES;
    let mut linked = mine::linked_entities(base, &query.text);
    linked.retain(|entity| pattern.starts_at(base, entity));
    linked.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    linked.into_iter().find_map(|start| {
        let path = follow(base, start.node, &pattern.steps, &answers, &mut left)?;
        Some((start.strength, [vec![start.node], path].concat()))
    })
}

/// Finds a path along `steps` from the node `from` to an answer, and returns the nodes of the path
/// after `from`. Follows at most `left` edges; `None` if no path is found.
fn follow(
    base: &IndexedBase,
    from: NodeId,
    steps: &[Step],
    answers: &NodeSet,
    left: &mut usize,
) -> Option<Vec<NodeId>> {
    let [step, rest @ ..] = steps else { return None };
    let next = base.kb.neighbors(from, step.relation, step.direction);
    *left = left.saturating_sub(next.len());
    if *left == 0 {
        return None;
    }
    match rest {
        [] => next.iter().find(|&&node| answers.contains(node)).map(|&node| vec![node]),
        rest => next.iter().find_map(|&node| {
            let path = follow(base, node, rest, answers, left)?;
            Some([vec![node], path].concat())
        }),
    }
}
