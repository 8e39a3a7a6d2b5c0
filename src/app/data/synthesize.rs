//! Makes labelled questions for a dataset that has none. Does not depend on how questions are
//! generated.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    slice,
    time::Instant,
};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    App, AppError, Bounded, Explain, LlmArgs, Perform, Plan, Result, dataset, llm, refused,
    synthesize::{QUERIES, SEED, keep, make, summary, watched},
};
use agent_ask::synthesize::synthesize as synthesize_tables;
use agent_dataset::{
    Base, DatasetError, ResolvedDataset, Split, has_own_labels, is_synthetic, load_split,
};
use agent_ground::{files, words::quoted};
use agent_kb::Kb;
use agent_synth::{
    self as synth, BENCHMARK, Estimate, Ids, MAX_QUERIES, Options, Quality, Requester, SynthError,
    Template, read_templates,
};

/// Value of `--templates` that selects the templates of the STaRK benchmark.
const BENCHMARK_NAME: &str = "benchmark";
/// Maximum size of a file of templates in bytes.
const MAX_TEMPLATE_BYTES: u64 = 4 << 20;
/// Maximum number of the users' own questions that a model sees.
const MANNER: usize = 10;
/// Stages of making questions over many nodes, for progress reports.
const TABLE_STAGES: Plan = &[("questions", 1.0)];

/// A dataset, and how to make labelled questions for it.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(value_name = "N")]
    pub dataset: String,
    /// Make this many questions, at most 10,000
    #[arg(long, value_name = "K", default_value_t = queries())]
    #[serde(default = "queries")]
    pub queries: Bounded<1, { MAX_QUERIES as u64 }>,
    /// Make questions with answers of this kind
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    #[serde(default)]
    pub kind: Kind,
    /// Find properties in documents and write questions with patterns or with a language model
    #[arg(long, value_enum, value_name = "ACTOR", default_value_t)]
    #[serde(default)]
    pub actor: Actor,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
    /// Read templates from this file, or use the STaRK templates with `benchmark` [default: derive
    /// templates from the relations]
    #[arg(long, value_name = "FILE")]
    pub templates: Option<String>,
    /// Use this random seed
    #[arg(long, value_name = "S", default_value_t = SEED)]
    #[serde(default = "seed")]
    pub seed: u64,
    /// Write qa.csv and split/ to this new directory and leave the dataset unchanged
    #[arg(long, value_name = "DIR")]
    #[schema(value_type = Option<String>)]
    pub to: Option<PathBuf>,
    /// Print the number of questions and the expected model usage, and make nothing
    #[arg(long)]
    #[serde(default)]
    pub dry_run: bool,
}

fn queries() -> Bounded<1, { MAX_QUERIES as u64 }> {
    Bounded::new(QUERIES as u64)
}

fn seed() -> u64 {
    SEED
}

/// The method that finds properties for questions, and writes the questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// Patterns, with the words of documents
    #[default]
    Words,
    /// A language model
    Llm,
}

/// Kind of answer that the questions have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nodes
    #[default]
    Nodes,
    /// A number, names, yes or no, or a table over many nodes
    Table,
}

/// The questions that were made, or the forecast of a dry run.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// Questions whose answers are nodes.
    Nodes(NodeQuestions),
    /// Questions over many nodes.
    Table(TableQuestions),
    /// The expected cost; nothing was made, since this was a dry run.
    Forecast(Forecast),
}

/// Questions whose answers are nodes.
#[derive(Serialize)]
pub struct NodeQuestions {
    /// Name of the dataset that the questions are about.
    pub dataset: String,
    /// Random seed that the questions were drawn with.
    pub seed: u64,
    /// Number of templates from which questions were drawn.
    pub templates: usize,
    /// Number of questions in the splits train, val and test, in this order.
    pub splits: [usize; 3],
    /// Time taken to make the questions, in seconds.
    pub seconds: f64,
    /// Why the language model stopped replying before all questions were made; absent if it did
    /// not.
    pub stopped: Option<String>,
    /// Quality measures of the questions.
    pub quality: Quality,
    /// Summary in words for the user, with the number of questions of each kind.
    #[serde(skip)]
    pub summary: String,
    /// Where the questions are stored, as a phrase for messages: `in DIR` or `of "NAME"`.
    #[serde(skip)]
    pub place: String,
}

