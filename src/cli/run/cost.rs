//! `agent run cost`: prints the costs of language models in a run, by role.

use comfy_table::Table;
use serde_json::{json, to_value};

use super::{RunArg, show::time};
use crate::{Context, Exit, OneJson, table};
use agent_app::{Result, count, named};
use agent_llm::ledger::Spending;
use agent_optimize::record::{Record, RoleCost, RoleCostEntry};

/// Returns a table with one row per role and a last row with the total.
pub(super) fn role_table(roles: &[RoleCostEntry], total: &RoleCost) -> Table {
    let headings = ["role", "calls", "from cache", "tokens in", "tokens out", "USD"];
    let mut rows = table(headings, &[1, 2, 3, 4, 5]);
    for (role, cost) in roles.iter().map(|of| (of.role.name(), &of.cost)).chain([("all", total)]) {
        rows.add_row([
            role.to_owned(),
            count(cost.spent.calls),
            count(cost.from_cache),
            count(cost.spent.tokens_in),
            count(cost.spent.tokens_out),
            dollars(&cost.spent),
        ]);
    }
    rows
}

pub(super) fn run(args: &OneJson<RunArg>, ctx: &Context) -> Result<Exit> {
    let record = Record::read(&named::run_dir(&args.request.dir, ctx)?)?;
    let (roles, total, times) = (record.role_costs(), record.cost(), record.times());
    if args.json {
        let run = to_value(&record.dir)?;
        return ctx.printer.json(&json!({
            "run": run, "roles": roles, "total": total, "times": times
        }));
    }
    ctx.printer.table(&role_table(&roles, &total))?;
    ctx.watch.notice(&format!("time: {}", time(&times)));
    if total.estimated > 0 {
        ctx.watch.notice(&format!(
            "tokens of {} calls are estimated: the service did not count them",
            count(total.estimated)
        ));
    }
    Ok(Exit::Done)
}

/// Formats the cost in US dollars, with the number of calls whose price is not known.
pub(crate) fn dollars(spent: &Spending) -> String {
    match (spent.unpriced, spent.calls) {
        (0, _) => format!("{:.4} USD", spent.usd),
        (unpriced, calls) if unpriced == calls => "price unknown".to_owned(),
        (unpriced, _) => format!("{:.4} USD and {unpriced} calls of unknown price", spent.usd),
    }
}
