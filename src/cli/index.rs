//! `agent index`: builds the indexes of a dataset.

use crate::{
    cli::{Context, Exit, dataset, failure::Result},
    embed::EmbedError,
    index::{Access, EmbedderChoice, IndexError, Part, Plan, State, VectorSource},
    kb::Kb,
};

/// Build the indexes of a dataset
///
/// What is there and fits the dataset is kept unless --force is given; another embedder replaces
/// the vectors alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, or a directory in neutral format
    #[arg(value_name = "N")]
    dataset: String,
    /// Embed texts with builtin, candle:DIR, openai:MODEL or import:DIR [default: the embedder of
    /// the vectors that are there, else builtin]
    #[arg(long, value_name = "EMBEDDER")]
    embedder: Option<EmbedderChoice>,
    /// Embed only nodes that may be answers; others are not found by meaning
    #[arg(long)]
    candidates_only: bool,
    /// Build optional parts too: ann, multi, late
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    with: Vec<Part>,
    /// Build again what is there already
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = &dataset.base;
    let kb = Kb::open(&base.kb_dir())?;
    let State { words, vectors } = State::of(&kb, &base.index_dir(), &base.name);
    for error in [words.as_ref().err(), vectors.as_ref().err()].into_iter().flatten() {
        if !args.force && !matches!(error, IndexError::Missing { .. }) {
            ctx.printer.notice(&format!("building again: {error}"));
        }
    }
    let there = vectors.as_ref().ok().filter(|_| !args.force);
    let choice = match (&args.embedder, &vectors) {
        (Some(choice), _) => choice.clone(),
        (None, Ok(there)) => there.embedder.clone(),
        (None, Err(_)) => EmbedderChoice::default(),
    };
    let asked = args.embedder.is_some() || args.candidates_only;
    let kept = there.filter(|there| {
        !asked || (there.embedder == choice && there.candidates_only == args.candidates_only)
    });
    let has = |part: &Part| kept.is_some_and(|there| there.parts.contains(part));
    let parts: Vec<Part> = args.with.iter().copied().filter(|part| !has(part)).collect();
    let words = args.force || words.is_err();
    if !words && kept.is_some() && parts.is_empty() {
        let (name, embedder) = (&base.name, &choice);
        let notice = format!("\"{name}\" is indexed with {embedder}; --force builds it again");
        ctx.printer.notice(&notice);
        return Ok(Exit::Done);
    }
    let access = Access::default();
    let opened = if kept.is_some() { None } else { choice.open(&access)? };
    let vectors = match (&choice, &opened) {
        _ if kept.is_some() => None,
        (EmbedderChoice::Builtin, _) => Some(VectorSource::Builtin),
        (choice, Some(embedder)) => Some(VectorSource::Embedder {
            choice,
            embedder: &**embedder,
            candidates_only: args.candidates_only,
        }),
        (choice, None) => {
            return Err(EmbedError::Unavailable { embedder: choice.to_string() }.into());
        }
    };
    let plan = Plan { words, vectors, parts: &parts, access: &access };
    dataset::build_index(base, &kb, &plan, ctx)?;
    Ok(Exit::Done)
}
