//! Here is a question whose answer did not come first: where was the answer lost?
//!
//! A program is run once with a trace of its tool calls; the trace is read backwards. Every
//! question whose first answer is not at rank 1 gets exactly one [`Kind`], the first that holds:
//!
//! | kind | holds when | its line |
//! | --- | --- | --- |
//! | failed | the program failed | of the failure |
//! | not routed | the program of one category alone ranks an answer better than the bundle does | none |
//! | ranked low | an answer is in the ranking, not first | of the call whose scores favour the nodes above it most |
//! | cut | an answer was in the operand of `top` or of a metapath with a limit and not in the result | of that call |
//! | filtered | as before, at any other call: `&`, `*`, `without`, `at_least`, `of_type`, ... | of that call |
//! | not linked | a metapath would have reached an answer, but from nodes that no call found | of the call that should have found them |
//! | cut | a search would have found an answer with ten times its `k` | of the search |
//! | not reached | none of these: no call whose nodes get into the ranking ever held an answer | of the last call that finds nodes |
//!
//! Linked entities that were found and then dropped before a metapath count as cut or filtered too.
//! Of several calls that dropped an answer the last one counts: so far the answer had come.
//!
//! The gain is what the question's reciprocal rank could rise by: exact for `not routed`; else an
//! upper bound, the best place that an answer had in the scores of any call that leads to the
//! ranking, or rank 1 where none held it.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `flow` | which nodes get from which call into which |
//! | `lost` | where did an answer go that is not in the ranking |
//! | `order` | why do other nodes stand above an answer |
//! | `signals` | what does each call say of the best right answer and of the wrong nodes above it |
//! | `causes` | what do the losses of many questions have in common |
//!
//! Must not know: how programs are found, who asks.

mod causes;
mod flow;
mod lost;
mod order;
mod signals;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::explain::{
    causes::{Cause, causes},
    signals::{Linked, Shown, Signal, Signals, Start, Walked, signals},
};
use crate::{
    ParamValues, Runtime, asked,
    bundle::{Bundle, Member, router::features},
    explain::{flow::Flow, lost::Search},
    join, parts, routes,
};
use agent_index::IndexedBase;
use agent_kb::{NodeId, NodeSet};
use agent_retrieve::{
    Ranking, RetrieveError,
    eval::{AnswerRanks, Candidates, ScoreRule},
};
use agent_sandbox::{CompiledProgram, Failure, program::Program};
use agent_tools::{ToolCall, Trace, source::literal};

/// Characters of a node's name in a reason.
const NAME_CHARS: usize = 60;
/// What stands for the function where the router chose wrongly.
const ROUTER: &str = "router";

/// In which way an answer was lost; the module's documentation defines each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The program failed.
    Failed,
    /// The program of another category would have answered better.
    NotRouted,
    /// The nodes from which a metapath would have reached an answer were not found.
    NotLinked,
    /// No call held an answer.
    NotReached,
    /// A call was given an answer and did not pass it on.
    Filtered,
    /// A limit on the number of nodes left an answer out.
    Cut,
    /// An answer is in the ranking, below others.
    RankedLow,
}

impl Kind {
    /// All kinds, in the order in which they happen.
    pub const ALL: [Kind; 7] = [
        Self::Failed,
        Self::NotRouted,
        Self::NotLinked,
        Self::NotReached,
        Self::Filtered,
        Self::Cut,
        Self::RankedLow,
    ];

    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotRouted => "not routed",
            Self::NotLinked => "not linked",
            Self::NotReached => "not reached",
            Self::Filtered => "filtered",
            Self::Cut => "cut",
            Self::RankedLow => "ranked low",
        }
    }
}

/// Why the first answer of a question is not at rank 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// In which way it was lost.
    pub kind: Kind,
    /// The line of the category's program, from 1; none for the router, or if it is not known.
    pub line: Option<usize>,
    /// The tool or operator, the kind of the failure, or `router`.
    pub function: String,
    /// What the reciprocal rank could rise by.
    pub gain: f64,
    /// The reason in words, with names of nodes: untrusted text, one line.
    pub why: String,
}

