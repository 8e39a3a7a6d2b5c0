//! The vocabulary of the schema: stems of the names of types and relations, and their synonyms.

use std::sync::Arc;

use crate::bundle::lexicon::{Synonyms, all_synonyms, stemmed};
use agent_ground::words::spelled_out;
use agent_index::IndexedBase;
use agent_kb::{RelationId, TypeId};

/// Minimum length in bytes of the shorter of two different stems that are forms of one word.
const MIN_BEGINNING: usize = 4;
/// Maximum number of bytes by which the longer of two such stems exceeds the shorter.
const MAX_ENDING: usize = 4;

/// Stems of the names of types and relations, and their synonyms, indexed by the id of the type or
/// relation.
pub(super) struct Schema {
    pub(super) types: Vec<Vec<String>>,
    pub(super) relations: Vec<Vec<String>>,
    pub(super) type_synonyms: Vec<Synonyms>,
    pub(super) relation_synonyms: Vec<Synonyms>,
}

impl Schema {
    /// Returns the vocabulary of a base; computed at first use.
    pub(super) fn of(base: &IndexedBase) -> Arc<Self> {
        base.derived(Self::new)
    }

    fn new(base: &IndexedBase) -> Self {
        let spelled = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| spelled_out(name)).collect()
        };
        let (types, relations) = (spelled(base.kb.types()), spelled(base.kb.relations()));
        let stems = |name: &String| stemmed(&base.stems, name);
        let [type_synonyms, relation_synonyms] = all_synonyms(base);
        Self {
            types: types.iter().map(stems).collect(),
            relations: relations.iter().map(stems).collect(),
            type_synonyms,
            relation_synonyms,
        }
    }

    fn of_type(&self, kind: TypeId) -> &[String] {
        self.types.get(usize::from(kind.0)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of_relation(&self, relation: RelationId) -> &[String] {
        self.relations.get(usize::from(relation.0)).map_or(&[], Vec::as_slice)
    }

    /// Returns the types that the question mentions first, `None` if it mentions none. These are
    /// the types whose whole name, of several words, starts at the first word that names any type;
    /// without such types, all types that this word names.
    pub(super) fn first_mentioned(&self, stems: &[String]) -> Option<Vec<TypeId>> {
        let kinds = || (0..self.types.len()).map(|kind| TypeId(kind as u16));
        let says = |kind: &TypeId, stem: &String| {
            let synonyms = self.type_synonyms.get(usize::from(kind.0));
            self.of_type(*kind).iter().any(|own| is_form(stem, own))
                || synonyms.is_some_and(|synonyms| synonyms.suggests.contains(stem))
        };
        let (at, stem) =
            stems.iter().enumerate().find(|(_, stem)| kinds().any(|kind| says(&kind, stem)))?;
        let begins = stems.get(at..).unwrap_or_default();
        let is_whole = |kind: &TypeId| {
            let own = self.of_type(*kind);
            let mut pairs = own.iter().zip(begins);
            (2..=begins.len()).contains(&own.len()) && pairs.all(|(own, stem)| is_form(own, stem))
        };
        let whole: Vec<TypeId> = kinds().filter(is_whole).collect();
        let any = || kinds().filter(|kind| says(kind, stem)).collect();
        Some(if whole.is_empty() { any() } else { whole })
    }

    /// Returns the types and relations whose names contain a form of a stem.
    pub(super) fn meanings(&self, stem: &str) -> (Vec<TypeId>, Vec<RelationId>) {
        let has = |own: &[String]| own.iter().any(|own| is_form(stem, own));
        let places = |of: &[Vec<String>]| -> Vec<u16> {
            let found = of.iter().zip(0u16..).filter(|(own, _)| has(own));
            found.map(|pair| pair.1).collect()
        };
        let types = places(&self.types).into_iter().map(TypeId).collect();
        (types, places(&self.relations).into_iter().map(RelationId).collect())
    }

    /// Returns the types that a stem means: one of their names' words, or a synonym.
    pub(super) fn types_meaning(&self, stem: &str) -> Vec<TypeId> {
        let means = |(own, synonyms): (&Vec<String>, &Synonyms)| {
            own.iter().any(|own| is_form(stem, own)) || synonyms.means.iter().any(|own| own == stem)
        };
        let types = self.types.iter().zip(&self.type_synonyms).zip(0u16..);
        types.filter(|(pair, _)| means(*pair)).map(|pair| TypeId(pair.1)).collect()
    }

    pub(super) fn says(&self, stem: &str) -> bool {
        self.types.iter().chain(&self.relations).flatten().any(|other| is_form(stem, other))
    }

    /// Returns, for each relation, whether the question excludes it: some stem excludes the
    /// relation, and no stem refers to it. A stem refers to a relation if it is a word of the
    /// relation's name, or a synonym whose `asks` is false.
    pub(super) fn excluded(&self, stems: &[String], asks: &[bool]) -> Vec<bool> {
        let topical = || stems.iter().zip(asks).filter(|(_, asks)| !**asks).map(|pair| pair.0);
        let of_type = |own: &String| self.types.iter().flatten().any(|other| other == own);
        let is_excluded = |(own, synonyms): (&Vec<String>, &Synonyms)| {
            let mut own = own.iter().filter(|own| !of_type(own));
            stems.iter().any(|stem| synonyms.excludes.contains(stem))
                && !topical().any(|stem| synonyms.suggests.contains(stem))
                && !own.any(|own| stems.iter().any(|stem| is_form(stem, own)))
        };
        self.relations.iter().zip(&self.relation_synonyms).map(is_excluded).collect()
    }

    /// Whether a stem is a form of a word of a relation's name, or its synonym.
    pub(super) fn relation_means(&self, relation: RelationId, stem: &str) -> bool {
        let synonyms = self.relation_synonyms.get(usize::from(relation.0));
        self.of_relation(relation).iter().any(|own| is_form(stem, own))
            || synonyms.is_some_and(|synonyms| synonyms.suggests.iter().any(|own| own == stem))
    }

    /// Returns the relations for which [`relation_means`](Self::relation_means) holds.
    pub(super) fn relations_meaning(&self, stem: &str) -> Vec<RelationId> {
        let all = (0..self.relations.len()).map(|at| RelationId(at as u16));
        all.filter(|&relation| self.relation_means(relation, stem)).collect()
    }

    /// Whether a stem is a synonym of a type or relation.
    pub(super) fn is_synonym(&self, stem: &str) -> bool {
        let mut all = self.type_synonyms.iter().chain(&self.relation_synonyms);
        all.any(|synonyms| synonyms.suggests.iter().any(|own| own == stem))
    }
}

/// Whether two stems are forms of one word. They are if they are equal, or if the shorter is a
/// prefix of the longer, has at least [`MIN_BEGINNING`] bytes, and is at most [`MAX_ENDING`] bytes
/// shorter.
pub(super) fn is_form(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    short == long
        || short.len() >= MIN_BEGINNING
            && long.len() <= short.len() + MAX_ENDING
            && long.starts_with(short)
}
