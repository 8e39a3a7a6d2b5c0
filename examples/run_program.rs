//! Runs one retrieval program on one question, in the sandbox, and prints its tool calls and their
//! results.
//!
//! ```sh
//! cargo run --release --example run_program
//! ```

mod installed;

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use agent::{
    dataset::Home,
    infer::{ParamValues, Runtime},
    program::Program,
    sandbox::Workers,
    tools::Trace,
};

/// Ranks the products of the brand that the question names, by the other words of the question.
const SOURCE: &str = r#"
//! category: products of a brand
fn params() {
    #{ w_words: #{ value: 1.0, min: 0.0, max: 4.0 } }
}

fn retrieve(query, candidates, params) {
    let brand = link(query, "brand", 1);
    let products = hop(brand, "has_brand", "in");
    let rest = without_names(query, brand);
    normalize(products) + normalize(match_text(rest, products)) * params.w_words
}
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("toolkits/stark/base");
    let (_, base) = installed::install(&source, &Home::new(dir.path()), "shop")?;

    // Programs run on their own threads. This runtime runs Rhai in this process, which is only for
    // trusted programs; for others, `Runtime::in_sandbox` has an option to run them inside
    // WebAssembly.
    let runtime = Runtime::new(base.clone(), Arc::new(Workers::new(1)?), None);
    let program = runtime.compile(&Program::new(SOURCE))?;

    // Parameters without a value here keep the default that the program declares.
    let parameters = ParamValues::from([("w_words".to_owned(), 2.0)]);
    let trace = Trace::default();
    let question = "a durable steel bottle by Northpeak";
    // The outer error comes from the base or a service, the inner one from the program.
    let outcome = runtime.run(&program, &parameters, question, Some(&trace))??;

    let mut out = io::stdout().lock();
    for &(node, score) in &outcome.ranking {
        writeln!(out, "{score:.4}  {}", base.kb.name(node))?;
    }
    let best = outcome.ranking.first().map(|&(node, _)| node);
    for call in trace.take() {
        writeln!(out, "  {}", call.describe(&base.kb, best))?;
    }
    Ok(())
}
