//! Builds the index of a dataset. If a newer import of the dataset waits to be indexed, indexes
//! that import and makes it the current version.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, AppError, Explain, Perform, Result, count, dataset, refused, vectors};
use agent_dataset::Base;
use agent_embed::{CachedEmbedder, ColbertEncoder, EmbedCost, EmbedError, Embedder};
use agent_index::{
    self as index, Access, EmbedderChoice, IndexError, IndexState, IndexedVersion, Part,
    PartRequest, Plan, PrecomputedVectors, VectorSource, WordSource, late::checkpoint_of,
};
use agent_kb::Kb;

/// A dataset to index, and the parts to build.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, or a directory to import
    #[arg(value_name = "N")]
    pub dataset: String,
    /// Embed texts with builtin, candle:DIR, openai:MODEL, import:DIR, or NAME of [embedders.NAME]
    /// in config.toml [default: the embedder of the existing vectors, else builtin]
    #[arg(long, value_name = "EMBEDDER")]
    #[schema(value_type = Option<String>)]
    pub embedder: Option<EmbedderChoice>,
    /// With candle, openai or a named embedder, embed only nodes that may be answers; vector search
    /// does not find other nodes
    #[arg(long)]
    #[serde(default)]
    pub candidates_only: bool,
    /// Also build these optional parts: ann, multi, late, colbert=DIR (DIR is a ColBERT
    /// checkpoint), fields, field-vectors, query
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub with: Vec<PartRequest>,
    /// Delete the vectors cached by earlier runs with this embedder
    #[arg(long)]
    #[serde(default)]
    pub drop_cache: bool,
    /// Rebuild existing parts
    #[arg(long)]
    #[serde(default)]
    pub force: bool,
}

/// Describes the completed index of a dataset.
#[derive(Debug, Serialize)]
pub struct Reply {
    /// Name of the dataset.
    pub dataset: String,
    /// Embedder that made the vectors of the index.
    pub embedder: EmbedderChoice,
    /// Whether only nodes that may be answers have vectors.
    pub candidates_only: bool,
    /// Whether any part was built; false if all requested parts existed.
    pub built: bool,
}

impl Perform for Request {
    const NAME: &'static str = "index";
    const SUMMARY: &'static str = "Build the indexes of a dataset";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        self.check_network(app)?;
        let target = Target::new(&self.dataset, self.embedder.as_ref(), self.candidates_only, app)?;
        let built = self.build(&target, app)?;
        make_current(&target.base, app)?;
        let Target { base, choice, candidates_only, .. } = target;
        let embedder = match choice {
            EmbedderChoice::Candle(dir) => EmbedderChoice::Candle(app.shown_path(&dir).into()),
            EmbedderChoice::Import(dir) => EmbedderChoice::Import(app.shown_path(&dir).into()),
            choice => choice,
        };
        Ok(Reply { dataset: base.name, embedder, candidates_only, built })
    }
}

impl Request {
    /// Rejects requests over a network that choose an embedder or checkpoint, or drop cached
    /// vectors. An embedder or checkpoint may read a directory or cost money.
    fn check_network(&self, app: &App) -> Result<()> {
        let is_builtin = matches!(self.embedder, None | Some(EmbedderChoice::Builtin));
        let names_checkpoint = self.with.iter().any(|request| request.checkpoint.is_some());
        if app.network.is_none() || (is_builtin && !self.drop_cache && !names_checkpoint) {
            return Ok(());
        }
        refused(
            "a request over a network cannot choose an embedder or a checkpoint, or drop vectors",
        )
        .hint("run `agent index` on the server")
    }

