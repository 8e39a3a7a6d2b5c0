//! `agent cache`: shows and clears the model replies and embeddings that all runs and bases share.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Subcommand;
use serde::Serialize;

use crate::{
    Context, Exit,
    printer::{plain, table},
};
use agent_app::{
    error::Result,
    text::{MAX_SHOWN, count},
};
use agent_embed::cache::{self, CacheFile};
use agent_llm::shared::{CacheSize, SharedCache};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the number and size of cached replies and embeddings, by model
    Show(ShowArgs),
    /// Remove cached replies and embeddings
    Clear(ClearArgs),
}

/// Show the number and size of cached replies and embeddings, by model
///
/// Replies of language models and embeddings are kept in the home directory, so that no request is
/// paid for twice.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Remove cached replies and embeddings
///
/// Without an option, removes both. Runs keep their own copies of the replies they used.
#[derive(Debug, clap::Args)]
pub(super) struct ClearArgs {
    /// Remove replies of language models
    #[arg(long)]
    replies: bool,
    /// Remove embeddings
    #[arg(long)]
    embeddings: bool,
}

/// JSON of the cached replies, as `agent cache show --json` prints it.
#[derive(Serialize)]
struct Replies {
    dir: PathBuf,
    #[serde(flatten)]
    all: CacheSize,
    unreadable: u64,
    models: Vec<OfModel>,
}

#[derive(Serialize)]
struct OfModel {
    model: String,
    #[serde(flatten)]
    kept: CacheSize,
}

/// JSON of the cached embeddings, as `agent cache show --json` prints it.
#[derive(Serialize)]
struct Embeddings {
    dir: PathBuf,
    entries: u64,
    bytes: u64,
    files: Vec<CacheFile>,
}

/// Returns the cache, in the home directory, of model replies that all runs share.
pub(super) fn replies(ctx: &Context) -> SharedCache {
    SharedCache::new(&ctx.home.path().join("cache").join("replies"))
}

fn embeddings_dir(ctx: &Context) -> PathBuf {
    ctx.home.path().join("cache").join("embeddings")
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Show(args) => show(&args, ctx),
        Command::Clear(args) => clear(&args, ctx),
    }
}

fn show(args: &ShowArgs, ctx: &Context) -> Result<Exit> {
    let (replies, embeddings) = (kept_replies(ctx)?, kept_embeddings(ctx)?);
    if args.json {
        ctx.printer.json(&serde_json::json!({ "replies": replies, "embeddings": embeddings }))?;
        return Ok(Exit::Done);
    }
    let mut rows = table(["kept", "of", "entries", "bytes"], &[2, 3]);
    for OfModel { model, kept } in &replies.models {
        rows.add_row([
            "replies".to_owned(),
            plain(model, MAX_SHOWN),
            count(kept.entries),
            count(kept.bytes),
        ]);
    }
    for file in &embeddings.files {
        rows.add_row([
            file.kind.to_owned(),
            plain(&file.name, MAX_SHOWN),
            count(file.entries),
            count(file.bytes),
        ]);
    }
    for (kept, entries, bytes) in [
        ("all replies", replies.all.entries, replies.all.bytes),
        ("all embeddings", embeddings.entries, embeddings.bytes),
    ] {
        rows.add_row([kept.to_owned(), String::new(), count(entries), count(bytes)]);
    }
    ctx.printer.table(&rows)?;
    if replies.unreadable > 0 {
        ctx.printer.warning(&format!(
            "{} files in {} cannot be read and are not used; `agent cache clear --replies` removes \
             all replies",
            replies.unreadable,
            replies.dir.display()
        ));
    }
    Ok(Exit::Done)
}

fn clear(args: &ClearArgs, ctx: &Context) -> Result<Exit> {
    let both = args.replies == args.embeddings;
    if both || args.replies {
        let cache = replies(ctx);
        let removed =
            cache.clear().with_context(|| format!("cannot clear {}", cache.dir().display()))?;
        told(ctx, "replies", removed.entries, removed.bytes);
    }
    if both || args.embeddings {
        let dir = embeddings_dir(ctx);
        let removed =
            cache::clear(&dir).with_context(|| format!("cannot clear {}", dir.display()))?;
        told(ctx, "embeddings", removed.iter().map(|file| file.entries).sum(), bytes(&removed));
    }
    Ok(Exit::Done)
}

fn told(ctx: &Context, what: &str, entries: u64, bytes: u64) {
    ctx.printer.notice(&format!("removed {} {what}, {} bytes", count(entries), count(bytes)));
}

fn bytes(files: &[CacheFile]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

fn kept_replies(ctx: &Context) -> Result<Replies> {
    let cache = replies(ctx);
    let contents =
        cache.contents().with_context(|| format!("cannot read {}", cache.dir().display()))?;
    let of_model = |(model, kept)| OfModel { model, kept };
    Ok(Replies {
        dir: cache.dir().to_owned(),
        all: contents.all,
        unreadable: contents.unreadable,
        models: contents.models.into_iter().map(of_model).collect(),
    })
}

fn kept_embeddings(ctx: &Context) -> Result<Embeddings> {
    let dir = embeddings_dir(ctx);
    let files = cache::files(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let entries = files.iter().map(|file| file.entries).sum();
    Ok(Embeddings { dir, entries, bytes: bytes(&files), files })
}
