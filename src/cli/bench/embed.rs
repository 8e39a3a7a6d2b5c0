//! What embedding texts costs: all as documents, then some as queries, one at a time.

use std::{fs, hint::black_box, path::PathBuf};

use anyhow::{Context as _, anyhow};

use crate::{
    Context,
    bench::{Figure, measure},
};
use agent_app::error::{Explain, Result};
use agent_index::EmbedderChoice;

/// Texts embedded one at a time.
const SINGLE: usize = 40;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Embed with candle:DIR or openai:MODEL
    #[arg(value_name = "EMBEDDER")]
    embedder: EmbedderChoice,
    /// Embed the lines of this file
    #[arg(long, value_name = "FILE")]
    work: PathBuf,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<()> {
    let embedder = args.embedder.open(&ctx.access(), None)?;
    let embedder = embedder
        .ok_or_else(|| anyhow!("the embedder {} belongs to a dataset", args.embedder))
        .hint("give candle:DIR or openai:MODEL")?;
    let text = fs::read_to_string(&args.work);
    let text = text.with_context(|| format!("cannot read {}", args.work.display()))?;
    let texts: Vec<&str> = text.lines().collect();
    let vectors = embedder.embed_documents(&texts)?;
    // One number that another embedder's vectors can be compared by.
    let weighted = |row: &[f32]| -> f64 {
        (1..).zip(row).map(|(at, &value)| f64::from(at).cos() * f64::from(value)).sum()
    };
    let rows = (0..vectors.rows()).filter_map(|row| vectors.row(row));
    let probe = rows.map(weighted).sum::<f64>() / texts.len().max(1) as f64;
    let print = |figure: Figure| figure.with("probe", probe).print(args.json, ctx);
    print(measure("embed", texts.len(), || drop(black_box(embedder.embed_documents(&texts)))))?;
    let single = texts.get(..SINGLE).unwrap_or(&texts);
    print(measure("embed_query", single.len(), || {
        single.iter().for_each(|text| drop(black_box(embedder.embed_query(text))));
    }))
}
