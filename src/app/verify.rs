//! Checks that a bundle is whole and does what it says, or whether it may be carried over to what its
//! base is now.

pub mod drift;
mod programs;
mod replay;

use std::path::PathBuf;

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::drift::{DriftReport, Session};
use crate::{
    App, AppError, Explain, Result,
    dataset::{self, Dataset},
    operation::Perform,
    systems::{SandboxArgs, bundle_file},
};
use agent_dataset::DatasetError;
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, BundleError, Member};
use agent_kb as kb;

/// A bundle to be checked.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Frozen bundle: its file, or the run that it is of (its name, or latest)
    #[arg(value_name = "BUNDLE")]
    #[schema(value_type = String)]
    pub bundle: PathBuf,
    /// Replay on this dataset [default: the one it was made for, if it is installed]
    #[arg(long, value_name = "N")]
    #[serde(default)]
    pub dataset: Option<String>,
    /// Say whether the bundle may be carried over to its updated dataset; exits with 1 if not
    #[arg(long)]
    #[serde(default)]
    pub drift: bool,
    /// With --drift, and if it may be carried over: write the bundle for the updated dataset, with
    /// its scores there
    #[arg(long)]
    #[serde(default)]
    pub accept_drift: bool,
    /// Where programs run.
    #[command(flatten)]
    #[serde(default)]
    #[schema(inline)]
    pub sandbox: SandboxArgs,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It holds.
    Ok,
    /// It could not be checked.
    Skipped,
    /// It does not hold.
    Failed,
}

/// One thing that was checked.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was checked.
    pub check: &'static str,
    /// How it ended.
    pub status: Status,
    /// What was found.
    pub detail: String,
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

/// What was checked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// Each check, in order.
    Checks {
        /// The checks.
        checks: Vec<Check>,
    },
    /// How the bundle does on what its base is now.
    Drift(DriftReport),
}

impl Reply {
    /// Whether all that was checked holds.
    pub fn holds(&self) -> bool {
        match self {
            Reply::Checks { checks } => checks.iter().all(|one| one.status != Status::Failed),
            Reply::Drift(report) => report.fits,
        }
    }
}

impl Perform for Request {
    const NAME: &'static str = "verify";
    const SUMMARY: &'static str = "Check that a bundle is whole and does what it says";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        if self.accept_drift && app.network.is_some() {
            return Err(AppError::usage(anyhow!("a request over a network writes no bundle")))
                .hint("carry it over with `agent verify BUNDLE --drift --accept-drift`");
        }
        match self.is_of_drift() {
            true => Ok(Reply::Drift(Session::open(self, app)?.measure(self, app)?)),
            false => Ok(Reply::Checks { checks: checks(self, app)? }),
        }
    }
}

impl Request {
    /// Whether it asks how the bundle does on what its base is now.
    pub fn is_of_drift(&self) -> bool {
        self.drift || self.accept_drift
    }
}

/// The checks of the bundle by itself, and of those on its base as many as can be made.
fn checks(request: &Request, app: &App) -> Result<Vec<Check>> {
    let bundle = match Bundle::read(&bundle_file(&request.bundle, app)?) {
        Ok(bundle) => bundle,
        Err(error @ BundleError::Io { .. }) => return Err(error.into()),
        Err(error) => return Ok(vec![Check::failed("file", error.to_string())]),
    };
    let digest = bundle.digest.get(..12).unwrap_or_default();
    let detail = format!("format {}, digest {digest} is right", bundle.format);
    let mut checks = vec![Check::ok("file", detail)];
    checks.extend(programs::check(&bundle, &request.sandbox.places(app)?)?);
    checks.push(router(&bundle));
    checks.extend(on_dataset(request, &bundle, app)?);
    Ok(checks)
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
            let why =
                format!("feature {feature:?} has {n_weights} finite weights for {n} categories");
            return Check::failed("router", why);
        }
        if fusion.max_categories == 0 {
            return Check::failed("router", "no category may answer".to_owned());
        }
    }
    let sizes = members.iter().map(|Member { categories, router, .. }| {
        format!("{} features for {} categories", router.weights.len(), categories.len())
    });
    Check::ok("router", sizes.collect::<Vec<_>>().join("; "))
}

/// What can be checked on the dataset only.
fn on_dataset(request: &Request, bundle: &Bundle, app: &App) -> Result<Vec<Check>> {
    let Some(dataset) = find(request, bundle, app)? else {
        let name = &bundle.dataset.name;
        let why = format!("\"{name}\" is not installed; name a dataset with --dataset N");
        return Ok(vec![Check::skipped("base", why.clone()), Check::skipped("replay", why)]);
    };
    let base = match dataset::open(&dataset, app) {
        // Nobody asked for this dataset.
        Err(error) if request.dataset.is_none() => {
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
    if let Err(why) = digests(&dataset, &base, app) {
        return Ok(vec![Check::failed("base", why.clone()), Check::skipped("replay", why)]);
    }
    let mut checks = vec![Check::ok("base", format!("\"{name}\" is the base it was made for"))];
    let places = request.sandbox.places(app)?;
    checks.extend(replay::check(bundle, &dataset.base, &base, places, app)?);
    Ok(checks)
}

/// Reads all files that answers come from and compares them with their digests.
fn digests(dataset: &Dataset, base: &IndexedBase, app: &App) -> std::result::Result<(), String> {
    let progress = app.watch.progress();
    let sizes = base.kb.manifest().files.values().map(|file| file.bytes);
    let (mut done, total) = (0, sizes.sum::<u64>() + base.bytes_to_verify());
    let mut more = |n| {
        done += n;
        progress.at("digests", done, total);
    };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    kb::verify(base.kb.dir(), &mut more).map_err(|error| text(&error))?;
    base.verify(&mut more).map_err(|error| text(&error))?;
    dataset.base.verify_queries(&mut |_| {}).map_err(|error| text(&error))
}

/// The dataset to replay on: the given one, or the one the bundle was made for, if installed.
fn find(request: &Request, bundle: &Bundle, app: &App) -> Result<Option<Dataset>> {
    if let Some(name) = &request.dataset {
        return dataset::find(name, app).map(Some);
    }
    match app.home.get(&bundle.dataset.name) {
        Ok(_) => dataset::find(&bundle.dataset.name, app).map(Some),
        Err(DatasetError::UnknownName { .. } | DatasetError::BadName { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
