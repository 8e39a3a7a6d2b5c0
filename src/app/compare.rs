//! Answers a question with several systems, side by side. Does not read labelled answers.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Instant,
};

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    App, AppError, Bounded, Effort, Explain, LlmArgs, Perform, Result, SandboxArgs, Top,
    choice::{choice, effort},
    dataset,
    eval::systems::{Chosen, open},
    refused, unassisted,
};
use agent_index::IndexedBase;
use agent_infer::{self as infer, HitRecord};
use agent_retrieve::{Answer, Detail, Retriever, check_query};
use agent_systems::choices;

/// Allowed number of systems in a request.
const SYSTEMS: std::ops::RangeInclusive<usize> = 2..=8;

/// A question, and the systems to compare on it.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(value_name = "N")]
    pub dataset: String,
    /// The question
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// Names of the compared systems, 2 to 8.
    #[arg(long = "system", value_name = "SYSTEM", required = true,
        help = format!("Ask {}; give this option two to eight times", choices()))]
    #[serde(rename = "system")]
    pub systems: Vec<String>,
    /// Print at most this many nodes of each system, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = TOP)]
    #[serde(default = "top")]
    pub k: Top,
    /// Set how much bundles may use a language model
    #[arg(long, value_name = "EFFORT", value_parser = choice::<Effort>(), default_value = "0")]
    #[serde(default, deserialize_with = "effort")]
    #[schema(value_type = u8, minimum = 0, maximum = 2)]
    pub effort: Effort,
    /// Ignore answers that the language model suggests from its own knowledge
    #[arg(long)]
    #[serde(default)]
    pub no_known_answers: bool,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

/// Default maximum number of nodes per system.
const TOP: Top = Bounded::new(10);

fn top() -> Top {
    TOP
}

/// The answers of all systems, in the order in which the request names them.
pub struct Reply {
    base: Arc<IndexedBase>,
    answers: Vec<(String, Result<Answer>, f64)>,
}

/// The answer of one system, or why there is none.
#[derive(Serialize)]
pub struct SystemAnswer<'a> {
    /// Name of the system, as in the request.
    pub system: &'a str,
    /// The nodes that the system ranked, best first; equal scores by ascending node id.
    pub hits: Vec<HitRecord<'a>>,
    /// Why the system failed; `hits` is then empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time that the system took to answer, in milliseconds.
    pub ms: f64,
}

impl Reply {
    /// Returns the answer of each system, in the order in which the request names the systems.
    pub fn systems(&self) -> Vec<SystemAnswer<'_>> {
        let hits = |answer| infer::hits(&self.base.kb, answer);
        let answers = self.answers.iter().map(|(system, answer, ms)| SystemAnswer {
            system,
            hits: answer.as_ref().map(hits).unwrap_or_default(),
            error: answer.as_ref().err().map(AppError::message),
            ms: *ms,
        });
        answers.collect()
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        BTreeMap::from([("systems", self.systems())]).serialize(out)
    }
}

impl Perform for Request {
    const NAME: &'static str = "compare";
    const SUMMARY: &'static str = "Answer a question with several systems, side by side";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let text = check_query(&self.text)?;
        self.check_systems()?;
        let base = dataset::open(&dataset::find(&self.dataset, app)?, app)?;
        let chosen = |system: &String| {
            let (label, system) = (system.clone(), system.clone());
            Chosen { label, system, effort: self.effort, no_known_answers: self.no_known_answers }
        };
        let chosen: Vec<Chosen> = self.systems.iter().map(chosen).collect();
        let queries = [(0, text.to_owned())].into();
        let opened = open(&chosen, &base, queries, self.sandbox, &self.llm, app)?;
        let ask = |(name, system): (String, Box<dyn Retriever>)| {
            let began = Instant::now();
            let answer = system.answer(text, self.k.get(), Detail::default());
            let ms = began.elapsed().as_secs_f64() * 1e3;
            let _ = answer.as_ref().map(|answer| unassisted(answer, app));
            (name, answer.map_err(AppError::from), ms)
        };
        Ok(Reply { base, answers: opened.systems.into_iter().map(ask).collect() })
    }
}

impl Request {
    fn check_systems(&self) -> Result<()> {
        let n = self.systems.len();
        if !SYSTEMS.contains(&n) {
            let (least, most) = (SYSTEMS.start(), SYSTEMS.end());
            return refused(format!("compare needs {least} to {most} systems; {n} given"))
                .hint("give --system several times");
        }
        match self.systems.iter().collect::<HashSet<_>>().len() == n {
            true => Ok(()),
            false => refused("the same --system is given twice"),
        }
    }
}
