//! Asks a language model for expansion texts by each method, and builds the context of the prompts.
//! All requests are bounded by the budgets of the prompts. Does not depend on how the texts are
//! used, on the model or on how nodes are searched.

use serde_json::{Value as Json, json};

use crate::{
    Ranking,
    expand::{Expansion, Filter, Neighborhood, expanded, named, relation_in_words},
};
use agent_embed::Embedder;
use agent_ground::words::one_line;
use agent_index::{IndexError, IndexedBase, excerpt::text_about};
use agent_kb::{NodeId, Scores, TypeId, answer::Explanation};

/// Number of documents in the context of RAR.
const RAR_DOCUMENTS: usize = 3;
/// Number of documents in the context of AGR.
const AGR_DOCUMENTS: usize = 9;
/// Maximum number of entities that the model may name, excluding the first found node.
const MAX_ENTITIES: usize = 4;
/// Number of nearest nodes, and number of linked entities, among which the node of a
/// pseudo-document is chosen.
const NEAR: usize = 10;
/// Maximum length in characters of a document in a request.
const DOCUMENT_CHARS: usize = 1_500;
/// Maximum length in characters of a pseudo-document.
const PSEUDO_CHARS: usize = 1_000;
/// Maximum number of keywords of a query.
const MAX_KEYWORDS: usize = 10;
/// Default maximum number of neighbours of each entity.
const NEIGHBORS: usize = 10;
/// Number of bytes of a document that count as one unit of work, see [`Sources::spend`].
const BYTES_PER_UNIT: usize = 100;
/// Prompt that finds the entities of a query.
pub const PARSE: &str = "expand/parse";
/// Prompt that writes texts.
pub const GENERATE: &str = "expand/generate";
/// Prompt for the keywords of a query.
pub const KEYWORDS: &str = "expand/keywords";
/// Prompt that analyses a query.
pub const ANALYZE: &str = "expand/analyze";
/// Prompt that merges several texts into one.
pub const REFINE: &str = "expand/refine";

/// How a language model writes the texts that expand a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the query alone.
    Hyde,
    /// From the first documents.
    Rar,
    /// By analysis, generation and refinement.
    Agr,
    /// From the entities of the query and their graph context.
    Kar {
        /// Maximum number of neighbours of each entity.
        k: usize,
        /// Filter of the neighbours; `None` uses the entities' documents alone (the ablation
        /// without the graph).
        filter: Option<Filter>,
    },
}

impl Method {
    /// All methods, with the settings of the papers.
    pub const ALL: [Method; 4] = [
        Self::Hyde,
        Self::Rar,
        Self::Agr,
        Self::Kar { k: NEIGHBORS, filter: Some(Filter::Documents) },
    ];

    /// Returns the name of the method, without its settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hyde => "hyde",
            Self::Rar => "rar",
            Self::Agr => "agr",
            Self::Kar { .. } => "kar",
        }
    }
}

/// Name of the ablation without the graph, the paper's "w/o KG", on the command line.
pub const NO_GRAPH: &str = "no-graph";

/// Inputs of a prompt, and explanations of these inputs for display.
type Evidence = (Vec<Json>, Vec<Explanation>);

/// Why no text was written.
#[derive(Debug, PartialEq)]
pub enum WriteError<E> {
    /// A reply is unusable; holds the reason.
    Unusable(String),
    /// Any other failure of the sources, such as an outage or an exceeded budget.
    Other(E),
}

impl<E: From<IndexError>> From<IndexError> for WriteError<E> {
    fn from(error: IndexError) -> Self {
        Self::Other(error.into())
    }
}

/// Sources of replies and nodes for a writer.
pub trait Sources {
    /// Failures of the sources other than unusable replies.
    type Error: From<IndexError>;

    /// Returns the JSON reply of a language model to a prompt: the sample with the number `sample`,
    /// from 0, or the most likely reply if `sample` is `None`.
    ///
    /// # Errors
    /// [`WriteError`].
    fn reply(
        &mut self,
        prompt: &'static str,
        inputs: Json,
        sample: Option<u32>,
    ) -> Result<Json, WriteError<Self::Error>>;

