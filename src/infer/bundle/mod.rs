//! Frozen bundles: programs with their parameters, a router, and everything needed to trust them.
//!
//! A bundle is one JSON object in one file:
//!
//! ```text
//! format        version of this layout
//! dataset       name, title, fingerprint of the knowledge base and of its indexes, embedder
//! categories    name, program, parameters, where it came from, scores on validation
//! router        weights by feature, one per category
//! fusion        how many categories answer a query, and how their scores are joined
//! order         weights of the features by which joined answers are re-ranked, if they are
//! ensemble      further routers over some of the categories, each with its fusion and order, since
//!               format 5; all rankings are joined by reciprocal rank fusion
//! cutoff        weights of the signs by which answers end, and how good they were, if it is known
//! phrasings     how questions are worded that the graph alone answers, since format 3
//! validation    scores of the whole bundle and of every baseline
//! provenance    seed, steps, sizes of the pools, digest of the run's configuration
//! digest        BLAKE3 of all of the above but the program's version
//! ```
//!
//! The same run gives the same bytes. A bundle refuses another base unless told otherwise.
//!
//! Must not know: how programs were found, how they run.

pub mod cutoff;
pub mod reading;
pub mod reranker;
pub mod router;
pub mod understood;

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

/// Version of the layout that is written.
pub const FORMAT: u32 = 5;
/// Version of a bundle without an ensemble, which earlier versions of the program read too.
pub const FORMAT_OF_ONE: u32 = 4;
/// Oldest version that can be read.
pub const OLDEST_FORMAT: u32 = 1;
/// Who proposed a program that was found by search; behind a colon, how.
pub const SEARCH: &str = "search";
/// First version of the program that froze bundles.
const FIRST_VERSION: &str = "0.1.0";
/// Categories of a bundle that is read; a run freezes a dozen or two.
pub const MAX_CATEGORIES: usize = 64;
/// Members of a bundle that is read.
const MAX_MEMBERS: usize = 4;
/// Bytes of a bundle that is read.
const MAX_BYTES: u64 = 64 << 20;

/// Frozen programs, one per category, with a router and all fingerprints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Version of this layout.
    pub format: u32,
    /// The base it was made for.
    pub dataset: Dataset,
    /// At least one.
    pub categories: Vec<Category>,
    /// Query to categories.
    pub router: Router,
    /// How answers of several categories are joined.
    pub fusion: Fusion,
    /// The learned re-ranker of joined answers; none leaves the order of their joined scores.
    #[serde(default, rename = "order", skip_serializing_if = "Option::is_none")]
    pub reranker: Option<Reranker>,
    /// Further members of an ensemble, each with a ranking of its own beside that of the above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ensemble: Vec<Member>,
    /// Where answers end; none if that was not learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff: Option<Cutoff>,
    /// How questions are worded that the graph alone answers; without it none is read so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phrasings: Option<Phrasings>,
    /// Scores on the validation split.
    pub validation: Validation,
    /// How it was made.
    pub provenance: Provenance,
    /// BLAKE3 of the bundle without this field, hexadecimal.
    #[serde(default)]
    pub digest: String,
}

/// The base a bundle was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Its name when the bundle was made.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Fingerprint of the knowledge base.
    pub kb: String,
    /// Fingerprint of base, indexes and embedder.
    pub index: String,
    /// The embedder, for people.
    pub embedder: String,
}

/// One category of queries with the program that answers it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Values of its declared parameters that differ from the declared ones.
    pub params: BTreeMap<String, f64>,
    /// Who proposed the program.
    pub proposed_by: String,
    /// Scores on the validation queries that the router sends here; none when there are none.
    pub validation: Option<CategoryScore>,
}

impl Category {
    /// Whether its name has its metapaths, each in brackets, as search names what it finds: its
    /// program says no more of itself.
    pub fn is_told_by_name(&self) -> bool {
        self.proposed_by.starts_with(SEARCH) && self.name.contains('(')
    }
}

