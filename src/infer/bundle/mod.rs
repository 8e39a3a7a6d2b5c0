//! Frozen bundles: programs with their parameters, a router, and their validation and provenance.
//!
//! A bundle is one JSON object in one file:
//!
//! ```text
//! format        version of this layout
//! dataset       name, title, fingerprint of the knowledge base and of its indexes, embedder
//! categories    name, program, parameters, proposer, scores on validation queries
//! router        weights by feature, one per category
//! fusion        number of categories that answer a query, and how their scores are joined
//! order         weights of the re-ranker of joined answers, if any
//! ensemble      further routers over some of the categories, each with its fusion and order; all
//!               rankings are joined by reciprocal rank fusion
//! cutoff        weights of the cut-off and its expected quality, if it was trained
//! phrasings     phrasings of plain questions, which the graph alone answers
//! validation    scores of the whole bundle and of every baseline
//! provenance    seed, steps, sizes of the pools, digest of the run's configuration
//! digest        BLAKE3 of all fields above except the version in the provenance
//! ```
//!
//! Equal runs write equal bytes. A bundle answers only on the base that it was made for, unless the
//! user forces another.

pub mod asked;
pub(crate) mod chains;
pub mod conditions;
pub mod cutoff;
mod fit;
pub mod lexicon;
pub mod reading;
pub mod reranker;
pub mod router;
mod schema;
pub mod understood;

pub use fit::Fit;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::bundle::{cutoff::Cutoff, reading::Phrasings, reranker::Reranker, router::Router};
use agent_ground::files;
use agent_index::IndexedBase;
use agent_retrieve::eval::Interval;
use agent_sandbox::program::Program;

/// Version of the layout; no other version can be read.
pub const FORMAT: u32 = 6;
/// Value of [`Category::proposed_by`] for programs of the search actor; a colon and the operator
/// may follow.
pub const SEARCH: &str = "search";
/// Program version that enters the digest of every bundle, independent of the version that wrote
/// it: the first version that froze bundles.
const FIRST_VERSION: &str = "0.1.0";
/// Maximum number of categories of a bundle; runs freeze one or two dozen.
pub const MAX_CATEGORIES: usize = 64;
/// Maximum number of members of a bundle.
const MAX_MEMBERS: usize = 4;
/// Largest absolute weight of a router, re-ranker or cut-off, so that no sum of weights is
/// infinite.
const MAX_WEIGHT: f32 = 1e6;
/// Maximum size of a bundle in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Frozen programs, one per category, with a router and all fingerprints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Version of the file's layout, see [`FORMAT`].
    pub format: u32,
    /// The base that the bundle was made for.
    pub dataset: Dataset,
    /// The categories, at least one.
    pub categories: Vec<Category>,
    /// Router from queries to categories.
    pub router: Router,
    /// Settings for joining the answers of several categories.
    pub fusion: Fusion,
    /// The learned re-ranker; if there is none, nodes are ordered by their fused scores.
    #[serde(default, rename = "order", skip_serializing_if = "Option::is_none")]
    pub reranker: Option<Reranker>,
    /// Further members of the ensemble.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ensemble: Vec<Member>,
    /// The trained cut-off of answers, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<Cutoff>,
    /// Phrasings of plain questions, which the graph alone answers; without them no question is
    /// read as plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrasings: Option<Phrasings>,
    /// Scores of the whole bundle on the validation queries.
    pub validation: Validation,
    /// How the bundle was made.
    pub provenance: Provenance,
    /// Digest by [`Bundle::compute_digest`], hexadecimal.
    #[serde(default)]
    pub digest: String,
}

/// The base that a bundle was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Name of the base when the bundle was made.
    pub name: String,
    /// Title of the base.
    pub title: String,
    /// Fingerprint of the knowledge base.
    pub kb: String,
    /// Fingerprint of the knowledge base with its indexes and embedder.
    pub index: String,
    /// Description of the embedder.
    pub embedder: String,
}

/// One category of queries with the program that answers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Category {
    /// Name of the category.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Parameter values that differ from the declared defaults.
    pub params: BTreeMap<String, f64>,
    /// The part of the optimizer that proposed the program, such as [`SEARCH`].
    pub proposed_by: String,
    /// Scores on the validation queries that the router sends to this category; `None` without such
    /// queries.
    pub validation: Option<CategoryScore>,
}

impl Category {
    /// Whether the name already describes the category, so that the program's description adds
    /// nothing: the search actor writes the metapaths into the name, in brackets.
    pub fn is_described_by_name(&self) -> bool {
        self.proposed_by.starts_with(SEARCH) && self.name.contains('(')
    }
}

