//! `agent program diff`: prints the differences between two programs in source, parameters, answers
//! and cost.

use std::fmt::Write;

use crate::{Context, Exit, OneJson, plain};
use agent_app::{
    MAX_SHOWN, Perform as _, Result, p_value, percent,
    program::diff::{Answers, Changed, Effect, Gain, Reply, Request},
};

/// Maximum number of queries listed as answered better, and as answered worse; JSON lists all.
const MAX_LISTED: usize = 10;

pub(super) fn run(args: &OneJson<Request>, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    if args.json {
        return ctx.printer.json(&reply);
    }
    let Reply { diff: mut text, params, answers, effects, .. } = reply;
    if !params.is_empty() {
        let _ = writeln!(text, "{}parameters:", if text.is_empty() { "" } else { "\n" });
    }
    for Changed { name, from, to } in &params {
        let shown = |value: &Option<f64>| value.map_or("none".to_owned(), |v| v.to_string());
        let name = plain(name, MAX_SHOWN);
        let _ = writeln!(text, "  {name}: {} -> {}", shown(from), shown(to));
    }
    if text.is_empty() {
        ctx.watch.notice("the programs and their parameters are equal");
    }
    if let Some(answers) = &answers {
        write_answers(answers, &mut text);
    }
    write_effects(&effects, &mut text);
    ctx.printer.data(&text)
}

/// Appends the comparison of the answers of the two programs to `text`.
fn write_answers(answers: &Answers, text: &mut String) {
    let Answers { on, comparison, .. } = answers;
    let origin = if answers.from_journal { ", from the journal" } else { "" };
    let synthetic = if answers.synthetic { "synthetic " } else { "" };
    let _ = writeln!(
        text,
        "\n{on}{origin}: {} {synthetic}queries, mrr {} points, {}; better {}, worse {}, equal {}",
        comparison.n,
        percent(comparison.difference, comparison.ci95),
        p_value(comparison.p),
        comparison.wins,
        comparison.losses,
        comparison.ties
    );
    for (word, queries) in [("better", &answers.won), ("worse", &answers.lost)] {
        for one in queries.iter().take(MAX_LISTED) {
            let id = one.id.map_or_else(|| format!("number {}", one.at + 1), |id| id.to_string());
            let (from, to) = (one.from, one.to);
            let query = plain(one.query.as_deref().unwrap_or_default(), MAX_SHOWN);
            let _ = writeln!(text, "  {word}: query {id}, {from:.3} -> {to:.3}  {query}");
        }
        if queries.len() > MAX_LISTED {
            let more = queries.len() - MAX_LISTED;
            let _ = writeln!(text, "  {word}: {more} more");
        }
    }
    if let Some([from, to]) = &answers.cost {
        let _ = writeln!(
            text,
            "cost: tool calls {:.1} -> {:.1}, ms {:.2} -> {:.2}, failed queries {} -> {}",
            from.tool_calls, to.tool_calls, from.ms, to.ms, from.failed, to.failed
        );
    }
}

/// Appends the measured effect of each change to `text`.
fn write_effects(effects: &[Effect], text: &mut String) {
    if !effects.is_empty() {
        text.push_str("\neach change, mrr in points:\n");
    }
    let told =
        |gain: &Gain| format!("{}, {}", percent(gain.difference, gain.ci95), p_value(gain.p));
    for effect in effects {
        let line = effect.line.map_or("parameters".to_owned(), |line| format!("line {line}"));
        let failure = effect.failure.as_deref().map(|why| plain(why, 2 * MAX_SHOWN));
        let alone = match (&effect.alone, failure) {
            (Some(gain), _) => format!("alone {}", told(gain)),
            (None, failure) => failure.unwrap_or_default(),
        };
        let lines: Vec<String> = effect.together.iter().map(usize::to_string).collect();
        let with = match lines.is_empty() {
            true => String::new(),
            false => format!(" and together with line {}", lines.join(", ")),
        };
        let after = effect
            .after_others
            .as_ref()
            .map(|gain| format!("; on top of the earlier changes{with} {}", told(gain)));
        let _ = writeln!(text, "{line}: {alone}{}", after.unwrap_or_default());
        for line in effect.change.lines().filter(|_| effect.line.is_some()) {
            let _ = writeln!(text, "  {line}");
        }
    }
}
