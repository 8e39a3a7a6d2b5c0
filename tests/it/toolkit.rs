//! The tools as a whole: invariants of the registry, and every example run in the sandbox on the
//! base that comes with the toolkit.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, atomic::AtomicBool},
};

use agent::{
    dataset::{Home, ImportOptions, import_neutral},
    index::{IndexedBase, Part, Plan, Watch, build_parts},
    infer::{ParamValues, Runtime},
    program::Program,
    sandbox::{Failure, FailureKind, Outcome, Place, SandboxOptions, Workers},
    tools::{EXAMPLE_QUERY, GROUPS, Kind, Trace, registry},
};

fn toolkit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("toolkits").join(agent::tools::TOOLKIT)
}

/// The example base, imported and indexed once for all tests.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (home, stop) = (Home::new(dir.path()), AtomicBool::new(false));
    let (source, options) = (toolkit().join("base"), ImportOptions::default());
    let report = import_neutral(&source, &home, "example", &options, &mut |_| {}, &stop).unwrap();
    let kb_dir = report.base.kb_dir();
    let index = report.base.index_dir();
    let plan = Plan { parts: &[Part::Query], ..Plan::complete() };
    let watch = Watch { report: &|_| {}, stop: &stop };
    build_parts(&agent::kb::Kb::open(&kb_dir).unwrap(), &index, &plan, &watch).unwrap();
    let base = IndexedBase::open(&kb_dir, &index, "example").unwrap();
    base.query_index().unwrap();
    // What is mapped stays readable after its files are gone.
    Runtime::new(Arc::new(base), Arc::new(Workers::new(2).unwrap()), None)
});

fn run(source: &str, query: &str) -> Result<Outcome, Failure> {
    let compiled = RUNTIME.compile(&Program::new(source))?;
    RUNTIME.run(&compiled, &ParamValues::new(), query, None).unwrap()
}

/// Runs a line of program text; its value is noted, and returned in words.
fn evaluate(line: &str) -> Result<String, Failure> {
    let source = format!(
        "fn retrieve(query, candidates, params) {{ let x = {line}; debug_print(x); #{{}} }}"
    );
    let compiled = RUNTIME.compile(&Program::new(&source))?;
    let trace = Trace::default();
    RUNTIME.run(&compiled, &ParamValues::new(), EXAMPLE_QUERY, Some(&trace)).unwrap()?;
    let last = trace.take().pop().unwrap();
    Ok(last.describe(&RUNTIME.base().kb, None))
}

#[test]
fn programs_of_both_engines_read_paths() {
    let source = "fn retrieve(query, candidates, params) {
        let best = #{};
        for path in paths(link(query, \"brand\", 1), nodes([0, 1, 2, 3]), 2) {
            let end = path.nodes[path.nodes.len() - 1];
            best[end.to_string()] = 1.0 / (1.0 + path.steps.len());
        }
        best
    }";
    let workers = Arc::new(Workers::new(1).unwrap());
    let rankings = [Place::Process, Place::Wasm].map(|place| {
        let options = SandboxOptions { place, code_dir: None };
        let base = RUNTIME.base().clone();
        let runtime = Runtime::in_sandbox(base, workers.clone(), None, &options);
        let compiled = runtime.compile(&Program::new(source)).unwrap();
        let ran = runtime.run(&compiled, &ParamValues::new(), EXAMPLE_QUERY, None).unwrap();
        ran.unwrap().ranking
    });
    assert!(rankings[0].iter().any(|pair| pair.1 == 0.5), "{rankings:?}");
    assert_eq!(rankings[0], rankings[1]);
}

#[test]
fn every_example_runs_and_gives_something() {
    for spec in registry() {
        let ran = evaluate(spec.example);
        // Feedback from the first documents needs no model.
        if spec.group == "llm" && spec.name != "expand" {
            let failure = ran.expect_err(spec.example);
            assert_eq!(failure.kind, FailureKind::Tool, "{}", spec.example);
            assert!(failure.message.contains("no LLM configured"), "{}", failure.message);
            continue;
        }
        let given = ran.unwrap_or_else(|failure| panic!("{}: {failure}", spec.example));
        eprintln!("{:75} {}", spec.example, given.replace(" = nothing", ""));
        let empty = ["(0 nodes)", "(0 scores)", "(\"\")", "([])", "(map of 0)"];
        assert!(!empty.iter().any(|e| given.contains(e)), "{} gives {given}", spec.example);
        if spec.result != Kind::Unit {
            assert!(!given.contains("(nothing)"), "{} gives {given}", spec.example);
        }
    }
}

