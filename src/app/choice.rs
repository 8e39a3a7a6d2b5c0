//! Enumerations of other crates as values of command-line options and JSON fields.

use std::{any::type_name, borrow::Cow, marker::PhantomData};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::{Deserialize as _, Deserializer, de::Error};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use agent_dataset::{InputFormat, stark::Mode};
use agent_optimize::Ablation as Part;
use agent_systems::bundle::Effort;
use agent_train::{
    dense::Negatives,
    graph::Ablation,
    mfar::{Conditioning, Variant},
};

/// An enumeration whose variants are the values of a command-line option.
pub trait Choices: Copy + Send + Sync + 'static {
    /// Description of the values in JSON schemas, if any.
    const DESCRIPTION: Option<&'static str> = None;

    /// All variants, in the order in which the help lists them, each with its help text.
    const ALL: &'static [(Self, &'static str)];

    /// Returns a variant's name on the command line.
    const NAME: fn(Self) -> &'static str;
}

/// Returns a parser of the option's values, for `value_parser` of clap.
pub fn choice<T: Choices>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL.iter().map(|(of, help)| PossibleValue::new(T::NAME(*of)).help(*help));
    PossibleValuesParser::new(values).try_map(|given| {
        let found = T::ALL.iter().find(|(of, _)| T::NAME(*of) == given);
        found.map(|(of, _)| *of).ok_or("unknown value")
    })
}

/// Deserializes an effort from its number, 0 to 2.
///
/// # Errors
/// If the number is not in 0..=2.
pub fn effort<'de, D: Deserializer<'de>>(from: D) -> Result<Effort, D::Error> {
    of_number(u8::deserialize(from)?)
}

/// Deserializes efforts from a list of their numbers, each 0 to 2.
///
/// # Errors
/// If a number is not in 0..=2.
pub fn efforts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Effort>, D::Error> {
    Vec::<u8>::deserialize(from)?.into_iter().map(of_number).collect()
}

fn of_number<E: Error>(number: u8) -> Result<Effort, E> {
    let unknown = || E::custom(format!("effort {number} is not in 0..=2"));
    Effort::from_number(number).ok_or_else(unknown)
}

/// JSON schema of an option: an `enum` of the names of its values. Holds no value itself.
pub struct Names<T>(PhantomData<T>);

impl<T: Choices> PartialSchema for Names<T> {
    fn schema() -> RefOr<Schema> {
        let names = T::ALL.iter().map(|(of, _)| T::NAME(*of));
        let object = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        object.description(T::DESCRIPTION).into()
    }
}

impl<T: Choices> ToSchema for Names<T> {
    fn name() -> Cow<'static, str> {
        type_name::<T>().into()
    }
}

/// JSON schema of the names of mFAR variants.
pub type VariantName = Names<Variant>;
/// JSON schema of the names of mFAR conditionings, the inputs on which the weights of fields
/// depend.
pub type ConditioningName = Names<Conditioning>;
/// JSON schema of the names of the parts that a graph network can leave out.
pub type AblationName = Names<Ablation>;
/// JSON schema of the names of sources of negatives in encoder training.
pub type NegativesName = Names<Negatives>;
/// JSON schema of the names of formats of the data to import.
pub type FormatName = Names<InputFormat>;
/// JSON schema of the names of the modes in which a STaRK dataset is imported.
pub type ModeName = Names<Mode>;
/// JSON schema of the names of the parts that the optimizer can leave out.
pub type PartName = Names<Part>;

impl Choices for Effort {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::None, "Only in programs that call a language model"),
        (Self::Reads, "Also to read the query: category, entities, wanted type, conditions"),
        (
            Self::Judges,
            "Also to judge the first 10 answers, or up to 50 if the first 10 are all bad",
        ),
    ];

    const NAME: fn(Self) -> &'static str = |effort| ["0", "1", "2"][effort as usize];
}

impl Choices for InputFormat {
    const DESCRIPTION: Option<&'static str> = Some("A format of the data to import.");

    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Neutral, "nodes.jsonl, edges.tsv and, optionally, qa.csv, split/ and dataset.toml"),
        (
            Self::Stark,
            "The files of the STaRK benchmark: processed.zip or processed/, and stark_qa/ and \
             split/",
        ),
        (Self::Tables, "Tables: .csv, .tsv, .jsonl, .parquet, .sqlite"),
        (Self::Triples, "A file of N-Triples"),
    ];

    const NAME: fn(Self) -> &'static str =
        |format| ["neutral", "stark", "tables", "triples"][format as usize];
}

impl Choices for Mode {
    const DESCRIPTION: Option<&'static str> =
        Some("Which edges of a STaRK benchmark dataset are read.");

    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Exact, "The stored edges"),
        (
            Self::Faithful,
            "The stored edges, with relations merged as in the reference implementation",
        ),
    ];

    const NAME: fn(Self) -> &'static str = |mode| ["exact", "faithful"][mode as usize];
}

impl Choices for Variant {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Lexical, "BM25 of every field"),
        (Self::Dense, "The vector of every field"),
        (Self::Two, "BM25 and the vector of the whole document"),
        (Self::All, "BM25 and the vector of every field"),
        (Self::OnePlusN, "BM25 of the whole document, and the vector of every field"),
        (Self::OnePlusNLexical, "BM25 of the whole document, and of every field"),
    ];

    const NAME: fn(Self) -> &'static str = Variant::name;
}

impl Choices for Conditioning {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::None, "Nothing: the same weights for all queries"),
        (Self::Words, "The words of the query"),
        (Self::Responses, "The best score of each field for the query"),
        (Self::Encoder, "The vector of the query"),
    ];

    const NAME: fn(Self) -> &'static str = Conditioning::name;
}

impl Choices for Ablation {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Relations, "Relations and types: all edges are alike"),
        (Self::Relevance, "Features of links, words and embeddings"),
        (Self::Graph, "All messages between nodes"),
    ];

    const NAME: fn(Self) -> &'static str = Ablation::name;
}

impl Choices for Negatives {
    const ALL: &'static [(Self, &'static str)] = &[
        (Self::Bm25, "The top nodes of bm25+names, as in DPR (system bag:dpr with --encoder bag)"),
        (
            Self::Own,
            "First as bm25, then the top nodes of the encoder itself, as in ANCE (system bag:ance)",
        ),
    ];

    const NAME: fn(Self) -> &'static str = Negatives::name;
}

impl Choices for Part {
    const DESCRIPTION: Option<&'static str> = Some("A part of the optimizer that can be left out.");

    const ALL: &'static [(Self, &'static str)] = &[
        (
            Self::Mining,
            "Mining of metapaths from training answers; without it, only text search remains",
        ),
        (Self::Tuning, "Tuning of parameters; without it, they keep their declared values"),
        (
            Self::Relaxation,
            "Relaxation of metapaths; without it, only nodes that all metapaths reach are ranked",
        ),
        (
            Self::Router,
            "The router; without it, every query uses the category that is best overall",
        ),
        (Self::Cache, "The cache of tool calls; without it, only the time changes"),
        (Self::Mutation, "Changes to programs after the categories are found"),
        (
            Self::Comparator,
            "Comparison of well and badly answered queries; without it, the model sees only scores \
             and attempts",
        ),
        (
            Self::Steps,
            "Improvement by the model; without it, the model's first programs are only repaired \
             until they run",
        ),
        (Self::Lexicon, "The lexicon: questions about each relation, worded by the model"),
    ];

    const NAME: fn(Self) -> &'static str = Part::name;
}
