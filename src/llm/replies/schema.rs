//! Validates JSON by the subset of JSON Schema that prompts use: `type`, `enum`, `required`,
//! `properties`, `additionalProperties`, `items` and `anyOf`. Any other keyword is an error.
//!
//! The wording and order of the errors are part of repair prompts, whose replies are stored: do not
//! change them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::replies::MAX_ERRORS;

/// Errors of a JSON value: pairs of the JSON pointer of the wrong part and the message. The pointer
/// is empty if the value as a whole is wrong.
type Errors = Vec<(String, String)>;

/// A parsed schema, which validates values.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct Validator {
    #[serde(rename = "type")]
    types: Option<Types>,
    #[serde(rename = "enum")]
    variants: Option<Vec<Value>>,
    required: Vec<String>,
    properties: Option<BTreeMap<String, Validator>>,
    additional_properties: Option<bool>,
    items: Option<Box<Validator>>,
    any_of: Option<Vec<Validator>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Types {
    Single(Type),
    Several(Vec<Type>),
}

/// Types of JSON values, in the order in which an error lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Validator {
    /// Returns the errors of a value, at most the first [`MAX_ERRORS`]; empty if the value is
    /// valid.
    pub(super) fn errors(&self, value: &Value) -> Errors {
        let mut errors = Errors::new();
        self.validate(value, "", &mut errors);
        errors.truncate(MAX_ERRORS);
        errors
    }

    fn validate(&self, value: &Value, place: &str, errors: &mut Errors) {
        if errors.len() >= MAX_ERRORS {
            return;
        }
        if let Some(types) = &self.types
            && !types.as_slice().iter().any(|expected| expected.matches(value))
        {
            errors.push((place.to_owned(), type_error(types.as_slice())));
        }
        if let Some(variants) = self.variants.as_ref().filter(|all| !all.contains(value)) {
            errors.push((place.to_owned(), enum_error(variants)));
        }
        if let Some(object) = value.as_object() {
            self.validate_object(object, place, errors);
        }
        if let (Some(items), Some(values)) = (&self.items, value.as_array()) {
            for (index, value) in values.iter().enumerate() {
                items.validate(value, &format!("{place}/{index}"), errors);
            }
        }
        if let Some(schemas) = &self.any_of
            && !schemas.iter().any(|schema| schema.errors(value).is_empty())
        {
            const MESSAGE: &str =
                "value is not valid under any of the schemas listed in the 'anyOf' keyword";
            errors.push((place.to_owned(), MESSAGE.to_owned()));
        }
    }

    fn validate_object(&self, object: &Map<String, Value>, place: &str, errors: &mut Errors) {
        let fail = |errors: &mut Errors, message: String| errors.push((place.to_owned(), message));
        let is_closed = self.additional_properties == Some(false);
        let missing = self.required.iter().filter(|name| !object.contains_key(*name));
        let missing = missing.map(|name| format!("{name:?} is a required property"));
        // In a closed object, a single required name is checked last.
        let is_last = is_closed && self.properties.is_some() && self.required.len() == 1;
        let (last, first): (Vec<_>, Vec<_>) = missing.partition(|_| is_last);
        first.into_iter().for_each(|message| fail(errors, message));
        let mut unexpected = Vec::new();
        for (name, value) in object {
            match self.properties.as_ref().and_then(|properties| properties.get(name)) {
                Some(schema) => schema.validate(value, &format!("{place}/{name}"), errors),
                None => unexpected.push(format!("'{name}'")),
            }
        }
        if is_closed && !unexpected.is_empty() {
            let verb = if unexpected.len() == 1 { "was" } else { "were" };
            let names = unexpected.join(", ");
            fail(
                errors,
                format!("Additional properties are not allowed ({names} {verb} unexpected)"),
            );
        }
        last.into_iter().for_each(|message| fail(errors, message));
    }
}

impl Types {
    fn as_slice(&self) -> &[Type] {
        match self {
            Types::Single(single) => std::slice::from_ref(single),
            Types::Several(several) => several,
        }
    }
}

impl Type {
    /// Whether a value has this type; `1.0` counts as an integer.
    fn matches(self, value: &Value) -> bool {
        match self {
            Type::Null => value.is_null(),
            Type::Boolean => value.is_boolean(),
            Type::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Type::Number => value.is_number(),
            Type::String => value.is_string(),
            Type::Array => value.is_array(),
            Type::Object => value.is_object(),
        }
    }
}

fn type_error(types: &[Type]) -> String {
    let mut types = types.to_vec();
    types.sort_unstable();
    let names = types.iter().map(|expected| format!("\"{expected:?}\"").to_lowercase());
    let plural = if types.len() == 1 { "" } else { "s" };
    format!("value is not of type{plural} {}", names.collect::<Vec<_>>().join(", "))
}

/// Returns the error of a value that is not among `variants`. Lists up to three variants; of four
/// or more, the first two and the number of further variants.
fn enum_error(variants: &[Value]) -> String {
    let names: Vec<String> = variants.iter().map(Value::to_string).collect();
    let listed = match &names[..] {
        [first, second, others @ ..] if others.len() > 1 => {
            format!("{first}, {second} or {} other candidates", others.len())
        }
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    };
    format!("value is not one of {listed}")
}
