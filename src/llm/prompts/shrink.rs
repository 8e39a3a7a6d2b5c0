//! Renders a template within its maximum number of tokens (the budget). If needed, truncates inputs
//! in the declared order, as little as possible, and lists the truncations.

use minijinja::Environment;
use serde_json::Value;

use crate::{
    ledger::tokens,
    prompts::{MAX_INPUT_BYTES, Prompt, PromptError, template::Template},
};

/// Renders a template with its inputs; see [`crate::prompts::Prompts::render`].
pub(super) fn render(
    template: &Template,
    environment: &Environment<'static>,
    mut inputs: Value,
) -> Result<Prompt, PromptError> {
    check_names(template, &inputs)?;
    let budget = template.header.budget_tokens;
    let schema_tokens = template.schema.as_ref().map_or(0, |schema| tokens(&schema.to_string()));
    let attempt = |inputs: &Value, left_out: &[String]| {
        let (system, mut user) = template.render(environment, inputs)?;
        if !left_out.is_empty() {
            user.push_str(&format!("\n\nLeft out to keep this short: {}.", left_out.join("; ")));
        }
        let taken = tokens(&system) + tokens(&user) + schema_tokens;
        Ok::<_, PromptError>((system, user, taken))
    };
    let mut left_out = Vec::new();
    let mut best = attempt(&inputs, &left_out)?;
    for path in &template.header.shrink {
        if best.2 <= budget {
            break;
        }
        let longest = lengths(path, &inputs).into_iter().max().unwrap_or(0);
        if longest == 0 {
            continue;
        }
        let tried = |keep: usize| {
            let mut shorter = inputs.clone();
            let note = cut(path, &mut shorter, keep);
            let mut all = left_out.clone();
            all.extend(note);
            let attempted = attempt(&shorter, &all)?;
            Ok::<_, PromptError>((shorter, all, attempted))
        };
        // The prompt with `fits` items or bytes is within the budget (or keeps none); the prompt
        // with `over` exceeds the budget.
        let mut fits = (0, tried(0)?);
        let mut over = longest;
        while fits.1.2.2 <= budget && over - fits.0 > 1 {
            let middle = fits.0 + (over - fits.0) / 2;
            let attempted = tried(middle)?;
            if attempted.2.2 <= budget {
                fits = (middle, attempted);
            } else {
                over = middle;
            }
        }
        (inputs, left_out, best) = fits.1;
    }
    let (system, user, taken) = best;
    if taken > budget {
        return Err(PromptError::TooLong {
            prompt: template.name.clone(),
            input: longest_input(&inputs),
            tokens: taken,
            budget,
        });
    }
    let name: String =
        template.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let schema = template.schema.clone().map(|schema| (name, schema));
    Ok(Prompt { system, user, schema, left_out })
}

/// Returns the approximate size of a value, in bytes, at least 1.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 1,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 1,
        Value::Object(map) => map.values().map(size).sum::<usize>() + 1,
        _ => 1,
    }
}

/// Checks that `inputs` is an object with exactly the declared names, and not too long.
///
/// # Errors
/// [`PromptError::Inputs`] if the names differ or the inputs are too long.
fn check_names(template: &Template, inputs: &Value) -> Result<(), PromptError> {
    let declared = &template.header.inputs;
    let problem = match inputs.as_object() {
        None => Some("the inputs are not an object".to_owned()),
        Some(given) => {
            let missing = declared.keys().find(|name| !given.contains_key(*name));
            let unknown = given.keys().find(|name| !declared.contains_key(*name));
            missing
                .map(|name| format!("input {name:?} is missing"))
                .or_else(|| unknown.map(|name| format!("{name:?} is not an input")))
        }
    };
    let bytes = size(inputs);
    let too_long = (bytes > MAX_INPUT_BYTES)
        .then(|| format!("the inputs have {bytes} bytes, more than {MAX_INPUT_BYTES}; give less"));
    match problem.or(too_long) {
        Some(problem) => Err(PromptError::Inputs { prompt: template.name.clone(), problem }),
        None => Ok(()),
    }
}

/// Returns the name of the largest input; if several have the largest size, the last of them.
fn longest_input(inputs: &Value) -> String {
    let sizes = inputs.as_object().into_iter().flatten();
    let longest = sizes.map(|(name, value)| (size(value), name)).max_by_key(|one| one.0);
    longest.map(|one| one.1.clone()).unwrap_or_default()
}

/// Returns the values that a path names: for `input`, the input itself; for `input.field`, that
/// field of each item of the input, which is a list.
fn named<'a>(path: &str, inputs: &'a mut Value) -> Vec<&'a mut Value> {
    let (input, field) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let Some(input) = inputs.get_mut(input) else { return Vec::new() };
    match (field, input) {
        (None, input) => vec![input],
        (Some(field), Value::Array(items)) => {
            items.iter_mut().filter_map(|item| item.get_mut(field)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the number of items of a list, or of bytes of a text; 0 for other values.
fn length(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::String(text) => text.len(),
        _ => 0,
    }
}

fn lengths(path: &str, inputs: &Value) -> Vec<usize> {
    // `named` needs mutable inputs, so it works on a copy.
    let mut inputs = inputs.clone();
    named(path, &mut inputs).into_iter().map(|value| length(value)).collect()
}

/// Truncates each value that a path names to `keep` items (lists) or bytes (texts). Returns a
/// description of what was left out; `None` if nothing was.
fn cut(path: &str, inputs: &mut Value, keep: usize) -> Option<String> {
    let (mut lost, mut all, mut unit) = (0, 0, "items");
    for value in named(path, inputs) {
        match value {
            Value::Array(items) => {
                all += items.len();
                lost += items.len().saturating_sub(keep);
                items.truncate(keep);
            }
            Value::String(text) => {
                unit = "characters";
                let n_chars = text.chars().count();
                all += n_chars;
                if text.len() > keep {
                    text.truncate(text.floor_char_boundary(keep));
                    let gone = n_chars - text.chars().count();
                    lost += gone;
                    text.push_str(&format!(" [... {gone} characters left out]"));
                }
            }
            _ => {}
        }
    }
    let subject = path.split_once('.').map_or(path.to_owned(), |(a, b)| format!("{b} of {a}"));
    (lost > 0).then(|| format!("{subject}: the last {lost} of {all} {unit}"))
}
