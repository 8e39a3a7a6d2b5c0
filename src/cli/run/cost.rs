//! `agent run cost`: prints the costs of language models in a run, by role.

use std::path::PathBuf;

use comfy_table::Table;
use serde::Serialize;

use super::{RunArg, show::time};
use crate::{Context, Exit, OneJson, table};
use agent_app::{Result, count, named};
use agent_llm::ledger::Spending;
use agent_optimize::record::{Record, RoleCost, RoleCostEntry, Times};

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

#[derive(Serialize)]
struct Cost<'a> {
    run: &'a PathBuf,
    roles: Vec<RoleCostEntry>,
    total: RoleCost,
    times: Times,
}

pub(super) fn run(args: &OneJson<RunArg>, ctx: &Context) -> Result<Exit> {
    let record = Record::read(&named::run_dir(&args.request.dir, ctx)?)?;
    let roles = record.role_costs();
    let cost = Cost { run: &record.dir, roles, total: record.cost(), times: record.times() };
    if args.json {
        return ctx.printer.json(&cost);
    }
    ctx.printer.table(&role_table(&cost.roles, &cost.total))?;
    ctx.watch.notice(&format!("time: {}", time(&cost.times)));
    if cost.total.estimated > 0 {
        ctx.watch.notice(&format!(
            "tokens of {} calls are estimated: the service did not count them",
            count(cost.total.estimated)
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
