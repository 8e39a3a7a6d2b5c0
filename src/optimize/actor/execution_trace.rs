//! Execution traces for prompts. A trace covers one training query: a table of the scores that the
//! program's calls give to the best ranked correct answer and to the wrong nodes above it, then the
//! start nodes of metapaths and the steps along relations.
//!
//! ```text
//! query (free wording): ...
//! R "steel dart" (product), rank 4, score 1.31
//! W1 "soft dart" (product), rank 1, score 1.9
//! calls: R | W1
//! - matched = match_text(query) x0.5: 3.1 | 4.9
//! start link(query, ["brand"]), 3 nodes: "Dart World" 0.84 yes
//! step of_brand: 23 nodes, 1 right answers
//! ```

use std::fmt::Write;

use crate::{Result, wording::Wording};
use agent_dataset::LabelledQuery;
use agent_ground::words::{self, one_line};
use agent_infer::{
    ParamValues, Runtime,
    explain::{Kind, LinkCall, ShownNode, Signal, Signals, Start, Traversal, signals},
};
use agent_kb::{Kb, NodeId};
use agent_retrieve::Ranking;
use agent_sandbox::CompiledProgram;
use agent_tools::{Trace, source::literal};

/// Maximum number of wrong nodes in the table of a trace.
const SHOWN_WRONG: usize = 3;
/// Maximum number of calls in the table of a trace.
const SHOWN_ROWS: usize = 8;
/// Maximum number of listed calls that give all nodes of the table the same score.
const SHOWN_SAME: usize = 3;
/// Maximum number of listed calls from whose results metapaths start.
const SHOWN_STARTS: usize = 3;
/// Maximum number of steps along relations that a trace lists.
const SHOWN_STEPS: usize = 4;
/// Maximum length in characters of a node's name.
const NAME_CHARS: usize = 40;
/// Maximum length in characters of a query's text.
const QUERY_CHARS: usize = 600;
/// Maximum length in characters of the reason for a failure or a lost answer.
const WHY_CHARS: usize = 200;
/// Maximum length in characters of a call's label that follows the name of its variable.
const NAMED_CHARS: usize = 56;
/// Maximum length in characters of the label of a call that has no variable, or of a line of the
/// program.
const LABEL_CHARS: usize = 80;
/// Maximum length in characters of a trace.
pub(super) const TRACE_CHARS: usize = 2_000;

/// Runs a program on one query and renders its trace, at most [`TRACE_CHARS`] characters. `source`
/// is the source of the program.
///
/// # Errors
/// Errors of [`Runtime::run`].
pub(super) fn render(
    runtime: &Runtime,
    compiled: &CompiledProgram,
    params: &ParamValues,
    source: &str,
    query: &LabelledQuery,
) -> Result<String> {
    let trace = Trace::default();
    let (ranking, failure) = match runtime.run(compiled, params, &query.text, Some(&trace))? {
        Ok(outcome) => (outcome.ranking, None),
        Err(failure) => (Ranking::new(), Some(failure.to_string())),
    };
    let (calls, base) = (trace.take(), runtime.base());
    let known = (query.text.as_str(), query.answers.as_slice());
    let signals = signals(base, &calls, &ranking, known, SHOWN_WRONG);
    let mut text = head(query, &signals, failure, source);
    write_nodes(&mut text, &base.kb, &signals);
    write_rows(&mut text, &signals, source);
    write_starts(&mut text, &base.kb, &signals);
    write_steps(&mut text, &signals, source);
    Ok(whole_lines(&text, TRACE_CHARS))
}

/// Formats a query as one line with its wording, text and first answer, such as `(quotes) ... ->
/// "soft dart" (product)`.
pub(super) fn line(kb: &Kb, query: &LabelledQuery) -> String {
    let answer = query.answers.first().map_or_else(String::new, |&answer| named(kb, answer));
    let wording = Wording::detect(&query.text).name();
    format!("({wording}) {} -> {answer}", cut(&query.text, QUERY_CHARS / 3))
}

/// Formats a node as its name and type, such as `"soft dart" (product)`.
pub(super) fn named(kb: &Kb, node: NodeId) -> String {
    format!("{} ({})", name(kb, node), kb.type_name(kb.node_type(node)))
}

fn name(kb: &Kb, node: NodeId) -> String {
    literal(&cut(kb.name(node), NAME_CHARS))
}

// Writing to a string cannot fail, here and below.
fn head(query: &LabelledQuery, signals: &Signals, failure: Option<String>, source: &str) -> String {
    let wording = Wording::detect(&query.text).name();
    let mut text = format!("query ({wording}): {}\n", cut(&query.text, QUERY_CHARS));
    let n = query.answers.len();
    let answers = if n == 1 { "1 right answer".to_owned() } else { format!("{n} right answers") };
    match (failure, &signals.loss) {
        (Some(failure), _) => {
            let _ = writeln!(text, "{answers}; the program failed: {}", cut(&failure, WHY_CHARS));
        }
        (None, Some(loss)) => {
            let _ = write!(text, "{answers}; {} at {}", loss.kind.name(), loss.function);
            if let Some(line) = loss.line.and_then(|line| line_label(source, line)) {
                let _ = write!(text, " of {line}");
            }
            // The table shows why other nodes rank higher.
            if loss.kind != Kind::RankedLow {
                let _ = write!(text, ": {}", cut(&loss.why, WHY_CHARS));
            }
            text.push('\n');
        }
        (None, None) => {
            let _ = writeln!(text, "{answers}; one is first");
        }
    }
    text
}