/// Questions over many nodes.
#[derive(Serialize)]
pub struct TableQuestions {
    /// The dataset, as the request names it.
    pub dataset: String,
    /// Random seed that the questions were drawn with.
    pub seed: u64,
    /// Number of questions in the splits train, val and test, in this order.
    pub splits: [usize; 3],
    /// Time taken to make the questions, in seconds.
    pub seconds: f64,
    /// Number of questions of each kind, by the name of the kind.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Where the questions are stored, as a phrase for messages: `in DIR` or `of "NAME"`.
    #[serde(skip)]
    pub place: String,
}

/// The expected cost of making questions.
#[derive(Serialize)]
pub struct Forecast {
    dataset: String,
    /// Number of questions that would be made.
    pub queries: usize,
    /// Expected usage of the language model.
    pub llm: Estimate,
}

impl Perform for Request {
    const NAME: &'static str = "data_synthesize";
    const SUMMARY: &'static str = "Generate questions with answers for a dataset that has none";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        if self.to.is_some() || self.templates.as_deref().is_some_and(|of| of != BENCHMARK_NAME) {
            app.refuse_paths("data synthesize")?;
        }
        match self.kind {
            Kind::Nodes => self.for_nodes(app),
            Kind::Table => self.over_many_nodes(app),
        }
    }
}

impl Request {
    /// Makes questions whose answers are nodes.
    fn for_nodes(&self, app: &App) -> Result<Reply> {
        if self.actor == Actor::Words && self.llm.model.is_some() {
            app.watch.notice("no language model is used; add --actor llm to use it");
        }
        let is_asked = self.actor == Actor::Llm;
        let opened = is_asked.then(|| llm::open(&self.llm, None, app)).transpose()?;
        let requester = opened.as_ref().map(|opened| {
            let assistant = &opened.assistant;
            Requester::new(assistant.llm().clone(), assistant.prompts().clone())
        });
        if self.dry_run {
            return self.forecast(requester.as_ref(), app);
        }
        let dataset = dataset::find(&self.dataset, app)?;
        self.refuse_labelled(&dataset.base)?;
        let in_manner = |of: Requester| Ok::<_, AppError>(of.in_manner(manner(&dataset.base)?));
        let requester = requester.map(in_manner).transpose()?;
        let base = dataset::open(&dataset, app)?;
        let began = Instant::now();
        let templates = self.templates.as_deref().map(|file| templates(&base.kb, file, app));
        let options = Options {
            queries: self.queries.get(),
            seed: self.seed,
            templates: templates.transpose()?,
        };
        let made = make(&base, &options, requester.as_ref(), app)?;
        // Files outside the dataset are for users, who know nodes by their own ids.
        let ids = if self.to.is_some() { Ids::Own(&base.kb) } else { Ids::Numbers };
        let place = self.write(&dataset.base, app, |dir| made.write(ids, dir))?;
        if let Some(opened) = &opened {
            opened.finish(app)?;
        }
        let stopped = made.interruption.as_ref().map(ToString::to_string);
        if let Some(why) = &stopped {
            app.watch.warning(&format!("{why}; the questions made so far are kept"));
        }
        Ok(Reply::Nodes(NodeQuestions {
            dataset: dataset.base.name.clone(),
            seed: self.seed,
            templates: made.n_templates,
            splits: made.splits(),
            seconds: began.elapsed().as_secs_f64(),
            stopped,
            summary: summary(&made),
            quality: made.quality,
            place,
        }))
    }

    /// Makes questions over many nodes, whose answers are numbers, names, yes or no, or tables.
    fn over_many_nodes(&self, app: &App) -> Result<Reply> {
        if self.actor == Actor::Llm || self.templates.is_some() {
            return refused("--kind table uses neither a language model nor templates")
                .hint("leave --actor and --templates out");
        }
        if self.dry_run {
            return self.forecast(None, app);
        }
        let dataset = dataset::find(&self.dataset, app)?;
        self.refuse_labelled(&dataset.base)?;
        let base = dataset::open(&dataset, app)?;
        let began = Instant::now();
        let made = watched(TABLE_STAGES, app, |watch| {
            synthesize_tables(&base, self.queries.get(), self.seed, watch)
        })?;
        let place = self.write(&dataset.base, app, |dir| made.write(dir))?;
        let seconds = began.elapsed().as_secs_f64();
        let (n, wanted) = (made.all.len(), self.queries.get());
        if n < wanted {
            app.watch
                .warning(&format!("made {n} of {wanted} questions: the dataset yields no more"));
        }
        let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
        made.all.iter().for_each(|one| *kinds.entry(one.kind.name()).or_default() += 1);
        let (dataset, seed, splits) = (self.dataset.clone(), self.seed, made.splits());
        Ok(Reply::Table(TableQuestions { dataset, seed, splits, seconds, kinds, place }))
    }

