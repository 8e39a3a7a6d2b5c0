//! Fuzzes the SQL statement that a language model writes: it is answered or refused within 5 s.

#![no_main]

mod base;

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use agent::ask::Analyst;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

static ANALYST: LazyLock<Analyst> = LazyLock::new(base::analyst);

fuzz_target!(init: { LazyLock::force(&ANALYST); }, |statement: &str| {
    let began = Instant::now();
    let operation = json!({"sql": {"statement": statement, "answer": "table"}});
    let columns = json!([{"field": "price"}, {"field": "added"}]);
    let plan = json!({"kind": "aggregation", "rows": "product", "columns": columns, "operation": operation});
    let _ = ANALYST.run_plan(&plan);
    assert!(began.elapsed() < Duration::from_secs(5));
});