/// What became of one question.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The category that the program asked first answers, by its place.
    pub category: usize,
    /// Reciprocal rank of the first answer.
    pub reciprocal_rank: f32,
    /// Why it is not 1, if it is not.
    pub loss: Option<Loss>,
    /// Of a question that was not routed, where the category's own program lost the answer.
    pub within: Option<Loss>,
    /// The calls of the category's program, of which the trace keeps 200 at most.
    pub calls: Vec<ToolCall>,
}

/// One program, ready to run.
#[derive(Debug)]
pub struct CategoryProgram {
    /// The category it answers.
    pub name: String,
    /// The program.
    pub program: Program,
    params: ParamValues,
    compiled: CompiledProgram,
}

/// A program or a bundle whose losses are explained.
pub struct Explainer {
    runtime: Arc<Runtime>,
    category_programs: Vec<CategoryProgram>,
    routing: Option<(Bundle, Vec<Member>)>,
}

/// A run of one category.
struct Ran {
    ranking: Ranking,
    failure: Option<Failure>,
}

impl Explainer {
    /// One program, with its declared parameters but for those given.
    ///
    /// # Errors
    /// When it does not compile.
    pub fn of_program(
        runtime: Arc<Runtime>,
        program: &Program,
        params: ParamValues,
    ) -> Result<Self, Failure> {
        let name = program.category().unwrap_or_default();
        let category_program = CategoryProgram::new(&runtime, name, program, params)?;
        Ok(Self { runtime, category_programs: vec![category_program], routing: None })
    }

    /// The programs of a bundle with its router; whether it was made for the runtime's base is the
    /// caller's to check.
    ///
    /// # Errors
    /// When one of them does not compile.
    pub fn of_bundle(runtime: Arc<Runtime>, bundle: &Bundle) -> Result<Self, Failure> {
        let category_program = |category: &crate::bundle::Category| {
            CategoryProgram::new(
                &runtime,
                &category.name,
                &category.program,
                category.params.clone(),
            )
        };
        let category_programs =
            bundle.categories.iter().map(category_program).collect::<Result<_, _>>()?;
        let routing = Some((bundle.clone(), bundle.members()));
        Ok(Self { runtime, category_programs, routing })
    }

    /// The programs by category.
    pub fn category_programs(&self) -> &[CategoryProgram] {
        &self.category_programs
    }

    /// Answers a question and says where its answers were lost. A program that fails counts with
    /// its default candidates, as when it was optimized.
    ///
    /// # Errors
    /// That the query cannot be searched.
    pub fn explain(&self, query: &str, answers: &[NodeId]) -> Result<Explained, RetrieveError> {
        let routes = match &self.routing {
            None => vec![vec![(0, 1.0)]],
            Some((_, members)) => routes(members, &features(self.runtime.base(), query), None),
        };
        let chosen = asked(&routes);
        let category = chosen.first().map_or(0, |pair| pair.0);
        let trace = Trace::default();
        let mut runs = Vec::new();
        for (at, category_program) in self.category_programs.iter().enumerate() {
            runs.push(self.run(category_program, query, (at == category).then_some(&trace))?);
        }
        let ranking = match &self.routing {
            Some((bundle, members)) => {
                let parts = parts(members, &routes, |at| Some(&runs.get(at)?.ranking));
                join(self.runtime.base(), query, &parts, bundle.phrasings.as_ref())?
            }
            None => runs.first().map(|run| run.ranking.clone()).unwrap_or_default(),
        };
        let reciprocal_rank = self.reciprocal_rank(&ranking, answers);
        let calls = trace.take();
        let mut explained =
            Explained { category, reciprocal_rank, loss: None, within: None, calls };
        if reciprocal_rank < 1.0 {
            let failed = self.failed(&explained, &runs);
            let routed = failed.is_none().then(|| self.not_routed(&explained, &runs, answers));
            let routed = routed.flatten();
            let own = || self.own_loss(&explained, &runs, answers);
            (explained.loss, explained.within) = match (failed, routed) {
                (Some(failed), _) => (Some(failed), None),
                (None, Some(routed)) => (Some(routed), own()),
                (None, None) => (own(), None),
            };
        }
        Ok(explained)
    }

