//! The three STaRK schemas: node types and relations with their real sizes, and how edges are
//! drawn.
//!
//! Sizes come from the published bases (Wu et al. 2024, "STaRK", table 1; PrimeKG, Chandak et al.
//! 2023), divided among the relations by rounded shares. Edge counts here are numbers of stored
//! edges: half of the published numbers, which include both directions.

use self::Degree::{One, Source, Symmetric, Target};
use crate::sample::SampleKind;

/// How the edges of one tuple (source type, relation, target type) are drawn.
pub(super) struct EdgePlan {
    /// Name of the source type, as stored.
    pub(super) source: &'static str,
    /// Name of the relation.
    pub(super) relation: &'static str,
    /// Name of the target type, as stored.
    pub(super) target: &'static str,
    /// Number of stored edges at scale 1.
    pub(super) full: u32,
    /// Share, in per cent, of the nodes at the drawing end that have edges of this tuple.
    pub(super) share: usize,
    /// Which end draws the edges, and the distribution of the number of edges per node of this end.
    pub(super) degree: Degree,
}

/// Which end of an [`EdgePlan`] draws the edges, and how many edges a node draws.
#[derive(Clone, Copy, PartialEq, Eq)]
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

/// Returns, for each type, the number of nodes at scale 1 and the minimum number at any scale.
/// Because of the minimum, a small base still has colours, fields of study and institutions. The
/// ids of each type are consecutive, in the order of [`SampleKind::types`].
pub(super) fn sizes(kind: SampleKind) -> &'static [(u32, u32)] {
    match kind {
        SampleKind::Amazon => &[(957_192, 400), (75_250, 40), (1_400, 60), (1_700, 40)],
        SampleKind::Mag => &[(1_104_554, 500), (8_701, 60), (59_469, 60), (700_244, 400)],
        SampleKind::Prime => &[
            (17_080, 80),
            (27_671, 150),
            (11_169, 50),
            (7_957, 80),
            (2_516, 40),
            (14_035, 60),
            (15_311, 80),
            (28_642, 120),
            (4_176, 40),
            (818, 30),
        ],
    }
}

/// Returns the edge plans in the order in which the edges are written.
pub(super) fn plans(kind: SampleKind) -> Vec<EdgePlan> {
    type Row = (&'static str, &'static str, &'static str, u32, usize, Degree);
    let rows: &[Row] = match kind {
        SampleKind::Amazon => &[
            ("product", "also_buy", "product", 1_220_000, 45, Source),
            ("product", "also_view", "product", 1_050_000, 40, Source),
            ("product", "has_brand", "brand", 910_000, 95, One),
            ("product", "has_category", "category", 930_000, 97, Source),
            ("product", "has_color", "color", 610_000, 40, Source),
        ],
        SampleKind::Mag => &[
            (
                "author",
                "author___affiliated_with___institution",
                "institution",
                1_000_000,
                90,
                Source,
            ),
            ("paper", "paper___cites___paper", "paper", 4_900_000, 80, Source),
            (
                "paper",
                "paper___has_topic___field_of_study",
                "field_of_study",
                7_000_000,
                99,
                Source,
            ),
            ("author", "author___writes___paper", "paper", 7_000_000, 99, Target),
        ],
        SampleKind::Prime => &[
            ("anatomy", "expression absent", "gene/protein", 19_900, 40, Source),
            ("anatomy", "expression present", "gene/protein", 1_518_000, 60, Source),
            ("anatomy", "parent-child", "anatomy", 14_000, 90, Symmetric),
            ("biological_process", "interacts with", "gene/protein", 144_800, 95, Target),
            ("biological_process", "parent-child", "biological_process", 52_900, 95, Symmetric),
            ("cellular_component", "interacts with", "gene/protein", 83_400, 90, Target),
            ("cellular_component", "parent-child", "cellular_component", 4_850, 90, Symmetric),
            ("disease", "associated with", "gene/protein", 80_400, 60, Source),
            ("disease", "contraindication", "drug", 30_700, 30, Source),
            ("disease", "indication", "drug", 9_390, 30, Source),
            ("disease", "off-label use", "drug", 2_570, 10, Source),
            ("disease", "parent-child", "disease", 32_200, 95, Symmetric),
            ("disease", "phenotype absent", "effect/phenotype", 1_190, 12, Source),
            ("disease", "phenotype present", "effect/phenotype", 150_300, 55, Source),
            ("drug", "carrier", "gene/protein", 860, 20, Source),
            ("drug", "enzyme", "gene/protein", 5_320, 45, Source),
            ("drug", "side effect", "effect/phenotype", 64_800, 35, Source),
            ("drug", "synergistic interaction", "drug", 1_336_300, 75, Symmetric),
            ("drug", "target", "gene/protein", 16_380, 85, Source),
            ("drug", "transporter", "gene/protein", 3_090, 35, Source),
            ("effect/phenotype", "associated with", "gene/protein", 3_330, 40, Source),
            ("effect/phenotype", "parent-child", "effect/phenotype", 18_700, 90, Symmetric),
            ("exposure", "interacts with", "biological_process", 1_630, 60, Source),
            ("exposure", "interacts with", "cellular_component", 10, 30, Source),
            ("exposure", "interacts with", "gene/protein", 1_210, 90, Source),
            ("exposure", "interacts with", "molecular_function", 45, 40, Source),
            ("exposure", "linked to", "disease", 2_300, 80, Source),
            ("exposure", "parent-child", "exposure", 2_070, 90, Symmetric),
            ("gene/protein", "interacts with", "molecular_function", 69_500, 85, Source),
            ("gene/protein", "interacts with", "pathway", 42_600, 50, Source),
            ("gene/protein", "ppi", "gene/protein", 321_000, 80, Symmetric),
            ("molecular_function", "parent-child", "molecular_function", 13_600, 95, Symmetric),
            ("pathway", "parent-child", "pathway", 2_530, 95, Symmetric),
        ],
    };
    let plans = rows.iter().map(|&row| {
        let (source, relation, target, full, share, degree) = row;
        EdgePlan { source, relation, target, full, share, degree }
    });
    plans.collect()
}

/// Returns the names of the types whose nodes may be answers.
pub(super) fn candidate_types(kind: SampleKind) -> &'static [&'static str] {
    match kind.candidate_types() {
        [] => kind.types(),
        some => some,
    }
}
