//! `agent eval --dry-run`: how often systems would ask a language model, and how many tokens that may
//! take. Nothing is asked. Must not know how systems are measured.

use anyhow::anyhow;
use serde::Serialize;

use crate::{Context, Exit, eval::Chosen, printer::table};
use agent_app::{
    error::{Explain, Result},
    llm::{self, LlmArgs},
    systems::Effort,
    text::count,
};
use agent_systems as systems;

/// What one system would ask.
#[derive(Serialize)]
struct Printed<'a> {
    system: &'a str,
    /// Least and most requests.
    calls: [usize; 2],
    /// Most tokens sent.
    tokens_in: u64,
    /// Most tokens received.
    tokens_out: u64,
    /// Most dollars; none without the price of a model.
    usd: Option<f64>,
}

/// Prints what one system would ask for one question.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_one(system: &str, args: &LlmArgs, json: bool, ctx: &Context) -> Result<Exit> {
    let (label, system) = (system.to_owned(), system.to_owned());
    print(&[Chosen { label, system, effort: Effort::default() }], 1, args, json, ctx)
}

/// Prints what each system would ask for so many queries: least and most requests, most tokens, most
/// dollars. What programs ask by themselves is not counted; ceilings hold for all.
///
/// # Errors
/// That no model is configured, or a name is wrong.
pub(super) fn print(
    chosen: &[Chosen],
    n: usize,
    args: &LlmArgs,
    json: bool,
    ctx: &Context,
) -> Result<Exit> {
    let Some(opened) = llm::open_if_configured(args, false, ctx)? else {
        return Err(anyhow!("without a language model nothing is asked"))
            .hint("name a model with --model");
    };
    let assistant = &opened.assistant;
    let mut rows = table(["system", "requests", "tokens sent", "received", "USD"], &[1, 2, 3, 4]);
    for one in chosen {
        let mut printed = Printed {
            system: &one.label,
            calls: [0, 0],
            tokens_in: 0,
            tokens_out: 0,
            usd: Some(0.0),
        };
        for asks in systems::request_bounds(&one.system, one.effort)? {
            let role = assistant.llm().role(&asks.role.role());
            let received = u64::from(role.map_or(asks.role.max_tokens, |role| role.max_tokens));
            let longest =
                |name: &str| assistant.prompts().describe(name).map_or(0, |p| p.budget_tokens);
            // What goes on from a reply sends that again, and all before it.
            let later = asks.later.map_or(0, |(name, n)| n as u64 * (longest(name) + received));
            let most = (n * asks.max) as u64;
            let sent = most * (longest(asks.prompt) + received + later);
            let received = most * received;
            let price = role.and_then(|role| assistant.llm().ledger().price(&role.model));
            let dollars = |price: agent_llm::ledger::Price| {
                (sent as f64 * price.input + received as f64 * price.output) / 1e6
            };
            printed.usd = printed.usd.zip(price.map(dollars)).map(|(sum, usd)| sum + usd);
            printed.calls[0] += n * asks.min;
            printed.calls[1] += n * asks.max;
            printed.tokens_in += sent;
            printed.tokens_out += received;
        }
        if json {
            ctx.printer.json(&printed)?;
            continue;
        }
        let usd = printed.usd.map_or("not known".to_owned(), |usd| format!("{usd:.2}"));
        let calls = printed.calls.map(|n| count(n as u64));
        let [sent, received] = [printed.tokens_in, printed.tokens_out].map(count);
        rows.add_row([one.label.clone(), calls.join(" to "), sent, received, usd]);
    }
    if !json {
        ctx.printer.notice(&format!("for {n} queries at most; nothing was asked"));
        ctx.printer.table(&rows)?;
    }
    Ok(Exit::Done)
}
