//! The texts that a language model writes for a query, by each of the methods, and what it is shown
//! for that. All requests are bounded by their prompts' budgets.
//!
//! Must not know: what is done with the texts, who replies and who searches.

use serde_json::{Value as Json, json};

use crate::{
    Ranking,
    expand::{Expansion, Filter, Neighborhood, expanded, named, one_line, relation_in_words},
};
use agent_index::{IndexedBase, excerpt::text_about};
use agent_kb::{NodeId, Scores, TypeId, answer::Explanation};

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
/// Neighbours of each entity, unless it is said otherwise.
const NEIGHBORS: usize = 10;
/// Bytes of a document that are read for one unit of work.
const BYTES_PER_UNIT: usize = 100;
/// The prompt that finds what a query names.
pub const PARSE: &str = "expand/parse";
/// The prompt that writes texts.
pub const GENERATE: &str = "expand/generate";
/// The prompt for the keywords of a query.
pub const KEYWORDS: &str = "expand/keywords";
/// The prompt that says what a query is about.
pub const ANALYZE: &str = "expand/analyze";
/// The prompt that makes one right text of several.
pub const REFINE: &str = "expand/refine";

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

impl Method {
    /// Those that a model writes by, with their settings unless these are said.
    pub const ALL: [Method; 4] = [
        Self::Hyde,
        Self::Rar,
        Self::Agr,
        Self::Kar { k: NEIGHBORS, filter: Some(Filter::Documents) },
    ];

    /// Its name, without settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hyde => "hyde",
            Self::Rar => "rar",
            Self::Agr => "agr",
            Self::Kar { .. } => "kar",
        }
    }
}

/// The name of the ablation without the graph.
pub const NO_GRAPH: &str = "no-graph";

/// What a prompt is given, and the same for people.
type Told = (Vec<Json>, Vec<Explanation>);

/// Why there are no texts.
#[derive(Debug, PartialEq)]
pub enum Failed<E> {
    /// A reply cannot be used, and why.
    Unusable(String),
    /// What every query would meet, an outage or a bound.
    Other(E),
}

/// Where a writer takes replies and nodes from.
pub trait Sources {
    /// What ends the writing.
    type Error;