/// Writes one line for each node of the trace's table: its label (such as `R` or `W1`), name, type,
/// rank and score.
fn write_nodes(text: &mut String, kb: &Kb, signals: &Signals) {
    for (letter, ShownNode { node, rank, score, .. }) in letters(signals).iter().zip(&signals.shown)
    {
        let place = match (rank, score) {
            (Some(rank), Some(score)) => format!("rank {rank}, score {}", number(*score)),
            _ => "not ranked".to_owned(),
        };
        let _ = writeln!(text, "{letter} {}, {place}", named(kb, *node));
    }
}

/// Returns the labels of the nodes in the table of a trace: `R` for the correct answer, `W1`, `W2`
/// and so on for wrong nodes.
fn letters(signals: &Signals) -> Vec<String> {
    let mut wrong = 0;
    let letter = |shown: &ShownNode| {
        wrong += usize::from(!shown.is_answer);
        if shown.is_answer { "R".to_owned() } else { format!("W{wrong}") }
    };
    signals.shown.iter().map(letter).collect()
}

/// Writes the rows of the trace's table: one line for each call, with the scores that it gives to
/// the nodes.
fn write_rows(text: &mut String, signals: &Signals, source: &str) {
    if !signals.rows.is_empty() {
        let letters = letters(signals).join(" | ");
        let _ = writeln!(text, "calls: {letters}");
    }
    for signal in signals.rows.iter().take(SHOWN_ROWS) {
        let weight = signal.weight.map_or_else(String::new, |by| format!(" x{}", number(by)));
        let value = |value: &Option<f32>| value.map_or_else(|| "-".to_owned(), number);
        let values: Vec<String> = signal.values.iter().map(value).collect();
        let _ = writeln!(text, "- {}{weight}: {}", call_label(signal, source), values.join(" | "));
    }
    // Long labels are not informative.
    let short = signals.same.iter().filter(|label| label.chars().count() <= NAMED_CHARS);
    let same: Vec<&str> = short.take(SHOWN_SAME).map(String::as_str).collect();
    if !same.is_empty() {
        let _ = writeln!(text, "the same for all: {}", same.join("; "));
    }
}

/// Returns the label of a call. An operator over several calls is shown as the line of the program
/// that has it, with the weights of its sum. Any other call is shown as its own text, such as
/// `match_text(query)`, after the variable that it is assigned to, if any.
fn call_label(signal: &Signal, source: &str) -> String {
    let Signal { label, line, combines, .. } = signal;
    if let Some(name) = line.and_then(|line| variable(source, line)).filter(|_| !combines) {
        return format!("{name} = {}", cut(label, NAMED_CHARS));
    }
    match line.filter(|_| *combines).and_then(|line| text_of(source, line)) {
        Some(text) => match label.split_once(") * ").filter(|pair| pair.0.starts_with('(')) {
            Some((sum, _)) => format!("{}, with {sum})", cut(text, LABEL_CHARS)),
            None => cut(text, LABEL_CHARS),
        },
        None => cut(label, LABEL_CHARS),
    }
}

/// Returns a line of a program (counted from 1) without leading operators and the final semicolon;
/// `None` if there is no such line.
fn text_of(source: &str, line: usize) -> Option<&str> {
    let text = source.lines().nth(line.checked_sub(1)?)?.trim();
    Some(text.trim_start_matches(['+', '-', '*', ' ']).trim_end_matches(';'))
}

/// Writes the start nodes of metapaths. Calls that link entities come first, each with all of its
/// start nodes. Other calls are shown with their best node, and with the best further node from
/// which an answer is reached.
fn write_starts(text: &mut String, kb: &Kb, signals: &Signals) {
    let mut all: Vec<&LinkCall> = signals.linked.iter().collect();
    all.sort_by_key(|linked| !linked.names);
    for LinkCall { label, starts, n, names } in all.into_iter().take(SHOWN_STARTS) {
        // The type is omitted if the call or the previous node shows it.
        let mut last = None;
        let mut start = |Start { node, strength, leads }: &Start| {
            let strength = strength.map_or_else(String::new, |s| format!(" {}", number(s)));
            let leads = if *leads { "yes" } else { "no" };
            let kind = kb.node_type(*node);
            let in_label = label.contains(&literal(kb.type_name(kind)));
            let is_shown = last.replace(kind) == Some(kind) || in_label;
            let node = if is_shown { name(kb, *node) } else { named(kb, *node) };
            format!("{node}{strength} {leads}")
        };
        let leading = starts.iter().skip(1).find(|start| start.leads);
        let shown: Vec<String> = match names {
            true => starts.iter().map(&mut start).collect(),
            false => starts.iter().take(1).chain(leading).map(&mut start).collect(),
        };
        let shown = if shown.is_empty() { "none found".to_owned() } else { shown.join("; ") };
        let _ = writeln!(text, "start {}, {n} nodes: {shown}", cut(label, LABEL_CHARS));
    }
}