    /// Builds the parts of the index that are missing. Returns whether any were missing.
    fn build(&self, target: &Target, app: &App) -> Result<bool> {
        let Target { base, kb, served, state, choice, candidates_only } = target;
        let IndexState { words, vectors } = state;
        let errors = [words.as_ref().err(), vectors.as_ref().err()].into_iter().flatten();
        let reasons = errors.filter(|error| !matches!(error, IndexError::Missing { .. }));
        let mut reasons: Vec<String> = reasons.map(ToString::to_string).collect();
        reasons.dedup();
        for reason in reasons.iter().filter(|_| !self.force) {
            app.watch.notice(&format!("rebuilding: {reason}"));
        }
        let there = vectors.as_ref().ok().filter(|_| !self.force);
        let kept = there
            .filter(|there| there.embedder == *choice && there.candidates_only == *candidates_only);
        let colbert = self.open_checkpoint(target)?;
        let checkpoint_changed = colbert.as_ref().is_some_and(|encoder| {
            let built = checkpoint_of(&base.index_dir());
            built.is_none_or(|(_, fingerprint)| fingerprint != encoder.fingerprint())
        });
        let has = |part: &Part| {
            let stale = *part == Part::Colbert && checkpoint_changed;
            kept.is_some_and(|there| there.parts.contains(part)) && !stale
        };
        let parts = self.with.iter().map(|request| request.part);
        let parts: Vec<Part> = parts.filter(|part| !has(part)).collect();
        let words = self.force || words.is_err();
        if !words && kept.is_some() && parts.is_empty() {
            let name = &base.name;
            let notice = format!("\"{name}\" is indexed with {choice}; --force rebuilds the index");
            app.watch.notice(&notice);
            index::remove_leftovers(&base.index_dir());
            return Ok(false);
        }
        let access = app.access();
        let (embedder, import) = match (kept, choice) {
            (Some(_), _) => (None, None),
            (None, EmbedderChoice::Import(dir)) => (None, Some(vectors::read(dir, base, kb, app)?)),
            (None, choice) => (open(choice, self.drop_cache, &access)?, None),
        };
        let candidates_only = *candidates_only;
        let vectors = match (&embedder, &import) {
            _ if kept.is_some() => None,
            (Some(embedder), _) => {
                Some(VectorSource::Embedder { choice, embedder: &**embedder, candidates_only })
            }
            (None, Some(vectors)) => Some(VectorSource::Import { choice, vectors }),
            (None, None) => Some(VectorSource::Builtin),
        };
        let open_kb = |of: &Base| Ok::<_, AppError>((Kb::open(&of.kb_dir())?, of.index_dir()));
        let served = served.as_ref().map(open_kb).transpose()?;
        let previous = served.as_ref().map(|(kb, index)| IndexedVersion { kb, index });
        let words = words.then_some(WordSource::Nodes);
        let colbert = colbert.as_ref();
        let plan = Plan { words, vectors, parts: &parts, colbert, access: &access, previous };
        let built = dataset::build_index(base, kb, &plan, app);
        if let Some(embedder) = &embedder {
            report_cost(&embedder.spent(), built.is_ok(), app);
        }
        built.map(|()| true)
    }

    /// Opens the checkpoint of the part `colbert` if this part is requested: the checkpoint in the
    /// request, or else the one that the existing part was built with.
    fn open_checkpoint(&self, target: &Target) -> Result<Option<ColbertEncoder>> {
        let mut requests = self.with.iter();
        let Some(request) = requests.find(|request| request.part == Part::Colbert) else {
            return Ok(None);
        };
        let versions = [Some(&target.base), target.served.as_ref()].into_iter().flatten();
        let mut built = versions.filter_map(|base| checkpoint_of(&base.index_dir()));
        let dir = match &request.checkpoint {
            Some(dir) => full_path(dir)?,
            None => {
                let missing = || AppError::usage(IndexError::NoCheckpoint.into());
                built.next().map(|(dir, _)| dir).ok_or_else(missing)?
            }
        };
        Ok(Some(ColbertEncoder::open(&dir)?))
    }
}

