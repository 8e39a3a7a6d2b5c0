//! Here is the source of a program: which relations does it name? By the texts in its calls of
//! tools that take relations; names that a program puts together as it runs are not seen.
//! Must not run programs.

use std::collections::BTreeSet;

use crate::registry;

/// Arguments of tools that are relations, or steps along them.
const ARGUMENTS: [&str; 3] = ["relation", "relations", "steps"];
/// What a step may end with.
const DIRECTIONS: [&str; 3] = [":in", ":out", ":any"];

/// The relations that a program names, sorted.
pub fn relations_named(source: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for spec in registry() {
        let place = spec.args.iter().position(|arg| ARGUMENTS.contains(&arg.name));
        let Some(place) = place else { continue };
        for (at, _) in source.match_indices(spec.name) {
            let before = source.get(..at).unwrap_or_default();
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let rest = source.get(at + spec.name.len()..).unwrap_or_default();
            let Some(rest) = rest.trim_start().strip_prefix('(') else { continue };
            if before.ends_with(is_word) {
                continue;
            }
            // `from.hop("r")` has its first argument before the name.
            let place = place - usize::from(before.ends_with('.') && place > 0);
            named.extend(texts_of_argument(rest, place));
        }
    }
    named
}

/// The texts within one argument of a call, behind its opening bracket.
fn texts_of_argument(call: &str, place: usize) -> Vec<String> {
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
                if argument == place {
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

/// A text of the language behind its opening quote, without escapes of letters by number.
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
    use super::relations_named;

    #[test]
    fn relations_in_calls_are_seen_and_other_texts_are_not() {
        let source = r#"
            let a = hop(link(query, "brand", 1), "has_brand", "in");
            let b = a.hop("also \"bought\"");
            let c = walk(a, ["x:in", "y"], 10);
            let d = search("has_colour", "product", 5) + my_hop(a, "no");
        "#;
        let named: Vec<String> = relations_named(source).into_iter().collect();
        assert_eq!(named, ["also \"bought\"", "has_brand", "x", "y"]);
    }
}
