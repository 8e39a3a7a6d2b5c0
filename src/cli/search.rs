//! `agent search`: ranks the nodes of a dataset for a text.

use serde::Serialize;

use crate::{
    cli::{
        Context, Exit, dataset,
        failure::Result,
        printer::{plain, table},
        systems::open_system,
    },
    kb::NodeId,
    retrieve::checked,
};

/// Most nodes that are printed.
const MAX_K: u64 = 10_000;
/// Characters of a name that a table shows.
const MAX_SHOWN: usize = 80;

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
    /// Rank with bm25, bm25+names, dense or hybrid
    #[arg(long, value_name = "SYSTEM", default_value = "bm25+names")]
    system: String,
    /// Print at most this many nodes, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=MAX_K))]
    k: u64,
    /// Say for each node why it has its place
    #[arg(long)]
    explain: bool,
    /// Print JSON lines with rank, id, type, name and score
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Hit<'a> {
    rank: usize,
    id: NodeId,
    #[serde(rename = "type")]
    node_type: &'a str,
    name: &'a str,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<String>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let text = checked(&args.text)?;
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let system = open_system(&args.system, &base)?;
    let ranking = system.retrieve(text, args.k as usize)?;
    let hits = ranking.iter().enumerate().map(|(at, &(id, score))| {
        let explanation = args.explain.then(|| system.explain(text, id)).transpose()?;
        let node_type = base.kb.type_name(base.kb.node_type(id));
        Ok(Hit { rank: at + 1, id, node_type, name: base.kb.name(id), score, explanation })
    });
    let hits = hits.collect::<Result<Vec<Hit<'_>>>>()?;
    if hits.is_empty() {
        ctx.printer.notice("no node matches");
        return Ok(Exit::Done);
    }
    if args.json {
        let lines =
            hits.iter().map(serde_json::to_string).collect::<std::result::Result<Vec<_>, _>>()?;
        ctx.printer.data(&lines.join("\n"))?;
    } else if args.explain {
        let blocks = hits.iter().map(|hit| {
            let why = hit.explanation.iter().flat_map(|text| text.lines());
            let why: String = why.map(|line| format!("    {line}\n")).collect();
            let (name, node_type) = (plain(hit.name, MAX_SHOWN), plain(hit.node_type, MAX_SHOWN));
            format!("{}. {name} ({node_type} {}), score {:.4}\n{why}", hit.rank, hit.id, hit.score)
        });
        ctx.printer.data(&blocks.collect::<String>())?;
    } else {
        let mut rows = table(["rank", "id", "type", "name", "score"], &[0, 1, 4]);
        for hit in &hits {
            rows.add_row([
                hit.rank.to_string(),
                hit.id.to_string(),
                plain(hit.node_type, MAX_SHOWN),
                plain(hit.name, MAX_SHOWN),
                format!("{:.4}", hit.score),
            ]);
        }
        ctx.printer.table(&rows)?;
    }
    Ok(Exit::Done)
}