    fn run(
        &self,
        category_program: &CategoryProgram,
        query: &str,
        trace: Option<&Trace>,
    ) -> Result<Ran, RetrieveError> {
        match self.runtime.run(
            &category_program.compiled,
            &category_program.params,
            query,
            trace,
        )? {
            Ok(outcome) => Ok(Ran { ranking: outcome.ranking, failure: None }),
            Err(failure) => {
                let candidates = self.runtime.candidates(query)?;
                let n = candidates.len() as f32;
                let ranked = candidates.iter().enumerate();
                let ranking = ranked.map(|(at, &node)| (node, n - at as f32)).collect();
                Ok(Ran { ranking, failure: Some(failure) })
            }
        }
    }

    fn reciprocal_rank(&self, ranking: &Ranking, answers: &[NodeId]) -> f32 {
        let candidates = Candidates::of_base(&self.runtime.base().kb);
        AnswerRanks::new(ranking, answers, candidates, ScoreRule::Any).reciprocal_rank()
    }

    /// The loss to a failure of the category's program.
    fn failed(&self, explained: &Explained, runs: &[Ran]) -> Option<Loss> {
        let failure = runs.get(explained.category)?.failure.as_ref()?;
        Some(Loss {
            kind: Kind::Failed,
            line: failure.position.map(|at| at.line),
            function: failure.kind.name().to_owned(),
            gain: f64::from(1.0 - explained.reciprocal_rank),
            why: one_line(&failure.message),
        })
    }

    /// The loss within the category's own program; none where it has an answer first.
    fn own_loss(&self, explained: &Explained, runs: &[Ran], answers: &[NodeId]) -> Option<Loss> {
        let ranking = &runs.get(explained.category)?.ranking;
        if self.reciprocal_rank(ranking, answers) >= 1.0 {
            return None;
        }
        let (base, now) = (self.runtime.base(), explained.reciprocal_rank);
        Some(OfProgram { base, calls: &explained.calls, now }.loss(ranking, answers))
    }

    /// The loss to the router, if the program of one category alone does better.
    fn not_routed(&self, explained: &Explained, runs: &[Ran], answers: &[NodeId]) -> Option<Loss> {
        self.routing.as_ref()?;
        let now = explained.reciprocal_rank;
        let ranks = runs.iter().map(|run| self.reciprocal_rank(&run.ranking, answers));
        let (at, best) = ranks
            .enumerate()
            .fold((0, now), |best, (at, rank)| if rank > best.1 { (at, rank) } else { best });
        let better = self.category_programs.get(at).filter(|_| best > now)?;
        let place = (1.0 / best).round();
        let name = one_line(&better.name);
        let why = if at == explained.category {
            format!(
                "its own program alone has an answer at rank {place}; the others add wrong nodes"
            )
        } else {
            format!("the program of category {name} has an answer at rank {place}")
        };
        Some(Loss {
            kind: Kind::NotRouted,
            line: None,
            function: ROUTER.to_owned(),
            gain: f64::from(best - now),
            why,
        })
    }
}

impl CategoryProgram {
    fn new(
        runtime: &Runtime,
        name: &str,
        program: &Program,
        params: ParamValues,
    ) -> Result<Self, Failure> {
        let compiled = runtime.compile(program)?;
        Ok(Self { name: name.to_owned(), program: program.clone(), params, compiled })
    }
}

/// The run of one program that ranks no answer first.
struct OfProgram<'a> {
    base: &'a Arc<IndexedBase>,
    calls: &'a [ToolCall],
    /// The reciprocal rank of the first answer.
    now: f32,
}

