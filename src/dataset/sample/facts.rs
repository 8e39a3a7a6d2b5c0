//! Hidden facts of nodes: draws the property values of each node before any sentence is written.
//!
//! An [`Aspect`] is one kind of property (material, method, mechanism) with its values; a value is
//! a set of synonyms. Documents state a fact in one wording, questions often in another. Answers
//! depend on the facts only.

use serde::Deserialize;

use crate::sample::SampleKind;
use crate::sample::graph::World;
use crate::sample::random::Stream;
use crate::sample::wording::{AMAZON, MAG, PRIME};

/// Marks an aspect without a fact for a node.
pub(super) const NO_FACT: u8 = u8::MAX;
/// Share of facts, in per cent, that come from the few values typical of the node's theme.
const TYPICAL: usize = 35;
/// Share of statements, in per cent, that use the first synonym directly instead of a random one.
const USUAL_WORDING: usize = 45;
/// Values typical of one theme, per aspect.
const N_TYPICAL: usize = 3;

/// One kind of property. `{}` in a frame is replaced by one synonym of the value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aspect {
    /// Noun for the aspect; also used in questions.
    pub(super) name: String,
    /// Share of the nodes, in per cent, with such a fact.
    pub(super) share: usize,
    /// Whole sentences for documents.
    pub(super) sentences: Vec<String>,
    /// Verb phrases in the third person singular, for "one that ...".
    pub(super) clauses: Vec<String>,
    /// Short forms for keyword queries.
    pub(super) keys: Vec<String>,
    /// Values, each a set of synonyms.
    pub(super) values: Vec<Vec<String>>,
}

impl Aspect {
    /// Returns a random frame with a synonym of the value. The first synonym is the most frequent,
    /// so that a question and a document agree in about half of the cases.
    pub(super) fn say(&self, frames: &[impl AsRef<str>], value: u8, stream: &mut Stream) -> String {
        let synonyms = self.values.get(value as usize).map_or(&[][..], Vec::as_slice);
        let frame = stream.pick_text(frames);
        let usual = stream.percent(USUAL_WORDING);
        let other = stream.pick_text(synonyms);
        let synonym = if usual { synonyms.first().map_or("", String::as_str) } else { other };
        frame.replace("{}", synonym)
    }

    /// Returns a sentence that states the value or, with probability `twice` in per cent, two
    /// different sentences.
    pub(super) fn state(&self, value: u8, twice: usize, stream: &mut Stream) -> Vec<String> {
        let mut sentences = vec![self.say(&self.sentences, value, stream)];
        if stream.percent(twice) {
            let second = self.say(&self.sentences, value, stream);
            if sentences[0] != second {
                sentences.push(second);
            }
        }
        sentences
    }
}

/// Returns the aspects of a node type; empty for types with only a name.
pub(super) fn aspects(kind: SampleKind, node_type: &str) -> &'static [Aspect] {
    match (kind, node_type) {
        (SampleKind::Amazon, "product") => &AMAZON.product,
        (SampleKind::Mag, "paper") => &MAG.paper,
        (SampleKind::Prime, "disease") => &PRIME.disease,
        (SampleKind::Prime, "drug") => &PRIME.drug,
        (SampleKind::Prime, "gene/protein") => &PRIME.gene,
        (SampleKind::Prime, "pathway") => &PRIME.pathway,
        _ => &[],
    }
}

/// Facts of all nodes of one type: one byte per node and aspect.
pub(super) struct Facts {
    /// Aspects, in column order.
    pub(super) aspects: &'static [Aspect],
    values: Vec<u8>,
}

impl Facts {
    /// Draws the facts of all nodes of a type.
    pub(super) fn new(world: &World, node_type: usize, name: &str) -> Facts {
        let aspects = aspects(world.kind, name);
        let mut values = Vec::new();
        if aspects.is_empty() {
            return Facts { aspects, values };
        }
        let purpose = format!("facts {name}");
        for index in 0..world.counts[node_type] {
            let mut stream = Stream::new(world.seed, &purpose, u64::from(index));
            let theme = world.theme(node_type, index) as usize;
            for (column, aspect) in aspects.iter().enumerate() {
                let n_values = aspect.values.len();
                // All draws are made before deciding, so that one aspect does not disturb the next.
                let present = stream.percent(aspect.share);
                let typical = stream.percent(TYPICAL);
                let (near, far) = (stream.below(N_TYPICAL), stream.below(n_values));
                let value = if typical { (theme * 7 + column * 3 + near) % n_values } else { far };
                values.push(if present { value as u8 } else { NO_FACT });
            }
        }
        Facts { aspects, values }
    }

    /// Returns the facts of a node: one value or [`NO_FACT`] per aspect.
    pub(super) fn of(&self, index: u32) -> &[u8] {
        let from = index as usize * self.aspects.len();
        self.values.get(from..from + self.aspects.len()).unwrap_or_default()
    }

    /// Returns whether a node has all the given (aspect, value) pairs.
    pub(super) fn has(&self, index: u32, wanted: &[(usize, u8)]) -> bool {
        let facts = self.of(index);
        wanted.iter().all(|&(aspect, value)| facts.get(aspect) == Some(&value))
    }
}
