//! Scorers, and masks that switch scorers off. A scorer compares the whole document or one field of
//! each node with a query, by BM25 or by vectors.

use std::sync::Arc;

use rayon::prelude::*;

use crate::{Result, TrainError, mfar::Variant};
use agent_index::{
    IndexError, IndexedBase, Part, TextPart,
    fields::{FieldIndex, FieldKind, FieldVectors},
};
use agent_kb::NodeId;

/// Name of the whole document in masks and in names of scorers.
const DOCUMENT: &str = "document";
/// Name that masks use for all fields with names of neighbours.
const RELATIONS: &str = "relations";
/// Name that masks use for all other fields.
const DETAILS: &str = "details";

/// How a text is compared with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// BM25; 0 for a text without any word of the query.
    Lexical,
    /// Dot product of the vectors of text and query.
    Dense,
}

impl Measure {
    const ALL: [Self; 2] = [Self::Lexical, Self::Dense];

    /// Returns the name of the measure in masks.
    fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
        }
    }
}

/// A scorer: a measure, and the part of a node that it compares with the query.
struct Scorer {
    measure: Measure,
    /// Index and kind of the field; `None` for the whole document.
    field: Option<(usize, FieldKind)>,
    /// What is compared: `document`, or the name of the field.
    place: String,
    /// Name of the scorer: `place`, followed by `:dense` if it compares vectors.
    name: String,
}

impl Scorer {
    fn new(measure: Measure, field: Option<(usize, FieldKind)>, place: &str) -> Self {
        let name = match measure {
            Measure::Lexical => place.to_owned(),
            Measure::Dense => format!("{place}:{}", measure.name()),
        };
        Self { measure, field, place: place.to_owned(), name }
    }

    fn is_of_relation(&self) -> bool {
        self.field.is_some_and(|field| field.1 == FieldKind::Relation)
    }
}

/// Nodes that one scorer finds for a query, with their scores.
pub(super) type Scores = Vec<(NodeId, f32)>;

/// The scorers of a variant over a knowledge base: first the scorers of the whole document, then
/// the scorers of the fields.
pub struct Scorers {
    base: Arc<IndexedBase>,
    lexical: Option<FieldIndex>,
    dense: Option<FieldVectors>,
    variant: Variant,
    all: Vec<Scorer>,
}

impl Scorers {
    /// Opens the scorers of a variant, with the parts of the index that they need.
    ///
    /// # Errors
    /// [`IndexError::MissingPart`] if fields or their vectors were not indexed; another
    /// [`IndexError`] if a file is damaged.
    pub fn open(base: Arc<IndexedBase>, variant: Variant) -> Result<Self, IndexError> {
        let (of_document, of_fields) = variant.measures();
        let is_needed = |measure| of_fields.contains(&measure);
        let lexical = match is_needed(Measure::Lexical) {
            true => Some(FieldIndex::open(&base.part(Part::Fields)?)?),
            false => None,
        };
        let dense = match is_needed(Measure::Dense) {
            true => Some(FieldVectors::open(&base.part(Part::FieldVectors)?)?),
            false => None,
        };
        let mut all: Vec<Scorer> =
            of_document.iter().map(|&measure| Scorer::new(measure, None, DOCUMENT)).collect();
        let tables = [
            (Measure::Lexical, lexical.as_ref().map(FieldIndex::table)),
            (Measure::Dense, dense.as_ref().map(FieldVectors::table)),
        ];
        for (measure, table) in tables {
            let Some(table) = table else { continue };
            let scorer = |at| Scorer::new(measure, Some((at, table.kind(at))), table.name(at));
            all.extend((0..table.len()).map(scorer));
        }
        Ok(Self { base, lexical, dense, variant, all })
    }

    /// Returns the knowledge base whose nodes are scored, with its indexes.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Returns the variant, which determines the set of scorers.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Returns the number of scorers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no scorers.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether the scorer with this index is BM25 of the whole document.
    pub(super) fn is_text_of_document(&self, scorer: usize) -> bool {
        self.all[scorer].field.is_none() && !self.is_dense(scorer)
    }

    /// Whether the scorer with this index compares vectors.
    pub(super) fn is_dense(&self, scorer: usize) -> bool {
        self.all[scorer].measure == Measure::Dense
    }

    /// Whether any scorer compares vectors.
    pub(super) fn has_dense(&self) -> bool {
        (0..self.len()).any(|scorer| self.is_dense(scorer))
    }

    /// Returns the name of a scorer: `document` or its field, followed by `:dense` if it compares
    /// vectors; empty for an unknown scorer.
    pub fn name(&self, scorer: usize) -> &str {
        self.all.get(scorer).map_or("", |scorer| &scorer.name)
    }

