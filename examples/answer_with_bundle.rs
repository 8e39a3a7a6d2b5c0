//! Answers a question with a bundle, and prints the rank after which no more answers are expected.
//!
//! ```sh
//! cargo run --release --example answer_with_bundle
//! ```
//!
//! The example makes its bundle by a short run on a small generated sample. If you have a bundle,
//! read it with [`Bundle::read`] instead, and open the base that it was made for.

mod installed;

use std::{
    error::Error,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use agent::{
    bundle::Bundle,
    dataset::{
        Base, Home, Split, load_split,
        sample::{SampleKind, SampleOptions, generate},
    },
    index::IndexedBase,
    infer::{self, BundleRetriever, Runtime},
    optimize::{self, Actors, Inputs, Options, journal::Journal},
    retrieve::Detail,
    sandbox::{SandboxOptions, Workers},
};

/// A fifth of the default size of this sample.
const SCALE: f64 = 0.001;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("sample");
    let options = SampleOptions { seed: 0, scale: Some(SCALE) };
    generate(SampleKind::Amazon, options, &files, &mut |_| {})?;
    let home = Home::new(dir.path().join("home"));
    let (installed, base) = installed::install(&files, &home, "shop")?;
    let run = dir.path().join("run");
    make_bundle(&installed, &base, &run)?;

    // Reading checks the digest; `check_base` refuses any base but the bundle's own.
    let bundle = Bundle::read(&run.join(optimize::BUNDLE_FILE))?;
    bundle.check_base(&base)?;
    let runtime = Runtime::new(base.clone(), Arc::new(Workers::new(1)?), None);
    let answers = BundleRetriever::new(Arc::new(runtime), &bundle)?;

    // A question of the sample, whose correct answers are known.
    let asked = load_split(&installed, &Split::Val)?.into_iter().next();
    let asked = asked.ok_or("the sample has no validation questions")?;
    let answer = infer::answer(&base, &answers, &asked.text, 5, Detail::default())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", asked.text)?;
    if let Some(way) = answer.route.first() {
        writeln!(out, "category: {}", way.category)?;
    }
    for (&(node, score), rank) in answer.ranking().iter().zip(1..) {
        let right = if asked.answers.contains(&node) { ", right" } else { "" };
        writeln!(out, "{rank}. {} ({score:.4}{right})", base.kb.name(node))?;
    }
    if let Some(end) = answer.end {
        writeln!(out, "the answers likely end behind rank {}", end.rank)?;
    }
    Ok(())
}

/// Runs the optimizer without improvement steps; its journal and its bundle go into `run`.
fn make_bundle(
    installed: &Base,
    base: &Arc<IndexedBase>,
    run: &Path,
) -> Result<(), Box<dyn Error>> {
    let options = Options {
        dataset: installed.name.clone(),
        seed: 1,
        steps: 0,
        hops: 2,
        actors: Actors { search: true, llm: false },
        llm_steps: 0,
        llm_tools: false,
        avatar_tools: false,
        programs: Vec::new(),
        sandbox: SandboxOptions::default(),
        without: Vec::new(),
        budget: None,
    };
    let mut journal = Journal::create(run, &serde_json::to_value(&options)?)?;
    let train = load_split(installed, &Split::Train)?;
    let validation = load_split(installed, &Split::Val)?;
    let stop = Arc::default();
    optimize::run(Inputs {
        base: base.clone(),
        assistant: None,
        train,
        validation,
        options: &options,
        dir: run,
        journal: &mut journal,
        threads: 2,
        evaluators: None,
        watch: &mut |_| {},
        waited: Arc::default(),
        stop: &stop,
    })?;
    Ok(())
}
