//! The wording of samples: word lists, statements about nodes, and question templates. They are
//! stored in `data/*.toml`, which are compiled in.

use std::sync::LazyLock;

use serde::{Deserialize, de::DeserializeOwned};

use crate::sample::{SampleKind, facts::Aspect};

/// Words of one kind, such as colours.
type List = Vec<String>;

/// Word lists from which names are made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    pub(super) onsets: List,
    pub(super) vowels: List,
    pub(super) codas: List,
    pub(super) brand_first: List,
    pub(super) brand_second: List,
    pub(super) shades: List,
    pub(super) colors: List,
    pub(super) segments: List,
    pub(super) groups: List,
    pub(super) series: List,
    pub(super) given: List,
    pub(super) field_first: List,
    pub(super) field_second: List,
    pub(super) field_third: List,
    pub(super) organs: List,
    pub(super) regions: List,
    pub(super) tissues: List,
    pub(super) disease_first: List,
    pub(super) disease_last: List,
    pub(super) effects: List,
    pub(super) effect_first: List,
    pub(super) substances: List,
    pub(super) activities: List,
    pub(super) process_first: List,
    pub(super) process_last: List,
    pub(super) components: List,
    pub(super) contexts: List,
    pub(super) chemicals: List,
    pub(super) chemical_last: List,
    pub(super) pathway_first: List,
    pub(super) drug_last: List,
    pub(super) chemical_setting: List,
}

/// Aspects and sentences for texts about products.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amazon {
    pub(super) openers: List,
    pub(super) summaries: List,
    pub(super) fillers: List,
    pub(super) product: Vec<Aspect>,
}

/// Aspects and sentences for texts about papers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mag {
    pub(super) openers: List,
    pub(super) closers: List,
    pub(super) scopes: List,
    pub(super) paper: Vec<Aspect>,
}

/// Aspects and sentences for texts about biomedical nodes; nodes of the six types without an entry
/// have only a name and a source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prime {
    pub(super) fillers: List,
    pub(super) prevalence: List,
    pub(super) disease: Vec<Aspect>,
    pub(super) drug: Vec<Aspect>,
    pub(super) gene: Vec<Aspect>,
    pub(super) pathway: Vec<Aspect>,
}

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Templates {
    template: Vec<Template>,
}

pub(super) static WORDS: LazyLock<Words> = LazyLock::new(|| read(include_str!("data/words.toml")));
pub(super) static AMAZON: LazyLock<Amazon> =
    LazyLock::new(|| read(include_str!("data/amazon.toml")));
pub(super) static MAG: LazyLock<Mag> = LazyLock::new(|| read(include_str!("data/mag.toml")));
pub(super) static PRIME: LazyLock<Prime> = LazyLock::new(|| read(include_str!("data/prime.toml")));
/// All question templates, in file order; several templates may have the same id.
pub(super) static TEMPLATES: LazyLock<Vec<Template>> =
    LazyLock::new(|| read::<Templates>(include_str!("data/templates.toml")).template);

#[allow(clippy::expect_used, reason = "the files are part of the binary, and tests read each")]
fn read<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("a data file of the samples has the shape of its type")
}
