//! `kar:graph`: what KAR reads from the graph, without a language model. Neighbours of the entities
//! that a query names, filtered by their documents, raise the scores of `bm25+names`.
//!
//! Source: KAR (Xia et al. 2025), its steps without the model. Mended: as words added to the query
//! the neighbours' documents do not help; as a boost of the nodes themselves they do.
//!
//! 1. The query is linked; the surest four entities count.
//! 2. Of the nodes within two edges of each, the ten candidates whose documents fit the query best
//!    are kept ([`Neighborhood::filtered`]), with what the documents fit times how surely the entity
//!    is meant; a node that several entities lead to has the sum.
//! 3. The scores of `bm25+names` and of the neighbours are each divided by their best, and summed,
//!    the latter with the weight 0.5. A node that one list lacks has 0 there.
//!
//! Must not know: language models, which answers are right.

use std::sync::Arc;

use crate::{
    Answer, Baseline, Detail, RetrieveError, Retriever, System, checked,
    expand::{Filter, Neighborhood, relation_in_words},
    place, place_of,
};
use agent_index::IndexedBase;
use agent_kb::{
    Combine, NodeId, Scores,
    answer::{Cell, Explanation},
    best,
};

/// Entities that count.
pub(super) const MAX_ENTITIES: usize = 4;
/// Entities of each type among which the surest are taken.
const OF_A_TYPE: usize = 3;
/// Strength below which a link says nothing.
const LEAST_STRENGTH: f32 = 0.2;
/// Nodes of `bm25+names` that are raised, at least.
const RAISED: usize = 1_000;

/// How the graph raises a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boost {
    /// Neighbours of each entity that are kept.
    pub k: usize,
    /// What the best of them adds, where the best node of the ranking has 1.
    pub weight: f32,
    /// By what they are chosen.
    pub filter: Filter,
}

impl Default for Boost {
    fn default() -> Self {
        Self { k: 10, weight: 0.5, filter: Filter::Documents }
    }
}

/// Ranks by `bm25+names`, raised by the graph. Asks no model.
pub struct GraphBoost {
    base: Arc<IndexedBase>,
    lexical: Baseline,
    boost: Boost,
}

/// An entity that the query names, how surely, and which of its neighbours count.
struct Linked {
    node: NodeId,
    strength: f32,
    around: Neighborhood,
    kept: Vec<(NodeId, f32)>,
}

impl GraphBoost {
    /// A retriever over a base.
    pub fn new(base: Arc<IndexedBase>, boost: Boost) -> Self {
        let lexical = Baseline::new(base.clone(), System::Bm25Names);
        Self { base, lexical, boost }
    }

    /// The entities that the query names with the neighbours that count, surest first, ties by
    /// ascending id.
    fn linked(&self, query: &str) -> Vec<Linked> {
        let base = &*self.base;
        let found = base.entities.link(&base.kb, query, &[], OF_A_TYPE);
        let sure = found.filter(|_, strength| strength >= LEAST_STRENGTH);
        let linked = |(node, strength)| {
            let around = Neighborhood::of(&base.kb, node).candidates(&base.kb);
            let kept = match self.boost.filter {
                // Without a filter all of them count.
                Filter::None => around.filtered(base, query, Filter::None, usize::MAX),
                filter => around.filtered(base, query, filter, self.boost.k),
            };
            Linked { node, strength, around, kept }
        };
        best(sure.as_slice().to_vec(), MAX_ENTITIES).into_iter().map(linked).collect()
    }
}

impl Retriever for GraphBoost {
    fn name(&self) -> String {
        let Boost { k, weight, filter } = self.boost;
        format!("kar:graph={k},{weight},{}", filter.name())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        let found = Scores::new(self.lexical.retrieve(query, k.max(RAISED))?).normalized();
        let linked = self.linked(query);
        let near = linked.iter().fold(Scores::default(), |sum, entity| {
            sum.combine(&Scores::new(entity.kept.clone()).scale(entity.strength), Combine::Sum)
        });
        let near = near.normalized();
        let sum = found.combine(&near.scale(self.boost.weight), Combine::Sum);
        let ranking = sum.top(k).ranking();
        let lists = (detail.explained > 0).then(|| (found.ranking(), near.ranking()));
        let explained = |at, node, score| {
            let lists = lists.iter().flat_map(|(found, near)| {
                let weight = Explanation::new("weight", self.boost.weight);
                [
                    place(System::Bm25Names.name(), found, node),
                    place("neighbors", near, node).with([weight]),
                ]
            });
            let entities = linked.iter().map(|entity| self.told(entity, node));
            place_of(&self.name(), at, score).with(lists).with(entities)
        };
        Ok(Answer::explained(ranking, detail, explained))
    }
}

impl GraphBoost {
    /// How an entity leads to a node.
    fn told(&self, entity: &Linked, node: NodeId) -> Explanation {
        let kb = &self.base.kb;
        let strength = Explanation::new("strength", entity.strength);
        let told = Explanation::new("entity", kb.name(entity.node)).with([strength]);
        let path = entity.around.path(node);
        if node == entity.node || path.hops.is_empty() {
            return told;
        }
        let fit = entity.kept.iter().find(|pair| pair.0 == node);
        let fit = fit.map_or(Cell::from("not among the kept"), |pair| Cell::from(pair.1));
        let way = Explanation::new("leads here by", relation_in_words(kb, &path));
        told.with([way.with([Explanation::new("fit", fit)])])
    }
}