#[test]
fn every_tool_is_described_well() {
    let mut seen = HashSet::new();
    for spec in registry() {
        let name = spec.name;
        let kinds: Vec<String> = spec.args.iter().map(|arg| arg.kind.to_string()).collect();
        assert!(seen.insert((name, kinds)), "{name} is there twice with the same kinds");
        assert!(GROUPS.iter().any(|(group, _)| *group == spec.group), "{name}: {}", spec.group);
        assert!(!spec.cost.is_empty() && !spec.cost.ends_with('.'), "{name}: {}", spec.cost);
        assert!(spec.doc.ends_with('.') && !spec.doc.contains("  "), "{name}: {}", spec.doc);
        assert!(spec.example.contains(name), "{name}: {}", spec.example);

        if spec.is_operator() {
            assert!(["&", "|", "-", "+", "*", "/"].contains(&name), "{name}");
            assert_eq!(spec.min_args(), 2, "{name}");
        } else {
            assert!(is_snake_case(name), "{name}");
        }
        let arg_names: HashSet<&str> = spec.args.iter().map(|arg| arg.name).collect();
        assert_eq!(arg_names.len(), spec.args.len(), "{name} names two arguments alike");
        for (at, arg) in spec.args.iter().enumerate() {
            assert!(is_snake_case(arg.name), "{name}: {}", arg.name);
            assert_eq!(arg.default.is_some(), at >= spec.min_args(), "{name}: {}", arg.name);
            if let Some(default) = arg.default {
                assert!(is_literal(default, arg.kind), "{name}: {} = {default}", arg.name);
            }
        }
    }
    // Operators apart, a name is one function: calls are told apart by number of arguments only.
    let functions = registry().iter().filter(|spec| !spec.is_operator());
    let names: Vec<&str> = functions.map(|spec| spec.name).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
}

/// Whether a text is the literal of a kind that a default may have.
fn is_literal(text: &str, kind: Kind) -> bool {
    match kind {
        Kind::Text => text.len() > 1 && text.starts_with('"') && text.ends_with('"'),
        Kind::Bool => text.parse::<bool>().is_ok(),
        Kind::Int => text.parse::<i64>().is_ok(),
        Kind::Number => text.parse::<f64>().is_ok_and(f64::is_finite),
        Kind::Texts => text == "[]",
        _ => false,
    }
}

fn is_snake_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn example_programs_answer_as_expected() {
    let mut n_programs = 0;
    for entry in fs::read_dir(toolkit().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rhai") {
            continue;
        }
        n_programs += 1;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = fs::read_to_string(&path).unwrap();
        let program = Program::new(&source);
        assert!(program.category().is_some() && !program.description().is_empty(), "{name}");
        assert!(source.lines().count() <= 40, "{name} is too long for an example");
        let expected = fs::read_to_string(path.with_extension("expected.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();

        let outcome = run(&source, expected["query"].as_str().unwrap())
            .unwrap_or_else(|failure| panic!("{name}: {failure} at {:?}", failure.position));
        let names: Vec<&str> =
            outcome.ranking.iter().map(|&(node, _)| RUNTIME.base().kb.name(node)).collect();
        eprintln!("{name}: {:?}", outcome.ranking);
        let top = expected["top"].as_array().unwrap();
        let n_top = top.len().min(names.len());
        assert!(!top.is_empty() && *top == names[..n_top], "{name}: {names:?}");
    }
    assert!(n_programs >= 4, "examples are missing");
}

#[test]
fn an_expression_finds_phrases_and_what_must_not_be_there() {
    let found = |expression: &str| {
        let call = format!("find({}, \"product\", 50)", agent::tools::source::literal(expression));
        evaluate(&call)
    };
    let kb = &RUNTIME.base().kb;
    let product = kb.type_id("product").unwrap();
    // A scan for the same.
    let words = |node| {
        let text = format!("{} {}", kb.name(node), kb.text(node)).to_lowercase();
        let split = text.split(|c: char| !c.is_alphanumeric()).map(str::to_owned);
        split.filter(|word| !word.is_empty()).collect::<Vec<String>>()
    };
    let of = |node: &&u32| {
        let words = words(**node);
        words.windows(2).any(|pair| pair == ["steel", "bottle"])
            && !words.iter().any(|word| word == "plastic")
    };
    let n = kb.nodes_of_type(product).iter().filter(of).count();
    assert!(n > 0);
    let given = found("\"steel bottle\" -plastic").unwrap();
    assert!(given.contains(&format!("({n} score")), "{given} for {n}");
    let wrong = found("+bottle titel:x").unwrap_err();
    assert_eq!(wrong.kind, FailureKind::Tool);
    assert!(wrong.message.contains("at character 9 of the query"), "{}", wrong.message);
}
