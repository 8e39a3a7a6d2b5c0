//! The scorers of a base: BM25 of the whole document and of each field, and masks over them.

use std::sync::Arc;

use crate::{TrainError, mfar::Variant};
use agent_index::{
    IndexError, IndexedBase, Part, TextPart,
    fields::{FieldIndex, FieldKind},
};
use agent_kb::{NodeId, TypeId};

/// Name of the scorer of the whole document.
const DOCUMENT: &str = "document";
/// Name, in masks, of all fields of neighbours.
const RELATIONS: &str = "relations";
/// Name, in masks, of all other fields.
const DETAILS: &str = "details";
/// Name of a field's only scorer.
const LEXICAL: &str = "lexical";

/// The scorers of one variant over a base, in the order of its index.
pub struct Scorers {
    base: Arc<IndexedBase>,
    fields: FieldIndex,
    variant: Variant,
}

impl Scorers {
    /// Opens the fields of a base.
    ///
    /// # Errors
    /// [`IndexError::MissingPart`] if the fields were not indexed; other [`IndexError`] if a file
    /// is damaged.
    pub fn open(base: Arc<IndexedBase>, variant: Variant) -> Result<Self, IndexError> {
        let fields = FieldIndex::open(&base.part(Part::Fields)?)?;
        Ok(Self { base, fields, variant })
    }

    /// The base of the scorers.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Set of scorers.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Number of scorers before those of the fields.
    fn n_whole(&self) -> usize {
        usize::from(self.variant == Variant::OnePlusN)
    }

    /// Number of scorers.
    pub fn len(&self) -> usize {
        self.n_whole() + self.fields.len()
    }

    /// Whether there are no scorers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a scorer is that of the whole document.
    pub(super) fn is_document(&self, scorer: usize) -> bool {
        scorer < self.n_whole()
    }

    /// The name of a scorer: that of its field, or `document`.
    pub fn name(&self, scorer: usize) -> &str {
        match scorer.checked_sub(self.n_whole()) {
            None => DOCUMENT,
            Some(field) => self.fields.name(field),
        }
    }

    /// The names of all scorers, in order.
    pub fn names(&self) -> Vec<String> {
        (0..self.len()).map(|scorer| self.name(scorer).to_owned()).collect()
    }

    /// The best `k` candidates of one scorer, best first, with scores above 0.
    pub fn search(&self, scorer: usize, query: &str, k: usize) -> Vec<(NodeId, f32)> {
        match scorer.checked_sub(self.n_whole()) {
            None => self.base.text.search(query, TextPart::DocumentWithNames, self.types(), k),
            Some(field) => self.fields.search(field, query, k),
        }
    }

    /// Candidate types in the form of searches: empty for all types.
    fn types(&self) -> &[TypeId] {
        let types = self.base.kb.candidate_types();
        if types.len() == self.base.kb.types().len() { &[] } else { types }
    }

    fn is_relation(&self, scorer: usize) -> bool {
        let field = scorer.checked_sub(self.n_whole());
        field.is_some_and(|field| self.fields.kind(field) == FieldKind::Relation)
    }
}

/// Scorers without weight; the remaining ones keep theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Vec<bool>);

impl Mask {
    /// Parses comma-separated names: fields, optionally followed by `:lexical`, or `document`,
    /// `relations` (all fields of neighbours) or `details` (all others). A field with such a name
    /// takes precedence.
    ///
    /// # Errors
    /// [`TrainError::NoField`], [`TrainError::NoScorer`].
    pub fn read(text: &str, scorers: &Scorers) -> Result<Self, TrainError> {
        let mut masked = vec![false; scorers.len()];
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let name = match part.rsplit_once(':') {
                Some((name, LEXICAL)) => name,
                Some((field, scorer)) => {
                    let (field, scorer) = (field.to_owned(), scorer.to_owned());
                    return Err(TrainError::NoScorer { field, scorer });
                }
                None => part,
            };
            let named: Vec<usize> =
                (0..scorers.len()).filter(|&scorer| scorers.name(scorer) == name).collect();
            let matches = |scorer: &usize| match name {
                _ if !named.is_empty() => named.contains(scorer),
                RELATIONS => scorers.is_relation(*scorer),
                DETAILS => !scorers.is_relation(*scorer) && !scorers.is_document(*scorer),
                _ => false,
            };
            let matched: Vec<usize> = (0..scorers.len()).filter(matches).collect();
            if matched.is_empty() {
                let known = scorers.names().join(", ");
                return Err(TrainError::NoField { name: name.to_owned(), known });
            }
            matched.into_iter().for_each(|scorer| masked[scorer] = true);
        }
        Ok(Self(masked))
    }

    /// Whether a scorer has no weight.
    pub fn hides(&self, scorer: usize) -> bool {
        self.0.get(scorer).copied().unwrap_or_default()
    }
}
