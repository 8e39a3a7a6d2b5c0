//! `agent answer`: prints prose in which every sentence cites retrieved nodes.

use anyhow::anyhow;

use agent_app::{Explain, Perform as _, Result, answer::Request, eval::forecast::of_one, named};
use agent_infer::{
    HitRecord,
    rag::{DroppedSentence, Prose},
};
use agent_kb::Kb;
use agent_retrieve::check_query;

use crate::{Context, Exit, eval::forecast, hits, plain};

/// Maximum number of characters to print for a dropped sentence.
const SHOWN_SENTENCE: usize = 200;
/// Maximum number of characters to print for a node's id, name or type.
const SHOWN_NAME: usize = 60;

/// Answer a question in a few sentences, each citing its supporting nodes
///
/// A language model writes the answer using only the first nodes of a system's ranking; a sentence
/// that cites none of these nodes is dropped. Prints each sentence with the ids of the nodes that
/// it cites, then these nodes with the paths to them from the entities that the question names. If
/// no retrieved node supports an answer, prints no answer and exits with status 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print one JSON object: sentences with the nodes they cite, dropped sentences with reasons,
    /// and the cited nodes
    #[arg(long)]
    json: bool,
    /// Print the largest number of requests and tokens the answer could take, without sending any
    /// request
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let request = &args.request;
    if args.dry_run {
        check_query(&request.question)?;
        let check = if request.check { "=check" } else { "" };
        let system = named::system(&request.system, Some(&request.dataset), ctx)?;
        let whole = format!("answer{check}:{system}");
        return forecast::print(&of_one(&whole, &request.llm, ctx)?, 1, args.json, ctx);
    }
    let reply = request.perform(ctx)?;
    let prose = &reply.prose;
    for DroppedSentence { text, why } in &prose.dropped {
        ctx.watch
            .notice(&format!("dropped a sentence that {why}: {}", plain(text, SHOWN_SENTENCE)));
    }
    if args.json {
        ctx.printer.json(&reply)?;
    } else if !prose.is_refused() {
        print(prose, &reply.base.kb, &reply.cited(), ctx)?;
    }
    match prose.is_refused() {
        true => Err(anyhow!("no retrieved node supports an answer"))
            .hint("rephrase the question, or find nodes with another --system"),
        false => Ok(Exit::Done),
    }
}

/// Prints the sentences, one per line, each with the ids of the nodes that it cites. Then prints
/// the cited nodes, each with the reason for its retrieval.
fn print(prose: &Prose, kb: &Kb, cited: &[HitRecord<'_>], ctx: &Context) -> Result<Exit> {
    let mut text = String::new();
    for sentence in &prose.sentences {
        let cites: Vec<String> =
            sentence.cites.iter().map(|&node| plain(kb.key(node), SHOWN_NAME)).collect();
        text += &format!("{} [{}]\n", plain(&sentence.text, usize::MAX), cites.join(", "));
    }
    text.push('\n');
    for hit in cited {
        let (key, name) = (plain(&hit.key, SHOWN_NAME), plain(hit.name, SHOWN_NAME));
        let kind = plain(hit.node_type, SHOWN_NAME);
        text += &format!("[{key}] {name} ({kind})  {}\n", hits::reason(hit, None));
    }
    ctx.printer.text(&text)
}
