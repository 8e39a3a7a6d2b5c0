//! Text that is written as a literal into a source reads back unchanged in both engines, and is
//! never run as code.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{
    Code, Input, Limits, Sandbox,
    tests::{N_NODES, TestHost, run_source, sandbox},
};
use agent_tools::source::{comment, literal};

/// Maximum number of characters in one literal, so that a source stays within its limit.
const CHARS: usize = 2_000;

/// Whether a program finds that the literal of `text` equals its query, which is `text` itself. The
/// header of the program contains `text` as well.
fn is_read_as_written(text: &str) -> bool {
    let source = format!(
        "//! category: {}\nfn retrieve(query, candidates, params) {{\n    if {} == query {{ #{{ \"7\": 1 }} }} else {{ #{{}} }}\n}}\n",
        comment(text),
        literal(text)
    );
    let limits = Limits::default();
    let program = sandbox().compile(Code::Rhai(&source), &limits);
    let Ok(program) = program else { panic!("{:?}: {text:?}", program.err()) };
    let params = BTreeMap::new();
    let input = Input { query: text, candidates: &[], params: &params, n_nodes: N_NODES };
    let (ran, _) = sandbox().run(&program, Box::<TestHost>::default(), input, &limits);
    ran.expect("runs").ranking == [(7, 1.0)]
}

#[test]
fn every_character_is_read_as_it_was_written() {
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    for chars in all.chunks(CHARS) {
        assert!(is_read_as_written(&chars.iter().collect::<String>()), "from {:?}", chars[0]);
    }
}

proptest! {
    #[test]
    fn texts_are_read_as_they_were_written(
        text in prop_oneof![
            any::<String>(),
            "[\"\\\\\n\r\t$`{}/*!u0-9a-f\u{301}\u{e31}\u{ad}\u{200d}\u{2028}\u{202e}\u{85} ]{0,40}",
        ],
    ) {
        prop_assert!(is_read_as_written(&text));
    }
}

#[test]
fn no_text_ends_a_comment_in_either_engine() {
    let retrieve = "fn retrieve(query, candidates, params) { #{ \"7\": 1 } }\n";
    let other = "fn retrieve(query, candidates, params) { #{ \"8\": 1 } }\n//";
    for end in ["\n", "\r", "\r\n", "\u{85}", "\u{b}", "\u{c}", "\u{2028}", "\u{2029}", "*/"] {
        let source = format!("//! {}\n{retrieve}", comment(&format!("a{end}{other}")));
        let ran = run_source(&source, &Limits::default()).expect("runs");
        assert_eq!(ran.ranking, [(7, 1.0)], "{end:?}");
    }
}