/// The version of a dataset to index, with its embedder and the nodes that get vectors.
pub struct Target {
    /// The version of the dataset that was imported last.
    pub base: Base,
    /// The nodes and edges of this version.
    pub kb: Kb,
    /// The current version of the dataset, if it is older than `base`.
    served: Option<Base>,
    /// State of the index that `base` has, if any.
    state: IndexState,
    /// Embedder that makes the vectors.
    pub choice: EmbedderChoice,
    /// Whether only nodes that may be answers get vectors.
    pub candidates_only: bool,
}

impl Target {
    /// Finds the latest import of a dataset. By default, the embedder and the nodes that get
    /// vectors are the same as for the existing vectors.
    ///
    /// # Errors
    /// If the dataset cannot be found, or the embedder's directory or name does not exist.
    pub fn new(
        dataset: &str,
        embedder: Option<&EmbedderChoice>,
        candidates_only: bool,
        app: &App,
    ) -> Result<Self> {
        let served = dataset::locate(dataset, app)?.base;
        let next = app.home.pending_version(&served.name)?;
        let base = next.as_ref().unwrap_or(&served).clone();
        let kb = Kb::open(&base.kb_dir())?;
        let state = IndexState::inspect(&kb, &base.index_dir(), &base.name);
        let choice = match (embedder, &state.vectors) {
            (Some(choice), _) => absolute(choice, app)?,
            (None, Ok(there)) => there.embedder.clone(),
            (None, Err(_)) if next.is_some() => embedder_of(&served),
            (None, Err(_)) => EmbedderChoice::default(),
        };
        // Without a new embedder, the same kind of nodes gets vectors as before. The built-in
        // embedder always embeds all nodes; imported vectors always belong to candidates only.
        let before = state.vectors.as_ref().is_ok_and(|there| there.candidates_only);
        let wanted = candidates_only || (embedder.is_none() && before);
        let candidates_only = match choice {
            EmbedderChoice::Builtin => false,
            EmbedderChoice::Import(_) => true,
            EmbedderChoice::Candle(_) | EmbedderChoice::OpenAi(_) | EmbedderChoice::Named(_) => {
                wanted
            }
        };
        let served = next.map(|_| served);
        Ok(Self { base, kb, served, state, choice, candidates_only })
    }
}

/// Indexes a base with vectors that were computed elsewhere, and makes the base current. Keeps the
/// word index if it is usable.
///
/// # Errors
/// If indexing fails.
pub fn from_vectors<'a>(
    base: &Base,
    kb: &Kb,
    vectors: &'a PrecomputedVectors<'a>,
    app: &App,
) -> Result<()> {
    let words = IndexState::inspect(kb, &base.index_dir(), &base.name).words.is_err();
    let words = words.then_some(WordSource::Nodes);
    let vectors = Some(VectorSource::Precomputed(vectors));
    let plan = Plan { words, vectors, ..Plan::nothing() };
    dataset::build_index(base, kb, &plan, app)?;
    make_current(base, app)
}

/// Builds the word index of a base from `words`. If the base has usable vectors, keeps them and
/// makes the base current.
///
/// # Errors
/// If indexing fails.
pub fn from_words(base: &Base, kb: &Kb, words: WordSource<'_>, app: &App) -> Result<()> {
    let words = Some(words);
    let plan = Plan { words, ..Plan::nothing() };
    dataset::build_index(base, kb, &plan, app)?;
    if IndexState::inspect(kb, &base.index_dir(), &base.name).vectors.is_ok() {
        return make_current(base, app);
    }
    let name = &base.name;
    app.watch
        .notice(&format!("\"{name}\" has no vectors yet; create them with `agent index {name}`"));
    Ok(())
}

