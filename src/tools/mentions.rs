//! Finds the relations that the source of a program names in calls of tools that take relations.
//! Names that a program composes at run time are not found. Does not run the program.

use std::collections::BTreeSet;

use crate::registry;

/// Names of tool arguments that are relations or steps along relations.
const ARGUMENTS: [&str; 3] = ["relation", "relations", "steps"];
/// Suffixes of a step that state its direction.
const DIRECTIONS: [&str; 3] = [":in", ":out", ":any"];

/// Returns the names of relations in the source of a program, sorted.
pub fn named_relations(source: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for spec in registry() {
        let argument = spec.args.iter().position(|arg| ARGUMENTS.contains(&arg.name));
        let Some(argument) = argument else { continue };
        for (start, _) in source.match_indices(spec.name) {
            let before = source.get(..start).unwrap_or_default();
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let rest = source.get(start + spec.name.len()..).unwrap_or_default();
            let Some(rest) = rest.trim_start().strip_prefix('(') else { continue };
            if before.ends_with(is_word) {
                continue;
            }
            // In a method call such as `from.hop("r")`, the first argument is before the name.
            let argument = argument - usize::from(before.ends_with('.') && argument > 0);
            named.extend(argument_texts(rest, argument));
        }
    }
    named
}

/// Returns the string literals in argument `wanted` (from 0) of a call, without direction suffixes.
/// `call` starts after the opening parenthesis.
fn argument_texts(call: &str, wanted: usize) -> Vec<String> {
    let (mut depth, mut argument) = (0usize, 0usize);
    let mut texts = Vec::new();
    let mut chars = call.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => argument += 1,
            '"' => {
                let text = text(&mut chars);
                if argument == wanted {
                    texts.push(text);
                }
            }
            _ => {}
        }
    }
    let step = |text: String| {
        let name = DIRECTIONS.iter().find_map(|end| text.strip_suffix(end));
        name.map_or_else(|| text.clone(), str::to_owned)
    };
    texts.into_iter().map(step).collect()
}

/// Reads a string literal whose opening quote has been consumed; numeric escapes are not decoded.
fn text(chars: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::named_relations;

    #[test]
    fn relations_in_calls_are_seen_and_other_texts_are_not() {
        let source = r#"
            let a = hop(link(query, "brand", 1), "has_brand", "in");
            let b = a.hop("also \"bought\"");
            let c = walk(a, ["x:in", "y"], 10);
            let d = search("has_colour", "product", 5) + my_hop(a, "no");
        "#;
        let named: Vec<String> = named_relations(source).into_iter().collect();
        assert_eq!(named, ["also \"bought\"", "has_brand", "x", "y"]);
    }
}
