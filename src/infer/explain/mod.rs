//! Explains why no correct answer to a question is at rank 1.
//!
//! A program runs once with a trace of its tool calls, which is read backwards. Every question
//! without a correct answer at rank 1 gets exactly one [`Kind`], the first that holds:
//!
//! | kind | condition | reported line |
//! | --- | --- | --- |
//! | failed | the program failed | the failure |
//! | not routed | the program of one category alone ranks an answer better than the bundle does | none |
//! | ranked low | an answer is in the ranking, not first | the call whose scores favour the nodes above it most |
//! | cut | an answer was in the operand of `top` or of a metapath with a limit, and not in the result | that call |
//! | filtered | an answer was in an operand of any other call (`&`, `*`, `without`, `of_type`, ...), and not in the result | that call |
//! | not linked | a metapath would have reached an answer, but from nodes that no call found | the call that should have found them |
//! | cut | a search would have found an answer with ten times its `k` | the search |
//! | not reached | no call whose nodes get into the ranking ever held an answer | the last call that finds nodes |
//!
//! Linked entities that were found and then dropped before a metapath also count as cut or
//! filtered. Of several calls that dropped an answer, the last one counts.
//!
//! The gain is the possible increase of the question's reciprocal rank. It is exact for
//! `not routed`, otherwise an upper bound. The bound is the reciprocal of the best rank of an
//! answer in the scores of any call that contributes to the ranking, or 1 if no call returned an
//! answer.
//!
//! | module | content |
//! | --- | --- |
//! | `flow` | data flow between calls |
//! | `lost` | the call that lost an unranked answer |
//! | `order` | the call that ranks other nodes above an answer |
//! | `signals` | scores of each call for the best correct answer and the wrong nodes above it |
//! | `causes` | common causes of many losses |

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
    signals::{LinkCall, ShownNode, Signal, Signals, Start, Traversal, signals},
};
use crate::{
    CategoryProgram, ParamValues, Runtime,
    bundle::{Bundle, Category, Member, router::features},
    explain::{flow::Flow, lost::Search},
    join, merged_routes, parts, routes,
};
use agent_ground::words::one_line;
use agent_index::IndexedBase;
use agent_kb::{NodeId, NodeSet};
use agent_retrieve::{Ranking, RetrieveError};
use agent_sandbox::{Failure, program::Program};
use agent_tools::{ToolCall, Trace, source::literal};

/// Maximum length in characters of a node's name in a reason.
const NAME_CHARS: usize = 60;
/// [`Loss::function`] of losses to the router.
const ROUTER: &str = "router";

/// Why no correct answer to a question is at rank 1; the module's documentation defines each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The program failed.
    Failed,
    /// The program of a single category answers better than the bundle.
    NotRouted,
    /// No call found the nodes from which a metapath would have reached an answer.
    NotLinked,
    /// No call held an answer.
    NotReached,
    /// A call received an answer and did not pass it on.
    Filtered,
    /// A limit on the number of nodes excluded an answer.
    Cut,
    /// An answer is in the ranking, below others.
    RankedLow,
}

impl Kind {
    /// All kinds, in the order of the stages of a run.
    pub const ALL: [Kind; 7] = [
        Self::Failed,
        Self::NotRouted,
        Self::NotLinked,
        Self::NotReached,
        Self::Filtered,
        Self::Cut,
        Self::RankedLow,
    ];

    /// Returns the name of the kind.
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

/// Why no correct answer to a question is at rank 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// Kind of the loss.
    pub kind: Kind,
    /// Line of the category's program, from 1; `None` for the router, or if unknown.
    pub line: Option<usize>,
    /// The tool or operator, the kind of the failure, or `router`.
    pub function: String,
    /// Possible increase of the question's reciprocal rank, as the module's documentation defines
    /// it.
    pub gain: f64,
    /// The reason, with names of nodes: untrusted text, one line.
    pub why: String,
}

