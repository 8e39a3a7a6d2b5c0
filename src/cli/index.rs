//! `agent index`: builds the indexes of a dataset.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::{Context, Exit};
use agent_app::{dataset, error::Result, text::count, vectors};
use agent_dataset::Base;
use agent_embed::{CachedEmbedder, EmbedCost, Embedder};
use agent_index::{
    self as index, Access, EmbedderChoice, IndexError, IndexState, IndexedVersion, Part, Plan,
    PrecomputedVectors, VectorSource, WordSource,
};
use agent_kb::Kb;

/// Build the indexes of a dataset
///
/// What is there and fits the dataset is kept unless --force is given; another embedder replaces
/// the vectors alone. A dataset that was imported again while it was indexed answers as before
/// until its new index is built.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, or a directory in neutral format
    #[arg(value_name = "N")]
    dataset: String,
    /// Embed texts with builtin, candle:DIR, openai:MODEL or import:DIR [default: the embedder of
    /// the vectors that are there, else builtin]
    #[arg(long, value_name = "EMBEDDER")]
    embedder: Option<EmbedderChoice>,
    /// Embed only nodes that may be answers, with candle or openai; others are not found by meaning
    #[arg(long)]
    candidates_only: bool,
    /// Build optional parts too: ann, multi, late, fields, query
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    with: Vec<Part>,
    /// Forget the vectors that earlier runs with this embedder have kept
    #[arg(long)]
    drop_cache: bool,
    /// Build again what is there already
    #[arg(long)]
    force: bool,
}

/// What is to be indexed, and with what.
pub(super) struct Wanted {
    /// The version of the base that was imported last.
    pub(super) base: Base,
    pub(super) kb: Kb,
    /// The version that is served, where that is another.
    served: Option<Base>,
    /// What is there.
    state: IndexState,
    pub(super) choice: EmbedderChoice,
    pub(super) candidates_only: bool,
}

impl Wanted {
    /// What a dataset, perhaps an embedder, and a scope mean.
    ///
    /// # Errors
    /// That one of them means nothing.
    pub(super) fn of(
        dataset: &str,
        embedder: Option<&EmbedderChoice>,
        candidates_only: bool,
        ctx: &Context,
    ) -> Result<Self> {
        let served = dataset::locate(dataset, ctx)?.base;
        let next = ctx.home.pending_version(&served.name)?;
        let base = next.as_ref().unwrap_or(&served).clone();
        let kb = Kb::open(&base.kb_dir())?;
        let state = IndexState::inspect(&kb, &base.index_dir(), &base.name);
        let choice = match (embedder, &state.vectors) {
            (Some(choice), _) => absolute(choice)?,
            (None, Ok(there)) => there.embedder.clone(),
            (None, Err(_)) if next.is_some() => embedder_of(&served),
            (None, Err(_)) => EmbedderChoice::default(),
        };
        // The scope stays as it is with the embedder; two kinds have no choice of it.
        let before = state.vectors.as_ref().is_ok_and(|there| there.candidates_only);
        let wanted = candidates_only || (embedder.is_none() && before);
        let candidates_only = match choice {
            EmbedderChoice::Builtin => false,
            EmbedderChoice::Import(_) => true,
            EmbedderChoice::Candle(_) | EmbedderChoice::OpenAi(_) => wanted,
        };
        let served = next.map(|_| served);
        Ok(Self { base, kb, served, state, choice, candidates_only })
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let wanted = Wanted::of(&args.dataset, args.embedder.as_ref(), args.candidates_only, ctx)?;
    let Wanted { base, kb, served, state, choice, candidates_only } = &wanted;
    let IndexState { words, vectors } = state;
    for error in [words.as_ref().err(), vectors.as_ref().err()].into_iter().flatten() {
        if !args.force && !matches!(error, IndexError::Missing { .. }) {
            ctx.printer.notice(&format!("building again: {error}"));
        }
    }
    let there = vectors.as_ref().ok().filter(|_| !args.force);
    let kept = there
        .filter(|there| there.embedder == *choice && there.candidates_only == *candidates_only);
    let has = |part: &Part| kept.is_some_and(|there| there.parts.contains(part));
    let parts: Vec<Part> = args.with.iter().copied().filter(|part| !has(part)).collect();
    let words = args.force || words.is_err();
    if !words && kept.is_some() && parts.is_empty() {
        let name = &base.name;
        let notice = format!("\"{name}\" is indexed with {choice}; --force builds it again");
        ctx.printer.notice(&notice);
        index::remove_leftovers(&base.index_dir());
        return serve(base, ctx);
    }
    let access = ctx.access();
    let opened = match kept {
        Some(_) => None,
        None => open(choice, args.drop_cache, &access)?,
    };
    let import = match choice {
        EmbedderChoice::Import(dir) if kept.is_none() => Some(vectors::read(dir, base, kb, ctx)?),
        _ => None,
    };
    let vectors = match (kept, choice, &opened) {
        (Some(_), ..) => None,
        (None, choice, Some(embedder)) => {
            let candidates_only = *candidates_only;
            Some(VectorSource::Embedder { choice, embedder: &**embedder, candidates_only })
        }
        (None, choice, None) => Some(match &import {
            Some(vectors) => VectorSource::Import { choice, vectors },
            None => VectorSource::Builtin,
        }),
    };
    let served = match served {
        Some(served) => Some((Kb::open(&served.kb_dir())?, served.index_dir())),
        None => None,
    };
    let previous = served.as_ref().map(|(kb, index)| IndexedVersion { kb, index });
    let words = words.then_some(WordSource::Nodes);
    let plan = Plan { words, vectors, parts: &parts, access: &access, previous };
    let built = dataset::build_index(base, kb, &plan, ctx);
    if let Some(embedder) = &opened {
        tell_of_cost(&embedder.spent(), built.is_ok(), ctx);
    }
    built.and_then(|()| serve(base, ctx))
}

/// Indexes a base with vectors that were embedded elsewhere; its words are kept if they can be used.
pub(super) fn with_embedded<'a>(
    base: &Base,
    kb: &Kb,
    vectors: &'a PrecomputedVectors<'a>,
    ctx: &Context,
) -> Result<Exit> {
    let words = IndexState::inspect(kb, &base.index_dir(), &base.name).words.is_err();
    let words = words.then_some(WordSource::Nodes);
    let vectors = Some(VectorSource::Precomputed(vectors));
    let plan = Plan { words, vectors, parts: &[], access: &Access::NONE, previous: None };
    dataset::build_index(base, kb, &plan, ctx)?;
    serve(base, ctx)
}

