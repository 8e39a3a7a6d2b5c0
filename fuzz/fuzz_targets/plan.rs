//! Fuzzes the plan of a question over many nodes: it is refused or answered, and the plan of the
//! answer can be run again and stays the same.

#![no_main]

mod base;

use std::sync::LazyLock;

use agent::ask::Analyst;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static ANALYST: LazyLock<Analyst> = LazyLock::new(base::analyst);

fuzz_target!(init: { LazyLock::force(&ANALYST); }, |text: &str| {
    let Ok(plan) = serde_json::from_str::<Value>(text) else { return };
    let Ok(answered) = ANALYST.run_plan(&plan) else { return };
    let again = ANALYST.run_plan(&answered.plan).expect("the plan of an answer is answered");
    assert_eq!(again.plan, answered.plan);
});
