//! Estimates the cost of a run with the llm actor before the first request: ranges and typical
//! values of calls, tokens, dollars and minutes.
//!
//! The minimum assumes that every reply is short and usable. The maximum counts every repair, the
//! longest replies, and the full allowance of programs that ask a model. Both follow from the
//! settings and the texts of the base; an uninterrupted run ends between them.
//! [`Estimate::typical`] values are based on recorded runs.

use serde::Serialize;
use serde_json::json;

use crate::{
    Ablation, Options,
    actor::{
        ACTOR_ROLE, CATEGORIES_ROLE, COMPARATOR_ROLE, GREETING, LEXICON_ROLE,
        briefing::Briefing,
        categories::{BATCH, MIN_QUERIES, SAMPLE},
        drafts::MAX_REPAIRS,
        lexicon::BATCH as METAPATHS,
    },
    asks::{REQUESTS_PER_RUN, TOKENS_PER_RUN, max_runs},
    category_programs::MAX_CATEGORIES,
    lexicon::metapaths,
};
use agent_dataset::LabelledQuery;
use agent_kb::Kb;
use agent_llm::{RoleSpec, ledger::tokens};
use agent_tools::{Assistant, TOOLS_ROLE};

/// Minimum and maximum of an estimate.
pub type Range<T> = [T; 2];
/// Minimum, typical value and maximum of an estimate.
type Spread<T> = [T; 3];

/// Assumed bytes of text per token in the estimate of the minimum number of sent tokens. The
/// maximum counts tokens as the ledger does.
const MAX_BYTES_PER_TOKEN: u64 = 5;
/// Number of tokens of a short reply.
const SHORT_REPLY: u64 = 200;
/// Seconds that a reply takes: minimum, typical value and maximum.
const REPLY_SECONDS: Spread<f64> = [2.0, 20.0, 60.0];
/// Maximum number of requests for one program: the first request and the repairs.
const PER_PROGRAM: u64 = 1 + MAX_REPAIRS as u64;
/// Maximum number of requests of one tool call: the first request and one repair.
const PER_TOOL_REQUEST: u64 = 2;
/// Maximum number of tokens that a prompt has in addition to the texts about base, tools and
/// language, such as execution traces.
const TRACE_TOKENS: u64 = 20_000;

/// Assumed bytes of text per token in the estimate of typical values.
const TYPICAL_BYTES_PER_TOKEN: u64 = 4;
/// Number of categories that the model usually finds.
const TYPICAL_CATEGORIES: u64 = 7;
/// Typically, one in `TYPICAL_STEP_SHARE` model steps sends requests; in the other steps there is
/// nothing left to gain.
const TYPICAL_STEP_SHARE: u64 = 4;
/// Number of tokens that a request for questions about relations sends, typical and maximum. The
/// first constant is for the request as a whole, the second for each relation in it.
const SENT_TO_WORD: Range<u64> = [500, 1_000];
const SENT_PER_METAPATH: Range<u64> = [45, 200];
/// Tokens that a request typically sends in addition to the texts about the base and the texts of
/// the queries. The four constants are for requests that find categories, assign queries, write a
/// first program, and revise or improve a program.
const SENT_TO_FIND: u64 = 500;
const SENT_TO_ASSIGN: u64 = 1_000;
const SENT_TO_WRITE: u64 = 3_000;
const SENT_TO_IMPROVE: u64 = 4_000;
/// Number of tokens that a request for advice typically sends in all.
const SENT_TO_COMPARE: u64 = 3_400;
/// Typical number of tokens of the questions about one relation.
const WORDED: u64 = 170;
/// Number of tokens of a typical reply. The four constants are for replies with categories,
/// assignments, a program, and advice.
const FOUND: u64 = 1_000;
const ASSIGNED: u64 = 300;
const WRITTEN: u64 = 1_750;
const ADVICE: u64 = 900;

