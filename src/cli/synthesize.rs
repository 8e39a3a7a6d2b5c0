//! `agent data synthesize`: prints the number of labelled questions that were generated, and their
//! quality metrics.

use crate::{Context, Exit};
use agent_app::{
    Result,
    data::synthesize::{Forecast, NodeQuestions, Reply, Request, TableQuestions},
    operation::Perform as _,
    text::count,
};

/// Generate questions with answers for a dataset that has none
///
/// Each question, in one of many wordings, combines a metapath with words of an answer's document.
/// The metapath leads over the dataset's relations from a named node to a few answers. Without a
/// language model the words come from documents, and every answer is checked against the documents.
/// With --actor llm, a model extracts properties from documents and writes the questions. It checks
/// each answer twice, in two different ways; only answers that pass both checks are kept.
///
/// With --kind table, instead generates eight kinds of questions whose answers aggregate many
/// nodes. Their exact answers are computed from fields and links, without a language model.
/// Existing labelled questions are never replaced: with --to DIR the new questions are written
/// elsewhere.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    if args.json {
        ctx.printer.json(&reply)?;
        return Ok(Exit::Done);
    }
    let (text, seconds) = match &reply {
        Reply::Nodes(made) => (of_nodes(made), Some(made.seconds)),
        Reply::Table(made) => (of_table(made), Some(made.seconds)),
        Reply::Forecast(forecast) => (of_forecast(forecast), None),
    };
    ctx.printer.data(&text)?;
    if let Some(seconds) = seconds {
        ctx.printer.notice(&format!("took {seconds:.1} s"));
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
    lines.extend(quality.dropped.iter().map(|(why, n)| format!("dropped {n}: the question {why}")));
    lines.join("\n") + "\n"
}

/// Describes, in two lines, how many questions would be generated and what they would cost.
fn of_forecast(forecast: &Forecast) -> String {
    let Forecast { queries, llm, .. } = forecast;
    let [least, most] = llm.calls;
    let cost = match (most, llm.usd) {
        (0, _) => "0 LLM calls, 0 USD".to_owned(),
        (_, usd) => format!(
            "LLM calls {least} to {most}, tokens sent {} to {}, received {} to {}, {}",
            count(llm.tokens_in[0]),
            count(llm.tokens_in[1]),
            count(llm.tokens_out[0]),
            count(llm.tokens_out[1]),
            usd.map_or("price not known".to_owned(), |[least, most]| {
                format!("{least:.2} to {most:.2} USD")
            })
        ),
    };
    format!("would make {queries} questions\n{cost}\n")
}
