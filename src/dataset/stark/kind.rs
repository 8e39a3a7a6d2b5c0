//! The three bases of the benchmark, with their names and the numbers of their types and relations.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A base of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Products with brands, categories and colours.
    Amazon,
    /// Papers with authors, institutions and fields of study.
    Mag,
    /// Diseases, genes, drugs and other biomedical nodes.
    Prime,
}

impl Kind {
    /// All three bases.
    pub const ALL: [Kind; 3] = [Kind::Amazon, Kind::Mag, Kind::Prime];

    /// Returns the name of the base in paths of the benchmark: `amazon`, `mag` or `prime`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Amazon => "amazon",
            Kind::Mag => "mag",
            Kind::Prime => "prime",
        }
    }

    /// Returns the title of the base, for display.
    pub(super) fn title(self) -> &'static str {
        match self {
            Kind::Amazon => "STaRK Amazon",
            Kind::Mag => "STaRK MAG",
            Kind::Prime => "STaRK Prime",
        }
    }

    /// Returns the names of the node types; the position in the list is the type number.
    pub(crate) fn types(self) -> &'static [&'static str] {
        match self {
            Kind::Amazon => &["product", "brand", "category", "color"],
            Kind::Mag => &["author", "institution", "field_of_study", "paper"],
            Kind::Prime => &[
                "disease",
                "gene/protein",
                "molecular_function",
                "drug",
                "pathway",
                "anatomy",
                "effect/phenotype",
                "biological_process",
                "cellular_component",
                "exposure",
            ],
        }
    }

    /// Returns the names of the relations; the position in the list is the relation number.
    pub(super) fn relations(self) -> &'static [&'static str] {
        match self {
            Kind::Amazon => &["also_buy", "also_view", "has_brand", "has_category", "has_color"],
            Kind::Mag => &[
                "author___affiliated_with___institution",
                "paper___cites___paper",
                "paper___has_topic___field_of_study",
                "author___writes___paper",
            ],
            Kind::Prime => &[
                "ppi",
                "carrier",
                "enzyme",
                "target",
                "transporter",
                "contraindication",
                "indication",
                "off-label use",
                "synergistic interaction",
                "associated with",
                "parent-child",
                "phenotype absent",
                "phenotype present",
                "side effect",
                "interacts with",
                "linked to",
                "expression present",
                "expression absent",
            ],
        }
    }

    /// Returns the names of the types whose nodes may be answers; empty means all types.
    pub(crate) fn candidate_types(self) -> &'static [&'static str] {
        match self {
            Kind::Amazon => &["product"],
            Kind::Mag => &["paper"],
            Kind::Prime => &[],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
