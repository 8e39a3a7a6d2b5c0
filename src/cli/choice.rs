//! Enumerations of other crates as values of options: clap's trait cannot be implemented for them here.

use clap::{
    ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};

/// An enumeration that an option chooses from.
pub(crate) trait Choices: Copy + Send + Sync + 'static {
    /// All values, in the order of the help.
    const ALL: &'static [Choice<Self>];

    /// The value as written on the command line, and what the help says of it.
    fn described(self) -> (&'static str, &'static str);
}

/// Reads a value of such an option.
pub(crate) fn choice<T: Choices>() -> impl TypedValueParser<Value = T> {
    EnumValueParser::<Choice<T>>::new().map(|choice| choice.0)
}

/// A value of an option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<T>(pub(crate) T);

impl<T: Choices> ValueEnum for Choice<T> {
    fn value_variants<'a>() -> &'a [Self] {
        T::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = self.0.described();
        Some(PossibleValue::new(name).help(help))
    }
}