impl OfProgram<'_> {
    fn loss(&self, ranking: &Ranking, answers: &[NodeId]) -> Loss {
        let candidates: Ranking =
            ranking.iter().filter(|pair| self.base.kb.is_candidate(pair.0)).copied().collect();
        let flow = Flow::new(self.calls, ranking);
        let first = candidates.iter().find(|pair| answers.contains(&pair.0));
        match first {
            Some(&(answer, _)) => self.ranked_low(&flow, &candidates, answer, answers),
            None => self.not_ranked(&flow, answers),
        }
    }

    /// The gain if an answer stood at its best place of all, or first if it has none.
    fn gain(&self, flow: &Flow<'_>, answers: &[NodeId]) -> f64 {
        let place = order::best_place(flow, answers, |node| self.base.kb.is_candidate(node));
        (1.0 / place.unwrap_or(1) as f64 - f64::from(self.now)).max(0.0)
    }

    fn at(&self, call: usize, kind: Kind, gain: f64, why: String) -> Loss {
        let of = self.calls.get(call);
        Loss {
            kind,
            line: of.and_then(|call| call.line),
            function: of.map_or_else(String::new, |call| call.name.to_owned()),
            gain,
            why,
        }
    }

    fn ranked_low(
        &self,
        flow: &Flow<'_>,
        ranking: &Ranking,
        answer: NodeId,
        answers: &[NodeId],
    ) -> Loss {
        let gain = self.gain(flow, answers);
        let place = 1 + ranking.iter().take_while(|pair| pair.0 != answer).count();
        let first = ranking.first().map_or(answer, |pair| pair.0);
        let (first, answer_name) = (self.name(first), self.name(answer));
        let order = format!("{first} is first, {answer_name} has rank {place}");
        match order::favours(flow, ranking, answer) {
            Some(order::Favours { call, by }) => {
                let why = format!("{order}; the nodes above it get {by:.3} more here than it does");
                self.at(call, Kind::RankedLow, gain, why)
            }
            None => {
                let call = flow.last.unwrap_or(self.calls.len());
                self.at(call, Kind::RankedLow, gain, order)
            }
        }
    }

    fn not_ranked(&self, flow: &Flow<'_>, answers: &[NodeId]) -> Loss {
        let sought: NodeSet = answers.iter().copied().collect();
        let search = Search { base: self.base, flow };
        let nothing = "no call held an answer".to_owned();
        let Some(lost) = search.lost(flow.last, self.calls.len(), &sought, 0) else {
            let first = f64::from(1.0 - self.now);
            return self.at(self.calls.len(), Kind::NotReached, first, nothing);
        };
        // What is beyond a metapath was held by no call that leads to the ranking.
        let gain = match lost.place {
            Some(place) => (1.0 / place as f64 - f64::from(self.now)).max(0.0),
            None => self.gain(flow, answers),
        };
        let of_sought = match lost.sought.as_slice() {
            [] => String::new(),
            [one] => self.name(*one),
            [one, rest @ ..] => format!("{} or {} others", self.name(*one), rest.len()),
        };
        let what = if lost.metapaths > 0 {
            "a linked entity that leads to an answer"
        } else {
            "an answer"
        };
        let why = match (lost.kind, lost.place) {
            (Kind::NotLinked, _) => {
                format!("did not find {of_sought}, from where a metapath leads on")
            }
            (Kind::Cut, Some(place)) => {
                format!("found too few: {of_sought} is at place {place} with a larger k")
            }
            (Kind::Cut | Kind::Filtered, _) => {
                format!("was given {what}, {of_sought}, and lost it")
            }
            _ => nothing,
        };
        self.at(lost.call, lost.kind, gain, why)
    }

    fn name(&self, node: NodeId) -> String {
        let name: String = one_line(self.base.kb.name(node)).chars().take(NAME_CHARS).collect();
        literal(&name)
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
