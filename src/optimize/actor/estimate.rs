//! Cost estimate of a run with the llm actor, before the first request: ranges of calls, tokens,
//! dollars and minutes.
//!
//! The minimum assumes that every reply is short and usable; the maximum counts every repair and
//! the longest replies. Both follow from the settings and the texts of the base, so that an
//! uninterrupted run ends between them. Programs that ask a model count with their full allowance.

use serde::Serialize;
use serde_json::json;

use crate::{
    Ablation, Options,
    actor::{
        ACTOR_ROLE, CATEGORIES_ROLE, COMPARATOR_ROLE, GREETING,
        briefing::Briefing,
        categories::{BATCH, SAMPLE},
        drafts::MAX_REPAIRS,
    },
    asks::{REQUESTS_PER_RUN, TOKENS_PER_RUN, max_runs},
    category_programs::MAX_CATEGORIES,
};
use agent_dataset::LabelledQuery;
use agent_kb::Kb;
use agent_llm::{RoleSpec, ledger::tokens};
use agent_tools::{Assistant, TOOLS_ROLE};

/// Minimum and maximum.
pub type Range<T> = [T; 2];

/// Maximum number of bytes per token, for the minimum; the maximum counts tokens as the ledger
/// does.
const MAX_BYTES_PER_TOKEN: u64 = 5;
/// Tokens of a short reply.
const SHORT_REPLY: u64 = 200;
/// Seconds per reply.
const REPLY_SECONDS: Range<f64> = [2.0, 60.0];
/// Maximum number of requests for one program: the first and its repairs.
const PER_PROGRAM: u64 = 1 + MAX_REPAIRS as u64;
/// Maximum number of requests of a tool call: the first and its repair.
const PER_TOOL_REQUEST: u64 = 2;
/// Maximum number of tokens of a contrast with its execution traces.
const TRACE_TOKENS: u64 = 20_000;

/// Estimated cost of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of requests.
    pub calls: Range<u64>,
    /// Tokens sent.
    pub tokens_in: Range<u64>,
    /// Tokens received.
    pub tokens_out: Range<u64>,
    /// Dollars; `None` if a price is unknown.
    pub usd: Option<Range<f64>>,
    /// Minutes, if requests are sent one after another.
    pub minutes: Range<f64>,
}

impl Estimate {
    /// The estimate of a run without requests.
    pub fn nothing() -> Estimate {
        let nothing = [0; 2];
        let (calls, tokens_in, tokens_out) = (nothing, nothing, nothing);
        Estimate { calls, tokens_in, tokens_out, usd: Some([0.0; 2]), minutes: [0.0; 2] }
    }
}

/// Requests of one kind.
struct Kind {
    role: RoleSpec,
    calls: Range<u64>,
    /// Tokens sent by one of them.
    sent: Range<u64>,
}

/// Estimates the cost of a run with these options.
pub fn estimate(
    kb: &Kb,
    assistant: &Assistant,
    train: &[LabelledQuery],
    validation: &[LabelledQuery],
    options: &Options,
) -> Estimate {
    // The query language adds only a few words.
    let briefing = Briefing::new(kb, options.listed_tools(true));
    let brief = json!([briefing.schema, briefing.toolkit, briefing.language]).to_string();
    let sent = |bytes: &str, more: u64| {
        let least = bytes.len() as u64 / MAX_BYTES_PER_TOKEN;
        [least, tokens(bytes) + more]
    };
    let queries = |pool: &[LabelledQuery]| -> String {
        pool.iter().map(|query| query.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    let batches = |n: usize| n.div_ceil(BATCH) as u64;
    let rest = train.len().saturating_sub(SAMPLE);
    let assigned = batches(rest) + batches(validation.len());
    // The sample too, where no query of it was placed; twice, each with a repair.
    let most_assigned = 4 * (batches(train.len()) + batches(validation.len()));
    // With search, also its categories, which the model improves as well.
    let found = if options.actors.search { 2 * MAX_CATEGORIES } else { MAX_CATEGORIES } as u64;
    let (steps, most) = (options.model_steps() as u64 * found, MAX_CATEGORIES as u64);
    let contrasts = if options.lacks(Ablation::Comparator) { 0 } else { steps };
    let revisions = u64::from(!options.lacks(Ablation::Steps));
    let all = queries(train).len().max(queries(validation).len());
    let batch = "x".repeat(all * BATCH / train.len().max(validation.len()).max(1));
    let runs = if options.llm_tools { max_runs(validation.len()) as u64 } else { 0 };
    let asked = runs * REQUESTS_PER_RUN * PER_TOOL_REQUEST;
    let kinds = [
        Kind { role: ACTOR_ROLE, calls: [1, 1], sent: sent(GREETING, 100) },
        Kind {
            role: CATEGORIES_ROLE,
            calls: [1, 4],
            sent: sent(&format!("{}{}", briefing.schema, queries(train)), 1_000),
        },
        Kind { role: CATEGORIES_ROLE, calls: [assigned, most_assigned], sent: sent(&batch, 4_000) },
        // Each first program is revised once, unless steps are disabled; none is requested if nothing
        // can be gained.
        Kind {
            role: ACTOR_ROLE,
            calls: [0, most * (PER_PROGRAM + revisions)],
            sent: sent(&brief, TRACE_TOKENS),
        },
        Kind { role: COMPARATOR_ROLE, calls: [0, contrasts], sent: sent(&brief, TRACE_TOKENS) },
        Kind {
            role: ACTOR_ROLE,
            // A program after a restart is revised too.
            calls: [0, steps * (PER_PROGRAM + 1)],
            sent: sent(&brief, TRACE_TOKENS),
        },
        Kind { role: TOOLS_ROLE, calls: [0, asked], sent: [0, TOKENS_PER_RUN / REQUESTS_PER_RUN] },
    ];
    let (mut calls, mut tokens_in, mut tokens_out) = ([0; 2], [0; 2], [0; 2]);
    let mut usd = Some([0.0; 2]);
    for Kind { role, calls: n, sent } in kinds {
        let set = assistant.llm().role(&role.role());
        let longest = set.map_or(0, |set| u64::from(set.max_tokens));
        let received = [SHORT_REPLY.min(longest), longest];
        let price = set.and_then(|set| assistant.llm().ledger().price(&set.model));
        for end in 0..2 {
            calls[end] += n[end];
            tokens_in[end] += n[end] * sent[end];
            tokens_out[end] += n[end] * received[end];
            usd = match (usd, price) {
                (Some(mut usd), Some(price)) => {
                    let paid = sent[end] as f64 * price.input + received[end] as f64 * price.output;
                    usd[end] += n[end] as f64 * paid / 1e6;
                    Some(usd)
                }
                _ => None,
            };
        }
    }
    let minutes = [0, 1].map(|end| calls[end] as f64 * REPLY_SECONDS[end] / 60.0);
    Estimate { calls, tokens_in, tokens_out, usd, minutes }
}
