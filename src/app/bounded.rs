//! Whole numbers with bounds. The bounds are checked both on the command line and in JSON requests.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, schema::Type},
};

/// Deserializes values from a list of texts, each written as on the command line.
///
/// # Errors
/// If a text cannot be parsed as a value.
pub fn parsed<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Bounded<MIN, MAX> {
    /// Wraps `number`, which must be from `MIN` to `MAX`.
    ///
    /// # Panics
    /// If `number` is out of bounds; for a constant, this is a compile error.
    pub const fn new(number: u64) -> Self {
        assert!(MIN <= number && number <= MAX);
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    fn checked(number: u64) -> Result<Self, String> {
        match (MIN..=MAX).contains(&number) {
            true => Ok(Self(number)),
            false => Err(format!("{number} is not in {MIN}..={MAX}")),
        }
    }
}

impl<const MIN: u64, const MAX: u64> FromStr for Bounded<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::checked(text.parse().map_err(|error: std::num::ParseIntError| error.to_string())?)
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Bounded<MIN, MAX> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::checked(u64::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl<const MIN: u64, const MAX: u64> PartialSchema for Bounded<MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let bounds = (MIN as f64, MAX as f64);
        let object = ObjectBuilder::new().schema_type(Type::Integer);
        object.minimum(Some(bounds.0)).maximum(Some(bounds.1)).into()
    }
}

impl<const MIN: u64, const MAX: u64> ToSchema for Bounded<MIN, MAX> {
    fn name() -> Cow<'static, str> {
        format!("Bounded_{MIN}_{MAX}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_are_refused_wherever_they_come_from() {
        type Ten = Bounded<1, 10>;
        assert_eq!("10".parse(), Ok(Ten::new(10)));
        assert_eq!("11".parse::<Ten>(), Err("11 is not in 1..=10".to_owned()));
        assert!("x".parse::<Ten>().is_err() && serde_json::from_str::<Ten>("0").is_err());
        assert_eq!(serde_json::from_str::<Ten>("1").unwrap(), Ten::new(1));
    }
}
