//! `kar:graph`: the graph part of KAR without a language model. Neighbours of linked entities,
//! filtered by the words of their documents, raise the scores of `bm25+names`.
//!
//! Source: the steps of KAR (Xia et al. 2025) that need no model. Unlike KAR, this system boosts
//! the nodes themselves, because appending the neighbours' documents to the query does not help.
//!
//! 1. The query is linked; the four strongest entities are used.
//! 2. Of the candidates within two edges of each entity, the ten whose documents fit the query best
//!    are kept ([`Neighborhood::filtered`]). A neighbour scores its fit times the strength of the
//!    link, summed over entities.
//! 3. The scores of `bm25+names` and of the neighbours are each divided by their maximum, then
//!    summed; neighbours have the weight 0.5. A node missing from a list scores 0 there.
//!
//! Uses neither a language model nor the correct answers.

use std::sync::Arc;

use crate::{
    Answer, Baseline, Detail, RetrieveError, Retriever, System, check_query,
    expand::{Filter, Neighborhood, relation_in_words},
    rank_explanation, rank_in_list,
};
use agent_index::{IndexError, IndexedBase};
use agent_kb::{
    Combine, NodeId, Scores,
    answer::{Cell, Explanation},
    best,
};

/// Maximum number of linked entities of a query.
pub(super) const MAX_ENTITIES: usize = 4;
/// Maximum number of linked entities of each type, from which the strongest are selected.
const ENTITIES_PER_TYPE: usize = 3;
/// Minimum confidence of a linked entity, in `0..=1`.
const MIN_STRENGTH: f32 = 0.2;
/// Minimum number of nodes requested from `bm25+names`.
const MIN_BOOSTED: usize = 1_000;

/// Settings of the graph boost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boost {
    /// Maximum number of neighbours that are kept for each entity; [`Filter::None`] keeps all.
    pub k: usize,
    /// Score added to the best neighbour, relative to the best score of the ranking.
    pub weight: f32,
    /// How to choose the neighbours that are kept.
    pub filter: Filter,
}

impl Default for Boost {
    fn default() -> Self {
        Self { k: 10, weight: 0.5, filter: Filter::Words }
    }
}

/// A retriever that ranks by `bm25+names`, boosted by the graph.
pub struct GraphBoost {
    base: Arc<IndexedBase>,
    lexical: Baseline,
    boost: Boost,
}

/// A linked entity with its neighbours.
struct EntityNeighbors {
    node: NodeId,
    strength: f32,
    neighborhood: Neighborhood,
    kept: Vec<(NodeId, f32)>,
}

impl GraphBoost {
    /// Creates a retriever over a base.
    pub fn new(base: Arc<IndexedBase>, boost: Boost) -> Self {
        let lexical = Baseline::new(base.clone(), System::Bm25Names);
        Self { base, lexical, boost }
    }

    /// Returns the entities that the query names, each with its kept neighbours; strongest link
    /// first, ties by ascending id.
    fn linked(&self, query: &str) -> Result<Vec<EntityNeighbors>, IndexError> {
        let base = &*self.base;
        let found = base.entities.link(&base.kb, query, &[], ENTITIES_PER_TYPE);
        let strong = found.filter(|_, strength| strength >= MIN_STRENGTH);
        let linked = |(node, strength)| {
            let neighborhood = Neighborhood::new(&base.kb, node).candidates(&base.kb);
            let Boost { k, filter, .. } = self.boost;
            let k = if filter == Filter::None { usize::MAX } else { k };
            let kept = neighborhood.filtered(base, query, filter, k)?;
            Ok(EntityNeighbors { node, strength, neighborhood, kept })
        };
        best(strong.as_slice().to_vec(), MAX_ENTITIES).into_iter().map(linked).collect()
    }

    /// Returns an explanation of a linked entity: the strength of its link and, if the node is a
    /// neighbour, the path to the node and the node's fit.
    fn entity_explanation(&self, entity: &EntityNeighbors, node: NodeId) -> Explanation {
        let kb = &self.base.kb;
        let strength = Explanation::new("strength", entity.strength);
        let explanation = Explanation::new("entity", kb.name(entity.node))
            .with([strength])
            .with(entity.neighborhood.hubs(kb));
        let path = entity.neighborhood.path(node);
        if node == entity.node || path.hops.is_empty() {
            return explanation;
        }
        let fit = entity.kept.iter().find(|pair| pair.0 == node);
        let fit = fit.map_or(Cell::from("not kept"), |pair| Cell::from(pair.1));
        let path = Explanation::new("path", relation_in_words(kb, &path));
        explanation.with([path.with([Explanation::new("fit", fit)])])
    }
}

impl Retriever for GraphBoost {
    fn name(&self) -> String {
        let Boost { k, weight, filter } = self.boost;
        format!("kar:graph={k},{weight},{}", filter.name())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let found = Scores::new(self.lexical.retrieve(query, k.max(MIN_BOOSTED))?).normalized();
        let linked = self.linked(query)?;
        let near = linked.iter().fold(Scores::default(), |sum, entity| {
            sum.combine(&Scores::new(entity.kept.clone()).scale(entity.strength), Combine::Sum)
        });
        let near = near.normalized();
        let sum = found.combine(&near.scale(self.boost.weight), Combine::Sum);
        let ranking = sum.top(k).ranking();
        let lists = (detail.explained_count > 0).then(|| (found.ranking(), near.ranking()));
        let explained = |position, node, score| {
            let lists = lists.iter().flat_map(|(found, near)| {
                let weight = Explanation::new("weight", self.boost.weight);
                [
                    rank_in_list(System::Bm25Names.name(), found, node),
                    rank_in_list("neighbors", near, node).with([weight]),
                ]
            });
            let entities = linked.iter().map(|entity| self.entity_explanation(entity, node));
            rank_explanation(&self.name(), position, score).with(lists).with(entities)
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