    /// The JSON reply of a language model to a prompt.
    ///
    /// # Errors
    /// [`Failed`].
    fn reply(&mut self, prompt: &'static str, inputs: Json) -> Result<Json, Failed<Self::Error>>;

    /// The first `n` nodes that the system finds that the query is expanded for.
    ///
    /// # Errors
    /// [`Failed::Other`].
    fn found(&mut self, text: &str, n: usize) -> Result<Ranking, Failed<Self::Error>>;

    /// The `n` nodes of the given types nearest to a text by embedding; of all types if none is
    /// given.
    ///
    /// # Errors
    /// [`Failed::Other`].
    fn nearest(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Ranking, Failed<Self::Error>>;

    /// The `n` nodes of each of the given types that a text names; of all types if none is given.
    ///
    /// # Errors
    /// [`Failed::Other`].
    fn linked(
        &mut self,
        text: &str,
        types: &[TypeId],
        n: usize,
    ) -> Result<Scores, Failed<Self::Error>>;

    /// Tells before how many nodes, edges or hundreds of bytes are looked at.
    ///
    /// # Errors
    /// [`Failed::Other`] where that is too much.
    fn spend(&mut self, work: usize) -> Result<(), Failed<Self::Error>>;
}

/// Writes texts with a language model.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The base that is searched.
    pub base: &'a IndexedBase,
    /// Its types with their fields and relations, for the model.
    pub structures: &'a str,
    /// How the model is asked.
    pub method: Method,
    /// Texts at most; AGR refines them to one.
    pub n: usize,
}

/// What is shown beside the query and the structures.
#[derive(Default)]
struct Shown {
    analysis: String,
    documents: Vec<Json>,
    entities: Vec<Json>,
    facts: Vec<Json>,
}

impl Writer<'_> {
    /// The texts for a query.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn write<S: Sources>(
        &self,
        query: &str,
        sources: &mut S,
    ) -> Result<Expansion, Failed<S::Error>> {
        match self.method {
            Method::Hyde => {
                let texts = self.generate(query, Shown::default(), sources)?;
                Ok(Expansion::written(texts, Vec::new()))
            }
            Method::Rar => {
                let (documents, told) = self.found(query, query, RAR_DOCUMENTS, sources)?;
                let shown = Shown { documents, ..Shown::default() };
                Ok(Expansion::written(self.generate(query, shown, sources)?, told))
            }
            Method::Agr => self.refined(query, sources),
            Method::Kar { k, filter } => {
                let nodes = self.entities(query, sources)?;
                let (facts, told) = self.facts(query, &nodes, (k, filter), sources)?;
                let entities = self.documents(query, &nodes, sources)?;
                let shown = Shown { entities, facts, ..Shown::default() };
                Ok(Expansion::written(self.generate(query, shown, sources)?, told))
            }
        }
    }

    /// The texts that the model writes from what it is shown, at most as many as are asked for.
    fn generate<S: Sources>(
        &self,
        query: &str,
        shown: Shown,
        sources: &mut S,
    ) -> Result<Vec<String>, Failed<S::Error>> {
        let Shown { analysis, documents, entities, facts } = shown;
        let inputs = json!({
            "query": query, "structures": self.structures, "n": self.n, "analysis": analysis,
            "documents": documents, "entities": entities, "facts": facts,
        });
        let texts = texts_of(&sources.reply(GENERATE, inputs)?["documents"], self.n);
        match texts.is_empty() {
            true => Err(Failed::Unusable("the reply holds no text".to_owned())),
            false => Ok(texts),
        }
    }

    /// AGR: keywords, analysis, texts, texts from what is found with these, one right text.
    fn refined<S: Sources>(
        &self,
        query: &str,
        sources: &mut S,
    ) -> Result<Expansion, Failed<S::Error>> {
        let structures = self.structures;
        let reply = sources.reply(KEYWORDS, json!({"query": query}))?;
        let keywords = texts_of(&reply["keywords"], MAX_KEYWORDS);
        let inputs = json!({"query": query, "structures": structures, "keywords": keywords});
        let reply = sources.reply(ANALYZE, inputs)?;
        let analysis = reply["analysis"].as_str().unwrap_or_default().to_owned();
        let shown = Shown { analysis: analysis.clone(), ..Shown::default() };
        let first = self.generate(query, shown, sources)?;
        let (documents, mut told) =
            self.found(query, &expanded(query, &first), AGR_DOCUMENTS, sources)?;
        let shown = Shown { analysis: analysis.clone(), documents, ..Shown::default() };
        let second = self.generate(query, shown, sources)?;
        let candidates = numbered(second.iter().map(|text| json!({"text": text})));
        let inputs = json!({"query": query, "structures": structures, "candidates": candidates});
        let reply = sources.reply(REFINE, inputs)?;
        let text = reply["document"].as_str().unwrap_or_default().trim();
        if text.is_empty() {
            return Err(Failed::Unusable("the reply holds no text".to_owned()));
        }
        told.insert(0, Explanation::new("keywords", keywords.join(", ")));
        told.insert(1, Explanation::new("analysis", one_line(&analysis)));
        told.extend(second.iter().map(|text| Explanation::new("draft", one_line(text))));
        Ok(Expansion::written(vec![text.to_owned()], told))
    }

    /// The nodes that KAR reads of: those that the query names, in the order of the model, then the
    /// first that the system finds for the query, which stands for the query itself; each once.
    fn entities<S: Sources>(
        &self,
        query: &str,
        sources: &mut S,
    ) -> Result<Vec<NodeId>, Failed<S::Error>> {
        let inputs = json!({"query": query, "structures": self.structures, "n": MAX_ENTITIES});
        let parsed = sources.reply(PARSE, inputs)?;
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut add = |node: Option<NodeId>| {
            nodes.extend(node.filter(|node| !nodes.contains(node)));
        };
        for entity in parsed["entities"].as_array().into_iter().flatten().take(MAX_ENTITIES) {
            let kind = entity["type"].as_str().unwrap_or_default();
            add(self.resolved(kind, &pseudo_document(&entity["attributes"]), sources)?);
        }
        add(sources.found(query, 1)?.first().map(|pair| pair.0));
        Ok(nodes)
    }

    /// The node that a pseudo-document describes: the nearest of its type by embedding; of equally
    /// near ones that which it names most surely, then the smallest id. Where nothing is near, that
    /// which it names. A type that the base does not have stands for all types.
    fn resolved<S: Sources>(
        &self,
        kind: &str,
        text: &str,
        sources: &mut S,
    ) -> Result<Option<NodeId>, Failed<S::Error>> {
        let types: Vec<TypeId> = self.base.kb.type_id(kind).into_iter().collect();
        let near = sources.nearest(text, &types, NEAR)?;
        let linked = sources.linked(text, &types, NEAR)?;
        let strength = |node| linked.get(node).unwrap_or(0.0);
        let nearest = near.into_iter().reduce(|best, other| {
            // Equal scores ascend by id.
            let nearer = other.1 == best.1 && strength(other.0) > strength(best.0);
            if nearer { other } else { best }
        });
        let nearest = nearest.or_else(|| linked.ranking().first().copied());
        Ok(nearest.map(|pair| pair.0))
    }

    /// What the graph says of the entities, best first, ties by entity, then id; and all of it for
    /// people.
    fn facts<S: Sources>(
        &self,
        query: &str,
        nodes: &[NodeId],
        (k, filter): (usize, Option<Filter>),
        sources: &mut S,
    ) -> Result<Told, Failed<S::Error>> {
        let (base, mut facts, mut told) = (self.base, Vec::new(), Vec::new());
        for (n, &node) in (1..).zip(nodes) {
            let mut entity = named(base, "entity", node);
            if let Some(filter) = filter {
                let mut spend = |work| sources.spend(work);
                let around = Neighborhood::of_while(&base.kb, node, &mut spend)?;
                let kept = around.filtered_while(base, query, filter, k, &mut spend)?;
                for (neighbor, fit) in kept {
                    let relation = relation_in_words(&base.kb, &around.path(neighbor));
                    let parts = [
                        Explanation::new("relation", relation.as_str()),
                        Explanation::new("fit", fit),
                    ];
                    entity = entity.with([named(base, "neighbor", neighbor).with(parts)]);
                    let text = self.document(query, neighbor, sources)?;
                    facts.push((fit, json!({"entity": n, "relation": relation, "text": text})));
                }
            }
            told.push(entity);
        }
        // Stable.
        facts.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok((numbered(facts.into_iter().map(|pair| pair.1)), told))
    }

    /// The first documents that the system finds for a text, for the model and for people.
    fn found<S: Sources>(
        &self,
        query: &str,
        text: &str,
        n: usize,
        sources: &mut S,
    ) -> Result<Told, Failed<S::Error>> {
        let found: Vec<NodeId> = sources.found(text, n)?.iter().map(|pair| pair.0).collect();
        let told = found.iter().map(|&node| named(self.base, "document", node)).collect();
        Ok((self.documents(query, &found, sources)?, told))
    }

    /// The documents of nodes, numbered.
    fn documents<S: Sources>(
        &self,
        query: &str,
        nodes: &[NodeId],
        sources: &mut S,
    ) -> Result<Vec<Json>, Failed<S::Error>> {
        let documents: Result<Vec<Json>, _> = nodes
            .iter()
            .map(|&node| Ok(json!({"text": self.document(query, node, sources)?})))
            .collect();
        Ok(numbered(documents?.into_iter()))
    }

    /// Type, name and document of a node, cut to what concerns the query.
    fn document<S: Sources>(
        &self,
        query: &str,
        node: NodeId,
        sources: &mut S,
    ) -> Result<String, Failed<S::Error>> {
        let base = self.base;
        sources.spend(base.kb.text(node).len() / BYTES_PER_UNIT)?;
        let kind = base.kb.type_name(base.kb.node_type(node));
        let text = text_about(base, node, query, DOCUMENT_CHARS);
        Ok(format!("type: {kind}\nname: {}\n{text}", base.kb.name(node)))
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
