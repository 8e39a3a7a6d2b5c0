//! The wording of samples: word lists, statements about nodes, and question templates. They are
//! stored in `data/*.toml`, which are compiled in.

use std::{collections::BTreeMap, ops::Index, sync::LazyLock};

use serde::{Deserialize, de::DeserializeOwned};

use crate::sample::{SampleKind, facts::Aspect};

/// Content of a data file, by name: a list of words, such as colours, or the aspects of a node
/// type.
#[derive(Deserialize)]
pub(super) struct Wording(BTreeMap<String, Entry>);

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Words(Vec<String>),
    Aspects(Vec<Aspect>),
}

impl Wording {
    /// Returns the aspects of a node type; empty for a type whose nodes have only a name.
    pub(super) fn aspects(&self, node_type: &str) -> &[Aspect] {
        match self.0.get(node_type) {
            Some(Entry::Aspects(aspects)) => aspects,
            _ => &[],
        }
    }
}

impl Index<&str> for Wording {
    type Output = [String];

    /// Returns a list of words; the data file must have it.
    fn index(&self, name: &str) -> &[String] {
        match &self.0[name] {
            Entry::Words(words) => words,
            Entry::Aspects(_) => &[],
        }
    }
}

/// A metapath that starts at a slot and ends at the type of the answers. A negated metapath starts
/// at that type instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Branch {
    /// Index of the slot at which the metapath starts; unused if the branch is negated.
    pub(super) slot: usize,
    /// Name of the relation and of the end type of each step.
    pub(super) hops: Vec<(String, String)>,
    /// Whether the branch excludes the answers from which a path along this metapath exists.
    #[serde(default)]
    pub(super) negated: bool,
}

/// A question template.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Template {
    /// Identifier such as `prime-14`.
    pub(super) id: String,
    /// Kind of sample to which the template applies.
    pub(super) kind: SampleKind,
    /// Name of the type of the answers.
    pub(super) target: String,
    /// Name of the node type of each slot.
    pub(super) slots: Vec<String>,
    /// Metapaths of the template. The answers are the nodes at the ends of all plain metapaths,
    /// without the nodes that have a path along a negated metapath.
    pub(super) branches: Vec<Branch>,
    /// Whether nodes that fill slots are removed from the answers.
    #[serde(default)]
    pub(super) exclude_slots: bool,
    /// Patterns of wordings, with placeholders such as `{a}` for the first slot.
    pub(super) patterns: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Templates {
    template: Vec<Template>,
}

/// Words from which names are made.
pub(super) static WORDS: LazyLock<Wording> =
    LazyLock::new(|| read(include_str!("data/words.toml")));
pub(super) static AMAZON: LazyLock<Wording> =
    LazyLock::new(|| read(include_str!("data/amazon.toml")));
pub(super) static MAG: LazyLock<Wording> = LazyLock::new(|| read(include_str!("data/mag.toml")));
pub(super) static PRIME: LazyLock<Wording> =
    LazyLock::new(|| read(include_str!("data/prime.toml")));
/// All question templates, in file order; several templates may have the same id.
pub(super) static TEMPLATES: LazyLock<Vec<Template>> =
    LazyLock::new(|| read::<Templates>(include_str!("data/templates.toml")).template);

/// Reads a data file.
#[allow(clippy::expect_used, reason = "the files are compiled in, and tests parse each of them")]
pub(super) fn read<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("a built-in data file of the samples is valid")
}
