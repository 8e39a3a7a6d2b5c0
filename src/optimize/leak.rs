//! Detects leaks: text literals of a program that contain answers or rare words of known queries.
//!
//! A program with `if query.contains("Frobnicator")` is specific to one training query, and a
//! literal with the name of an answer memorizes it. Such programs score well only on known queries.
//!
//! Only text literals are checked, not comments, identifiers or numbers. Words in names of the
//! schema (types, relations and fields) are never a leak.

use std::collections::{BTreeMap, BTreeSet};

use agent_ground::words::{is_question_word, name_words};

/// Minimum number of letters of a word that can be a leak.
const MIN_LETTERS: usize = 4;
/// Minimum number of digits of a node id that can be a leak; shorter numbers are common in
/// programs.
const MIN_ID_DIGITS: usize = 3;
/// An answer's name with more words than this is not detected in literals.
const MAX_NAME_WORDS: usize = 12;
/// If there are fewer known queries than this, no word counts as rare.
const MIN_QUERIES: usize = 20;

/// Words and names from known queries and their answers that a program's text literals must not
/// contain.
#[derive(Clone, Debug, Default)]
pub struct ForbiddenWords {
    /// Names and ids of answers, each as its words joined by one space.
    answers: BTreeSet<String>,
    /// Words that occur in only one known query.
    rare: BTreeSet<String>,
}

/// A leak: what a text literal of a program contains from a known query or its answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Leak {
    /// The name or id of an answer of a known query.
    #[error("its text names {0:?}, an answer of a known query")]
    Answer(String),
    /// A word that occurs in only one known query.
    #[error("its text contains {0:?}, a word of only one known query")]
    Word(String),
}

impl ForbiddenWords {
    /// Collects the forbidden words from the texts of known queries. `answers` are the names and
    /// ids of all answers of these queries, `schema` the names of types, relations and fields.
    pub fn new<'a>(
        queries: impl Iterator<Item = &'a str>,
        answers: impl Iterator<Item = &'a str>,
        schema: impl Iterator<Item = &'a str>,
    ) -> Self {
        let schema: BTreeSet<String> = schema.flat_map(words).collect();
        let mut n_queries = 0;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for query in queries {
            n_queries += 1;
            for word in words(query).into_iter().collect::<BTreeSet<String>>() {
                *counts.entry(word).or_default() += 1;
            }
        }
        let is_rare = |(word, n): (String, usize)| {
            let counts = n == 1
                && n_queries >= MIN_QUERIES
                && word.chars().count() >= MIN_LETTERS
                && !is_question_word(&word)
                && !schema.contains(&word);
            counts.then_some(word)
        };
        let rare = counts.into_iter().filter_map(is_rare).collect();
        let answers = answers
            .map(words)
            .filter(|name| !name.is_empty() && !name.iter().all(|word| schema.contains(word)))
            .map(|name| name.join(" "))
            .filter(|name| {
                let least = if is_number(name) { MIN_ID_DIGITS } else { MIN_LETTERS };
                name.chars().count() >= least
            })
            .collect();
        Self { answers, rare }
    }

    /// Finds the first leak in the text literals of a program's `source`; `None` if there is none.
    /// A numeric id is a leak only if it is a whole literal; a name is a leak even as part of a
    /// literal.
    pub fn leak(&self, source: &str) -> Option<Leak> {
        for literal in literals(source) {
            let found = words(&literal);
            if let Some(word) = found.iter().find(|word| self.rare.contains(*word)) {
                return Some(Leak::Word(word.clone()));
            }
            for from in 0..found.len() {
                for to in from + 1..=found.len().min(from + MAX_NAME_WORDS) {
                    let name = found.get(from..to).unwrap_or_default().join(" ");
                    let whole = to - from == found.len();
                    if self.answers.contains(&name) && (whole || !is_number(&name)) {
                        return Some(Leak::Answer(name));
                    }
                }
            }
        }
        None
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn words(text: &str) -> Vec<String> {
    name_words(text).map(|(_, word)| word.into_owned()).collect()
}

/// Returns the text literals of a Rhai program, in the order of the source: texts in double quotes,
/// backticks or single quotes, outside comments. An interpolation in backticks counts as text; an
/// escaped character stands for itself, so that `\n` gives `n`.
pub fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('/', Some('/')) => while chars.next_if(|&c| c != '\n').is_some() {},
            ('/', Some('*')) => skip_comment(&mut chars),
            ('"' | '`' | '\'', _) => {
                let mut literal = String::new();
                while let Some(next) = chars.next() {
                    match next {
                        end if end == c => break,
                        '\\' if c != '`' => literal.extend(chars.next()),
                        other => literal.push(other),
                    }
                }
                found.push(literal);
            }
            _ => {}
        }
    }
    found
}

/// Skips to the end of a block comment whose `/` was read already; block comments may be nested.
fn skip_comment(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let mut depth = 1;
    chars.next();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('/', Some('*')) => depth += 1,
            ('*', Some('/')) => depth -= 1,
            _ => continue,
        }
        chars.next();
        if depth == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> ForbiddenWords {
        let mut queries: Vec<String> =
            (0..30).map(|at| format!("a durable product of brand {}", at % 2)).collect();
        queries.push("a glockenspiel by anyone".to_owned());
        let answers = ["Steel Dart", "4711", "Product", "Ox", "5", "42", "123"];
        let schema = ["product", "has_brand"];
        ForbiddenWords::new(
            queries.iter().map(String::as_str),
            answers.into_iter(),
            schema.into_iter(),
        )
    }

    #[test]
    fn answers_and_rare_words_in_text_are_leaks() {
        let leak = |source: &str| forbidden().leak(source);
        let word = |word: &str| Some(Leak::Word(word.to_owned()));
        let answer = |name: &str| Some(Leak::Answer(name.to_owned()));
        assert_eq!(leak("if query.contains(\"Glockenspiel\") { x }"), word("glockenspiel"));
        assert_eq!(leak("let names = [\"the STEEL-dart!\"];"), answer("steel dart"));
        assert_eq!(leak("node(`4711`)"), answer("4711"));
        assert_eq!(leak("node('123')"), answer("123"));
        assert_eq!(leak("f('a', \"say \\\"Glockenspiel\\\"\")"), word("glockenspiel"));
    }

    #[test]
    fn common_literals_are_not_leaks() {
        for source in [
            "search(query, \"product\", 50)",
            "hop(brands, \"has_brand\", \"in\", \"sum\")",
            "// glockenspiel\n/* \"Steel Dart\" /* nested */ \"4711\" */ search(\"durable\")",
            "let k = 4711; let steel_dart = 1;",
            "\"41, 4711\"",
            "\"ox\"",
            "if query.contains(\"5\") || word == \"42\" { x }",
            "\"unterminated",
        ] {
            assert_eq!(forbidden().leak(source), None, "{source}");
        }
        let few = ForbiddenWords::new(["a kite"].into_iter(), [].into_iter(), [].into_iter());
        assert_eq!(few.leak("\"kite\""), None);
    }

    #[test]
    fn literals_end_where_the_language_ends_them() {
        assert_eq!(literals("a(\"x // y\", `b \\`, 'c')"), ["x // y", "b \\", "c"]);
        assert_eq!(literals("/* /* \" */ \" */ \"z\" // \"w\""), ["z"]);
    }
}