    /// Returns the names of all scorers, in the order of their indexes.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|scorer| scorer.name.clone()).collect()
    }

    /// Returns the vector of a query, by the embedder of the index.
    ///
    /// # Errors
    /// [`IndexError`] if the embedder fails.
    pub(super) fn vector(&self, query: &str) -> Result<Arc<[f32]>, IndexError> {
        Ok(self.base.embed_query(query)?)
    }

    /// Returns, for each scorer, the candidates that it finds, with their scores. BM25 finds
    /// candidates with a word of the query. A scorer that compares vectors finds all candidates
    /// with a vector and takes O(nodes).
    ///
    /// # Errors
    /// [`IndexError`] if the embedder fails or an index cannot be read.
    pub(super) fn scores(&self, query: &str) -> Result<Vec<Scores>, IndexError> {
        let vector = if self.has_dense() { self.vector(query)? } else { [].into() };
        let of = |scorer: &Scorer| self.scores_of(scorer, query, &vector);
        self.all.par_iter().map(of).collect()
    }

    fn scores_of(
        &self,
        scorer: &Scorer,
        query: &str,
        vector: &[f32],
    ) -> Result<Scores, IndexError> {
        let is_unknown = vector.iter().all(|&number| number == 0.0);
        match (scorer.measure, scorer.field, &self.lexical, &self.dense) {
            (Measure::Dense, ..) if is_unknown => Ok(Vec::new()),
            (Measure::Lexical, None, ..) => {
                let part = TextPart::DocumentWithNames;
                Ok(self.base.text.search(query, part, self.base.kb.searched_types(), usize::MAX))
            }
            (Measure::Dense, None, ..) => {
                let nodes = self.base.kb.candidates();
                let scores = self.base.vectors.score(vector, nodes)?;
                Ok(nodes.iter().copied().zip(scores).collect())
            }
            (Measure::Lexical, Some((field, _)), Some(fields), _) => {
                Ok(fields.search(field, query, usize::MAX))
            }
            (Measure::Dense, Some((field, _)), _, Some(fields)) => fields.scores(field, vector),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the indexes of the scorers that a name in a mask refers to; empty for an unknown
    /// name.
    fn named(&self, name: &str) -> Vec<usize> {
        let those = |test: &dyn Fn(&Scorer) -> bool| {
            let all = self.all.iter().enumerate();
            all.filter(|(_, scorer)| test(scorer)).map(|pair| pair.0).collect::<Vec<usize>>()
        };
        let own = those(&|scorer| scorer.field.is_some() && scorer.place == name);
        match name {
            _ if !own.is_empty() => own,
            DOCUMENT => those(&|scorer| scorer.field.is_none()),
            RELATIONS => those(&Scorer::is_of_relation),
            DETAILS => those(&|scorer| scorer.field.is_some() && !scorer.is_of_relation()),
            _ => those(&|scorer| scorer.measure.name() == name),
        }
    }
}

/// Set of scorers that a search ignores; the other scorers keep their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Vec<bool>);

impl Mask {
    /// Parses a comma-separated list of names, such as `brand,document:dense`. A name is a field,
    /// `document`, `relations` (all fields with names of neighbours) or `details` (all other
    /// fields). It may be followed by `:lexical` or `:dense`. `lexical` or `dense` alone refers to
    /// all scorers with this measure. A field with one of these names takes precedence.
    ///
    /// # Errors
    /// [`TrainError::NoField`] for an unknown name; [`TrainError::NoScorer`] if the part after `:`
    /// is not a measure of the named scorers.
    pub fn read(text: &str, scorers: &Scorers) -> Result<Self> {
        let mut masked = vec![false; scorers.len()];
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, measure) = match part.rsplit_once(':') {
                Some((name, measure)) if scorers.named(part).is_empty() => (name, Some(measure)),
                _ => (part, None),
            };
            let named = scorers.named(name);
            if named.is_empty() {
                let fields = scorers.all.iter().filter(|scorer| scorer.field.is_some());
                let mut known: Vec<&str> = fields.map(|scorer| scorer.place.as_str()).collect();
                known.dedup();
                let (name, known) = (name.to_owned(), known.join(", "));
                return Err(TrainError::NoField { name, known });
            }
            let is_masked = |scorer: &usize| {
                measure.is_none_or(|measure| scorers.all[*scorer].measure.name() == measure)
            };
            let matched: Vec<usize> = named.iter().copied().filter(is_masked).collect();
            if matched.is_empty() {
                let scorer = measure.unwrap_or_default().to_owned();
                let has = |measure: &Measure| {
                    named.iter().any(|&scorer| scorers.all[scorer].measure == *measure)
                };
                let known: Vec<&str> =
                    Measure::ALL.iter().filter(|one| has(one)).map(|one| one.name()).collect();
                let (field, known) = (name.to_owned(), known.join(" or "));
                return Err(TrainError::NoScorer { field, scorer, known });
            }
            matched.into_iter().for_each(|scorer| masked[scorer] = true);
        }
        Ok(Self(masked))
    }

    /// Whether the scorer with this index is masked, so that a search ignores it.
    pub fn hides(&self, scorer: usize) -> bool {
        self.0.get(scorer).copied().unwrap_or_default()
    }
}
