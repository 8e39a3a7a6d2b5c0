//! Fuzzes replies of a language model: a program or JSON is extracted, or the reply is refused.

#![no_main]

use agent::llm::{
    Finish, Schema,
    replies::{extract_json, extract_program},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for finish in [Finish::Stop, Finish::Length, Finish::Filter, Finish::Other] {
        if let Ok(program) = extract_program(text, finish) {
            assert!(!program.trim().is_empty());
        }
    }
    let schema = serde_json::json!({"type": "object", "required": ["n"]});
    let schema = Schema { name: "any".to_owned(), schema };
    if let Err(reason) = extract_json(text, &schema) {
        assert!(reason.len() <= 500);
    }
});
