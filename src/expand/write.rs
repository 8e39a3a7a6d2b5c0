//! The texts that a language model writes for a query, by each of the methods, and what it is shown
//! for that. Every request has one repair; all are bounded by their prompts' budgets.
//!
//! Must not know: what is done with the texts.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::{
    answer::Explanation,
    expand::{Expansion, Filter, Neighborhood, expanded, named, one_line, relation_in_words},
    index::IndexedBase,
    infer::Asks,
    kb::{NodeId, TypeId},
    llm::{LlmError, RoleSpec},
    retrieve::{RetrieveError, Retriever},
    tools::{Assistant, AssistantError, schema_text, text_about},
};

/// Writes texts that queries are expanded by.
pub const EXPAND_ROLE: RoleSpec = RoleSpec {
    name: "expand",
    summary: "writes texts that queries are expanded by",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Documents that RAR shows.
const RAR_DOCUMENTS: usize = 3;
/// Documents that AGR shows.
const AGR_DOCUMENTS: usize = 9;
/// Entities of a query that count, beside the query itself.
const MAX_ENTITIES: usize = 4;
/// Nodes that are near to a pseudo-document and that a name may part.
const NEAR: usize = 10;
/// Characters of a document in a request.
const DOCUMENT_CHARS: usize = 1_500;
/// Characters of a pseudo-document.
const PSEUDO_CHARS: usize = 1_000;
/// Keywords of a query that count.
const MAX_KEYWORDS: usize = 10;
/// The prompts.
const PARSE: &str = "expand/parse";
const GENERATE: &str = "expand/generate";
const KEYWORDS: &str = "expand/keywords";
const ANALYZE: &str = "expand/analyze";
const REFINE: &str = "expand/refine";

/// How a model is asked for texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the query alone.
    Hyde,
    /// From the first documents.
    Rar,
    /// Analyze, generate, refine.
    Agr,
    /// From the entities of the query and what the graph says of them.
    Kar {
        /// Neighbours of each entity.
        k: usize,
        /// By what they are chosen; without one the documents of the entities are all that is
        /// given: the ablation without the graph.
        filter: Option<Filter>,
    },
}

/// The name of the ablation without the graph.
pub const NO_GRAPH: &str = "no-graph";

/// What a method asks a model for one query. What the system below it asks, it asks twice, but once
/// for HyDE.
pub fn asks(method: Method) -> Vec<Asks> {
    let times = |prompt, n| Asks { role: EXPAND_ROLE, prompt, later: None, least: n, most: 2 * n };
    match method {
        Method::Hyde | Method::Rar => vec![times(GENERATE, 1)],
        Method::Agr => {
            vec![times(KEYWORDS, 1), times(ANALYZE, 1), times(GENERATE, 2), times(REFINE, 1)]
        }
        Method::Kar { .. } => vec![times(PARSE, 1), times(GENERATE, 1)],
    }
}

/// Why there are no texts.
pub(super) enum Failed {
    /// A reply cannot be used.
    Unusable(String),
    /// What every query would meet, or an outage.
    Other(RetrieveError),
}

impl From<RetrieveError> for Failed {
    fn from(error: RetrieveError) -> Self {
        Self::Other(error)
    }
}

impl From<AssistantError> for Failed {
    fn from(error: AssistantError) -> Self {
        match error {
            AssistantError::Llm(LlmError::Reply { reason, .. }) => Self::Unusable(reason),
            AssistantError::Llm(error) => Self::Other(error.into()),
            AssistantError::Prompt(error) => {
                Self::Other(RetrieveError::Program(format!("expand: {error}")))
            }
        }
    }
}

/// Asks a model for texts.
pub(super) struct Writer {
    base: Arc<IndexedBase>,
    assistant: Arc<Assistant>,
    /// The types of the base with their fields and relations.
    structures: String,
    method: Method,
    n: usize,
}

/// What is shown beside the query and the structures.
#[derive(Default)]
struct Shown {
    analysis: String,
    documents: Vec<Json>,
    entities: Vec<Json>,
    facts: Vec<Json>,
}

impl Writer {
    pub(super) fn new(
        base: Arc<IndexedBase>,
        assistant: Arc<Assistant>,
        method: Method,
        n: usize,
    ) -> Self {
        let structures = schema_text(&base.kb);
        Self { base, assistant, structures, method, n }
    }

