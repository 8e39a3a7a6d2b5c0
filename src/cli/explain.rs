//! `agent explain`: prints where the answers to labelled queries were lost, by category and by line
//! of the program; or, for one query, all tool calls of its program.

mod report;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};

use crate::{Context, Exit, explain::report::Report};
use agent_app::{
    Explain, LlmArgs, Resources, Result, SandboxArgs, dataset,
    eval::queries::{self, Filter},
    explained::explain_all,
    llm, open_runtime, read_bundle, read_program, refused,
};
use agent_dataset::{LabelledQuery, Split, nodes_of_ids, query_id};
use agent_index::IndexedBase;
use agent_infer::{ParamValues, bundle::Bundle, explain::Explainer};
use agent_kb::Kb;
use agent_retrieve::check_query;
use agent_sandbox::Origin;

/// Maximum number of answer ids accepted on the command line.
const MAX_ANSWERS: usize = 10_000;

/// Explain, line by line, why correct answers are not ranked first
///
/// Runs every query and follows its correct answers through the tool calls of the program. For each
/// query without a correct answer at rank 1, names one line and one kind of loss: failed, not
/// routed, not linked, not reached, filtered, cut or ranked low. The gain of a line is the maximum
/// by which the mean reciprocal rank could rise if its losses were repaired. For a bundle, follows
/// the program of the most probable category. With --query or a text, also prints the result of
/// every call.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Explain this frozen bundle: a file, the directory or name of a run, or `latest`
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
    /// Explain this program instead of a bundle
    #[arg(long, value_name = "FILE.rhai", conflicts_with = "bundle")]
    program: Option<PathBuf>,
    /// Use this installed dataset, directory to import, or built-in sample [default: the bundle's]
    #[arg(long, value_name = "N", required_unless_present_any = ["bundle", "words"])]
    dataset: Option<String>,
    /// Explain the queries of this split: train, val, human or a file like qa.csv; test queries are
    /// refused
    #[arg(long, value_name = "SPLIT", default_value = "val")]
    split: Split,
    /// Keep only queries with this value in this extra column of the query file; may be given
    /// several times
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    filters: Vec<Filter>,
    /// Explain only the query with this id in the split
    #[arg(long, value_name = "ID", conflicts_with = "answers", value_parser = id_of_query)]
    query: Option<i64>,
    /// Explain this query, with its answers in --answers; without --bundle or --program, the first
    /// word is the bundle
    #[arg(value_name = "[BUNDLE] [TEXT]")]
    words: Vec<String>,
    /// Give the ids of the query's correct answers, as in the data, separated by commas
    #[arg(long, value_name = "IDS", requires = "words")]
    answers: Vec<String>,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