    /// Returns the expected cost of the questions. Fails if the questions would replace labels that
    /// the user gave, or if the templates cannot be read.
    fn forecast(&self, requester: Option<&Requester>, app: &App) -> Result<Reply> {
        let base = match app.home.resolve(&self.dataset) {
            Ok(ResolvedDataset::Installed(base)) => Some(base),
            _ => None,
        };
        if let Some(base) = &base {
            self.refuse_labelled(base)?;
        }
        if let Some(file) = self.templates.as_deref() {
            // Templates can be compared only with the types and relations of an installed dataset.
            match &base {
                Some(base) => drop(templates(&Kb::open(&base.kb_dir())?, file, app)?),
                None => drop(template_text(file)?),
            }
        }
        let (dataset, queries) = (self.dataset.clone(), self.queries.get());
        let llm = synth::estimate(requester, queries);
        Ok(Reply::Forecast(Forecast { dataset, queries, llm }))
    }

    /// Fails if the questions would replace labels that the user gave in the base.
    fn refuse_labelled(&self, base: &Base) -> Result<()> {
        if self.to.is_none() && has_own_labels(base)? {
            let (name, n) = (base.name.clone(), base.record.n_queries);
            return Err(DatasetError::HasOwnLabels { name, n }.into());
        }
        Ok(())
    }

    /// Writes the questions with `write` to the requested directory, or installs them in the base
    /// if the request names no directory. Returns where the questions are: `in DIR` or `of "NAME"`.
    fn write(
        &self,
        base: &Base,
        app: &App,
        write: impl FnOnce(&Path) -> Result<(), SynthError>,
    ) -> Result<String> {
        match &self.to {
            Some(dir) => {
                write(dir)?;
                Ok(format!("in {}", dir.display()))
            }
            None => {
                keep(base, app, |dir| Ok(write(dir)?))?;
                Ok(format!("of \"{}\"", base.name))
            }
        }
    }
}

/// Returns the text of `file`, or the STaRK benchmark's templates if `file` is `benchmark`.
fn template_text(file: &str) -> Result<String> {
    match file {
        BENCHMARK_NAME => Ok(BENCHMARK.to_owned()),
        path => files::read_text(path.as_ref(), MAX_TEMPLATE_BYTES)
            .with_context(|| format!("cannot read {path}"))
            .hint("give a file of templates, or `benchmark` for the STaRK templates"),
    }
}

/// Returns up to [`MANNER`] training questions that people wrote, without quoted texts, spread
/// evenly over the split. These questions show a model how the users of the base ask.
fn manner(base: &Base) -> Result<Vec<String>> {
    let train = load_split(base, &Split::Train)?;
    let free: Vec<&str> = train
        .iter()
        .filter(|query| !is_synthetic(slice::from_ref(query)))
        .map(|query| query.text.as_str())
        .filter(|text| quoted(text).is_empty())
        .collect();
    let step = free.len().div_ceil(MANNER).max(1);
    Ok(free.into_iter().step_by(step).map(str::to_owned).collect())
}

/// Returns the templates in `file`, or the STaRK benchmark's templates if `file` is `benchmark`.
/// Leaves out templates with types or relations that the base does not have.
fn templates(kb: &Kb, file: &str, app: &App) -> Result<Vec<Template>> {
    let text = template_text(file)?;
    let read = read_templates(kb, &text, file).map_err(|error| anyhow!("{error}"))?;
    if read.foreign > 0 && file != BENCHMARK_NAME {
        app.watch.notice(&format!(
            "{} templates of {file} name types or relations that this base lacks, and are left out",
            read.foreign
        ));
    }
    Ok(read.templates)
}
