//! Builds the indexes of a dataset, and makes an indexed new import the current version.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, AppError, Explain, Result, dataset, operation::Perform, text::count, vectors};
use agent_dataset::Base;
use agent_embed::{CachedEmbedder, EmbedCost, EmbedError, Embedder};
use agent_index::{
    self as index, Access, EmbedderChoice, IndexError, IndexState, IndexedVersion, Part, Plan,
    PrecomputedVectors, VectorSource, WordSource,
};
use agent_kb::Kb;

/// A dataset to index.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, or a directory in neutral format
    #[arg(value_name = "N")]
    pub dataset: String,
    /// Embed texts with builtin, candle:DIR, openai:MODEL, import:DIR, or NAME of [embedders.NAME]
    /// in config.toml [default: the embedder of the existing vectors, else builtin]
    #[arg(long, value_name = "EMBEDDER")]
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub embedder: Option<EmbedderChoice>,
    /// With candle, openai or a named embedder, embed only nodes that may be answers; vector search
    /// does not find others
    #[arg(long)]
    #[serde(default)]
    pub candidates_only: bool,
    /// Also build these optional parts: ann, multi, late, fields, field-vectors, query
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub with: Vec<Part>,
    /// Delete the vectors that earlier runs with this embedder cached
    #[arg(long)]
    #[serde(default)]
    pub drop_cache: bool,
    /// Rebuild existing parts
    #[arg(long)]
    #[serde(default)]
    pub force: bool,
}

/// A complete index.
#[derive(Debug, Serialize)]
pub struct Reply {
    /// Name of the dataset.
    pub dataset: String,
    /// Embedder of its vectors.
    pub embedder: EmbedderChoice,
    /// Whether only nodes that may be answers have vectors.
    pub candidates_only: bool,
    /// Whether any part was built; false if all parts existed.
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
        let Target { base, choice: embedder, candidates_only, .. } = target;
        Ok(Reply { dataset: base.name, embedder, candidates_only, built })
    }
}

impl Request {
    /// Refuses requests over a network that choose an embedder, which may read a directory or cost
    /// money, or that drop cached vectors.
    fn check_network(&self, app: &App) -> Result<()> {
        let is_builtin = matches!(self.embedder, None | Some(EmbedderChoice::Builtin));
        if app.network.is_none() || (is_builtin && !self.drop_cache) {
            return Ok(());
        }
        let why = "a request over a network cannot choose an embedder or drop its vectors";
        Err(AppError::usage(anyhow!(why)))
            .hint("index on the machine of the server with `agent index`")
    }

