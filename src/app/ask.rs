//! Answers a question over many nodes, such as "how many movies are there", with a table. A
//! question that asks for nodes, such as "movies about whales", is answered by a bundle.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, time::Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    App, Explain, LlmArgs, Perform, Resources, Result, SandboxArgs, dataset, llm, open_bundle,
    query, read_bundle, refused, search,
};
use agent_ask::{
    Analyst, AskError, AskReading, AskRecord, Helps, answer::Answered, readings_record,
};
use agent_index::IndexedBase;
use agent_retrieve::{Detail, check_query};

/// Number of nodes that a bundle ranks to answer a question.
const NODES: usize = 20;
/// Warning when a language model should have answered but gave no usable reply.
const UNASSISTED: &str = "the language model gave no usable reply; this answer was made without \
    the language model (-v shows what the service said)";

/// Which questions a language model answers. In JSON, a number from 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(try_from = "u8")]
pub enum Effort {
    /// No questions
    #[value(name = "0")]
    None,
    /// Questions that the rules do not understand
    #[value(name = "1")]
    Unread,
    /// All questions; the rules answer where the model's reply is unusable
    #[value(name = "2")]
    All,
}

impl TryFrom<u8> for Effort {
    type Error = String;

    fn try_from(number: u8) -> Result<Effort, String> {
        let found = Effort::value_variants().get(usize::from(number)).copied();
        found.ok_or_else(|| format!("effort {number} is not in 0..=2"))
    }
}

/// Parses a command-line argument that is a JSON document.
fn as_json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

/// A question over many nodes, or its plan, with the options for answering it.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(value_name = "N")]
    pub dataset: String,
    /// The question
    #[arg(
        value_name = "QUESTION",
        default_value = "",
        hide_default_value = true,
        required_unless_present = "plan"
    )]
    #[serde(default)]
    pub question: String,
    /// Run this plan instead of a question: JSON, as in the `plan` field of an answer
    #[arg(long, value_name = "JSON", value_parser = as_json, conflicts_with_all = ["question", "reading"])]
    #[schema(value_type = Option<Object>)]
    pub plan: Option<serde_json::Value>,
    /// Use this bundle for questions that ask for nodes
    #[arg(long, value_name = "FILE")]
    #[schema(value_type = Option<String>)]
    pub bundle: Option<PathBuf>,
    /// Choose this interpretation of an ambiguous question, counted from 1
    #[arg(long, value_name = "K")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub reading: Option<NonZeroUsize>,
    /// Select the questions that a language model answers [default: 2 if one is configured, else 0]
    #[arg(long, value_enum, display_order = 99)]
    #[schema(value_type = Option<u8>, minimum = 0, maximum = 2)]
    pub effort: Option<Effort>,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

/// An answer: a table, the readings of an ambiguous question, or a ranking.
pub enum Reply {
    /// A table, with the plan that computed it.
    Table {
        /// The question.
        question: String,
        /// The table with its plan.
        answered: Box<Answered>,
        /// The base that was queried.
        base: Arc<IndexedBase>,
        /// Time taken to answer, in milliseconds.
        ms: f64,
    },
    /// The question is ambiguous: its readings have different answers.
    Readings {
        /// The question.
        question: String,
        /// Possible readings of the question, each with its answer.
        readings: Vec<AskReading>,
        /// Time taken to answer, in milliseconds.
        ms: f64,
    },
    /// Nodes, ranked by a bundle.
    Bundle(Box<search::Reply>),
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Reply::Table { question, answered, base, ms } => {
                AskRecord::new(question, answered, &base.kb, usize::MAX, *ms).serialize(out)
            }
            Reply::Readings { question, readings, ms } => {
                readings_record(question, readings, *ms).serialize(out)
            }
            Reply::Bundle(ranking) => ranking.serialize(out),
        }
    }
}

