//! The three STaRK schemas with their real sizes, and how edges are drawn. They are stored in
//! `data/schemas.toml`, which is compiled in.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::sample::{SampleKind, wording};

/// Sizes and edges of one kind of sample.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Schema {
    /// For each type, in the order of [`SampleKind::types`], the number of nodes at scale 1 and the
    /// minimum number at any scale. Because of the minimum, a small base still has colours, fields
    /// of study and institutions. The ids of each type are consecutive.
    pub(super) sizes: Vec<(u32, u32)>,
    /// Edge plans in the order in which the edges are written.
    pub(super) edges: Vec<EdgePlan>,
}

/// How the edges of one tuple (source type, relation, target type) are drawn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EdgePlan {
    /// Name of the source type, as stored.
    pub(super) source: String,
    /// Name of the relation.
    pub(super) relation: String,
    /// Name of the target type, as stored.
    pub(super) target: String,
    /// Number of stored edges at scale 1.
    pub(super) full: u32,
    /// Percentage of the nodes at the drawing end that have edges of this tuple.
    pub(super) share: usize,
    /// Which end draws the edges, and the distribution of the number of edges per node of this end.
    pub(super) degree: Degree,
}

/// Which end of an [`EdgePlan`] draws the edges, and how many edges a node draws.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Degree {
    /// Each source draws exactly one target.
    One,
    /// Each source draws a heavy-tailed number of targets.
    Source,
    /// Each target draws a heavy-tailed number of sources; the edge is still stored from source to
    /// target.
    Target,
    /// Each node draws a heavy-tailed number of nodes of the same type; an edge is stored once,
    /// from the smaller index to the larger.
    Symmetric,
}

/// The schemas by kind of sample; the file has all kinds.
pub(super) static SCHEMAS: LazyLock<BTreeMap<SampleKind, Schema>> =
    LazyLock::new(|| wording::read(include_str!("data/schemas.toml")));

/// Returns the names of the types whose nodes may be answers.
pub(super) fn candidate_types(kind: SampleKind) -> &'static [&'static str] {
    match kind.candidate_types() {
        [] => kind.types(),
        some => some,
    }
}
