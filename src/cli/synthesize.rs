//! `agent data synthesize`: prints the number of labelled questions that were generated, and their
//! quality metrics.

use crate::{Context, Exit, OneJson, optimize::range};
use agent_app::{
    Perform as _, Result,
    data::synthesize::{Forecast, NodeQuestions, Reply, Request, TableQuestions},
};

pub(super) fn run(args: &OneJson<Request>, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    if args.json {
        return ctx.printer.json(&reply);
    }
    let (text, seconds) = match &reply {
        Reply::Nodes(made) => (of_nodes(made), Some(made.seconds)),
        Reply::Table(made) => (of_table(made), Some(made.seconds)),
        Reply::Forecast(forecast) => (of_forecast(forecast), None),
    };
    ctx.printer.data(&text)?;
    if let Some(seconds) = seconds {
        ctx.watch.notice(&format!("took {seconds:.1} s"));
    }
    Ok(Exit::Done)
}

/// Describes generated questions over many nodes in two lines: their number by split, and by kind.
fn of_table(made: &TableQuestions) -> String {
    let TableQuestions { kinds, place, splits: [train, val, test], .. } = made;
    let n: usize = kinds.values().sum();
    let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    format!(
        "{n} questions over many nodes {place}: train {train}, val {val}, test {test}\nkinds: {}\n",
        kinds.join(", ")
    )
}

/// Describes generated questions whose answers are nodes: splits, styles, quality, and dropped
/// questions.
fn of_nodes(made: &NodeQuestions) -> String {
    let NodeQuestions { quality, summary, place, splits: [train, val, test], .. } = made;
    let styles = quality.styles.iter().map(|(style, n)| format!("{style} {n}"));
    let mut lines = vec![
        format!("{summary} {place}: train {train}, val {val}, test {test}"),
        format!("styles: {}", styles.collect::<Vec<_>>().join(", ")),
        format!(
            "gold pass {:.1} %, entropy {:.2} bits, type-token ratio {:.3}, {:.1} words/question",
            100.0 * quality.gold_pass,
            quality.entropy,
            quality.type_token_ratio,
            quality.words
        ),
        format!(
            "answers: mean {:.1}, median {}, most {}",
            quality.answers.mean, quality.answers.median, quality.answers.max
        ),
    ];
    lines.extend(
        quality.dropped.iter().map(|(why, n)| format!("dropped {n} because the question {why}")),
    );
    lines.join("\n") + "\n"
}

/// Describes the number of questions that would be generated and their cost, in two lines.
fn of_forecast(forecast: &Forecast) -> String {
    let Forecast { queries, llm, .. } = forecast;
    let cost = match llm.calls {
        [_, 0] => "0 LLM calls, 0 USD".to_owned(),
        calls => range(calls, llm.tokens_in, llm.tokens_out, llm.usd),
    };
    format!("would make {queries} questions\n{cost}\n")
}
