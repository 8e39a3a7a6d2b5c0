//! `agent eval --dry-run`: prints the largest number of requests and tokens, and the largest cost,
//! that systems could take.

use crate::{Context, Exit, table};
use agent_app::{Result, count, eval::forecast::Forecast};

/// Prints the requests, tokens and costs of each system for `n` queries, as a table or as JSON.
///
/// # Errors
/// If stdout cannot be written to.
pub(crate) fn print(forecasts: &[Forecast], n: usize, json: bool, ctx: &Context) -> Result<Exit> {
    if json {
        return ctx.printer.json_lines(forecasts);
    }
    let mut rows = table(["system", "requests", "tokens sent", "received", "USD"], &[1, 2, 3, 4]);
    for Forecast { system, calls, tokens_in, tokens_out, usd } in forecasts {
        let usd = usd.map_or("not known".to_owned(), |usd| format!("{usd:.2}"));
        let calls = calls.map(|n| count(n as u64)).join(" to ");
        rows.add_row([system.clone(), calls, count(*tokens_in), count(*tokens_out), usd]);
    }
    ctx.watch.notice(&format!("upper bounds for {n} queries; no request was sent"));
    ctx.printer.table(&rows)
}