/// Estimated cost of a run with the llm actor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of requests to language models.
    pub calls: Range<u64>,
    /// Number of tokens that requests send.
    pub tokens_in: Range<u64>,
    /// Number of tokens of replies.
    pub tokens_out: Range<u64>,
    /// Price in US dollars; `None` if the price of a model is unknown.
    pub usd: Option<Range<f64>>,
    /// Minutes until all replies are received, if requests are sent one after another.
    pub minutes: Range<f64>,
    /// Typical cost, between minimum and maximum.
    ///
    /// It assumes that the model writes questions about each relation, and that seven categories
    /// get a first program and one revision. The model then improves these categories and those of
    /// the search actor, about one per relation. One step in four sends two requests: one for
    /// advice and one for a program. There are no repairs, and programs send no requests. A reply
    /// takes 20 seconds.
    ///
    /// The typical values were compared with nine runs of a strong model in `docs/lab`: the default
    /// runs and the repeated default runs of 2026-11-23, and runs with two or three steps of
    /// 2026-11-22. The default runs on biomed were ended early. The table has the typical values as
    /// multiples of the recorded values:
    ///
    /// | run | calls | tokens sent | received |
    /// | --- | ---: | ---: | ---: |
    /// | default: products, papers, biomed | 1.3, 1.8, 0.7 | 1.5, 1.6, 0.8 | 1.2, 1.4, 0.7 |
    /// | default again: products, papers, biomed | 1.0, 1.8, 0.5 | 1.1, 1.7, 0.6 | 1.0, 1.6, 0.5 |
    /// | two steps: products, papers | 0.7, 1.3 | 0.8, 1.3 | 0.8, 1.2 |
    /// | three steps: biomed | 0.7 | 0.6 | 0.6 |
    ///
    /// In the second default run on biomed, programs sent 36 of the 98 calls; without these calls,
    /// the typical number of calls is 0.8 times the recorded number.
    pub typical: Cost,
}

/// Cost of a run with the llm actor: the minimum, a typical or the maximum cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Number of requests to language models.
    pub calls: u64,
    /// Number of tokens that requests send.
    pub tokens_in: u64,
    /// Number of tokens of replies.
    pub tokens_out: u64,
    /// Price in US dollars; `None` if the price of a model is unknown.
    pub usd: Option<f64>,
    /// Minutes until all replies are received, if requests are sent one after another.
    pub minutes: f64,
}

/// Cost of a run that sends no requests.
const NOTHING: Cost = Cost { calls: 0, tokens_in: 0, tokens_out: 0, usd: Some(0.0), minutes: 0.0 };

impl Estimate {
    /// Returns the estimate of a run that sends no requests.
    pub fn nothing() -> Estimate {
        Estimate::of([NOTHING; 3])
    }

    /// Creates the estimate of minimum, typical and maximum cost; computes the minutes.
    fn of(mut costs: Spread<Cost>) -> Estimate {
        for (cost, seconds) in costs.iter_mut().zip(REPLY_SECONDS) {
            cost.minutes = cost.calls as f64 * seconds / 60.0;
        }
        let [least, typical, most] = costs;
        Estimate {
            calls: [least.calls, most.calls],
            tokens_in: [least.tokens_in, most.tokens_in],
            tokens_out: [least.tokens_out, most.tokens_out],
            usd: least.usd.zip(most.usd).map(|(least, most)| [least, most]),
            minutes: [least.minutes, most.minutes],
            typical,
        }
    }
}

/// Requests of one kind, such as requests for advice.
struct Kind {
    role: RoleSpec,
    calls: Spread<u64>,
    /// Number of tokens that one request sends.
    sent: Spread<u64>,
    /// Number of tokens of a typical reply.
    received: u64,
}

impl Kind {
    fn new(role: RoleSpec, calls: Spread<u64>, sent: Spread<u64>, received: u64) -> Self {
        Self { role, calls, sent, received }
    }
}