/// Scores on the validation queries that the router sends to one category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryScore {
    /// Number of queries.
    pub n: usize,
    /// Name of the best baseline on these queries.
    pub baseline: String,
    /// Mean reciprocal rank of that baseline on these queries.
    pub baseline_mrr: f64,
    /// Mean reciprocal rank of the bundle.
    pub mrr: f64,
    /// Difference of the mean reciprocal ranks, bundle minus baseline.
    pub difference: f64,
    /// 95 % confidence interval of the difference.
    pub ci95: Interval,
}

/// Settings for joining the answers of several categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    /// Maximum number of categories that answer a query, most probable first.
    #[serde(rename = "most")]
    pub max_categories: usize,
    /// Whether each program's scores are divided by their maximum before they are joined.
    pub normalized: bool,
    /// Whether the learned re-ranker orders the joined nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
    /// Whether the ranking is mixed with that of word search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub words: bool,
    /// Whether the ranking is mixed with that of vector search.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meaning: bool,
}

impl Fusion {
    /// Fusion of the scores of at most `max_categories` categories, without a re-ranker, word
    /// search or vector search.
    pub const fn of_scores(max_categories: usize, normalized: bool) -> Self {
        Self { max_categories, normalized, ordered: false, words: false, meaning: false }
    }
}

/// A member of an ensemble: a router over some of the bundle's categories, and how their rankings
/// are joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Indexes of the member's categories in [`Bundle::categories`], distinct, in the router's
    /// order.
    pub categories: Vec<usize>,
    /// Router from queries to these categories.
    pub router: Router,
    /// Settings for joining the answers of these categories.
    pub fusion: Fusion,
    /// The learned re-ranker; if there is none, nodes are ordered by their fused scores.
    #[serde(default, rename = "order", skip_serializing_if = "Option::is_none")]
    pub reranker: Option<Reranker>,
}

/// Scores of a bundle and of the baselines on the validation split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Number of queries.
    pub n: usize,
    /// Mean reciprocal rank of the bundle.
    pub mrr: f64,
    /// Mean reciprocal rank of every baseline, by the baseline's name.
    pub baselines: BTreeMap<String, f64>,
    /// Cross-fitted estimate of the mean reciprocal rank. `mrr` is measured on the same queries
    /// that selected the bundle; this estimate is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// Mean reciprocal rank of an oracle that selects, for each query, the best program or the
    /// joined answer; never below `mrr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_program: Option<f64>,
    /// The sequential test of the changed programs; `None` if nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// An estimate by cross-fitting: each fold of the queries is answered with the selection made on
/// the other folds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// Number of folds.
    pub folds: usize,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// 95 % confidence interval of the mean, over queries.
    pub ci95: Interval,
}

/// A sequential test of changed programs against the initial ones, on validation queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Upper bound of the probability that any change is wrongly proven, in the whole run.
    pub error_rate: f64,
    /// Part of the error rate that the test of all changes together uses; the changes are proven if
    /// `e * level` reaches 1.
    pub level: f64,
    /// E-value of an improvement, at least 0: the capital of a bet against the null hypothesis,
    /// from 1 at the start.
    pub e: f64,
    /// Number of tested queries.
    pub n: usize,
    /// Number of validation queries of the changed categories.
    #[serde(rename = "of")]
    pub total: usize,
    /// Mean difference of reciprocal ranks on the `n` queries.
    pub difference: f64,
    /// Estimated number of further queries with the same differences that would prove the changes;
    /// 0 if they are proven, `None` if the difference is not above 0.
    pub needed: Option<usize>,
    /// Whether all changes together are proven. If not, the bundle contains only the changes of the
    /// categories that are proven individually.
    pub proven: bool,
    /// Tests of single categories, made if the changes did not pass together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryProof>,
}

impl Proof {
    /// Whether the change of any category, alone or with all others, is proven.
    pub fn any(&self) -> bool {
        self.proven || self.categories.iter().any(|category| category.proven)
    }
}

/// A sequential test of the change of a single category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryProof {
    /// Name of the category.
    pub name: String,
    /// Part of the error rate that the tests of single categories use.
    pub level: f64,
    /// E-value by the closed procedure: the change is proven if `e * level` reaches 1.
    pub e: f64,
    /// Number of tested queries.
    pub n: usize,
    /// Mean difference of reciprocal ranks on these queries.
    pub difference: f64,
    /// Whether the change is proven.
    pub proven: bool,
}

