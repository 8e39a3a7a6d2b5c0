//! `agent cache`: shows and clears the model replies and embeddings that all runs and bases share.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{json, to_value};

use crate::{Context, Exit, plain, table};
use agent_app::{MAX_SHOWN, Result, count};
use agent_embed::cache::{self, CacheFile};
use agent_llm::shared::{CacheSize, Contents, SharedCache};

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
    let (cache, dir) = (replies(ctx), embeddings_dir(ctx));
    let Contents { all, models, unreadable } =
        cache.contents().with_context(|| format!("cannot read {}", cache.dir().display()))?;
    let files = cache::files(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let (n_embeddings, bytes_of_embeddings) = totals(&files);
    if args.json {
        let of_model = |(model, kept): (&String, &CacheSize)| json!({"model": model, "entries": kept.entries, "bytes": kept.bytes});
        return ctx.printer.json(&json!({
            "replies": {
                "dir": to_value(cache.dir())?,
                "entries": all.entries,
                "bytes": all.bytes,
                "unreadable": unreadable,
                "models": models.iter().map(of_model).collect::<Vec<_>>(),
            },
            "embeddings": {
                "dir": to_value(dir)?,
                "entries": n_embeddings,
                "bytes": bytes_of_embeddings,
                "files": files,
            },
        }));
    }
    let mut rows = table(["kept", "of", "entries", "bytes"], &[2, 3]);
    let mut row = |kept: &str, of: &str, entries, bytes| {
        rows.add_row([kept.to_owned(), plain(of, MAX_SHOWN), count(entries), count(bytes)]);
    };
    for (model, kept) in &models {
        row("replies", model, kept.entries, kept.bytes);
    }
    for file in &files {
        row(file.kind, &file.name, file.entries, file.bytes);
    }
    row("all replies", "", all.entries, all.bytes);
    row("all embeddings", "", n_embeddings, bytes_of_embeddings);
    ctx.printer.table(&rows)?;
    if unreadable > 0 {
        ctx.watch.warning(&format!(
            "{unreadable} files in {} cannot be read and are not used; `agent cache clear --replies` \
             removes all replies",
            cache.dir().display()
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
        let (entries, bytes) = totals(&removed);
        told(ctx, "embeddings", entries, bytes);
    }
    Ok(Exit::Done)
}

fn told(ctx: &Context, what: &str, entries: u64, bytes: u64) {
    ctx.watch.notice(&format!("removed {} {what}, {} bytes", count(entries), count(bytes)));
}

/// Returns the number of embeddings in files, and the size of the files in bytes.
fn totals(files: &[CacheFile]) -> (u64, u64) {
    (files.iter().map(|file| file.entries).sum(), files.iter().map(|file| file.bytes).sum())
}
