//! Enumerations of other crates as values of command-line options and JSON fields.

use clap::{
    ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};
use serde::{Deserialize as _, Deserializer, de::Error};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

use agent_systems::bundle::Effort;
use agent_train::{
    dense::Negatives,
    graph::Ablation,
    mfar::{Conditioning, Variant},
};

/// An enumeration whose variants are the values of a command-line option.
pub trait Choices: Copy + Send + Sync + 'static {
    /// All variants, in the order in which the help lists them.
    const ALL: &'static [Choice<Self>];

    /// Returns the variant's name on the command line and its help text.
    fn described(self) -> (&'static str, &'static str);
}

/// Returns a parser of the option's values, for `value_parser` of clap.
pub fn choice<T: Choices>() -> impl TypedValueParser<Value = T> {
    EnumValueParser::<Choice<T>>::new().map(|choice| choice.0)
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

/// Wraps a variant, so that clap can parse enumerations of other crates.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T>(pub T);

/// Defines types that only name a JSON schema: the names of an option's values, as an `enum`.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident of $choices:ty;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let names = <$choices as Choices>::ALL.iter().map(|choice| choice.0.described().0);
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

names! {
    /// JSON schema of the names of mFAR variants.
    VariantName of Variant;
    /// JSON schema of the names of mFAR weight conditionings: what the weights of fields depend on.
    ConditioningName of Conditioning;
    /// JSON schema of the names of the parts that a graph network can leave out.
    AblationName of Ablation;
    /// JSON schema of the names of the sources of negatives, for the training of encoders.
    NegativesName of Negatives;
}

impl<T: Choices> ValueEnum for Choice<T> {
    fn value_variants<'a>() -> &'a [Self] {
        T::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = self.0.described();
        Some(PossibleValue::new(name).help(help))
    }
}

impl Choices for Effort {
    const ALL: &'static [Choice<Self>] =
        &[Choice(Self::None), Choice(Self::Reads), Choice(Self::Judges)];

    fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("0", "Only in programs that call a language model"),
            Self::Reads => {
                ("1", "Also to read the query: category, entities, wanted type, conditions")
            }
            Self::Judges => {
                ("2", "Also to judge the first 10 answers, and up to 50 if none of them is good")
            }
        }
    }
}

impl Choices for Variant {
    const ALL: &'static [Choice<Self>] = &[
        Choice(Self::Lexical),
        Choice(Self::Dense),
        Choice(Self::Two),
        Choice(Self::All),
        Choice(Self::OnePlusN),
        Choice(Self::OnePlusNLexical),
    ];

    fn described(self) -> (&'static str, &'static str) {
        let help = match self {
            Self::Lexical => "BM25 of every field",
            Self::Dense => "The vector of every field",
            Self::Two => "BM25 and the vector of the whole document",
            Self::All => "BM25 and the vector of every field",
            Self::OnePlusN => "BM25 of the whole document, and the vector of every field",
            Self::OnePlusNLexical => "BM25 of the whole document, and of every field",
        };
        (self.name(), help)
    }
}

impl Choices for Conditioning {
    const ALL: &'static [Choice<Self>] =
        &[Choice(Self::None), Choice(Self::Words), Choice(Self::Responses), Choice(Self::Encoder)];

    fn described(self) -> (&'static str, &'static str) {
        let help = match self {
            Self::None => "Nothing: the same weights for all queries",
            Self::Words => "The words of the query",
            Self::Responses => "The best score of each field for the query",
            Self::Encoder => "The vector of the query",
        };
        (self.name(), help)
    }
}

impl Choices for Ablation {
    const ALL: &'static [Choice<Self>] =
        &[Choice(Self::Relations), Choice(Self::Relevance), Choice(Self::Graph)];

    fn described(self) -> (&'static str, &'static str) {
        let help = match self {
            Self::Relations => "Relations and types: all edges are alike",
            Self::Relevance => "Features of links, words and embeddings",
            Self::Graph => "All messages between nodes",
        };
        (self.name(), help)
    }
}

impl Choices for Negatives {
    const ALL: &'static [Choice<Self>] = &[Choice(Self::Bm25), Choice(Self::Own)];

    fn described(self) -> (&'static str, &'static str) {
        let help = match self {
            Self::Bm25 => "The first nodes of bm25+names, as in DPR (with a bag of words: bag:dpr)",
            Self::Own => {
                "At first as bm25, then the first nodes of the encoder, as in ANCE (bag:ance)"
            }
        };
        (self.name(), help)
    }
}
