//! The scorers of a base: BM25 of the whole document and of each field, and masks over them.
//! Must not know what weights they get.

use std::sync::Arc;

use crate::{TrainError, mfar::Variant};
use agent_index::{
    IndexError, IndexedBase, Part, TextPart,
    fields::{FieldIndex, FieldKind},
};
use agent_kb::{NodeId, TypeId};

/// The scorer of the whole document.
const DOCUMENT: &str = "document";
/// All fields that are names of neighbours, and all others, in a mask.
const RELATIONS: &str = "relations";
const DETAILS: &str = "details";
/// The one kind of scorer that a field has.
const LEXICAL: &str = "lexical";

/// The scorers of one variant over a base, in an order that its index gives.
pub struct Scorers {
    base: Arc<IndexedBase>,
    fields: FieldIndex,
    variant: Variant,
}

impl Scorers {
    /// Opens the fields of a base.
    ///
    /// # Errors
    /// [`IndexError::MissingPart`] unless they were indexed; that a file is damaged.
    pub fn open(base: Arc<IndexedBase>, variant: Variant) -> Result<Self, IndexError> {
        let fields = FieldIndex::open(&base.part(Part::Fields)?)?;
        Ok(Self { base, fields, variant })
    }

    /// The base.
    pub fn base(&self) -> &Arc<IndexedBase> {
        &self.base
    }

    /// Which scorers there are.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// How many scorers come before those of the fields.
    fn n_whole(&self) -> usize {
        usize::from(self.variant == Variant::OnePlusN)
    }

    /// How many scorers there are.
    pub fn len(&self) -> usize {
        self.n_whole() + self.fields.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a scorer is that of the whole document.
    pub(super) fn is_whole(&self, at: usize) -> bool {
        at < self.n_whole()
    }

    /// The name of a scorer: that of its field, or `document`.
    pub fn name(&self, at: usize) -> &str {
        match at.checked_sub(self.n_whole()) {
            None => DOCUMENT,
            Some(field) => self.fields.name(field),
        }
    }

    /// The names of all scorers, in order.
    pub fn names(&self) -> Vec<String> {
        (0..self.len()).map(|at| self.name(at).to_owned()).collect()
    }

    /// The `k` best nodes of one scorer, best first; only nodes that may be answers, and only those
    /// with a score above 0.
    pub fn search(&self, at: usize, query: &str, k: usize) -> Vec<(NodeId, f32)> {
        match at.checked_sub(self.n_whole()) {
            None => self.base.text.search(query, TextPart::DocumentWithNames, self.types(), k),
            Some(field) => self.fields.search(field, query, k),
        }
    }

    /// The types of nodes that may be answers, as searches take them: none means all.
    fn types(&self) -> &[TypeId] {
        let types = self.base.kb.candidate_types();
        if types.len() == self.base.kb.types().len() { &[] } else { types }
    }

    fn is_relation(&self, at: usize) -> bool {
        let field = at.checked_sub(self.n_whole());
        field.is_some_and(|field| self.fields.kind(field) == FieldKind::Relation)
    }
}

/// Scorers that get no weight, the others keeping theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Vec<bool>);

impl Mask {
    /// The mask of names joined by commas: each that of a field, maybe with `:lexical` behind it,
    /// or `document`, `relations` or `details`, which are all fields of neighbours and all others.
    /// Where a field has such a name, the field is meant.
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
                (0..scorers.len()).filter(|&at| scorers.name(at) == name).collect();
            let is_meant = |at: &usize| match name {
                _ if !named.is_empty() => named.contains(at),
                RELATIONS => scorers.is_relation(*at),
                DETAILS => !scorers.is_relation(*at) && !scorers.is_whole(*at),
                _ => false,
            };
            let meant: Vec<usize> = (0..scorers.len()).filter(is_meant).collect();
            if meant.is_empty() {
                let known = scorers.names().join(", ");
                return Err(TrainError::NoField { name: name.to_owned(), known });
            }
            meant.into_iter().for_each(|at| masked[at] = true);
        }
        Ok(Self(masked))
    }

    /// Whether a scorer gets no weight.
    pub fn hides(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or_default()
    }
}
