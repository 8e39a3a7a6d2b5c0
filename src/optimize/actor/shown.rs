//! Shortens programs for prompts. Omits the header with the category, which prompts show
//! separately; for the comparator, also omits the ranges of parameters.

use crate::actor::execution_trace::cut;
use agent_infer::ParamValues;

/// Maximum length in characters of the note that a model writes before its program.
const NOTE_CHARS: usize = 400;
/// Text with which a parameter declaration starts.
const DECLARATION: &str = "#{ value:";

/// Returns the source of a program without the lines of `header`.
pub(super) fn without_header(source: &str, header: &str) -> String {
    let is_own = |line: &&str| !header.lines().any(|own| own == *line);
    source.lines().filter(is_own).collect::<Vec<_>>().join("\n")
}

/// Returns the source of a program with each parameter declaration replaced by the parameter's
/// value: the tuned value in `params` if there is one, otherwise the declared value.
pub(super) fn with_values(source: &str, params: &ParamValues) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some((before, behind)) = rest.split_once(DECLARATION) {
        let Some((declaration, left)) = behind.split_once('}') else { break };
        let name = before.trim_end().trim_end_matches(':').trim_end();
        let name = name.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        let declared = declaration.split(',').next().unwrap_or_default().trim();
        let tuned = name.and_then(|name| params.get(name)).map(f64::to_string);
        text.push_str(before);
        text.push_str(tuned.as_deref().unwrap_or(declared));
        rest = left;
    }
    text + rest
}

/// Formats tuned parameters, such as `k = 7.25, w_text = 0.5`; empty if there are none.
pub(super) fn tuned_text(params: &ParamValues) -> String {
    let text = |(name, value): (&String, &f64)| format!("{name} = {}", (value * 1e3).round() / 1e3);
    params.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns the text before the program in a model's reply, cut to [`NOTE_CHARS`] characters.
pub(super) fn author_note(reply: &str) -> String {
    cut(reply.split("```").next().unwrap_or_default(), NOTE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_without_header_and_ranges() {
        let source = "//! category: ours\n//! All.\n//! Finds.\nfn params() {\n    #{\n        \
                      w: #{ value: 1.0, min: 0.0, max: 4.0 }, // weight\n        k: #{ value: 5, \
                      min: 1, max: 9 }, n: #{ value: 2 }, m: 3\n    }\n}\n";
        let short = without_header(source, "//! category: ours\n//! All.");
        assert!(short.starts_with("//! Finds.\nfn params() {"), "{short}");
        let params: ParamValues = [("k".to_owned(), 7.25)].into_iter().collect();
        let text = with_values(&short, &params);
        assert!(text.contains("w: 1.0, // weight\n        k: 7.25, n: 2, m: 3\n"), "{text}");
        assert_eq!(with_values("a #{ value: 1", &params), "a #{ value: 1");
        assert_eq!(tuned_text(&params), "k = 7.25");
        assert_eq!(
            author_note("Links less,\nand more.\n```rhai\nfn x() {}\n```"),
            "Links less, and more."
        );
    }
}