/// Provenance of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of the program that made the bundle.
    pub version: String,
    /// Random seed of the run.
    pub seed: u64,
    /// Number of steps of the search actor.
    pub steps: usize,
    /// Number of training queries.
    pub n_train: usize,
    /// Number of validation queries.
    pub n_validation: usize,
    /// Language models that took part in making the bundle, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmProvenance>,
    /// Names of the parts of the optimizer that were disabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// Transfers of the bundle to later versions of its base, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// Whether the training and validation questions are synthetic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// The baseline whose ranking the bundle reproduces, if no better program was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

/// The transfer of a bundle to a later version of its base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Fingerprint of the earlier knowledge base.
    pub from: String,
    /// Fingerprint of the later knowledge base.
    pub to: String,
    /// Mean reciprocal rank on the earlier validation queries.
    pub mrr_before: f64,
    /// Mean reciprocal rank on the later validation queries.
    pub mrr_after: f64,
    /// Number of the later validation queries.
    pub n: usize,
}

/// Language models that took part in making a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmProvenance {
    /// Name of the model by role, for the roles that sent requests.
    pub models: BTreeMap<String, String>,
    /// Fingerprint of the prompts.
    pub prompts: String,
    /// Whether the programs may call tools that ask a model; then answering needs a model.
    pub tools: bool,
}

/// Errors of reading, writing or using a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file could not be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is not a bundle.
    #[error("{path} is not a bundle: {what}")]
    Malformed {
        /// Path of the file.
        path: String,
        /// Why the file is not a bundle.
        what: String,
    },
    /// The file has a layout that this version cannot read.
    #[error("{path} has format {format}; this version reads format {FORMAT}; optimize again")]
    OtherFormat {
        /// Path of the file.
        path: String,
        /// Format of the file.
        format: u32,
    },
    /// The content of the file does not match its digest: it has changed since it was frozen.
    #[error(
        "{path} has changed since it was frozen: its digest is {found}, but it states {expected}"
    )]
    Changed {
        /// Path of the file.
        path: String,
        /// The computed digest.
        found: String,
        /// The stated digest.
        expected: String,
    },
    /// The bundle was made for another base.
    #[error(
        "the bundle was made for {made_for} with index {expected}, but this base has index {found}; \
         after an update of {made_for}, `agent verify BUNDLE --drift --accept-drift` updates the \
         bundle if it still fits; otherwise run `agent optimize` on this base"
    )]
    OtherBase {
        /// Name of the bundle's base.
        made_for: String,
        /// Start of the fingerprint of the bundle's index.
        expected: String,
        /// Start of the fingerprint of the given base's index.
        found: String,
    },
}

impl Bundle {
    /// Whether the programs may ask a language model, so that answering needs one.
    pub fn asks(&self) -> bool {
        self.provenance.llm.as_ref().is_some_and(|llm| llm.tools)
    }

    /// Computes the digest and stores it in the bundle.
    pub fn sealed(mut self) -> Self {
        self.digest = self.compute_digest();
        self
    }

    /// Computes the BLAKE3 digest of the bundle without its field `digest`, hexadecimal. The
    /// program's version is replaced by a constant, so that different versions give equal bundles
    /// equal digests.
    pub fn compute_digest(&self) -> String {
        let mut unsealed = Self { digest: String::new(), ..self.clone() };
        unsealed.provenance.version = FIRST_VERSION.to_owned();
        let bytes = serde_json::to_vec(&unsealed).unwrap_or_default();
        blake3::hash(&bytes).to_hex().to_string()
    }

