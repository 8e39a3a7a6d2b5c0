//! `agent data pull`: downloads the files of a STaRK dataset from the repository
//! `snap-stanford/stark` into the home, and imports them.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::builder::PossibleValuesParser;
use serde_json::json;

use crate::{Context, Exit, data};
use agent_app::{
    Result, count,
    data::import::{Request, Source},
};
use agent_dataset::{
    InputFormat,
    hub::{Hub, RemoteFile},
    sample::SampleKind,
};

const REPOSITORY: &str = "snap-stanford/stark";
const LICENCE: &str = "CC-BY-4.0";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Download this dataset: amazon, mag or prime
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(
        SampleKind::ALL.map(SampleKind::name)))]
    kind: String,
    /// Download from the Hugging Face hub at this address
    #[arg(long, value_name = "URL", env = "HF_ENDPOINT", default_value = "https://huggingface.co")]
    endpoint: String,
    /// Close a connection that sends nothing for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    idle_timeout: f64,
    /// Install the dataset under this name instead of amazon, mag or prime
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Download the files without importing them
    #[arg(long, conflicts_with = "name")]
    download_only: bool,
    /// Print a summary of the import, or only of the download, as one JSON object
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("use 0.1 to 3600".to_owned()) }
}

/// Returns the paths, in the repository, of the files of the dataset `kind`.
fn base_files(kind: &str) -> &'static [&'static str] {
    match kind {
        "amazon" => &["skb/amazon/category_list.json", "skb/amazon/processed.zip"],
        "mag" => &[
            "skb/mag/idx_title_abs.zip",
            "skb/mag/processed.zip",
            "skb/mag/schema/mag.json",
            "skb/mag/schema/reduced_mag.json",
        ],
        _ => &["skb/prime/processed.zip", "skb/prime/raw.zip"],
    }
}

/// Whether `path` is a file of the queries or splits of the dataset `kind` with a safe name: ASCII
/// letters, digits, `.`, `-` and `_`, and not hidden.
fn is_of_queries(kind: &str, path: &str) -> bool {
    let folders = [format!("qa/{kind}/stark_qa/"), format!("qa/{kind}/split/")];
    let name = folders.iter().find_map(|folder| path.strip_prefix(folder));
    let plain = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
    name.is_some_and(|name| !name.starts_with('.') && name.chars().all(plain))
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let kind = args.kind.as_str();
    let token = std::env::var("HF_TOKEN").ok().filter(|token| !token.is_empty());
    let idle = Duration::from_secs_f64(args.idle_timeout);
    let hub = Hub::new(&args.endpoint, REPOSITORY, token.as_deref(), idle)?;
    let mut files: Vec<RemoteFile> = hub.list(&format!("qa/{kind}"), &ctx.stop)?;
    files.retain(|file| is_of_queries(kind, &file.path));
    let listed = hub.list(&format!("skb/{kind}"), &ctx.stop)?;
    for path in base_files(kind) {
        let found = listed.iter().find(|file| file.path == *path);
        let missing = || anyhow!("the repository {REPOSITORY} has no {path}; check the endpoint");
        files.push(found.ok_or_else(missing)?.clone());
    }
    let bytes = hub.total_bytes(&files)?;
    let root = ctx.home.path().join("downloads").join("stark");
    let (n, total) = (files.len(), count(bytes));
    ctx.watch.notice(&format!(
        "{REPOSITORY} is licensed {LICENCE}; fetching {n} files, {total} bytes, to {}",
        root.display()
    ));
    let progress = ctx.watch.progress();
    let mut before = 0;
    for file in &files {
        let mut at = |done, _| progress.at("download", before + done, bytes);
        hub.download(file, &root.join(&file.path), &mut at, &ctx.stop)
            .with_context(|| format!("cannot fetch {}", file.path))?;
        before += file.size;
    }
    drop(progress);
    if !args.download_only {
        let name = args.name.as_deref().unwrap_or(kind).to_owned();
        let (from, format) = (root.join("skb").join(kind), Some(InputFormat::Stark));
        let source = Source { from, format, ..Source::default() };
        return data::install(&Request { name, source, dry_run: false }, args.json, ctx);
    }
    if args.json {
        let path = root.display().to_string();
        return ctx.printer.json(&json!({"kind": kind, "path": path, "files": n, "bytes": bytes}));
    }
    Ok(Exit::Done)
}
