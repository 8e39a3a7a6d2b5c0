//! Checks that a bundle is intact and reproduces its recorded results, or that it still fits its
//! base after an update of the base.

pub mod drift;
mod programs;
mod replay;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use self::drift::{DriftReport, Session};
use crate::{App, Dataset, Explain, Perform, Result, SandboxArgs, dataset, named, refused};
use agent_dataset::DatasetError;
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, BundleError, Member};
use agent_kb as kb;

/// A bundle, and which checks to run on it.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Frozen bundle: a file, the directory or name of a run, or `latest`
    #[arg(value_name = "BUNDLE")]
    #[schema(value_type = String)]
    pub bundle: PathBuf,
    /// Replay the validation queries on this dataset [default: the bundle's dataset, if installed]
    #[arg(long, value_name = "N")]
    pub dataset: Option<String>,
    /// Check whether the bundle still fits its updated dataset; exit with status 1 if not
    #[arg(long)]
    #[serde(default)]
    pub drift: bool,
    /// With --drift, if the bundle fits, save it for the updated dataset, with its new scores
    #[arg(long)]
    #[serde(default)]
    pub accept_drift: bool,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The check passed.
    Ok,
    /// The check was not possible.
    Skipped,
    /// The check failed.
    Failed,
}

/// One check, and how it ended.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Name of the check.
    pub check: &'static str,
    /// How the check ended.
    pub status: Status,
    /// What was checked or found, in words.
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

/// Result of checking a bundle.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// Whether the bundle is intact and reproduces its results.
    Checks {
        /// The checks, in the order in which they were made.
        checks: Vec<Check>,
    },
    /// How well the bundle works on its updated base.
    Drift(DriftReport),
}

impl Reply {
    /// Whether the bundle is good: no check failed or, for an updated base, the bundle fits.
    pub fn holds(&self) -> bool {
        match self {
            Reply::Checks { checks } => checks.iter().all(|one| one.status != Status::Failed),
            Reply::Drift(report) => report.fits,
        }
    }
}

impl Perform for Request {
    const NAME: &'static str = "verify";
    const SUMMARY: &'static str =
        "Check that a bundle is intact and reproduces its recorded scores";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        if self.accept_drift && app.network.is_some() {
            return refused("a request over a network cannot write a bundle")
                .hint("accept the new data for this bundle with `agent verify BUNDLE --drift --accept-drift`");
        }
        match self.is_of_drift() {
            true => Ok(Reply::Drift(Session::open(self, app)?.measure(self, app)?)),
            false => Ok(Reply::Checks { checks: checks(self, app)? }),
        }
    }
}

impl Request {
    /// Whether the request asks if the bundle still fits its updated base.
    pub fn is_of_drift(&self) -> bool {
        self.drift || self.accept_drift
    }
}

/// Checks the file, programs and router of a bundle, then its results on its base if that is
/// installed.
fn checks(request: &Request, app: &App) -> Result<Vec<Check>> {
    let bundle = match Bundle::read(&named::bundle_file(&request.bundle, None, app)?) {
        Ok(bundle) => bundle,
        Err(error @ BundleError::Io { .. }) => return Err(error.into()),
        Err(error) => return Ok(vec![Check::failed("file", error.to_string())]),
    };
    let digest = bundle.digest.get(..12).unwrap_or_default();
    let detail = format!("format {}, digest {digest} matches", bundle.format);
    let mut checks = vec![Check::ok("file", detail)];
    checks.extend(programs::check(&bundle, &request.sandbox.places(app)?)?);
    checks.push(router(&bundle));
    checks.extend(on_dataset(request, &bundle, app)?);
    Ok(checks)
}

/// Checks that every router has, for each feature, a finite weight for each category, and that at
/// least one category may answer.
fn router(bundle: &Bundle) -> Check {
    let members = bundle.members();
    for Member { categories, router, fusion, .. } in &members {
        let n = categories.len();
        let is_wrong =
            |weights: &Vec<f32>| weights.len() != n || weights.iter().any(|w| !w.is_finite());
        if let Some((feature, weights)) = router.weights.iter().find(|pair| is_wrong(pair.1)) {
            let n_weights = weights.len();
            let why = format!(
                "feature {feature:?} has {n_weights} weights for {n} categories, or a weight is \
                 not finite"
            );
            return Check::failed("router", why);
        }
        if fusion.max_categories == 0 {
            return Check::failed(
                "router",
                "the fusion allows no category (max_categories is 0)".to_owned(),
            );
        }
    }
    let sizes = members.iter().map(|Member { categories, router, .. }| {
        format!("{} features for {} categories", router.weights.len(), categories.len())
    });
    Check::ok("router", sizes.collect::<Vec<_>>().join("; "))
}

/// Runs the checks that need the dataset; if it is not installed, reports them as skipped.
fn on_dataset(request: &Request, bundle: &Bundle, app: &App) -> Result<Vec<Check>> {
    let Some(dataset) = find(request, bundle, app)? else {
        let name = &bundle.dataset.name;
        let why = format!("\"{name}\" is not installed; name a dataset with --dataset N");
        return Ok(vec![Check::skipped("base", why.clone()), Check::skipped("replay", why)]);
    };
    let base = match dataset::open(&dataset, app) {
        // The request does not name this dataset.
        Err(error) if request.dataset.is_none() => {
            let why = error.message();
            return Ok(vec![Check::skipped("base", why.clone()), Check::skipped("replay", why)]);
        }
        opened => opened?,
    };
    if bundle.check_base(&base).is_err() {
        let (name, made_for) = (&dataset.base.name, &bundle.dataset.name);
        let why = if bundle.dataset.kb == base.kb.fingerprint() {
            format!("the index of \"{name}\" differs from the one the bundle was made with")
        } else if name == made_for {
            format!(
                "\"{name}\" is not the version that the bundle was made for; `agent verify BUNDLE \
                 --drift --accept-drift` records the new version in the bundle if the bundle \
                 still fits"
            )
        } else {
            format!("the bundle was made for \"{made_for}\", not for \"{name}\"")
        };
        return Ok(vec![Check::failed("base", why.clone()), Check::skipped("replay", why)]);
    }
    let name = &dataset.base.name;
    if let Err(why) = digests(&dataset, &base, app) {
        return Ok(vec![Check::failed("base", why.clone()), Check::skipped("replay", why)]);
    }
    let made = Check::ok("base", format!("the bundle was made for this version of \"{name}\""));
    let places = request.sandbox.places(app)?;
    Ok(vec![made, replay::check(bundle, &dataset.base, &base, places, app)?])
}

/// Compares all files of the base, its index and its queries with their digests.
fn digests(dataset: &Dataset, base: &IndexedBase, app: &App) -> Result<(), String> {
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

/// Finds the dataset to check the bundle on: the dataset that the request names, or else the
/// bundle's own; `None` if the bundle's own dataset is not installed.
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