/// Indexes the words of a base from what was read elsewhere; its vectors are kept if they can be used.
pub(super) fn with_words(
    base: &Base,
    kb: &Kb,
    words: WordSource<'_>,
    ctx: &Context,
) -> Result<Exit> {
    let words = Some(words);
    let plan = Plan { words, vectors: None, parts: &[], access: &Access::NONE, previous: None };
    dataset::build_index(base, kb, &plan, ctx)?;
    if IndexState::inspect(kb, &base.index_dir(), &base.name).vectors.is_ok() {
        return serve(base, ctx);
    }
    let name = &base.name;
    ctx.printer.notice(&format!("\"{name}\" has no vectors yet; `agent index {name}` makes them"));
    Ok(Exit::Done)
}

/// Indexes the version of a base that waits as the one that answers is indexed, and makes it answer.
///
/// # Errors
/// That it cannot be indexed; then the one before goes on answering.
pub(super) fn like(served: &Base, ctx: &Context) -> Result<Exit> {
    let kb = Kb::open(&served.kb_dir())?;
    let vectors = IndexState::inspect(&kb, &served.index_dir(), &served.name).vectors.ok();
    let args = Args {
        dataset: served.name.clone(),
        embedder: None,
        candidates_only: vectors.as_ref().is_some_and(|there| there.candidates_only),
        with: vectors.map_or_else(Vec::new, |there| there.parts),
        drop_cache: false,
        force: false,
    };
    run(&args, ctx)
}

/// Makes an indexed version of a base the one that answers.
pub(super) fn serve(base: &Base, ctx: &Context) -> Result<Exit> {
    if ctx.home.get(&base.name)?.version != base.version {
        ctx.home.make_current(base)?;
        ctx.printer.notice(&format!("\"{}\" answers with the new import from now on", base.name));
    }
    Ok(Exit::Done)
}

/// The embedder of a base's vectors; the built-in one if there are none.
fn embedder_of(base: &Base) -> EmbedderChoice {
    let vectors = Kb::open(&base.kb_dir())
        .ok()
        .and_then(|kb| IndexState::inspect(&kb, &base.index_dir(), &base.name).vectors.ok());
    vectors.map_or_else(EmbedderChoice::default, |vectors| vectors.embedder)
}

/// The choice with a full path, so that it can be opened from elsewhere.
fn absolute(choice: &EmbedderChoice) -> Result<EmbedderChoice> {
    let full = |dir: &PathBuf| {
        let full = dir.canonicalize();
        let full = full.with_context(|| format!("cannot open the directory {}", dir.display()))?;
        // Records are text.
        let is_text = full.to_str().is_some();
        is_text.then_some(full).with_context(|| format!("{} is not UTF-8", dir.display()))
    };
    Ok(match choice {
        EmbedderChoice::Candle(dir) => EmbedderChoice::Candle(full(dir)?),
        EmbedderChoice::Import(dir) => EmbedderChoice::Import(full(dir)?),
        EmbedderChoice::Builtin | EmbedderChoice::OpenAi(_) => choice.clone(),
    })
}

/// Opens an embedder that belongs to no base, with its cache.
fn open(
    choice: &EmbedderChoice,
    drop_cache: bool,
    access: &Access,
) -> Result<Option<Box<dyn Embedder>>> {
    let Some(embedder) = choice.open(access, None)? else { return Ok(None) };
    if let (true, Some(dir)) = (drop_cache, &access.cache) {
        CachedEmbedder::forget(&*embedder, dir)?;
    }
    Ok(Some(access.cached(embedder)))
}

/// Says what an embedder has cost.
fn tell_of_cost(spent: &EmbedCost, is_done: bool, ctx: &Context) {
    let from_cache = format!("{} vectors from the cache", count(spent.from_cache));
    let parts = [vec![from_cache], costs(spent)].concat();
    ctx.printer.notice(&parts.join(", "));
    if let Some(problem) = &spent.problem {
        ctx.printer.warning(problem);
    } else if !is_done {
        ctx.printer.notice("vectors that were computed are kept; run the command again to go on");
    }
}

/// What an embedder has cost but time.
pub(super) fn costs(spent: &EmbedCost) -> Vec<String> {
    let counts = [
        (spent.tokens, "tokens paid for"),
        (spent.cut, "texts cut to the model's limit"),
        (spent.retries, "requests repeated"),
    ];
    let some = counts.iter().filter(|(n, _)| *n > 0);
    some.map(|(n, what)| format!("{} {what}", count(*n))).collect()
}
