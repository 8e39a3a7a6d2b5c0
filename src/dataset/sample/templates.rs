//! Types of question templates: slots, metapaths and phrasings. The templates are stored in
//! `data/templates.toml`.

use serde::Deserialize;

use crate::sample::SampleKind;

/// A metapath from a slot to the target type, or, if negated, from the target.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Branch {
    /// Position of the slot that starts the metapath; unused if negated.
    pub(super) slot: usize,
    /// Relation and end type of each step.
    pub(super) hops: Vec<(String, String)>,
    /// Keeps only targets without a path along this metapath.
    #[serde(default)]
    pub(super) negated: bool,
}

/// A question template.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Template {
    /// Identifier such as `prime-14`.
    pub(super) id: String,
    /// Kind of base to which the template applies.
    pub(super) kind: SampleKind,
    /// Type of the answers.
    pub(super) target: String,
    /// Types of the slots.
    pub(super) slots: Vec<String>,
    /// Metapaths. The answers are the intersection of the plain metapaths' targets, without the
    /// targets that have a path along a negated metapath.
    pub(super) branches: Vec<Branch>,
    /// Whether slot nodes are removed from the answers.
    #[serde(default)]
    pub(super) exclude_slots: bool,
    /// Phrasings with placeholders.
    pub(super) patterns: Vec<String>,
}