    /// Searches for `text` with the system whose query is expanded; returns the best `n` nodes.
    ///
    /// # Errors
    /// [`WriteError::Other`].
    fn search(&mut self, text: &str, n: usize) -> Result<Ranking, WriteError<Self::Error>>;

    /// Returns the `n` nodes nearest to a text by embedding, of the given types; of all types if
    /// `types` is empty.
    ///
    /// # Errors
    /// [`WriteError::Other`].
    fn nearest(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Ranking, WriteError<Self::Error>>;

    /// Returns, for each given type, the `n` entities that the text names with the strongest links;
    /// for every type if `types` is empty.
    ///
    /// # Errors
    /// [`WriteError::Other`].
    fn link(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Scores, WriteError<Self::Error>>;

    /// Charges work before it is done; the unit is a node, an edge or a hundred bytes of text.
    ///
    /// # Errors
    /// [`WriteError::Other`] if the budget is exceeded.
    fn spend(&mut self, work: usize) -> Result<(), WriteError<Self::Error>>;
}

/// Writes texts with a language model.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The base that is searched.
    pub base: &'a IndexedBase,
    /// Description of the base's types with their fields and relations, for the model.
    pub structures: &'a str,
    /// Method of writing.
    pub method: Method,
    /// Number of texts and of replies; AGR merges the texts into one.
    pub texts: TextPlan,
    /// The encoder that reads the expanded query; `None` for a search by words.
    pub encoder: Option<&'a dyn Embedder>,
}

/// How many texts a model writes, and in how many replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPlan {
    /// Maximum number of texts.
    pub n: usize,
    /// Whether each text comes from a request of its own, as in the papers; otherwise one reply
    /// lists all texts.
    pub sampled: bool,
}

/// Inputs of [`GENERATE`] besides the query and the structures.
#[derive(Default)]
struct Context {
    analysis: String,
    documents: Vec<Json>,
    entities: Vec<Json>,
    facts: Vec<Json>,
}

