//! `agent search`: ranks the nodes of a dataset for a text.

use crate::{
    Context, Exit, dataset,
    failure::Result,
    hits::{self, MAX_K},
    llm::{self, LlmArgs},
    named,
    query::warn_unassisted,
    systems::{Effort, Resources, SandboxArgs, open_system},
};
use agent_index::IndexedBase;
use agent_infer as infer;
use agent_retrieve::{Answer, Detail, check_query};
use agent_systems as systems;

/// Rank the nodes of a dataset for a text
///
/// Prints rank, id, type, name and score, best first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(value_name = "N")]
    dataset: String,
    /// What to look for
    #[arg(value_name = "TEXT", required_unless_present = "query")]
    text: Option<String>,
    /// Look for what this query says instead, all nodes, in a language of fields, phrases, ranges and
    /// typos: +brand:northpeak "steel bottle"~1 -plastic price:[5 TO 20]; needs index part query
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true,
        conflicts_with_all = ["text", "system", "explain"])]
    query: Option<String>,
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
    /// Print JSON lines with rank, id, key, type, name and score; with --explain why, too
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let k = args.k as usize;
    if let Some(query) = &args.query {
        let base = dataset::open(&dataset::find(&args.dataset, ctx)?, ctx)?;
        let answer = Answer::from_ranking(base.query_index()?.search(&base.kb, query, &[], k)?);
        return print(&base, &answer, args, ctx);
    }
    let text = check_query(args.text.as_deref().unwrap_or_default())?;
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let name = named::system(&args.system, &ctx.home)?;
    let is_asked = !systems::asks(&name, Effort::None)?.is_empty();
    let llm = llm::open_if_configured(&args.llm, is_asked, ctx)?;
    let resources = Resources::new(llm.as_ref(), args.sandbox.places(ctx), ctx);
    let system = open_system(&name, &base, &resources)?;
    let detail = Detail { explained_count: if args.explain { k } else { 0 }, paths: false };
    let answer = system.answer(text, k, detail)?;
    warn_unassisted(&answer, ctx);
    print(&base, &answer, args, ctx)
}

/// Prints the nodes of an answer as asked for.
fn print(base: &IndexedBase, answer: &Answer, args: &Args, ctx: &Context) -> Result<Exit> {
    let hits = infer::hits(&base.kb, answer);
    if hits.is_empty() {
        ctx.printer.notice("no node matches");
    } else if args.json {
        hits::print_json(&hits, ctx)?;
    } else if args.explain {
        hits::print_explained(&hits, None, ctx)?;
    } else {
        hits::print_table(&hits, ctx)?;
    }
    Ok(Exit::Done)
}