/// How one question was answered and, if no correct answer is at rank 1, why.
#[derive(Clone, Debug)]
pub struct ExplainedQuery {
    /// Index of the most probable category for the question.
    pub category: usize,
    /// Reciprocal rank of the question's first correct answer, by [`Runtime::reciprocal_rank`].
    pub reciprocal_rank: f32,
    /// The loss, if no correct answer is at rank 1.
    pub loss: Option<Loss>,
    /// For [`Kind::NotRouted`], the loss within the program of the most probable category.
    pub within: Option<Loss>,
    /// The tool calls of the most probable category's program, at most 200.
    pub calls: Vec<ToolCall>,
}

/// Explains the losses of a program or a bundle.
pub struct Explainer {
    runtime: Arc<Runtime>,
    category_programs: Vec<CategoryProgram>,
    routing: Option<(Bundle, Vec<Member>)>,
}

/// The outcome of one category's program on the question.
struct ProgramOutcome {
    ranking: Ranking,
    failure: Option<Failure>,
}

impl Explainer {
    /// Compiles a program; `params` override its declared parameters.
    ///
    /// # Errors
    /// Fails if the program does not compile.
    pub fn for_program(
        runtime: Arc<Runtime>,
        program: &Program,
        params: ParamValues,
    ) -> Result<Self, Failure> {
        let category = Category {
            name: program.category().unwrap_or_default().to_owned(),
            program: program.clone(),
            params,
            proposed_by: String::new(),
            validation: None,
        };
        let category_program = CategoryProgram::compile(&runtime, category)?;
        Ok(Self { runtime, category_programs: vec![category_program], routing: None })
    }

    /// Compiles the programs of a bundle. The caller must check that the bundle fits the base.
    ///
    /// # Errors
    /// Fails if a program does not compile.
    pub fn for_bundle(runtime: Arc<Runtime>, bundle: &Bundle) -> Result<Self, Failure> {
        let categories = bundle.categories.iter().cloned();
        let category_programs = categories
            .map(|category| CategoryProgram::compile(&runtime, category))
            .collect::<Result<_, _>>()?;
        let routing = Some((bundle.clone(), bundle.members()));
        Ok(Self { runtime, category_programs, routing })
    }

    /// Returns the categories with their programs; [`ExplainedQuery::category`] is the position of
    /// one of them.
    pub fn categories(&self) -> impl Iterator<Item = &Category> {
        self.category_programs.iter().map(|category_program| &category_program.category)
    }

    /// Answers a question and explains where its answers were lost. As in optimization, the default
    /// candidates replace the ranking of a failed program.
    ///
    /// # Errors
    /// Fails if the query cannot be searched.
    pub fn explain(
        &self,
        query: &str,
        answers: &[NodeId],
    ) -> Result<ExplainedQuery, RetrieveError> {
        let routes = match &self.routing {
            None => vec![vec![(0, 1.0)]],
            Some((_, members)) => routes(members, &features(self.runtime.base(), query), None),
        };
        let chosen = merged_routes(&routes);
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
        let reciprocal_rank = self.runtime.reciprocal_rank(&ranking, answers);
        let calls = trace.take();
        let mut explained =
            ExplainedQuery { category, reciprocal_rank, loss: None, within: None, calls };
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
    ) -> Result<ProgramOutcome, RetrieveError> {
        let CategoryProgram { category: Category { params, .. }, compiled } = category_program;
        Ok(match self.runtime.run(compiled, params, query, trace)? {
            Ok(outcome) => ProgramOutcome { ranking: outcome.ranking, failure: None },
            Err(failure) => {
                let ranking = self.runtime.default_ranking(query)?;
                ProgramOutcome { ranking, failure: Some(failure) }
            }
        })
    }

    /// Returns the loss if the program of the most probable category failed.
    fn failed(&self, explained: &ExplainedQuery, runs: &[ProgramOutcome]) -> Option<Loss> {
        let failure = runs.get(explained.category)?.failure.as_ref()?;
        Some(Loss {
            kind: Kind::Failed,
            line: failure.position.map(|at| at.line),
            function: failure.kind.name().to_owned(),
            gain: f64::from(1.0 - explained.reciprocal_rank),
            why: one_line(&failure.message),
        })
    }