impl Writer<'_> {
    /// Writes the texts for a query.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write<S: Sources>(
        &self,
        query: &str,
        sources: &mut S,
    ) -> Result<Expansion, WriteError<S::Error>> {
        match self.method {
            Method::Hyde => {
                let texts = self.generate(query, Context::default(), sources)?;
                Ok(Expansion::written(texts, Vec::new()))
            }
            Method::Rar => {
                let (documents, explanations) =
                    self.found_documents(query, query, RAR_DOCUMENTS, sources)?;
                let context = Context { documents, ..Context::default() };
                Ok(Expansion::written(self.generate(query, context, sources)?, explanations))
            }
            Method::Agr => self.refine(query, sources),
            Method::Kar { k, filter } => {
                let nodes = self.entities(query, sources)?;
                let (facts, explanations) = self.facts(query, &nodes, (k, filter), sources)?;
                let entities = self.documents(query, &nodes, sources)?;
                let context = Context { entities, facts, ..Context::default() };
                Ok(Expansion::written(self.generate(query, context, sources)?, explanations))
            }
        }
    }

    /// Asks the model for at most `n` texts, given `context`.
    fn generate<S: Sources>(
        &self,
        query: &str,
        context: Context,
        sources: &mut S,
    ) -> Result<Vec<String>, WriteError<S::Error>> {
        let Context { analysis, documents, entities, facts } = context;
        let TextPlan { n, sampled } = self.texts;
        let (requests, of_each) = if sampled { (n as u32, 1) } else { (1, n) };
        let inputs = json!({
            "query": query, "structures": self.structures, "n": of_each, "analysis": analysis,
            "documents": documents, "entities": entities, "facts": facts,
        });
        let mut texts = Vec::new();
        for sample in 0..requests {
            match sources.reply(GENERATE, inputs.clone(), sampled.then_some(sample)) {
                Ok(reply) => texts.extend(texts_of(&reply["documents"], of_each)),
                Err(WriteError::Unusable(_)) if sampled => {}
                Err(error) => return Err(error),
            }
        }
        match texts.is_empty() {
            true => Err(WriteError::Unusable("the reply contains no text".to_owned())),
            false => Ok(texts),
        }
    }

    /// Runs AGR: keywords, analysis, drafts, new drafts from documents found with the first drafts,
    /// then one refined text.
    fn refine<S: Sources>(
        &self,
        query: &str,
        sources: &mut S,
    ) -> Result<Expansion, WriteError<S::Error>> {
        let structures = self.structures;
        let reply = sources.reply(KEYWORDS, json!({"query": query}), None)?;
        let keywords = texts_of(&reply["keywords"], MAX_KEYWORDS);
        let inputs = json!({"query": query, "structures": structures, "keywords": keywords});
        let reply = sources.reply(ANALYZE, inputs, None)?;
        let analysis = reply["analysis"].as_str().unwrap_or_default().to_owned();
        let context = Context { analysis: analysis.clone(), ..Context::default() };
        let first = self.generate(query, context, sources)?;
        let wide = expanded(query, &first, self.encoder);
        let (documents, mut explanations) =
            self.found_documents(query, &wide, AGR_DOCUMENTS, sources)?;
        let context = Context { analysis: analysis.clone(), documents, ..Context::default() };
        let second = self.generate(query, context, sources)?;
        let candidates = numbered(second.iter().map(|text| json!({"text": text})));
        let inputs = json!({"query": query, "structures": structures, "candidates": candidates});
        let reply = sources.reply(REFINE, inputs, None)?;
        let text = reply["document"].as_str().unwrap_or_default().trim();
        if text.is_empty() {
            return Err(WriteError::Unusable("the reply contains no text".to_owned()));
        }
        explanations.insert(0, Explanation::new("keywords", keywords.join(", ")));
        explanations.insert(1, Explanation::new("analysis", one_line(&analysis)));
        explanations.extend(second.iter().map(|text| Explanation::new("draft", one_line(text))));
        Ok(Expansion::written(vec![text.to_owned()], explanations))
    }

    /// Finds the entities of KAR, each once: the entities that the model names, in the model's
    /// order, then the system's first node for the query, which represents the query itself.
    fn entities<S: Sources>(
        &self,
        query: &str,
        sources: &mut S,
    ) -> Result<Vec<NodeId>, WriteError<S::Error>> {
        let inputs = json!({"query": query, "structures": self.structures, "n": MAX_ENTITIES});
        let parsed = sources.reply(PARSE, inputs, None)?;
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut add = |node: Option<NodeId>| {
            nodes.extend(node.filter(|node| !nodes.contains(node)));
        };
        for entity in parsed["entities"].as_array().into_iter().flatten().take(MAX_ENTITIES) {
            add(self.resolve(entity, sources)?);
        }
        add(sources.search(query, 1)?.first().map(|pair| pair.0));
        Ok(nodes)
    }

    /// Finds the node that the model describes: a linked entity with the same name, ignoring case;
    /// else the node nearest by embedding, ties by link strength, then by ascending id; else the
    /// strongest linked entity. Only nodes of the described type match; an unknown type matches all
    /// types.
    fn resolve<S: Sources>(
        &self,
        entity: &Json,
        sources: &mut S,
    ) -> Result<Option<NodeId>, WriteError<S::Error>> {
        let kb = &self.base.kb;
        let types: Vec<TypeId> =
            entity["type"].as_str().and_then(|kind| kb.type_id(kind)).into_iter().collect();
        let text = &pseudo_document(&entity["attributes"]);
        let linked = sources.link(text, &types, NEAR)?;
        let mut attributes = entity["attributes"].as_array().into_iter().flatten();
        let name = attributes.find(|attribute| attribute["name"] == "name");
        if let Some(name) = name.and_then(|name| name["value"].as_str()) {
            let is_named = |pair: &&(NodeId, f32)| kb.name(pair.0).eq_ignore_ascii_case(name);
            if let Some(pair) = linked.ranking().iter().find(is_named) {
                return Ok(Some(pair.0));
            }
        }
        let near = sources.nearest(text, &types, NEAR)?;
        let strength = |node| linked.get(node).unwrap_or(0.0);
        let nearest = near.into_iter().reduce(|best, other| {
            // Nodes with equal scores come by ascending id.
            let nearer = other.1 == best.1 && strength(other.0) > strength(best.0);
            if nearer { other } else { best }
        });
        let nearest = nearest.or_else(|| linked.ranking().first().copied());
        Ok(nearest.map(|pair| pair.0))
    }

    /// Describes the filtered neighbours of the entities, best first; ties by the order of the
    /// entities, then by the order of the filter.
    fn facts<S: Sources>(
        &self,
        query: &str,
        nodes: &[NodeId],
        (k, filter): (usize, Option<Filter>),
        sources: &mut S,
    ) -> Result<Evidence, WriteError<S::Error>> {
        let (base, mut facts, mut explanations) = (self.base, Vec::new(), Vec::new());
        for (n, &node) in (1..).zip(nodes) {
            let mut entity = named(base, "entity", node);
            if let Some(filter) = filter {
                let mut spend = |work| sources.spend(work);
                let neighborhood = Neighborhood::within_budget(&base.kb, node, &mut spend)?;
                entity = entity.with(neighborhood.hubs(&base.kb));
                let kept =
                    neighborhood.filtered_within_budget(base, query, filter, k, &mut spend)?;
                for (neighbor, fit) in kept {
                    let relation = relation_in_words(&base.kb, &neighborhood.path(neighbor));
                    let parts = [
                        Explanation::new("relation", relation.as_str()),
                        Explanation::new("fit", fit),
                    ];
                    entity = entity.with([named(base, "neighbor", neighbor).with(parts)]);
                    let text = self.document(query, neighbor, sources)?;
                    facts.push((fit, json!({"entity": n, "relation": relation, "text": text})));
                }
            }
            explanations.push(entity);
        }
        // A stable sort keeps the order of ties.
        facts.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok((numbered(facts.into_iter().map(|pair| pair.1)), explanations))
    }

    /// Describes, by their documents, the best `n` nodes that the system finds for a text.
    fn found_documents<S: Sources>(
        &self,
        query: &str,
        text: &str,
        n: usize,
        sources: &mut S,
    ) -> Result<Evidence, WriteError<S::Error>> {
        let found: Vec<NodeId> = sources.search(text, n)?.iter().map(|pair| pair.0).collect();
        let explanations = found.iter().map(|&node| named(self.base, "document", node)).collect();
        Ok((self.documents(query, &found, sources)?, explanations))
    }

    /// Describes nodes by their documents, numbered from 1.
    fn documents<S: Sources>(
        &self,
        query: &str,
        nodes: &[NodeId],
        sources: &mut S,
    ) -> Result<Vec<Json>, WriteError<S::Error>> {
        let documents: Result<Vec<Json>, WriteError<S::Error>> = nodes
            .iter()
            .map(|&node| Ok(json!({"text": self.document(query, node, sources)?})))
            .collect();
        Ok(numbered(documents?.into_iter()))
    }

    /// Formats a node's type, name and the part of its document about the query.
    fn document<S: Sources>(
        &self,
        query: &str,
        node: NodeId,
        sources: &mut S,
    ) -> Result<String, WriteError<S::Error>> {
        let base = self.base;
        sources.spend(base.kb.text(node).len() / BYTES_PER_UNIT)?;
        let kind = base.kb.type_name(base.kb.node_type(node));
        let text = text_about(base, node, query, DOCUMENT_CHARS);
        Ok(format!("type: {kind}\nname: {}\n{text}", base.kb.name(node)))
    }
}

/// Adds to each item its number, from 1, under the key `n`.
fn numbered(items: impl Iterator<Item = Json>) -> Vec<Json> {
    let number = |(n, mut item): (usize, Json)| {
        item["n"] = json!(n);
        item
    };
    (1..).zip(items).map(number).collect()
}

/// Returns the first `n` texts of a JSON list that are not blank, trimmed.
fn texts_of(list: &Json, n: usize) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::trim);
    texts.filter(|text| !text.is_empty()).take(n).map(str::to_owned).collect()
}

/// Formats the attributes that a model gives an entity, one per line, shortened to
/// [`PSEUDO_CHARS`].
fn pseudo_document(attributes: &Json) -> String {
    let part = |attribute: &Json| {
        let (name, value) = (attribute["name"].as_str()?, attribute["value"].as_str()?);
        Some(if name == "name" { value.to_owned() } else { format!("{name}: {value}") })
    };
    let parts: Vec<String> = attributes.as_array().into_iter().flatten().filter_map(part).collect();
    parts.join("\n").chars().take(PSEUDO_CHARS).collect()
}