/// Estimates the cost of a run with the llm actor on this base, with these queries and options.
pub fn estimate(
    kb: &Kb,
    assistant: &Assistant,
    train: &[LabelledQuery],
    validation: &[LabelledQuery],
    options: &Options,
) -> Estimate {
    let mut costs = [NOTHING; 3];
    let briefing = Briefing::new(kb, options.listed_tools(true));
    let kinds = category_requests(&briefing, train, validation)
        .into_iter()
        .chain([lexicon_requests(kb, options)])
        .chain(program_requests(kb, &briefing, train.len(), options))
        .chain([tool_requests(validation.len(), options)]);
    for Kind { role, calls, sent, received } in kinds {
        let set = assistant.llm().role(&role.role());
        let longest = set.map_or(0, |set| u64::from(set.max_tokens));
        let received = [SHORT_REPLY.min(longest), received.min(longest), longest];
        let price = set.and_then(|set| assistant.llm().ledger().price(&set.model));
        for (at, cost) in costs.iter_mut().enumerate() {
            cost.calls += calls[at];
            cost.tokens_in += calls[at] * sent[at];
            cost.tokens_out += calls[at] * received[at];
            cost.usd = cost.usd.zip(price).map(|(usd, price)| {
                let paid = sent[at] as f64 * price.input + received[at] as f64 * price.output;
                usd + calls[at] as f64 * paid / 1e6
            });
        }
    }
    Estimate::of(costs)
}

/// Returns the number of tokens of a request that sends `text`. The typical value includes
/// `typical` further tokens, and the maximum `most`; the minimum includes none.
fn sent(text: &str, [typical, most]: Range<u64>) -> Spread<u64> {
    let bytes = text.len() as u64;
    [bytes / MAX_BYTES_PER_TOKEN, bytes / TYPICAL_BYTES_PER_TOKEN + typical, tokens(text) + most]
}

