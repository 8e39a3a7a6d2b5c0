//! Answers a question in prose; every sentence cites retrieved nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    App, LlmArgs, Perform, Resources, Result, SandboxArgs, dataset, llm, open_system, system_name,
    unassisted, warn_of_stand_in,
};
use agent_index::IndexedBase;
use agent_infer::{
    self as infer, HitRecord,
    rag::{self, DroppedSentence, MAX_NODES, Prose},
};
use agent_retrieve::{Answer, Detail, check_query};
use agent_systems as systems;

/// A question to be answered in prose.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample
    #[arg(value_name = "N")]
    pub dataset: String,
    /// The question
    #[arg(value_name = "QUESTION")]
    pub question: String,
    /// Find the nodes with this system
    #[arg(long, value_name = "SYSTEM", default_value = crate::search::SYSTEM,
        help = format!("Find the nodes with {}", systems::choices()))]
    #[serde(default = "crate::search::system")]
    pub system: String,
    /// Check each sentence against its nodes with a second request, and drop unsupported sentences
    #[arg(long)]
    #[serde(default)]
    pub check: bool,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
}

/// An answer in prose, with the nodes from which a language model wrote it.
pub struct Reply {
    /// The question.
    pub question: String,
    /// The sentences of the answer, and the dropped sentences.
    pub prose: Prose,
    answer: Answer,
    /// The base that was searched.
    pub base: Arc<IndexedBase>,
}

impl Reply {
    /// Returns the hits of the nodes that the answer cites, in order of first citation.
    pub fn cited(&self) -> Vec<HitRecord<'_>> {
        let mut hits = infer::hits(&self.base.kb, &self.answer);
        let cited = self.prose.cited().into_iter();
        let hit = |node| Some(hits.remove(hits.iter().position(|hit| hit.id == node)?));
        cited.filter_map(hit).collect()
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            question: &'a str,
            /// Whether the answer is refused because no retrieved node supports an answer.
            refused: bool,
            sentences: Vec<Sentence<'a>>,
            dropped: &'a [DroppedSentence],
            /// Hits of the nodes that the sentences cite, in order of first citation.
            cited: Vec<HitRecord<'a>>,
        }
        #[derive(Serialize)]
        struct Sentence<'a> {
            text: &'a str,
            /// Keys of the cited nodes in the user's data.
            cites: Vec<String>,
        }
        let key = |&node: &_| self.base.kb.key(node).into_owned();
        let sentences = self.prose.sentences.iter().map(|sentence| Sentence {
            text: &sentence.text,
            cites: sentence.cites.iter().map(key).collect(),
        });
        Record {
            question: &self.question,
            refused: self.prose.is_refused(),
            sentences: sentences.collect(),
            dropped: &self.prose.dropped,
            cited: self.cited(),
        }
        .serialize(out)
    }
}

impl Perform for Request {
    const NAME: &'static str = "answer";
    const SUMMARY: &'static str =
        "Answer a question in a few sentences, each citing its supporting nodes";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let question = check_query(&self.question)?;
        let system = system_name(&self.system, &self.dataset, app)?;
        let base = dataset::open(&dataset::find(&self.dataset, app)?, app)?;
        let llm = llm::open(&self.llm, None, app)?;
        let resources = Resources::new(Some(&llm), self.sandbox.places(app)?, app);
        let system = open_system(&system, &base, &resources)?;
        let detail = Detail { explained_count: 0, paths: true };
        let answer = infer::answer(&base, &*system, question, MAX_NODES, detail)?;
        unassisted(&answer, app);
        warn_of_stand_in(&answer, app);
        let nodes: Vec<_> = answer.ranking().iter().map(|pair| pair.0).collect();
        let prose = rag::write(&base, &llm.assistant, question, &nodes, self.check)?;
        llm.finish(app)?;
        Ok(Reply { question: question.to_owned(), prose, answer, base })
    }
}