impl Perform for Request {
    const NAME: &'static str = "ask";
    const SUMMARY: &'static str =
        "Answer a question over many nodes: how many, which most, whether related, what if";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let base = dataset::open(&dataset::find(&self.dataset, app)?, app)?;
        let mut analyst = Analyst::new(base);
        let llm = match (self.effort, &self.bundle) {
            (Some(Effort::None), None) => None,
            (Some(Effort::None), Some(_)) | (None, _) => {
                llm::open_if_configured(&self.llm, false, app)?
            }
            (Some(Effort::Unread | Effort::All), _) => Some(llm::open(&self.llm, None, app)?),
        };
        let helps = match self.effort {
            Some(Effort::None) => None,
            Some(Effort::Unread) => Some(Helps::Unread),
            Some(Effort::All) | None => Some(Helps::All),
        };
        if let (Some(opened), Some(helps)) = (&llm, helps) {
            analyst = analyst.helped(opened.assistant.clone(), helps);
        }
        let reply = match &self.plan {
            Some(plan) => self.by_plan(plan, &analyst),
            None => self.answered(check_query(&self.question)?, &analyst, llm.as_ref(), app),
        };
        if let Some(opened) = &llm {
            opened.finish(app)?;
        }
        reply
    }
}

impl Request {
    fn by_plan(&self, plan: &serde_json::Value, analyst: &Analyst) -> Result<Reply> {
        if !self.question.is_empty() {
            return refused("give a question or a plan, not both");
        }
        let began = Instant::now();
        let answered = analyst.run_plan(plan).hint(
            "docs/plan.schema.json describes a plan; `agent ask N QUESTION --json` prints one",
        )?;
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let base = analyst.base().clone();
        Ok(Reply::Table { question: String::new(), answered: Box::new(answered), base, ms })
    }

    fn answered(
        &self,
        question: &str,
        analyst: &Analyst,
        llm: Option<&llm::Opened>,
        app: &App,
    ) -> Result<Reply> {
        let (base, began) = (analyst.base().clone(), Instant::now());
        let reading = self.reading.map(NonZeroUsize::get);
        let unusable = |why: &str| {
            app.watch.warning(&format!("the language model gave no usable reply: {why}"));
        };
        let answered = match analyst.ask_noting(question, reading, unusable) {
            Ok(answered) => answered,
            Err(AskError::Ambiguous(readings)) => {
                let ms = began.elapsed().as_secs_f64() * 1e3;
                return Ok(Reply::Readings { question: question.to_owned(), readings, ms });
            }
            Err(error) if error.may_be_for_nodes() => {
                return self.by_bundle(question, base, llm, error, app);
            }
            Err(error @ AskError::Llm(_)) => {
                return Err(error).hint("--effort 0 answers without a language model");
            }
            Err(error @ AskError::Declined(_)) => {
                let by_rules = analyst.ask_with(question, reading, None, |_| ());
                return match by_rules {
                    Ok(_) | Err(AskError::Ambiguous(_)) => {
                        Err(error).hint("--effort 0 answers by rules, without a language model")
                    }
                    Err(_) => Err(error.into()),
                };
            }
            Err(error) => return Err(error.into()),
        };
        let ms = began.elapsed().as_secs_f64() * 1e3;
        if answered.unassisted.is_some() {
            app.watch.warning(UNASSISTED);
        }
        Ok(Reply::Table { question: question.to_owned(), answered: Box::new(answered), base, ms })
    }

    /// Answers a question that asks for nodes, with the bundle of the request. If the request has
    /// none, fails with `error`, which states why no table answers the question.
    fn by_bundle(
        &self,
        question: &str,
        base: Arc<IndexedBase>,
        llm: Option<&llm::Opened>,
        error: AskError,
        app: &App,
    ) -> Result<Reply> {
        let Some(file) = &self.bundle else {
            let is_english = base.stems.languages().is_english();
            let hint = match (is_english || llm.is_some(), &error) {
                (false, AskError::Unknown { .. }) => {
                    "questions are read in English; for other languages, give --model NAME, or \
                     --bundle FILE if the question asks for nodes"
                }
                _ => "to answer a question that asks for nodes, give --bundle FILE",
            };
            return Err(error).hint(hint);
        };
        app.watch.notice(&format!("the bundle answers with nodes, not a table: {error}"));
        let bundle = read_bundle(file, Some(base.name()), app)?;
        query::check_fit(&bundle, &base, app)?;
        let resources = Resources::new(llm, self.sandbox.places(app)?, app);
        let opened = open_bundle(&bundle, &base, &resources)?;
        let answer = opened.answers.answer(question, NODES, Detail::default())?;
        Ok(Reply::Bundle(Box::new(search::Reply { base, answer })))
    }
}