/// Scores of one category on its validation queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryScore {
    /// Queries.
    pub n: usize,
    /// The baseline that is best on them.
    pub baseline: String,
    /// Its mean reciprocal rank.
    pub baseline_mrr: f64,
    /// Mean reciprocal rank of the bundle.
    pub mrr: f64,
    /// Bundle less baseline.
    pub difference: f64,
    /// 95 % interval of the difference.
    pub ci95: Interval,
}

/// How answers of several categories are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    /// Categories that answer a query, most probable first.
    pub most: usize,
    /// Whether each program's scores are divided by their largest first.
    pub normalized: bool,
    /// Whether the learned re-ranker orders the joined nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
}

/// Categories that rank together: which of them answers a query, and how one ranking is made of
/// theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its categories by their positions in the bundle, each once, in the order of its router.
    pub categories: Vec<usize>,
    /// Query to its categories.
    pub router: Router,
    /// How their answers are joined.
    pub fusion: Fusion,
    /// The learned re-ranker of joined answers; none leaves the order of their joined scores.
    #[serde(default, rename = "order", skip_serializing_if = "Option::is_none")]
    pub reranker: Option<Reranker>,
}

/// Scores on the validation split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Queries.
    pub n: usize,
    /// Mean reciprocal rank of the bundle.
    pub mrr: f64,
    /// Mean reciprocal rank of every baseline, by name.
    pub baselines: BTreeMap<String, f64>,
    /// The bundle estimated on queries that did not choose it; `mrr` above is on all of them, also
    /// those that chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// Mean reciprocal rank if it were known for each query which answer is best, that of one of the
    /// programs or the bundle's own, which joins them: never below `mrr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_program: Option<f64>,
    /// The sequential test of the improved programs; none when nothing was improved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// An estimate by cross-fitting: every fold of the queries is answered with what the other folds
/// alone would have chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// Folds.
    pub folds: usize,
    /// Mean reciprocal rank.
    pub mrr: f64,
    /// 95 % interval of it, over queries.
    pub ci95: Interval,
}

/// A sequential test of improved programs against those a run began with, on validation queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The chance, over the whole run, that programs are taken for improved which are not.
    pub error_rate: f64,
    /// The part of it that all changes together may spend: they win when `e * level` reaches 1.
    pub level: f64,
    /// E-value of an improvement: the capital of a bet against there being none.
    pub e: f64,
    /// Queries that were bet on.
    pub n: usize,
    /// Queries whose category changed.
    pub of: usize,
    /// Mean difference of reciprocal ranks on the `n` queries.
    pub difference: f64,
    /// How many more queries with such differences would pass the sequential test; none when the
    /// difference is not above 0, 0 when it is won.
    pub needed: Option<usize>,
    /// Whether it was won, so that the bundle holds all improved programs; otherwise it holds those
    /// of the categories that are proven by themselves, and else what the run began with.
    pub proven: bool,
    /// Categories that were tested by themselves, as all together did not win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryProof>,
}

impl Proof {
    /// Whether any change was proven.
    pub fn any(&self) -> bool {
        self.proven || self.categories.iter().any(|category| category.proven)
    }
}

/// A sequential test of one category's improved program by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoryProof {
    /// Name of the improved program's category.
    pub name: String,
    /// The part of the error rate that all categories by themselves may spend.
    pub level: f64,
    /// E-value of an improvement, beside that of the others: proven when `e * level` reaches 1.
    pub e: f64,
    /// Queries that were bet on.
    pub n: usize,
    /// Mean difference of reciprocal ranks on them.
    pub difference: f64,
    /// Whether it was won.
    pub proven: bool,
}

/// How a bundle was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of the program that made it.
    pub version: String,
    /// Seed.
    pub seed: u64,
    /// Steps taken.
    pub steps: usize,
    /// Training queries.
    pub n_train: usize,
    /// Validation queries.
    pub n_validation: usize,
    /// Which language models took part; none if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmProvenance>,
    /// Parts of the loop that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// The versions of its base that it was carried over to since it was made, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// Whether its questions were made for it instead of labelled by somebody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// The baseline that it is, where nothing better was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

/// A bundle that was carried over to a later version of its base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Fingerprint of the knowledge base it was for.
    pub from: String,
    /// Fingerprint of the one it is for since.
    pub to: String,
    /// Its mean reciprocal rank on the validation queries of before.
    pub mrr_before: f64,
    /// The same on those of since.
    pub mrr_after: f64,
    /// Queries of since.
    pub n: usize,
}

