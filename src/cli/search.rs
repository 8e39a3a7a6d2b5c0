//! `agent search`: ranks the nodes of a dataset for a text.

use crate::{
    cli::{
        Context, Exit, dataset,
        failure::Result,
        hits::{self, MAX_K},
        llm::{self, LlmArgs},
        systems::{Resources, SandboxArgs, open_system},
    },
    retrieve::checked,
    systems,
};

/// Rank the nodes of a dataset for a text
///
/// Prints rank, id, type, name and score, best first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(value_name = "N")]
    dataset: String,
    /// What to look for
    #[arg(value_name = "TEXT")]
    text: String,
    #[arg(long, value_name = "SYSTEM", default_value = "bm25+names",
        help = format!("Rank with {}", systems::one_of()))]
    system: String,
    /// Print at most this many nodes, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=MAX_K))]
    k: u64,
    /// Say for each node why it has its place
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print JSON lines with rank, id, type, name and score
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let text = checked(&args.text)?;
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let llm = llm::open_if_configured(&args.llm, ctx)?;
    let resources = Resources::new(llm.as_ref(), args.sandbox.places(ctx), ctx);
    let system = open_system(&args.system, &base, &resources)?;
    let ranking = system.retrieve(text, args.k as usize)?;
    let mut hits = hits::hits(&base.kb, &ranking);
    if args.explain {
        for hit in &mut hits {
            hit.explanation = Some(system.explain(text, hit.id)?);
        }
    }
    if hits.is_empty() {
        ctx.printer.notice("no node matches");
    } else if args.json {
        hits::print_json(&hits, ctx)?;
    } else if args.explain {
        hits::print_explained(&hits, None, ctx)?;
    } else {
        hits::print_table(&hits, None, ctx)?;
    }
    Ok(Exit::Done)
}
