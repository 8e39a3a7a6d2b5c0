//! Answers a question with a frozen bundle.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    App, Effort, Explain, LlmArgs, Perform, Resources, Result, SandboxArgs, TOP, Top,
    choice::{choice, effort},
    dataset, llm, open_bundle, read_bundle,
    search::filtered,
    systems::OpenedBundle,
    unassisted, warn_of_stand_in,
};
use agent_index::IndexedBase;
use agent_infer::{
    self as infer, AnswerRecord,
    bundle::{Bundle, BundleError, Fit},
};
use agent_kb::filter::Condition;
use agent_retrieve::{Answer, Detail, Filtered, check_query};

/// Number of nodes at the start of the ranking that `--explain` explains.
const MAX_EXPLAINED: usize = 5;

/// A question, and the bundle to answer it with.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Frozen bundle: a file, the directory or name of a run, or `latest`
    #[arg(skip)]
    #[schema(value_type = String)]
    pub bundle: PathBuf,
    /// The question
    #[arg(skip)]
    #[serde(default)]
    pub text: String,
    /// How to open the bundle and answer.
    #[command(flatten)]
    #[serde(default)]
    pub options: Options,
}

/// How to open a bundle and answer questions with it.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Installed dataset, directory to import, or built-in sample [default: the bundle's]
    #[arg(long, value_name = "N", display_order = 1)]
    pub dataset: Option<String>,
    /// Print at most this many nodes, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = TOP, display_order = 4)]
    #[serde(default = "crate::top")]
    pub k: Top,
    /// Keep only nodes that meet this condition: site=Munich, priority=high,urgent,
    /// created>=2025-03, status!=closed; may be given several times
    #[arg(long = "where", value_name = "CONDITION", display_order = 4)]
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub filter: Vec<Condition>,
    /// Show the categories that answer, and the tool calls that found each of the first five nodes
    ///
    /// With --json, each of the first five nodes lists all calls, including those that found other
    /// nodes or only compute, and all features of the re-ranker.
    #[arg(long, display_order = 5)]
    #[serde(default)]
    pub explain: bool,
    /// Use the bundle even if it was made for another base
    #[arg(long, display_order = 6)]
    #[serde(default)]
    pub force: bool,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Set how much the bundle may use a language model
    #[arg(long, value_parser = choice::<Effort>(), default_value = "0", display_order = 8)]
    #[serde(default, deserialize_with = "effort")]
    #[schema(value_type = u8, minimum = 0, maximum = 2)]
    pub effort: Effort,
    /// Ignore answers that the language model suggests from its own knowledge
    #[arg(long, display_order = 9)]
    #[serde(default)]
    pub no_known_answers: bool,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            dataset: None,
            k: TOP,
            filter: Vec::new(),
            explain: false,
            force: false,
            sandbox: SandboxArgs::default(),
            effort: Effort::None,
            no_known_answers: false,
            llm: LlmArgs::default(),
        }
    }
}

/// A bundle opened on a base, ready to answer any number of questions.
pub struct Session {
    /// The base that is searched.
    pub base: Arc<IndexedBase>,
    /// The bundle, opened on this base.
    pub opened: OpenedBundle,
}

impl Session {
    /// Opens a bundle on the dataset of the options, or else on the bundle's own.
    ///
    /// # Errors
    /// If the bundle or the base cannot be opened, or if the bundle was made for another base and
    /// `force` is not set.
    pub fn open(bundle: &Path, options: &Options, app: &App) -> Result<Session> {
        let bundle = read_bundle(bundle, options.dataset.as_deref(), app)?;
        let found = dataset::chosen(options.dataset.as_deref(), &bundle.dataset.name, app)?;
        let base = dataset::open(&found, app)?;
        check_base(&bundle, &base, options.force, app)?;
        let llm = llm::open_if_configured(&options.llm, options.effort > Effort::None, app)?;
        let places = options.sandbox.places(app)?;
        let resources = Resources {
            effort: options.effort,
            no_known_answers: options.no_known_answers,
            ..Resources::new(llm.as_ref(), places, app)
        };
        let mut opened = open_bundle(&bundle, &base, &resources)?;
        if let Some(nodes) = filtered(&base, &options.filter)? {
            opened.answers = Box::new(Filtered::new(opened.answers, base.clone(), nodes));
        }
        Ok(Session { base, opened })
    }
}

/// The answer of a bundle to one question.
pub struct Reply {
    /// The question.
    pub query: String,
    /// The bundle, as the request names it.
    pub bundle: String,
    /// The answer: a ranking of nodes, with how it was found.
    pub answer: Answer,
    base: Arc<IndexedBase>,
}

impl Reply {
    /// Returns the answer in the format of `docs/answer.schema.json`.
    pub fn record(&self) -> AnswerRecord<'_> {
        AnswerRecord::new(&self.base.kb, &self.answer)
    }
}

/// An answer as JSON, with the question and the bundle.
#[derive(Serialize)]
pub struct QueryRecord<'a> {
    /// The question.
    pub query: &'a str,
    /// The bundle, as the request names it.
    pub bundle: &'a str,
    /// The answer, in the format of `docs/answer.schema.json`.
    #[serde(flatten)]
    pub answer: AnswerRecord<'a>,
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        QueryRecord { query: &self.query, bundle: &self.bundle, answer: self.record() }
            .serialize(out)
    }
}

impl Perform for Request {
    const NAME: &'static str = "query";
    const SUMMARY: &'static str = "Answer a question with a frozen bundle";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let began = Instant::now();
        let text = check_query(&self.text)?;
        let Session { base, opened } = Session::open(&self.bundle, &self.options, app)?;
        let open_ms = began.elapsed().as_secs_f64() * 1e3;
        let explained_count = if self.options.explain { MAX_EXPLAINED } else { 0 };
        let (k, detail) = (self.options.k.get(), Detail { explained_count, paths: true });
        let mut answer = infer::answer(&base, &*opened.answers, text, k, detail)?;
        answer.timings.insert("open_ms", open_ms);
        unassisted(&answer, app);
        warn(&answer, app);
        let (query, bundle) = (text.to_owned(), self.bundle.display().to_string());
        Ok(Reply { query, bundle, answer, base })
    }
}

/// Warns if a program failed, and notifies the user if nothing in the question was recognised or no
/// node matches.
fn warn(answer: &Answer, app: &App) {
    warn_of_stand_in(answer, app);
    match (answer.analysis.recognised, answer.ranking().is_empty()) {
        (false, true) => app.watch.notice("nothing in the question was recognised"),
        (false, false) => app.watch.notice(
            "no name in the question was recognised; these nodes were found by its other words",
        ),
        (true, true) => app.watch.notice("no node matches"),
        (true, false) => {}
    }
}

/// Fails if the bundle was made for another base; with `force`, warns instead.
fn check_base(bundle: &Bundle, base: &IndexedBase, force: bool, app: &App) -> Result<()> {
    match check_fit(bundle, base, app) {
        Err(error @ BundleError::OtherBase { .. }) if force => {
            app.watch.warning(&format!("--force: {error}"));
            Ok(())
        }
        checked => checked.hint("--force answers with this bundle anyway"),
    }
}

/// Warns if `base` is an updated version of the bundle's base.
///
/// # Errors
/// [`BundleError::OtherBase`] if the bundle was made for another base.
pub(crate) fn check_fit(bundle: &Bundle, base: &IndexedBase, app: &App) -> Result<(), BundleError> {
    if bundle.fit(base)? == Fit::Updated {
        app.watch.warning(&bundle.updated());
    }
    Ok(())
}
