//! `agent optimize`: prints the result of a run, or a forecast of what the run would take.

mod report;

use anyhow::anyhow;

use crate::{Context, Exit, report as page};
use agent_app::{
    Explain, Perform as _, Result, count,
    measured::failed,
    optimize::{Ended, Forecast, Reply, Request},
};
use agent_optimize::{Estimate, Stop};

/// Find, test and freeze retrieval programs for a dataset
///
/// The search actor mines metapaths from training answers, and composes and improves programs from
/// them. The llm actor asks a language model for categories, programs and improved programs; it
/// takes part if a language model is configured.
///
/// A sequential test on validation queries first compares all changes together with the initial
/// programs; if that test fails, it compares each category's changes separately. Only changes that
/// pass are frozen (error rate 0.2 for the whole run). At the end, prints how the bundle compares
/// with the best baseline on the validation split, by question type, and the path of the bundle.
/// The test split is opened only with --test and on built-in samples; every opening is counted.
///
/// The run can be interrupted at any time and continued with --resume. If a language model is used,
/// the run first sends it one short question; if there is no reply, the run pauses without freezing
/// anything, and can be continued with --resume.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Write the page of the run when it ends, and open the page in a browser; `agent serve` shows
    /// a run in progress
    #[arg(long, conflicts_with = "dry_run")]
    open: bool,
    /// Print one JSON object when the run ends
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let reply = args.request.perform(ctx)?;
    if let Reply::Ended(ended) = &reply {
        let systems = ended.test.iter().flat_map(|test| test.systems());
        systems
            .filter_map(|one| failed(&one.system, &one.evaluation))
            .for_each(|failed| ctx.printer.error(&failed));
    }
    if args.json {
        ctx.printer.json(&reply)?;
    }
    match &reply {
        Reply::Planned(_) if args.json => Ok(Exit::Done),
        Reply::Planned(forecast) => print_forecast(forecast, ctx),
        Reply::Paused(paused) => paused.fail(),
        Reply::Ended(ended) => end(ended, args, ctx),
    }
}

/// Prints the result of a run that ended and, with `--open`, opens its page in a browser.
fn end(ended: &Ended, args: &Args, ctx: &Context) -> Result<Exit> {
    if !args.json {
        report::print(ended, ctx)?;
    }
    if args.open {
        page::open(&ended.run, args.request.sandbox, ctx)?;
    }
    match &ended.outcome.stopped {
        Stop::Done | Stop::Minutes => Ok(Exit::Done),
        Stop::Budget(why) => {
            ctx.watch.warning(&format!("{why}; the best programs so far are frozen"));
            Ok(Exit::Done)
        }
        Stop::Unusable(why) => Err(anyhow!("{why}; the best programs so far are frozen")).hint(
            "start a new run with another model, or with --actor search, which needs no model",
        ),
    }
}

fn print_forecast(forecast: &Forecast, ctx: &Context) -> Result<Exit> {
    let (work, llm) = match forecast {
        Forecast::Questions { synthetic_questions, .. } => {
            let work = format!(
                "would make {synthetic_questions} synthetic questions first, and then learn from them"
            );
            (work, "0 LLM calls, 0 USD for the questions\n".to_owned())
        }
        Forecast::Run { n_train, n_validation, steps, llm, .. } => {
            let work = format!(
                "would learn from {n_train} training queries, take {steps} steps and select on \
                 {n_validation} validation queries"
            );
            (work, cost(llm))
        }
    };
    ctx.printer.data(&format!("{work}\n{llm}"))
}

/// Describes the estimated calls, tokens, cost and time of a language model: the range from least
/// to most, then the typical case.
fn cost(estimate: &Estimate) -> String {
    if estimate.calls[1] == 0 {
        return "0 LLM calls, 0 USD".to_owned();
    }
    let Estimate { calls, tokens_in, tokens_out, usd, minutes: [least, most], typical } = estimate;
    let range = range(*calls, *tokens_in, *tokens_out, *usd);
    format!(
        "{range}, {least:.0} to {most:.0} minutes of replies\n\
         typical: {} LLM calls, tokens sent {}, received {}, {}, {:.0} minutes of replies",
        typical.calls,
        count(typical.tokens_in),
        count(typical.tokens_out),
        typical.usd.map_or("price not known".to_owned(), |usd| format!("{usd:.2} USD")),
        typical.minutes,
    )
}

/// Describes calls, tokens and cost of a language model, each from least to most.
pub(super) fn range(
    [least, most]: [u64; 2],
    tokens_in: [u64; 2],
    tokens_out: [u64; 2],
    usd: Option<[f64; 2]>,
) -> String {
    let [sent, received] =
        [tokens_in, tokens_out].map(|[least, most]| format!("{} to {}", count(least), count(most)));
    let usd = match usd {
        Some([least, most]) => format!("{least:.2} to {most:.2} USD"),
        None => "price not known".to_owned(),
    };
    format!("LLM calls {least} to {most}, tokens sent {sent}, received {received}, {usd}")
}
