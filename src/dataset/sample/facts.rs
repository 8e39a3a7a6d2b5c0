//! Hidden facts of nodes: the generator draws the property values of each node before it writes any
//! sentence.
//!
//! An [`Aspect`] is one kind of property, such as material or method, with its values; each value
//! is a set of synonyms. A document states a fact in one wording, and a question often uses
//! another. The answers depend on the facts only.

use serde::Deserialize;

use crate::sample::SampleKind;
use crate::sample::graph::World;
use crate::sample::random::Stream;
use crate::sample::wording::{AMAZON, MAG, PRIME};

/// Value that marks a node without a fact for an aspect.
pub(super) const NO_FACT: u8 = u8::MAX;
/// Percentage of facts that are drawn from the few values typical of the node's theme instead of
/// from all values.
const TYPICAL: usize = 35;
/// Percentage of statements that use a value's first synonym; other statements use a random
/// synonym.
const USUAL_WORDING: usize = 45;
/// Number of values of an aspect that are typical of one theme.
const N_TYPICAL: usize = 3;

/// One kind of property, with the frames of sentences and phrases that state it. `{}` in a frame
/// stands for a synonym of the value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aspect {
    /// Noun for the kind of property, such as `material`; questions also use it.
    pub(super) name: String,
    /// Percentage of the type's nodes that have a fact of this kind.
    pub(super) share: usize,
    /// Frames of whole sentences, for documents.
    pub(super) sentences: Vec<String>,
    /// Frames of verb phrases in the third person singular, which follow "one that".
    pub(super) clauses: Vec<String>,
    /// Frames of short phrases, for keyword queries.
    pub(super) keys: Vec<String>,
    /// Possible values, each a list of synonyms.
    pub(super) values: Vec<Vec<String>>,
}

impl Aspect {
    /// Returns a random frame filled with a synonym of the value. The first synonym is the most
    /// frequent, so that a question and a document use the same word in about half of the cases.
    pub(super) fn say(&self, frames: &[impl AsRef<str>], value: u8, stream: &mut Stream) -> String {
        let synonyms = self.values.get(value as usize).map_or(&[][..], Vec::as_slice);
        let frame = stream.pick_text(frames);
        let usual = stream.percent(USUAL_WORDING);
        let other = stream.pick_text(synonyms);
        let synonym = if usual { synonyms.first().map_or("", String::as_str) } else { other };
        frame.replace("{}", synonym)
    }

    /// Returns a sentence that states the value; none for [`NO_FACT`]. In `twice` per cent of the
    /// calls, a second sentence is drawn, and also returned if it differs from the first.
    pub(super) fn state(&self, value: u8, twice: usize, stream: &mut Stream) -> Vec<String> {
        if value == NO_FACT {
            return Vec::new();
        }
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

/// Facts of all nodes of one type: one byte per node and aspect.
pub(super) struct Facts {
    /// Aspects of the type, in the order of each node's values.
    pub(super) aspects: &'static [Aspect],
    values: Vec<u8>,
}

impl Facts {
    /// Draws the facts of all nodes of a type.
    pub(super) fn new(world: &World, node_type: usize, name: &str) -> Facts {
        let aspects = match world.kind {
            SampleKind::Amazon => AMAZON.aspects(name),
            SampleKind::Mag => MAG.aspects(name),
            SampleKind::Prime => PRIME.aspects(name),
        };
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
                // All draws are made in any case, so that one aspect does not change the draws of
                // the next.
                let present = stream.percent(aspect.share);
                let typical = stream.percent(TYPICAL);
                let (near, far) = (stream.below(N_TYPICAL), stream.below(n_values));
                let value = if typical { (theme * 7 + column * 3 + near) % n_values } else { far };
                values.push(if present { value as u8 } else { NO_FACT });
            }
        }
        Facts { aspects, values }
    }

    /// Returns the facts of the node with this index within the type: a value, or [`NO_FACT`], for
    /// each aspect.
    pub(super) fn of(&self, index: u32) -> &[u8] {
        let from = index as usize * self.aspects.len();
        self.values.get(from..from + self.aspects.len()).unwrap_or_default()
    }

    /// Whether a node has all the given facts, each a pair of aspect index and value.
    pub(super) fn has(&self, index: u32, wanted: &[(usize, u8)]) -> bool {
        let facts = self.of(index);
        wanted.iter().all(|&(aspect, value)| facts.get(aspect) == Some(&value))
    }
}