    /// The name of the system, without the one that it stands on.
    pub(super) fn name(&self) -> String {
        let n = self.n;
        match self.method {
            Method::Hyde => format!("expand:hyde={n}"),
            Method::Rar => format!("expand:rar={n}"),
            Method::Agr => format!("expand:agr={n}"),
            Method::Kar { k, filter } => {
                format!("expand:kar={k},{n},{}", filter.map_or(NO_GRAPH, Filter::name))
            }
        }
    }

    /// The texts for a query that the given system would be asked.
    pub(super) fn write(&self, query: &str, system: &dyn Retriever) -> Result<Expansion, Failed> {
        match self.method {
            Method::Hyde => {
                let texts = self.generate(query, Shown::default())?;
                Ok(Expansion { texts, told: Vec::new() })
            }
            Method::Rar => {
                let (documents, told) = self.found(query, query, system, RAR_DOCUMENTS)?;
                let texts = self.generate(query, Shown { documents, ..Shown::default() })?;
                Ok(Expansion { texts, told })
            }
            Method::Agr => self.refined(query, system),
            Method::Kar { k, filter } => {
                let nodes = self.entities(query, system)?;
                let (facts, told) = self.facts(query, &nodes, k, filter);
                let entities =
                    nodes.iter().map(|&node| json!({"text": self.document(node, query)}));
                let shown = Shown { entities: numbered(entities), facts, ..Shown::default() };
                Ok(Expansion { texts: self.generate(query, shown)?, told })
            }
        }
    }

    fn ask(&self, prompt: &str, inputs: Json) -> Result<Json, Failed> {
        Ok(self.assistant.json(EXPAND_ROLE.role(), prompt, inputs)?)
    }

    /// The texts that the model writes from what it is shown, at most as many as are asked for.
    fn generate(&self, query: &str, shown: Shown) -> Result<Vec<String>, Failed> {
        let Shown { analysis, documents, entities, facts } = shown;
        let inputs = json!({
            "query": query, "structures": self.structures, "n": self.n, "analysis": analysis,
            "documents": documents, "entities": entities, "facts": facts,
        });
        let texts = texts_of(&self.ask(GENERATE, inputs)?["documents"], self.n);
        match texts.is_empty() {
            true => Err(Failed::Unusable("the reply holds no text".to_owned())),
            false => Ok(texts),
        }
    }

    /// AGR: keywords, analysis, texts, texts from what is found with these, one right text.
    fn refined(&self, query: &str, system: &dyn Retriever) -> Result<Expansion, Failed> {
        let structures = &self.structures;
        let keywords =
            texts_of(&self.ask(KEYWORDS, json!({"query": query}))?["keywords"], MAX_KEYWORDS);
        let inputs = json!({"query": query, "structures": structures, "keywords": keywords});
        let analysis =
            self.ask(ANALYZE, inputs)?["analysis"].as_str().unwrap_or_default().to_owned();
        let shown = Shown { analysis: analysis.clone(), ..Shown::default() };
        let first = self.generate(query, shown)?;
        let (documents, mut told) =
            self.found(query, &expanded(query, &first), system, AGR_DOCUMENTS)?;
        let shown = Shown { analysis: analysis.clone(), documents, ..Shown::default() };
        let second = self.generate(query, shown)?;
        let candidates = numbered(second.iter().map(|text| json!({"text": text})));
        let inputs = json!({"query": query, "structures": structures, "candidates": candidates});
        let text = self.ask(REFINE, inputs)?["document"].as_str().unwrap_or_default().to_owned();
        if text.trim().is_empty() {
            return Err(Failed::Unusable("the reply holds no text".to_owned()));
        }
        told.insert(0, Explanation::new("keywords", keywords.join(", ")));
        told.insert(1, Explanation::new("analysis", one_line(&analysis)));
        told.extend(second.iter().map(|text| Explanation::new("draft", one_line(text))));
        Ok(Expansion { texts: vec![text], told })
    }

    /// The nodes that KAR reads of: those that the query names, in the order of the model, then the
    /// first that the system finds for the query, which stands for the query itself; each once.
    fn entities(&self, query: &str, system: &dyn Retriever) -> Result<Vec<NodeId>, Failed> {
        let inputs = json!({"query": query, "structures": self.structures, "n": MAX_ENTITIES});
        let parsed = self.ask(PARSE, inputs)?;
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut add = |node: Option<NodeId>| {
            nodes.extend(node.filter(|node| !nodes.contains(node)));
        };
        for entity in parsed["entities"].as_array().into_iter().flatten().take(MAX_ENTITIES) {
            let kind = entity["type"].as_str().unwrap_or_default();
            add(self.resolved(kind, &pseudo_document(&entity["attributes"]))?);
        }
        add(system.retrieve(query, 1)?.first().map(|pair| pair.0));
        Ok(nodes)
    }

