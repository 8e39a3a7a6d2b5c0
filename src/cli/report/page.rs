//! Pages as HTML. The template escapes every value, as all of them may come from datasets and
//! programs. Must not know where values come from.

use anyhow::Context as _;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use serde::Serialize;

/// A page: its drawings and its text.
pub(super) enum Template {
    /// Of a run.
    Run,
    /// Of a trained model.
    Model,
}

/// What all pages look like.
const STYLE: &str = include_str!("style.css");

impl Template {
    fn source(&self) -> &'static str {
        match self {
            Self::Run => include_str!("page.html"),
            Self::Model => include_str!("model.html"),
        }
    }
}

/// A page with its values.
///
/// # Errors
/// That the template asks for a value that is not there.
pub(super) fn render(template: Template, values: &impl Serialize) -> anyhow::Result<String> {
    let failed = "the page cannot be written";
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("style.css", STYLE).context(failed)?;
    let values = value(serde_json::to_value(values)?);
    environment.render_str(template.source(), values).context(failed)
}

/// A value as the template takes it.
fn value(json: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(truth) => Value::from(truth),
        Json::Number(number) => match number.as_u64() {
            Some(count) => Value::from(count),
            None => Value::from(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => items.into_iter().map(value).collect(),
        Json::Object(entries) => {
            Value::from_pairs(entries.into_iter().map(|(name, of)| (name, value(of))))
        }
    }
}
