//! What lies within two edges of an entity, and which of it concerns a query.
//!
//! Source: document-based relation filtering of KAR (Xia et al. 2025). Decided here: edges are
//! followed both ways over all relations to nodes of all types; a node of more than 2,000 edges may
//! be reached and is not passed; documents are compared with the query by BM25 over stems, which
//! needs no vectors of nodes that are no candidates.
//!
//! Must not know: language models, rankings.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
};

use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{Hop, Kb, NodeId, Path, all_edges, best, hops};

/// Edges of a node from which on it is not passed: everything is joined over a venue or a colour.
const HUB: usize = 2_000;
/// Edges that are looked at around one entity.
const MAX_EDGES: usize = 500_000;
/// Nodes that are scored between two looks at whether to go on.
const NODES_AT_ONCE: usize = 256;

/// By what neighbours are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// By how well their documents fit the query.
    Documents,
    /// By how much of the query their names have: an ablation.
    Names,
    /// By distance, then id: an ablation.
    None,
}

impl Filter {
    /// All of them, in the order of tables.
    pub const ALL: [Filter; 3] = [Filter::Documents, Filter::Names, Filter::None];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Names => "names",
            Self::None => "unfiltered",
        }
    }
}

/// The nodes within two edges of one, without itself.
pub struct Neighborhood {
    from: NodeId,
    /// From where each was reached, and over which edge.
    reached: HashMap<NodeId, (NodeId, Hop)>,
    /// Those one edge away, then the others; by ascending id.
    nodes: Vec<NodeId>,
}

impl Neighborhood {
    /// What lies around a node. Of several ways the shortest counts, then that over the node with
    /// the smallest id, then an edge followed as stored, then the first relation. At most 500,000
    /// edges are looked at, those of smaller ids first. O(edges looked at).
    pub fn of(kb: &Kb, from: NodeId) -> Self {
        let Ok(around) = Self::of_while(kb, from, &mut |_| Ok::<(), Infallible>(()));
        around
    }

    /// [`Neighborhood::of`], telling before how many edges are looked at.
    ///
    /// # Errors
    /// What `spend` fails with.
    pub fn of_while<E>(
        kb: &Kb,
        from: NodeId,
        spend: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut reached: HashMap<NodeId, (NodeId, Hop)> = HashMap::new();
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut left = MAX_EDGES;
        let mut frontier = vec![from];
        for distance in 0..2 {
            let mut next = Vec::new();
            for &node in &frontier {
                let own = all_edges(kb, node);
                if distance > 0 && own > HUB {
                    continue;
                }
                spend(own.min(left))?;
                let found = hops(kb, node).take(left).filter(|hop| hop.node != from);
                for hop in found {
                    reached.entry(hop.node).or_insert_with(|| {
                        next.push(hop.node);
                        (node, hop)
                    });
                }
                left = left.saturating_sub(own);
            }
            next.sort_unstable();
            nodes.extend(&next);
            frontier = next;
        }
        Ok(Self { from, reached, nodes })
    }

    /// The nodes: those one edge away, then the others; by ascending id.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The same with candidates alone; ways over other nodes stay known.
    pub fn candidates(mut self, kb: &Kb) -> Self {
        self.nodes.retain(|&node| kb.is_candidate(node));
        self
    }

    /// The way to one of the nodes; to another node one without edges.
    pub fn path(&self, node: NodeId) -> Path {
        let (mut at, mut hops) = (node, Vec::new());
        while let Some(&(before, hop)) = self.reached.get(&at) {
            hops.push(hop);
            at = before;
        }
        hops.reverse();
        Path { from: self.from, hops }
    }

    /// The nodes that the filter prefers with what it says of each, above 0: at most `k`, best first,
    /// ties by ascending id; without a filter the first of [`Neighborhood::nodes`], each with 1.
    pub fn filtered(
        &self,
        base: &IndexedBase,
        query: &str,
        filter: Filter,
        k: usize,
    ) -> Vec<(NodeId, f32)> {
        let spend = &mut |_| Ok::<(), Infallible>(());
        let Ok(kept) = self.filtered_while(base, query, filter, k, spend);
        kept
    }

    /// [`Neighborhood::filtered`], telling before how many nodes are scored.
    ///
    /// # Errors
    /// What `spend` fails with.
    pub fn filtered_while<E>(
        &self,
        base: &IndexedBase,
        query: &str,
        filter: Filter,
        k: usize,
        spend: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<(NodeId, f32)>, E> {
        let score = match filter {
            Filter::None => {
                return Ok(self.nodes.iter().take(k).map(|&node| (node, 1.0)).collect());
            }
            Filter::Documents => fit_of_documents(base, query),
            Filter::Names => fit_of_names(base, query),
        };
        let mut scored = Vec::new();
        for some in self.nodes.chunks(NODES_AT_ONCE) {
            spend(some.len())?;
            let fits = some.iter().map(|&node| (node, score(node)));
            scored.extend(fits.filter(|pair| pair.1 > 0.0));
        }
        Ok(best(scored, k))
    }
}

type Fit<'a> = Box<dyn Fn(NodeId) -> f32 + 'a>;

/// BM25 of documents by the stems of the query.
fn fit_of_documents<'a>(base: &'a IndexedBase, query: &str) -> Fit<'a> {
    let terms = base.terms.query(&base.stems, query);
    Box::new(move |node| base.terms.bm25(&terms, node))
}

/// The sum of the idf of the stems of the query that a name has.
fn fit_of_names<'a>(base: &'a IndexedBase, query: &str) -> Fit<'a> {
    let asked = name_words(query).filter(|(_, word)| !is_question_word(word));
    let stems: HashSet<u32> = asked
        .flat_map(|(_, word)| base.stems.of(&word).collect::<Vec<_>>())
        .filter_map(|stem| base.terms.stem_id(&stem))
        .collect();
    Box::new(move |node| {
        let own = base.stems.of(base.kb.name(node)).filter_map(|stem| base.terms.stem_id(&stem));
        let mut own: Vec<u32> = own.filter(|stem| stems.contains(stem)).collect();
        own.sort_unstable();
        own.dedup();
        own.into_iter().map(|stem| base.terms.idf(stem)).sum()
    })
}

/// The edges of a path as one relation: `-has_brand->`, or `<-has_brand-, then -has_color->, over
/// NAME` with the name of the node between them.
pub fn relation_in_words(kb: &Kb, path: &Path) -> String {
    let arrows = path.hops.iter().map(|hop| hop.direction.arrow(kb.relation_name(hop.relation)));
    let between = path.hops.iter().rev().skip(1).rev().map(|hop| kb.name(hop.node));
    let mut text = arrows.collect::<Vec<_>>().join(", then ");
    for name in between {
        text += &format!(", over {name}");
    }
    text
}
