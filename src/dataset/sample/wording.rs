//! The wording of samples: word lists, statements about nodes, and question templates. They are
//! stored in `data/*.toml`, which are compiled in.

use std::sync::LazyLock;

use serde::{Deserialize, de::DeserializeOwned};

use crate::sample::{facts::Aspect, templates::Template};

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