    /// Builds missing parts. Returns whether any were missing.
    fn build(&self, target: &Target, app: &App) -> Result<bool> {
        let Target { base, kb, served, state, choice, candidates_only } = target;
        let IndexState { words, vectors } = state;
        let errors = [words.as_ref().err(), vectors.as_ref().err()].into_iter().flatten();
        let reasons = errors.filter(|error| !matches!(error, IndexError::Missing { .. }));
        let mut reasons: Vec<String> = reasons.map(ToString::to_string).collect();
        reasons.dedup();
        for reason in reasons.iter().filter(|_| !self.force) {
            app.watch.notice(&format!("building again: {reason}"));
        }
        let there = vectors.as_ref().ok().filter(|_| !self.force);
        let kept = there
            .filter(|there| there.embedder == *choice && there.candidates_only == *candidates_only);
        let has = |part: &Part| kept.is_some_and(|there| there.parts.contains(part));
        let parts: Vec<Part> = self.with.iter().copied().filter(|part| !has(part)).collect();
        let words = self.force || words.is_err();
        if !words && kept.is_some() && parts.is_empty() {
            let name = &base.name;
            let notice = format!("\"{name}\" is indexed with {choice}; --force builds it again");
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
        let served = match served {
            Some(served) => Some((Kb::open(&served.kb_dir())?, served.index_dir())),
            None => None,
        };
        let previous = served.as_ref().map(|(kb, index)| IndexedVersion { kb, index });
        let words = words.then_some(WordSource::Nodes);
        let plan = Plan { words, vectors, parts: &parts, access: &access, previous };
        let built = dataset::build_index(base, kb, &plan, app);
        if let Some(embedder) = &embedder {
            report_cost(&embedder.spent(), built.is_ok(), app);
        }
        built.map(|()| true)
    }
}

/// The version of a dataset to index, with its embedder and scope.
pub struct Target {
    /// The latest imported version.
    pub base: Base,
    /// Its nodes and edges.
    pub kb: Kb,
    /// The current version, if it is another one.
    served: Option<Base>,
    /// State of the existing index.
    state: IndexState,
    /// The embedder of its vectors.
    pub choice: EmbedderChoice,
    /// Whether only nodes that may be answers get vectors.
    pub candidates_only: bool,
}

impl Target {
    /// Finds the latest import of a dataset. Embedder and scope default to those of the existing
    /// vectors.
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
        // Without a new embedder the scope stays; two kinds of embedders have a fixed scope.
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

/// Indexes a base with precomputed vectors and makes it current. A usable word index is kept.
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
    let plan = Plan { words, vectors, parts: &[], access: Access::none(), previous: None };
    dataset::build_index(base, kb, &plan, app)?;
    make_current(base, app)
}

/// Indexes the words of a base from `words`. If its vectors are usable, they are kept and the base
/// becomes current.
///
/// # Errors
/// If indexing fails.
pub fn from_words(base: &Base, kb: &Kb, words: WordSource<'_>, app: &App) -> Result<()> {
    let words = Some(words);
    let plan = Plan { words, vectors: None, parts: &[], access: Access::none(), previous: None };
    dataset::build_index(base, kb, &plan, app)?;
    if IndexState::inspect(kb, &base.index_dir(), &base.name).vectors.is_ok() {
        return make_current(base, app);
    }
    let name = &base.name;
    app.watch.notice(&format!("\"{name}\" has no vectors yet; `agent index {name}` makes them"));
    Ok(())
}

/// Indexes the pending version of a base like the current one, and makes it current.
///
/// # Errors
/// If indexing fails; then the previous version stays current.
pub fn index_as_before(served: &Base, app: &App) -> Result<()> {
    let kb = Kb::open(&served.kb_dir())?;
    let vectors = IndexState::inspect(&kb, &served.index_dir(), &served.name).vectors.ok();
    let request = Request {
        dataset: served.name.clone(),
        embedder: None,
        candidates_only: vectors.as_ref().is_some_and(|there| there.candidates_only),
        with: vectors.map_or_else(Vec::new, |there| there.parts),
        drop_cache: false,
        force: false,
    };
    request.perform(app).map(|_| ())
}

/// Makes an indexed version of a base current.
fn make_current(base: &Base, app: &App) -> Result<()> {
    if app.home.get(&base.name)?.version != base.version {
        app.home.make_current(base)?;
        app.watch.notice(&format!("\"{}\" now answers with the new import", base.name));
    }
    Ok(())
}

/// Returns the embedder of a base's vectors; the built-in one if there are none.
fn embedder_of(base: &Base) -> EmbedderChoice {
    let vectors = Kb::open(&base.kb_dir())
        .ok()
        .and_then(|kb| IndexState::inspect(&kb, &base.index_dir(), &base.name).vectors.ok());
    vectors.map_or_else(EmbedderChoice::default, |vectors| vectors.embedder)
}

/// Returns the choice with an absolute path, so that it opens from any directory. Fails if a named
/// embedder is not configured.
fn absolute(choice: &EmbedderChoice, app: &App) -> Result<EmbedderChoice> {
    let full = |dir: &PathBuf| {
        let full = dir.canonicalize();
        let full = full.with_context(|| format!("cannot open the directory {}", dir.display()))?;
        // Paths are stored as text.
        let is_text = full.to_str().is_some();
        is_text.then_some(full).with_context(|| format!("{} is not UTF-8", dir.display()))
    };
    Ok(match choice {
        EmbedderChoice::Candle(dir) => EmbedderChoice::Candle(full(dir)?),
        EmbedderChoice::Import(dir) => EmbedderChoice::Import(full(dir)?),
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

/// Opens an embedder with its cache; `None` if the choice has none to open without a base.
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

/// Reports the cost of an embedder.
fn report_cost(spent: &EmbedCost, is_done: bool, app: &App) {
    let from_cache = format!("{} vectors from the cache", count(spent.from_cache));
    let parts = [vec![from_cache], costs(spent)].concat();
    app.watch.notice(&parts.join(", "));
    if let Some(problem) = &spent.problem {
        app.watch.warning(problem);
    } else if !is_done {
        app.watch.notice("vectors that were computed are kept; run the command again to go on");
    }
}

/// Returns the nonzero costs of an embedder in words, without time.
pub fn costs(spent: &EmbedCost) -> Vec<String> {
    let counts = [
        (spent.tokens, "paid tokens"),
        (spent.cut, "texts cut to the model's limit"),
        (spent.retries, "requests repeated"),
    ];
    let some = counts.iter().filter(|(n, _)| *n > 0);
    some.map(|(n, what)| format!("{} {what}", count(*n))).collect()
}