/// Returns the number and size of three kinds of requests: the greeting, requests that find
/// categories, and requests that assign queries.
fn category_requests(
    briefing: &Briefing,
    train: &[LabelledQuery],
    validation: &[LabelledQuery],
) -> [Kind; 3] {
    let queries = |pool: &[LabelledQuery]| {
        pool.iter().map(|query| query.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    let batches = |n: usize| n.div_ceil(BATCH) as u64;
    let rest = train.len().saturating_sub(SAMPLE);
    let assigned = batches(rest) + batches(validation.len());
    // At most, the queries of the sample are assigned too, in two passes, and each request needs a
    // repair.
    let most_assigned = 4 * (batches(train.len()) + batches(validation.len()));
    let all = queries(train).len().max(queries(validation).len());
    let batch = "x".repeat(all * BATCH / train.len().max(validation.len()).max(1));
    let to_find = format!("{}{}", briefing.schema, queries(train));
    [
        Kind::new(ACTOR_ROLE, [1; 3], sent(GREETING, [0, 100]), SHORT_REPLY),
        Kind::new(CATEGORIES_ROLE, [1, 1, 4], sent(&to_find, [SENT_TO_FIND, 1_000]), FOUND),
        Kind::new(
            CATEGORIES_ROLE,
            [assigned, assigned, most_assigned],
            sent(&batch, [SENT_TO_ASSIGN, 4_000]),
            ASSIGNED,
        ),
    ]
}

/// Returns the number and size of the requests for questions about relations.
fn lexicon_requests(kb: &Kb, options: &Options) -> Kind {
    let n = if options.lacks(Ablation::Lexicon) { 0 } else { metapaths(kb).len() };
    let calls = n.div_ceil(METAPATHS) as u64;
    let per_call = (n as u64).div_ceil(calls.max(1));
    let [typical, most] = [0, 1].map(|at| SENT_TO_WORD[at] + per_call * SENT_PER_METAPATH[at]);
    Kind::new(
        LEXICON_ROLE,
        [calls, calls, 2 * calls],
        [typical / 2, typical, most],
        per_call * WORDED,
    )
}

/// Returns the number and size of the requests for first programs, revisions, advice and improved
/// programs.
fn program_requests(kb: &Kb, briefing: &Briefing, n_train: usize, options: &Options) -> [Kind; 4] {
    // The briefing always lists the query language, which adds only a few words.
    let brief = json!([briefing.schema, briefing.toolkit, briefing.language]).to_string();
    let most = MAX_CATEGORIES as u64;
    let typical = TYPICAL_CATEGORIES.min((n_train / MIN_QUERIES).max(1) as u64);
    // The model also improves the search actor's categories, typically one per relation.
    let (found, typical_found) = match options.actors.search {
        true => (2 * most, typical + most.min(kb.relations().len() as u64)),
        false => (most, typical),
    };
    let each = options.model_steps() as u64;
    let (steps, typical_steps) = (each * found, each * typical_found / TYPICAL_STEP_SHARE);
    let contrasts = u64::from(!options.lacks(Ablation::Comparator));
    let revisions = u64::from(!options.lacks(Ablation::Steps));
    let to_write = sent(&brief, [SENT_TO_WRITE, TRACE_TOKENS]);
    let outlines = [&briefing.outline, &briefing.toolkit_outline, &briefing.language_outline];
    let short = outlines.map(|text| text.len() as u64).iter().sum::<u64>();
    let [least, _, longest] = to_write;
    let to_improve = [least, short / TYPICAL_BYTES_PER_TOKEN + SENT_TO_IMPROVE, longest];
    [
        // No program is requested if nothing can be gained.
        Kind::new(ACTOR_ROLE, [0, typical, most * PER_PROGRAM], to_write, WRITTEN),
        // Each first program is revised once, unless steps are disabled.
        Kind::new(ACTOR_ROLE, [0, typical * revisions, most * revisions], to_improve, WRITTEN),
        Kind::new(
            COMPARATOR_ROLE,
            [0, typical_steps * contrasts, steps * contrasts],
            [least, SENT_TO_COMPARE, longest],
            ADVICE,
        ),
        // A program after a restart is revised too.
        Kind::new(ACTOR_ROLE, [0, typical_steps, steps * (PER_PROGRAM + 1)], to_improve, WRITTEN),
    ]
}

/// Returns the number and size of the requests that programs send; typically, they send none.
fn tool_requests(n_validation: usize, options: &Options) -> Kind {
    let runs = if options.llm_tools { max_runs(n_validation) as u64 } else { 0 };
    let most = runs * REQUESTS_PER_RUN * PER_TOOL_REQUEST;
    let longest = TOKENS_PER_RUN / REQUESTS_PER_RUN;
    Kind::new(TOOLS_ROLE, [0, 0, most], [0, 0, longest], SHORT_REPLY)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::{Actors, roles::ROLES};
    use agent_kb::{KbMeta, KbWriter};
    use agent_llm::{
        Llm, LlmError, Model, Reply, Request, RoleSettings,
        ledger::{Ceilings, Ledger, Price},
        prompts::Prompts,
    };
    use agent_sandbox::SandboxOptions;

    /// A language model that fails the test if it receives a request.
    struct Unasked;

    impl Model for Unasked {
        fn ask(&self, _: &Request) -> Result<Reply, LlmError> {
            panic!("an estimate asks nothing")
        }
    }

    fn assistant() -> Assistant {
        let settings = |spec: &RoleSpec| RoleSettings {
            model: "priced".to_owned(),
            temperature: None,
            max_tokens: spec.max_tokens,
            parameters: serde_json::Map::new(),
        };
        let roles = ROLES.iter().map(|spec| (spec.role(), settings(spec))).collect();
        let prices = [("priced".to_owned(), Price { input: 1.0, output: 10.0 })];
        let ledger = Ledger::new(prices.into(), Ceilings::default());
        let llm = Llm::new(Arc::new(Unasked), roles, Vec::new(), ledger, Arc::default());
        Assistant::new(Arc::new(llm), Arc::new(Prompts::built_in().unwrap()))
    }

    /// Creates a knowledge base with this number of relations.
    fn base(relations: usize) -> (tempfile::TempDir, Kb) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = KbWriter::create(dir.path()).unwrap();
        for name in ["one", "other"] {
            writer.push_node("thing", name, "", &[]).unwrap();
        }
        for at in 0..relations {
            writer.push_edge(0, &format!("r{at}"), 1).unwrap();
        }
        writer.finish(&KbMeta::default(), &mut |_, _| true).unwrap();
        let kb = Kb::open(dir.path()).unwrap();
        (dir, kb)
    }

    fn queries(n: usize) -> Vec<LabelledQuery> {
        let query = |at| LabelledQuery {
            id: at as i64,
            text: format!("a freely worded question, the {at}th, of some length"),
            answers: vec![1],
            metadata: BTreeMap::new(),
        };
        (0..n).map(query).collect()
    }

    fn options(actors: &str, llm_steps: usize, without: &[Ablation]) -> Options {
        Options {
            dataset: "some".to_owned(),
            seed: 1,
            steps: 24,
            llm_steps,
            hops: 2,
            actors: Actors::named(actors).unwrap(),
            llm_tools: true,
            avatar_tools: false,
            programs: Vec::new(),
            sandbox: SandboxOptions::default(),
            without: without.to_vec(),
            budget: None,
        }
    }

    /// Returns the estimate for a base with these numbers of relations, training queries and
    /// validation queries.
    fn estimated([relations, train, validation]: [usize; 3], options: &Options) -> Estimate {
        let (_dir, kb) = base(relations);
        estimate(&kb, &assistant(), &queries(train), &queries(validation), options)
    }

    #[test]
    fn typical_values_lie_in_the_range() {
        let settings = [
            options("search,llm", 3, &[]),
            options("llm", 3, &[]),
            options("llm", 0, &[]),
            options("search,llm", 3, &[Ablation::Steps]),
            options("search,llm", 24, &[Ablation::Comparator]),
        ];
        for size in [[1, 1, 1], [5, 268, 85], [63, 326, 99]] {
            for options in &settings {
                let estimate = estimated(size, options);
                let Estimate { calls, tokens_in, tokens_out, usd, minutes, typical } = &estimate;
                let within = |[least, most]: Range<u64>, typical: u64| {
                    assert!(least <= typical && typical <= most, "{size:?} {estimate:?}");
                };
                within(*calls, typical.calls);
                within(*tokens_in, typical.tokens_in);
                within(*tokens_out, typical.tokens_out);
                let between = |[least, most]: Range<f64>, typical: f64| {
                    assert!(least <= typical && typical <= most, "{size:?} {estimate:?}");
                };
                between(usd.unwrap(), typical.usd.unwrap());
                between(*minutes, typical.minutes);
            }
        }
        assert_eq!(Estimate::nothing().typical.calls, 0);
    }

    #[test]
    fn typical_calls_are_within_a_factor_of_two_of_recorded_runs() {
        let (products, papers, biomed) = ([5, 268, 85], [7, 320, 96], [63, 326, 99]);
        // Requests without those of programs.
        let runs = [
            (products, 3, 27),
            (products, 3, 37),
            (products, 2, 41),
            (papers, 3, 21),
            (papers, 3, 21),
            (papers, 2, 25),
            (biomed, 3, 65),
            (biomed, 3, 62),
            (biomed, 3, 72),
        ];
        for (size, llm_steps, calls) in runs {
            let typical = estimated(size, &options("search,llm", llm_steps, &[])).typical.calls;
            assert!(typical <= 2 * calls && calls <= 2 * typical, "{typical} for {calls}");
        }
    }

    #[test]
    fn parts_that_are_left_out_ask_nothing() {
        let calls = |without: &[Ablation]| {
            let estimate = estimated([5, 268, 85], &options("search,llm", 3, without));
            (estimate.typical.calls, estimate.calls[1])
        };
        let (whole, most) = calls(&[]);
        let (no_steps, fewest) = calls(&[Ablation::Steps]);
        let (no_comparator, fewer) = calls(&[Ablation::Comparator]);
        // Seven revisions, and nine of 36 steps with two requests each.
        assert_eq!((whole - no_steps, whole - no_comparator), (7 + 2 * 9, 9));
        let steps = 3 * 2 * MAX_CATEGORIES as u64;
        assert_eq!(most - fewer, steps);
        assert_eq!(most - fewest, MAX_CATEGORIES as u64 + steps * (2 + PER_PROGRAM));
    }
}
