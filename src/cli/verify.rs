//! `agent verify`: checks that a bundle is whole and does what it says.

mod drift;
mod programs;
mod replay;

use std::path::PathBuf;

use serde::Serialize;

use crate::{
    Context, Exit,
    printer::{plain, table},
};
use agent_app::{
    dataset::{self, Dataset},
    error::Result,
    named,
    systems::SandboxArgs,
};
use agent_dataset::DatasetError;
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, BundleError, Member};
use agent_kb as kb;

/// Characters of a detail that a table shows.
const MAX_DETAIL: usize = 300;

/// Check that a bundle is whole and does what it says
///
/// Checks format and digest, that all programs compile, call functions that exist and have
/// parameters within their bounds; and on its dataset that the base is the same and that the
/// validation queries give exactly the scores that the bundle states. Exits with 1 if something
/// does not hold.
///
/// After an update of the dataset, --drift says how much the bundle lost: it answers the validation
/// queries on what the dataset is now, and names categories that lost and relations that are gone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Frozen bundle: its file, or the run that it is of (its name, or latest)
    #[arg(value_name = "BUNDLE")]
    file: PathBuf,
    /// Replay on this dataset [default: the one it was made for, if it is installed]
    #[arg(long, value_name = "N")]
    dataset: Option<String>,
    /// Say whether the bundle may be carried over to its updated dataset; exits with 1 if not
    #[arg(long)]
    drift: bool,
    /// With --drift, and if it may be carried over: write the bundle for the updated dataset, with
    /// its scores there
    #[arg(long)]
    accept_drift: bool,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print JSON lines with check, status and detail
    #[arg(long)]
    json: bool,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Skipped,
    Failed,
}

/// One thing that was checked.
#[derive(Serialize)]
struct Check {
    check: &'static str,
    status: Status,
    detail: String,
}

impl Check {
    fn ok(check: &'static str, detail: String) -> Check {
        Check { check, status: Status::Ok, detail }
    }

    fn skipped(check: &'static str, detail: String) -> Check {
        Check { check, status: Status::Skipped, detail }
    }

    fn failed(check: &'static str, detail: String) -> Check {
        Check { check, status: Status::Failed, detail }
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    if args.drift || args.accept_drift {
        return drift::run(args, ctx);
    }
    let mut checks = Vec::new();
    match Bundle::read(&named::bundle_file(&args.file, &ctx.home)?) {
        Ok(bundle) => {
            let digest = bundle.digest.get(..12).unwrap_or_default();
            let detail = format!("format {}, digest {digest} is right", bundle.format);
            checks.push(Check::ok("file", detail));
            checks.extend(programs::check(&bundle, &args.sandbox.places(ctx)?)?);
            checks.push(router(&bundle));
            checks.extend(on_dataset(args, &bundle, ctx)?);
        }
        Err(error @ BundleError::Io { .. }) => return Err(error.into()),
        Err(error) => checks.push(Check::failed("file", error.to_string())),
    }
    if args.json {
        for check in &checks {
            ctx.printer.json(check)?;
        }
    } else {
        let mut rows = table(["check", "status", "detail"], &[]);
        for check in &checks {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Skipped => "skipped",
                Status::Failed => "FAILED",
            };
            rows.add_row([check.check, status, &plain(&check.detail, MAX_DETAIL)]);
        }
        ctx.printer.table(&rows)?;
    }
    let failed = checks.iter().any(|check| check.status == Status::Failed);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Whether every router has a weight for each of its categories.
fn router(bundle: &Bundle) -> Check {
    let members = bundle.members();
    for Member { categories, router, fusion, .. } in &members {
        let n = categories.len();
        let is_wrong =
            |weights: &Vec<f32>| weights.len() != n || weights.iter().any(|w| !w.is_finite());
        if let Some((feature, weights)) = router.weights.iter().find(|pair| is_wrong(pair.1)) {
            let n_weights = weights.len();
            let told =
                format!("feature {feature:?} has {n_weights} finite weights for {n} categories");
            return Check::failed("router", told);
        }
        if fusion.max_categories == 0 {
            return Check::failed("router", "no category may answer".to_owned());
        }
    }
    let told = members.iter().map(|Member { categories, router, .. }| {
        format!("{} features for {} categories", router.weights.len(), categories.len())
    });
    Check::ok("router", told.collect::<Vec<_>>().join("; "))
}

/// What can be checked on the dataset only.
fn on_dataset(args: &Args, bundle: &Bundle, ctx: &Context) -> Result<Vec<Check>> {
    let Some(dataset) = find(args, bundle, ctx)? else {
        let name = &bundle.dataset.name;
        let why = format!("\"{name}\" is not installed; name a dataset with --dataset N");
        return Ok(vec![Check::skipped("base", why.clone()), Check::skipped("replay", why)]);
    };
    let base = match dataset::open(&dataset, ctx) {
        // Nobody asked for this dataset.
        Err(error) if args.dataset.is_none() => {
            let why = error.message();
            return Ok(vec![Check::skipped("base", why.clone()), Check::skipped("replay", why)]);
        }
        opened => opened?,
    };
    if bundle.check_base(&base).is_err() {
        let (name, made_for) = (&dataset.base.name, &bundle.dataset.name);
        let why = if bundle.dataset.kb == base.kb.fingerprint() {
            format!("the index of \"{name}\" is another than the bundle was made with")
        } else if name == made_for {
            format!(
                "\"{name}\" is another version than it was made for; `agent verify BUNDLE --drift \
                 --accept-drift` carries it over if it still fits"
            )
        } else {
            format!("\"{name}\" is another base than \"{made_for}\", which it was made for")
        };
        return Ok(vec![Check::failed("base", why.clone()), Check::skipped("replay", why)]);
    }
    let name = &dataset.base.name;
    if let Err(why) = digests(&dataset, &base, ctx) {
        return Ok(vec![Check::failed("base", why.clone()), Check::skipped("replay", why)]);
    }
    let mut checks = vec![Check::ok("base", format!("\"{name}\" is the base it was made for"))];
    let places = args.sandbox.places(ctx)?;
    checks.extend(replay::check(bundle, &dataset.base, &base, places, ctx)?);
    Ok(checks)
}

/// Reads all files that answers come from and compares them with their digests.
fn digests(
    dataset: &Dataset,
    base: &IndexedBase,
    ctx: &Context,
) -> std::result::Result<(), String> {
    let progress = ctx.printer.progress();
    let sizes = base.kb.manifest().files.values().map(|file| file.bytes);
    let (mut done, total) = (0, sizes.sum::<u64>() + base.bytes_to_verify());
    let mut more = |n| {
        done += n;
        progress.at("digests", done, total);
    };
    let said = |error: &dyn std::fmt::Display| error.to_string();
    kb::verify(base.kb.dir(), &mut more).map_err(|error| said(&error))?;
    base.verify(&mut more).map_err(|error| said(&error))?;
    dataset.base.verify_queries(&mut |_| {}).map_err(|error| said(&error))
}

/// The dataset to replay on: the given one, or the one the bundle was made for, if installed.
fn find(args: &Args, bundle: &Bundle, ctx: &Context) -> Result<Option<Dataset>> {
    if let Some(name) = &args.dataset {
        return dataset::find(name, ctx).map(Some);
    }
    match ctx.home.get(&bundle.dataset.name) {
        Ok(_) => dataset::find(&bundle.dataset.name, ctx).map(Some),
        Err(DatasetError::UnknownName { .. } | DatasetError::BadName { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