    /// The node that a pseudo-document describes: the nearest of its type by embedding; of equally
    /// near ones that which it names most surely, then the smallest id. Where nothing is near, that
    /// which it names. A type that the base does not have stands for all types.
    fn resolved(&self, kind: &str, text: &str) -> Result<Option<NodeId>, Failed> {
        let base = &*self.base;
        let types: Vec<TypeId> = base.kb.type_id(kind).into_iter().collect();
        let near =
            base.search_vectors(text, &types, NEAR).map_err(|error| Failed::Other(error.into()))?;
        let named = base.entities.link(&base.kb, text, &types, NEAR);
        let strength = |node| named.get(node).unwrap_or(0.0);
        let nearest = near.into_iter().reduce(|best, other| {
            // Equal scores ascend by id.
            let nearer = other.1 == best.1 && strength(other.0) > strength(best.0);
            if nearer { other } else { best }
        });
        let nearest = nearest.or_else(|| named.ranking().first().copied());
        Ok(nearest.map(|pair| pair.0))
    }

    /// What the graph says of the entities, best first, ties by entity, then id; and all of it for
    /// people.
    fn facts(
        &self,
        query: &str,
        nodes: &[NodeId],
        k: usize,
        filter: Option<Filter>,
    ) -> (Vec<Json>, Vec<Explanation>) {
        let (base, mut facts, mut told) = (&*self.base, Vec::new(), Vec::new());
        for (n, &node) in (1..).zip(nodes) {
            let mut entity = named(base, "entity", node);
            if let Some(filter) = filter {
                let around = Neighborhood::of(&base.kb, node);
                for (neighbor, fit) in around.filtered(base, query, filter, k) {
                    let relation = relation_in_words(&base.kb, &around.path(neighbor));
                    let parts = [
                        Explanation::new("relation", relation.as_str()),
                        Explanation::new("fit", fit),
                    ];
                    entity = entity.with([named(base, "neighbor", neighbor).with(parts)]);
                    let text = self.document(neighbor, query);
                    facts.push((fit, json!({"entity": n, "relation": relation, "text": text})));
                }
            }
            told.push(entity);
        }
        // Stable.
        facts.sort_by(|a, b| b.0.total_cmp(&a.0));
        (numbered(facts.into_iter().map(|pair| pair.1)), told)
    }

    /// The first documents that a system finds for a text, cut to what concerns the query: for the
    /// model and for people.
    fn found(
        &self,
        query: &str,
        text: &str,
        system: &dyn Retriever,
        n: usize,
    ) -> Result<(Vec<Json>, Vec<Explanation>), Failed> {
        let found = system.retrieve(text, n)?;
        let documents = found.iter().map(|pair| json!({"text": self.document(pair.0, query)}));
        let told = found.iter().map(|pair| named(&self.base, "document", pair.0)).collect();
        Ok((numbered(documents), told))
    }

    /// Type, name and document of a node, cut to what concerns the query.
    fn document(&self, node: NodeId, query: &str) -> String {
        let base = &*self.base;
        let kind = base.kb.type_name(base.kb.node_type(node));
        let text = text_about(base, node, query, DOCUMENT_CHARS);
        format!("type: {kind}\nname: {}\n{text}", base.kb.name(node))
    }
}

/// The items with numbers from 1 as `n`.
fn numbered(items: impl Iterator<Item = Json>) -> Vec<Json> {
    let number = |(n, mut item): (usize, Json)| {
        item["n"] = json!(n);
        item
    };
    (1..).zip(items).map(number).collect()
}

/// The first texts of a list, without those that say nothing.
fn texts_of(list: &Json, n: usize) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::trim);
    texts.filter(|text| !text.is_empty()).take(n).map(str::to_owned).collect()
}

/// The attributes that a model gives an entity, one a line.
fn pseudo_document(attributes: &Json) -> String {
    let part = |attribute: &Json| {
        let (name, value) = (attribute["name"].as_str()?, attribute["value"].as_str()?);
        // The field itself says nothing of the thing.
        Some(if name == "name" { value.to_owned() } else { format!("{name}: {value}") })
    };
    let parts: Vec<String> = attributes.as_array().into_iter().flatten().filter_map(part).collect();
    parts.join("\n").chars().take(PSEUDO_CHARS).collect()
}