    /// Returns the loss within the program of the most probable category; `None` if the program
    /// ranks an answer first.
    fn own_loss(
        &self,
        explained: &ExplainedQuery,
        runs: &[ProgramOutcome],
        answers: &[NodeId],
    ) -> Option<Loss> {
        let ranking = &runs.get(explained.category)?.ranking;
        if self.runtime.reciprocal_rank(ranking, answers) >= 1.0 {
            return None;
        }
        let (base, now) = (self.runtime.base(), explained.reciprocal_rank);
        Some(ProgramLoss { base, calls: &explained.calls, now }.loss(ranking, answers))
    }

    /// Returns the loss to the router, if the program of a single category is better than the
    /// bundle.
    fn not_routed(
        &self,
        explained: &ExplainedQuery,
        runs: &[ProgramOutcome],
        answers: &[NodeId],
    ) -> Option<Loss> {
        self.routing.as_ref()?;
        let now = explained.reciprocal_rank;
        let ranks = runs.iter().map(|run| self.runtime.reciprocal_rank(&run.ranking, answers));
        let (at, best) = ranks
            .enumerate()
            .fold((0, now), |best, (at, rank)| if rank > best.1 { (at, rank) } else { best });
        let better = self.category_programs.get(at).filter(|_| best > now)?;
        let place = (1.0 / best).round();
        let name = one_line(&better.category.name);
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

/// A run of one program that does not rank an answer first.
struct ProgramLoss<'a> {
    base: &'a Arc<IndexedBase>,
    calls: &'a [ToolCall],
    /// Reciprocal rank of the first correct answer in this run.
    now: f32,
}

impl ProgramLoss<'_> {
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

    /// Returns the gain in reciprocal rank if an answer had the best rank that it has in the scores
    /// of any call; rank 1 if no scores hold an answer.
    fn gain(&self, flow: &Flow<'_>, answers: &[NodeId]) -> f64 {
        let place = order::best_place(flow, answers, |node| self.base.kb.is_candidate(node));
        (1.0 / place.unwrap_or(1) as f64 - f64::from(self.now)).max(0.0)
    }

    fn loss_at(&self, call: usize, kind: Kind, gain: f64, why: String) -> Loss {
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
        match order::strongest_bias(flow, ranking, answer) {
            Some(order::Bias { call, margin }) => {
                let why =
                    format!("{order}; the nodes above it get {margin:.3} more here than it does");
                self.loss_at(call, Kind::RankedLow, gain, why)
            }
            None => {
                let call = flow.last.unwrap_or(self.calls.len());
                self.loss_at(call, Kind::RankedLow, gain, order)
            }
        }
    }

    fn not_ranked(&self, flow: &Flow<'_>, answers: &[NodeId]) -> Loss {
        let sought: NodeSet = answers.iter().copied().collect();
        let search = Search { base: self.base, flow };
        let nothing = "no call returned an answer".to_owned();
        let Some(lost) = search.lost(flow.last, self.calls.len(), &sought, 0) else {
            let first = f64::from(1.0 - self.now);
            return self.loss_at(self.calls.len(), Kind::NotReached, first, nothing);
        };
        // A search with a larger `k` would have found an answer at this place.
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
                format!("did not find {of_sought}, from which a metapath leads to an answer")
            }
            (Kind::Cut, Some(place)) => {
                format!("found too few: {of_sought} is at place {place} with a larger k")
            }
            (Kind::Cut | Kind::Filtered, _) => {
                format!("received {what}, {of_sought}, and dropped it")
            }
            _ => nothing,
        };
        self.loss_at(lost.call, lost.kind, gain, why)
    }

    fn name(&self, node: NodeId) -> String {
        let name: String = one_line(self.base.kb.name(node)).chars().take(NAME_CHARS).collect();
        literal(&name)
    }
}