/// Indexes the newer import of a base, with the embedder and the parts of `served`, the current
/// version of the base. Then makes the import current.
///
/// # Errors
/// If indexing fails; `served` then stays current.
pub fn index_as_before(served: &Base, app: &App) -> Result<()> {
    let kb = Kb::open(&served.kb_dir())?;
    let vectors = IndexState::inspect(&kb, &served.index_dir(), &served.name).vectors.ok();
    let parts = vectors.iter().flat_map(|there| there.parts.iter().copied());
    let request = Request {
        dataset: served.name.clone(),
        embedder: None,
        candidates_only: vectors.as_ref().is_some_and(|there| there.candidates_only),
        with: parts.map(|part| PartRequest { part, checkpoint: None }).collect(),
        drop_cache: false,
        force: false,
    };
    request.perform(app).map(|_| ())
}

/// Makes an indexed version of a base current and notifies the user; does nothing if this version
/// is already current.
fn make_current(base: &Base, app: &App) -> Result<()> {
    if app.home.get(&base.name)?.version != base.version {
        app.home.make_current(base)?;
        app.watch.notice(&format!("\"{}\" now uses the new import", base.name));
    }
    Ok(())
}

/// Returns the embedder that made a base's vectors; the built-in one if the base has no usable
/// vectors.
fn embedder_of(base: &Base) -> EmbedderChoice {
    let vectors = Kb::open(&base.kb_dir())
        .ok()
        .and_then(|kb| IndexState::inspect(&kb, &base.index_dir(), &base.name).vectors.ok());
    vectors.map_or_else(EmbedderChoice::default, |vectors| vectors.embedder)
}

/// Makes the path in an embedder choice absolute, so that the embedder can be opened from any
/// directory. Fails if the choice is a name that the settings do not contain.
fn absolute(choice: &EmbedderChoice, app: &App) -> Result<EmbedderChoice> {
    Ok(match choice {
        EmbedderChoice::Candle(dir) => EmbedderChoice::Candle(full_path(dir)?),
        EmbedderChoice::Import(dir) => EmbedderChoice::Import(full_path(dir)?),
        EmbedderChoice::Named(name) => {
            match app.access().named(name) {
                Err(error @ EmbedError::Unconfigured { .. }) => {
                    return Err(AppError::usage(error.into()));
                }
                found => found?,
            };
            choice.clone()
        }
        EmbedderChoice::Builtin | EmbedderChoice::OpenAi(_) => choice.clone(),
    })
}

/// Returns the absolute path of a directory. Fails if it does not exist or its path is not UTF-8,
/// as paths are stored as text.
fn full_path(dir: &Path) -> Result<PathBuf> {
    let full = dir.canonicalize();
    let full = full.with_context(|| format!("cannot open the directory {}", dir.display()))?;
    let is_text = full.to_str().is_some();
    Ok(is_text.then_some(full).with_context(|| format!("{} is not UTF-8", dir.display()))?)
}

/// Opens an embedder with its cache of vectors; empties the cache first if `drop_cache` is set.
/// Returns `None` for the built-in embedder and for imported vectors, which are not opened here.
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

/// Notifies the user of the costs of an embedder, and of problems. `is_done` is false if the index
/// could not be completed.
fn report_cost(spent: &EmbedCost, is_done: bool, app: &App) {
    let from_cache = format!("{} vectors from the cache", count(spent.from_cache));
    let parts = [vec![from_cache], costs(spent)].concat();
    app.watch.notice(&parts.join(", "));
    if let Some(problem) = &spent.problem {
        app.watch.warning(problem);
    } else if !is_done {
        app.watch.notice("the vectors computed so far are kept; run the command again to continue");
    }
}

/// Describes the costs of an embedder that are not 0, such as `1,200 paid tokens`; leaves out the
/// time.
pub fn costs(spent: &EmbedCost) -> Vec<String> {
    let counts = [
        (spent.tokens, "paid tokens"),
        (spent.cut, "texts cut to the model's limit"),
        (spent.retries, "requests repeated"),
    ];
    let some = counts.iter().filter(|(n, _)| *n > 0);
    some.map(|(n, what)| format!("{} {what}", count(*n))).collect()
}