/// Which language models took part in making a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmProvenance {
    /// The model of each role that was asked.
    pub models: BTreeMap<String, String>,
    /// Fingerprint of the prompts.
    pub prompts: String,
    /// Whether its programs may call tools that ask a model, so that answering may need one.
    pub tools: bool,
}

/// Why a bundle could not be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file could not be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no bundle.
    #[error("{path} is no bundle: {what}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The file was written by a newer version.
    #[error(
        "{path} has format {format}, this version reads {OLDEST_FORMAT} to {FORMAT}; update agent"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        format: u32,
    },
    /// The file has changed since it was frozen.
    #[error("{path} has changed since it was frozen: its digest is {found}, it says {expected}")]
    Changed {
        /// The file.
        path: String,
        /// The digest it has.
        found: String,
        /// The digest it says it has.
        expected: String,
    },
    /// The bundle was made for another base.
    #[error(
        "the bundle was made for {made_for} (knowledge base {expected}), not for this base ({found}); \
         after an update of {made_for}, `agent verify BUNDLE --drift --accept-drift` carries it over if \
         it still fits; else optimize on this base"
    )]
    OtherBase {
        /// Name of the base it was made for.
        made_for: String,
        /// Fingerprint it was made for.
        expected: String,
        /// Fingerprint of the base at hand.
        found: String,
    },
}

impl Bundle {
    /// Whether its programs may ask a language model, so that they answer with one alone.
    pub fn asks(&self) -> bool {
        self.provenance.llm.as_ref().is_some_and(|llm| llm.tools)
    }

    /// The bundle with its digest filled in.
    pub fn sealed(mut self) -> Self {
        self.digest = self.compute_digest();
        self
    }

    /// BLAKE3 of the bundle without its digest, and as if the first version of this program had frozen
    /// it: what is frozen alike by two versions has one digest.
    pub fn compute_digest(&self) -> String {
        let mut unsealed = Self { digest: String::new(), ..self.clone() };
        unsealed.provenance.version = FIRST_VERSION.to_owned();
        let bytes = serde_json::to_vec(&unsealed).unwrap_or_default();
        blake3::hash(&bytes).to_hex().to_string()
    }

    /// Writes the bundle so that the file is there whole or not at all.
    ///
    /// # Errors
    /// [`BundleError::Io`] names the path.
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
    /// [`BundleError`], but for [`BundleError::OtherBase`].
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
        if !(OLDEST_FORMAT..=FORMAT).contains(&head.format) {
            return Err(BundleError::Newer { path: name, format: head.format });
        }
        let bundle: Self = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        let found = bundle.compute_digest();
        if found != bundle.digest {
            let expected = bundle.digest;
            return Err(BundleError::Changed { path: name, found, expected });
        }
        let n = bundle.categories.len();
        if n > MAX_CATEGORIES {
            return Err(malformed(format!("{n} categories, over the limit of {MAX_CATEGORIES}")));
        }
        let fits = |member: &Member| {
            let own = &member.categories;
            let distinct: BTreeSet<usize> = own.iter().copied().filter(|&at| at < n).collect();
            !own.is_empty()
                && own.len() == distinct.len()
                && member.router.n_categories == own.len()
        };
        let too_many = bundle.router.n_categories > n || bundle.ensemble.len() >= MAX_MEMBERS;
        if too_many || !bundle.members().iter().all(fits) {
            return Err(malformed("routers and categories do not fit together".to_owned()));
        }
        Ok(bundle)
    }

    /// The members of the ensemble: the first has the router, fusion and order of the bundle itself,
    /// and the categories from the first on.
    pub fn members(&self) -> Vec<Member> {
        let first = Member {
            categories: (0..self.router.n_categories).collect(),
            router: self.router.clone(),
            fusion: self.fusion,
            reranker: self.reranker.clone(),
        };
        std::iter::once(first).chain(self.ensemble.iter().cloned()).collect()
    }

    /// Whether the bundle was made for this base.
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