    /// Writes the bundle atomically.
    ///
    /// # Errors
    /// [`BundleError::Io`], with the path.
    pub fn write(&self, path: &Path) -> Result<(), BundleError> {
        let failed = |source| BundleError::Io { path: path.display().to_string(), source };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = files::temporary_file(dir, ".bundle-").map_err(failed)?;
        serde_json::to_writer(&mut file, self).map_err(|error| failed(error.into()))?;
        file.write_all(b"\n").map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Reads a bundle and checks its digest.
    ///
    /// ```no_run
    /// use std::path::Path;
    ///
    /// use agent::bundle::Bundle;
    ///
    /// let bundle = Bundle::read(Path::new("bundle.json"))?;
    /// for category in &bundle.categories {
    ///     println!("{}: program {}", category.name, category.program.short_id());
    /// }
    /// # Ok::<(), agent::bundle::BundleError>(())
    /// ```
    ///
    /// # Errors
    /// [`BundleError`] except [`BundleError::OtherBase`].
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let name = path.display().to_string();
        let failed = |source| BundleError::Io { path: name.clone(), source };
        let malformed = |what: String| BundleError::Malformed { path: name.clone(), what };
        let bytes = files::read(path, MAX_BYTES).map_err(failed)?;
        let head: Head = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        if head.format != FORMAT {
            return Err(BundleError::OtherFormat { path: name, format: head.format });
        }
        let bundle: Self = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        let found = bundle.compute_digest();
        if found != bundle.digest {
            let expected = bundle.digest;
            return Err(BundleError::Changed { path: name, found, expected });
        }
        let n = bundle.categories.len();
        if n > MAX_CATEGORIES {
            return Err(malformed(format!("{n} categories exceed the limit of {MAX_CATEGORIES}")));
        }
        let fits = |member: &Member| {
            let own = &member.categories;
            let distinct: BTreeSet<usize> = own.iter().copied().filter(|&at| at < n).collect();
            !own.is_empty()
                && own.len() == distinct.len()
                && member.router.n_categories == own.len()
        };
        let too_many = bundle.router.n_categories > n || bundle.ensemble.len() >= MAX_MEMBERS;
        let is_bounded = |weights: &[f32]| weights.iter().all(|weight| weight.abs() <= MAX_WEIGHT);
        let bounded = |member: &Member| {
            let of_router = member.router.weights.values().all(|weights| is_bounded(weights));
            let reranker = member.reranker.iter().flat_map(|of| of.weights.values());
            of_router && reranker.copied().all(|weight| is_bounded(&[weight]))
        };
        let cutoff = bundle.cutoff.iter().flat_map(|of| of.weights.values());
        if too_many || !bundle.members().iter().all(fits) {
            return Err(malformed("its routers do not match its categories".to_owned()));
        }
        if !bundle.members().iter().all(bounded) || !cutoff.copied().all(|of| is_bounded(&[of])) {
            return Err(malformed(format!("the absolute value of a weight exceeds {MAX_WEIGHT}")));
        }
        if let Some(wrong) = bundle.ranks().find(|mrr| !(0.0..=1.0).contains(mrr)) {
            return Err(malformed(format!("mean reciprocal rank {wrong} is outside 0 to 1")));
        }
        Ok(bundle)
    }

    /// Returns all mean reciprocal ranks that the bundle states.
    fn ranks(&self) -> impl Iterator<Item = f64> {
        let Validation { mrr, baselines, held_out, best_program, .. } = &self.validation;
        let held_out = held_out.as_ref().map(|estimate| estimate.mrr);
        let categories = self.categories.iter().flat_map(|category| &category.validation);
        let drift = self.provenance.drift.iter();
        [Some(*mrr), held_out, *best_program]
            .into_iter()
            .flatten()
            .chain(baselines.values().copied())
            .chain(categories.flat_map(|score| [score.mrr, score.baseline_mrr]))
            .chain(drift.flat_map(|drift| [drift.mrr_before, drift.mrr_after]))
    }

    /// Reads the name of the base that a bundle was made for, without checking the bundle; `None`
    /// if the file cannot be read.
    pub fn made_for(path: &Path) -> Option<String> {
        #[derive(Deserialize)]
        struct Head {
            dataset: Named,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let head: Head = serde_json::from_slice(&files::read(path, MAX_BYTES).ok()?).ok()?;
        Some(head.dataset.name)
    }

    /// Returns the members of the ensemble. The first member has the router, fusion and re-ranker
    /// of the bundle itself. Its categories are the first [`Router::n_categories`] categories of
    /// the bundle.
    pub fn members(&self) -> Vec<Member> {
        let first = Member {
            categories: (0..self.router.n_categories).collect(),
            router: self.router.clone(),
            fusion: self.fusion,
            reranker: self.reranker.clone(),
        };
        std::iter::once(first).chain(self.ensemble.iter().cloned()).collect()
    }

    /// Checks that the bundle was made for this base with these indexes.
    ///
    /// # Errors
    /// [`BundleError::OtherBase`].
    pub fn check_base(&self, base: &IndexedBase) -> Result<(), BundleError> {
        if self.dataset.index == base.fingerprint() {
            return Ok(());
        }
        Err(BundleError::OtherBase {
            made_for: self.dataset.name.clone(),
            expected: self.dataset.index.chars().take(12).collect(),
            found: base.fingerprint().chars().take(12).collect(),
        })
    }
}