impl Args {
    /// Returns the bundle and the text of the query, each `None` if not given. Without `--bundle`
    /// and `--program`, the first word on the command line is the bundle.
    fn asked(&self) -> Result<(Option<&Path>, Option<String>)> {
        let named = self.bundle.is_some() || self.program.is_some();
        let (bundle, words) = match self.words.split_first() {
            Some((bundle, words)) if !named => (Some(Path::new(bundle)), words),
            _ => (self.bundle.as_deref(), self.words.as_slice()),
        };
        if bundle.is_none() && self.program.is_none() {
            return refused("a bundle or a program is missing")
                .hint("write `agent explain latest`, or give --program FILE.rhai");
        }
        if self.program.is_some() && self.dataset.is_none() {
            return refused("a program does not name its dataset")
                .hint("name one with --dataset N");
        }
        match (words.is_empty(), self.answers.is_empty()) {
            (true, true) => Ok((bundle, None)),
            (false, false) => Ok((bundle, Some(words.join(" ")))),
            _ => refused("a question and --answers must be given together")
                .hint("give the text of the question, and the ids of its answers"),
        }
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let (file, text) = args.asked()?;
    if text.is_none() && matches!(args.split, Split::Test | Split::TestTenth) {
        return refused("the test split is for measuring only")
            .hint("explain the queries of val, or measure with `agent eval --split test`");
    }
    let bundle = file.map(|file| read_bundle(file, args.dataset.as_deref(), ctx)).transpose()?;
    let made_for = bundle.as_ref().map_or("", |bundle| &bundle.dataset.name);
    let name = args.dataset.as_deref().unwrap_or(made_for);
    let dataset = dataset::chosen(args.dataset.as_deref(), made_for, ctx)?;
    let of_split = match &text {
        Some(text) => check_query(text).map(|_| Vec::new())?,
        None => of_split(
            args,
            queries::load(std::slice::from_ref(&args.split), &args.filters, &dataset.base)?,
        )?,
    };
    let base = dataset::open(&dataset, ctx)?;
    let asked = match &text {
        Some(text) => vec![given(text, &args.answers, &base.kb)?],
        None => of_split,
    };
    let explainer = open(args, bundle.as_ref(), &base, ctx)?;
    let system = args.program.as_deref().or(file).unwrap_or(Path::new("")).display().to_string();
    let explained = explain_all(&explainer, &asked, ctx)?;
    let one = args.query.is_some() || text.is_some();
    let report = Report {
        dataset: name,
        split: text.is_none().then(|| args.split.to_string()),
        system,
        explainer: &explainer,
        queries: &asked,
        explained: &explained,
        base: &base,
        with_calls: one,
    };
    if args.json { report.print_json(ctx) } else { report.print(ctx) }
}

/// Builds a labelled query from the text and the answer ids given on the command line.
fn given(text: &str, answers: &[String], kb: &Kb) -> Result<LabelledQuery> {
    let text = check_query(text)?.to_owned();
    let mut answers = nodes_of_ids(kb, &answers.join(",")).hint(
        "give ids from `key` in the output of `agent query --json` or `agent search --json`",
    )?;
    if answers.len() > MAX_ANSWERS {
        let n = answers.len();
        return refused(format!("{n} answers, more than {MAX_ANSWERS}"));
    }
    answers.sort_unstable();
    answers.dedup();
    Ok(LabelledQuery { id: 0, text, answers, metadata: Default::default() })
}

fn id_of_query(text: &str) -> Result<i64, String> {
    query_id(text).ok_or_else(|| "it is not an id such as 31 or q31".to_owned())
}

/// Returns all queries of the split or, with `--query`, only the query with that id.
fn of_split(args: &Args, mut queries: Vec<LabelledQuery>) -> Result<Vec<LabelledQuery>> {
    let Some(id) = args.query else { return Ok(queries) };
    queries.retain(|query| query.id == id);
    if queries.is_empty() {
        return Err(anyhow!("{} has no query {id}", args.split))
            .hint("give its split with --split, or the text with --answers");
    }
    Ok(queries)
}

/// Opens the system that is explained: the bundle, or the program.
fn open(
    args: &Args,
    bundle: Option<&Bundle>,
    base: &Arc<IndexedBase>,
    ctx: &Context,
) -> Result<Explainer> {
    let llm = llm::open_if_configured(&args.llm, false, ctx)?;
    let resources = Resources::new(llm.as_ref(), args.sandbox.places(ctx)?, ctx);
    let runtime_of = |origin| open_runtime(base, &resources, origin);
    if let Some(file) = &args.program {
        let program = read_program(file).map_err(|error| anyhow!(error.to_string()))?;
        let name = file.display().to_string();
        let runtime = runtime_of(Origin::Elsewhere)?;
        let opened = Explainer::for_program(runtime, &program, ParamValues::new());
        return Ok(opened.with_context(|| format!("{name} cannot be run"))?);
    }
    let bundle = bundle.context("there is no bundle")?;
    bundle.check_base(base)?;
    let runtime = runtime_of(Origin::Bundle(&bundle.digest))?;
    Ok(Explainer::for_bundle(runtime, bundle).context("the bundle cannot be run")?)
}
