//! Types of the question templates, with slots, metapaths and patterns of wordings. The templates
//! are stored in `data/templates.toml`.

use serde::Deserialize;

use crate::sample::SampleKind;

/// A metapath from a slot to the type of the answers or, if negated, from that type.
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
