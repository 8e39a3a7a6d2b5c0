//! The retrievers that programs are compared with: lexical, dense and both.

use std::{fmt::Write, str::FromStr, sync::Arc};

use crate::{
    index::{IndexedBase, TextPart},
    kb::{Combine, NodeId, Scores, TypeId},
    retrieve::{Ranking, RetrieveError, Retriever, checked},
};

/// Rank constant of reciprocal rank fusion (Cormack, Clarke & Büttcher 2009).
const FUSION_K: f32 = 60.0;
/// Nodes of each list that are fused.
const FUSED: usize = 200;
/// Words of a query that an explanation lists.
const MAX_EXPLAINED: usize = 20;

/// A retriever that needs no training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// BM25 over documents.
    Bm25,
    /// BM25 over documents with the names of neighbours.
    Bm25Names,
    /// Exact search over embeddings.
    Dense,
    /// Reciprocal rank fusion of `bm25` and `dense`.
    Hybrid,
}

impl System {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Bm25, Self::Bm25Names, Self::Dense, Self::Hybrid];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Bm25Names => "bm25+names",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|system| system.name() == name)
            .ok_or_else(|| format!("no system {name:?}; there are {names}"))
    }
}

/// A baseline over one base; ranks candidates only.
pub struct Baseline {
    base: Arc<IndexedBase>,
    system: System,
}

impl Baseline {
    /// The system over the base.
    pub fn new(base: Arc<IndexedBase>, system: System) -> Self {
        Self { base, system }
    }
}

/// The types answers may have, in the form searches take: none means all.
fn candidate_types(base: &IndexedBase) -> &[TypeId] {
    let types = base.kb.candidate_types();
    if types.len() == base.kb.types().len() { &[] } else { types }
}

fn rank(
    base: &IndexedBase,
    system: System,
    query: &str,
    k: usize,
) -> Result<Ranking, RetrieveError> {
    let types = candidate_types(base);
    Ok(match system {
        System::Bm25 => base.text.search(query, TextPart::Document, types, k)?,
        System::Bm25Names => base.text.search(query, TextPart::DocumentWithNames, types, k)?,
        System::Dense => base.search_vectors(query, types, k)?,
        System::Hybrid => {
            let ranks = |system| {
                let ranking = rank(base, system, query, k.max(FUSED))?;
                Ok::<_, RetrieveError>(Scores::new(ranking).reciprocal_ranks(FUSION_K))
            };
            let mut fused =
                ranks(System::Bm25)?.combine(&ranks(System::Dense)?, Combine::Sum).ranking();
            fused.truncate(k);
            fused
        }
    })
}

/// The default candidates of a program: the best `k` of `hybrid`, best first.
///
/// # Errors
/// Those of the indexes.
pub fn shortlist(base: &IndexedBase, query: &str, k: usize) -> Result<Vec<NodeId>, RetrieveError> {
    Ok(rank(base, System::Hybrid, query, k)?.into_iter().map(|pair| pair.0).collect())
}

impl Retriever for Baseline {
    fn name(&self) -> String {
        self.system.name().to_owned()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        rank(&self.base, self.system, checked(query)?, k)
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let query = checked(query)?;
        let mut lines = String::new();
        let place = |ranking: Ranking| {
            ranking.iter().position(|pair| pair.0 == node).map(|at| (at + 1, ranking[at].1))
        };
        let systems = match self.system {
            System::Hybrid => vec![System::Bm25, System::Dense],
            system => vec![system],
        };
        for system in systems {
            let _ = match place(rank(&self.base, system, query, FUSED)?) {
                Some((at, score)) => {
                    writeln!(lines, "{}: rank {at}, score {score:.4}", system.name())
                }
                None => writeln!(lines, "{}: not among the first {FUSED}", system.name()),
            };
        }
        let stems = self.base.stems.of(query).filter_map(|stem| {
            let id = self.base.terms.stem_id(&stem)?;
            let count = self.base.terms.stems_of(node).find(|&(other, _)| other == id)?.1;
            Some(format!("{stem} x{count} (idf {:.2})", self.base.terms.idf(id)))
        });
        let shared: Vec<String> = stems.take(MAX_EXPLAINED).collect();
        let _ = writeln!(
            lines,
            "shared stems: {}",
            if shared.is_empty() { "none".into() } else { shared.join(", ") }
        );
        Ok(lines)
    }
}