/// Writes the steps along relations that are last in their metapath, or after which no answer can
/// be reached.
fn write_steps(text: &mut String, signals: &Signals, source: &str) {
    let tells = |step: &&Traversal| step.ends || step.n_sought == 0;
    for Traversal { label, line, n, n_sought, ends } in
        signals.walked.iter().filter(tells).take(SHOWN_STEPS)
    {
        let sought = if *ends { "right answers" } else { "nodes that lead to one" };
        let variable = line.and_then(|line| variable(source, line));
        let label = variable.map_or_else(|| cut(label, LABEL_CHARS), str::to_owned);
        let _ = writeln!(text, "step {label}: {n} nodes, {n_sought} {sought}");
    }
}

/// Returns the variable that a line of a program (counted from 1) assigns, or else the line's text.
fn line_label(source: &str, line: usize) -> Option<String> {
    let text = source.lines().nth(line.checked_sub(1)?)?;
    Some(variable(source, line).map_or_else(|| cut(text, LABEL_CHARS), str::to_owned))
}

/// Returns the variable that a line of a program (counted from 1) assigns; `None` if the line
/// assigns none.
fn variable(source: &str, line: usize) -> Option<&str> {
    let text = source.lines().nth(line.checked_sub(1)?)?.trim_start();
    let text = text.strip_prefix("let ").unwrap_or(text);
    let (name, _) = text.split_once([' ', '='])?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let rest = text.get(name.len()..)?.trim_start();
    let assigns = rest.starts_with("+=") || rest.starts_with('=') && !rest.starts_with("==");
    (is_name && assigns).then_some(name)
}

/// Formats a number with at most three decimals, fewer for larger numbers, such as `0.012`, `3.1`
/// or `240`.
pub(super) fn number(number: f32) -> String {
    let decimals = match number.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        middle if middle >= 0.1 => 2,
        _ => 3,
    };
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Cuts a text to the whole lines that fit into `chars` characters, and adds a line `[cut]`. If not
/// even the first line fits, cuts this line.
pub(super) fn whole_lines(text: &str, chars: usize) -> String {
    let Some((at, _)) = text.char_indices().nth(chars) else { return text.to_owned() };
    let kept = text.get(..at).unwrap_or(text);
    format!("{}\n[cut]\n", kept.rsplit_once('\n').map_or(kept, |pair| pair.0))
}

/// Joins a text into one line and cuts it to `chars` characters, with `..` in place of the rest.
pub(super) fn cut(text: &str, chars: usize) -> String {
    words::cut(&one_line(text), chars, "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_program_name_their_variables() {
        let source = "let cat = hop(x);\n    pool = pool | cat;\n  + cover(a, b)\nreturn x == y;\n\
                      sum += a;\nlet fused=b;";
        let names: Vec<Option<&str>> = (0..8).map(|line| variable(source, line)).collect();
        let expected =
            [None, Some("cat"), Some("pool"), None, None, Some("sum"), Some("fused"), None];
        assert_eq!(names, expected);
        let places = [1, 3, 9].map(|line| line_label(source, line));
        assert_eq!(places, [Some("cat".to_owned()), Some("+ cover(a, b)".to_owned()), None]);
    }

    #[test]
    fn calls_are_named_by_variable_or_line_with_the_weights_of_sums() {
        let source = "let a = search(query);\n    + normalize(said) * a * params.w;\n  cover(a, b)";
        let shown = |label: &str, line: usize, combines: bool| {
            let (label, values) = (label.to_owned(), Vec::new());
            call_label(&Signal { label, line: Some(line), combines, weight: None, values }, source)
        };
        assert_eq!(shown("search(query)", 1, false), "a = search(query)");
        assert_eq!(shown("cover(query)", 3, false), "cover(query)");
        let product = shown("(0.5 match_text(..) + cover(..)) * search(query)", 2, true);
        let expected = "normalize(said) * a * params.w, with (0.5 match_text(..) + cover(..))";
        assert_eq!(product, expected);
        assert_eq!(shown("a(..) * b(..)", 2, true), "normalize(said) * a * params.w");
    }

    #[test]
    fn numbers_and_texts_are_short() {
        let shown: Vec<String> =
            [1234.5, 12.34, 1.0, 0.126, 0.0123, 0.0, -0.5].into_iter().map(number).collect();
        assert_eq!(shown, ["1234", "12.3", "1", "0.13", "0.012", "0", "-0.5"]);
        assert_eq!(cut("a  b\nc", 3), "a b..");
        assert_eq!(cut("a\nb", 3), "a b");
        let lines = [10, 9, 8, 3, 1].map(|chars| whole_lines("abc\ndef\ngh", chars));
        let kept = [
            "abc\ndef\ngh",
            "abc\ndef\n[cut]\n",
            "abc\ndef\n[cut]\n",
            "abc\n[cut]\n",
            "a\n[cut]\n",
        ];
        assert_eq!(lines, kept);
    }
}
