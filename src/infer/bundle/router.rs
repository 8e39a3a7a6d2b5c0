//! The router: predicts the category of a query without a language model.
//!
//! Multinomial logistic regression over words and names: stems outside the names, pairs of adjacent
//! stems, the strength of named and described nodes by type, and whether names are quoted or
//! spelled out. The weights maximise the expected quality of the answer, not the likelihood of a
//! label, so that confusing equally good programs costs nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use agent_ground::words::{is_question_word, is_stop_word, name_words, quoted_ranges};
use agent_index::{IndexedBase, TextPart};
use agent_kb::{NodeId, TypeId};

/// Maximum number of stems of a query that become features.
const MAX_STEMS: usize = 128;
/// Number of best nodes from text search whose types become features.
const FOUND: usize = 20;
/// Number of first stems of a query that become `begins with` features.
const FIRST_STEMS: usize = 3;
/// Minimum link strength at which the linked words count as the node's name.
pub const SURE_LINK: f32 = 0.45;

/// Features of a query: pairs of name and value, such as `("quotes a name", 1.0)`.
pub type Features = Vec<(String, f32)>;

/// A trained router: one weight per feature and category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Router {
    /// Number of categories.
    pub n_categories: usize,
    /// For each feature name, one weight per category.
    pub weights: BTreeMap<String, Vec<f32>>,
}

/// Computes the features of a query, sorted by name, without duplicates.
pub fn features(base: &IndexedBase, query: &str) -> Features {
    let mut features: BTreeMap<String, f32> = BTreeMap::new();
    features.insert("always".to_owned(), 1.0);
    let linked = base.entities.link(&base.kb, query, &[], 2);
    // Questions that spell out a name are worded differently from questions that describe a node.
    for mention in base.entities.exact_mentions(query).iter().filter(|mention| mention.marked) {
        if mention.quoted {
            features.insert("quotes a name".to_owned(), 1.0);
        }
        for &node in mention.nodes.iter().take(1) {
            features.insert(format!("spells {}", base.kb.type_name(base.kb.node_type(node))), 1.0);
        }
    }
    if !quoted_ranges(query).is_empty() {
        features.insert("quotes".to_owned(), 1.0);
    }
    let mut strongest: BTreeMap<TypeId, (f32, f32)> = BTreeMap::new();
    let mut sure = Vec::new();
    for &(node, strength) in linked.as_slice() {
        let (first, second) = strongest.entry(base.kb.node_type(node)).or_default();
        if strength > *first {
            (*first, *second) = (strength, *first);
        } else {
            *second = second.max(strength);
        }
        if strength >= SURE_LINK {
            sure.push(node);
        }
    }
    for (kind, (first, second)) in strongest {
        let name = base.kb.type_name(kind);
        features.insert(format!("names {name}"), first);
        features.insert(format!("names two {name}"), second);
    }
    let types: Vec<TypeId> = (0..base.kb.types().len()).map(|kind| TypeId(kind as u16)).collect();
    let best = base.text.search_each(query, TextPart::Document, &types, 1);
    let of_type = |(kind, best): (TypeId, Vec<(NodeId, f32)>)| Some((kind, best.first()?.1));
    let found: Vec<(TypeId, f32)> = types.into_iter().zip(best).filter_map(of_type).collect();
    let top = found.iter().map(|pair| pair.1).fold(f32::MIN_POSITIVE, f32::max);
    for (kind, score) in found {
        features.insert(format!("describes {}", base.kb.type_name(kind)), score / top);
    }
    let found = base.text.search(query, TextPart::DocumentWithNames, &[], FOUND);
    for &(node, _) in &found {
        let name = format!("finds {}", base.kb.type_name(base.kb.node_type(node)));
        *features.entry(name).or_default() += 1.0 / found.len() as f32;
    }
    let rest = base.entities.without_names(query, &sure);
    let stems: Vec<String> = name_words(&rest)
        .filter(|(_, word)| word.len() > 1 && !is_stop_word(word))
        .map(|(_, word)| base.stems.stem(&word).into_owned())
        .take(MAX_STEMS)
        .collect();
    for pair in stems.windows(2) {
        features.insert(format!("says {} {}", pair[0], pair[1]), 0.5);
    }
    let topical = stems.iter().filter(|stem| !is_question_word(stem));
    for stem in topical.take(FIRST_STEMS) {
        features.insert(format!("begins with {stem}"), 0.5);
    }
    for stem in stems {
        features.insert(format!("says {stem}"), 0.5);
    }
    features.into_iter().collect()
}

impl Router {
    /// Returns the probability of each category, in the order of the weights; the probabilities sum
    /// to 1.
    pub fn probabilities(&self, features: &Features) -> Vec<f32> {
        let mut logits = vec![0.0f32; self.n_categories];
        for (name, value) in features {
            for (logit, weight) in
                logits.iter_mut().zip(self.weights.get(name).into_iter().flatten())
            {
                *logit += weight * value;
            }
        }
        let largest = logits.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f32> = logits.iter().map(|logit| (logit - largest).exp()).collect();
        let sum: f32 = powers.iter().sum();
        powers.into_iter().map(|power| power / sum).collect()
    }
}
