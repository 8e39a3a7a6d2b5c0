//! How the loop improves programs, read from journals of whole runs: what is changed, on which
//! queries it is tried, who takes part, and what a model is asked for on the way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use agent::{
    bundle::Bundle,
    dataset::sample::{SampleKind, SampleOptions, generate},
    optimize::{Choice, asks, journal::Journal, trial::Trial},
};
use serde_json::Value;

use crate::{
    model::{ModelServer, Mood, REVISED, TRIED_OUT},
    support::{Ran, World},
};

/// Validation queries of a run that is to prove something.
const VALIDATION: usize = 100;
/// Queries of a gate.
const GATE: usize = 25;
/// What a change must gain in summed reciprocal rank to be kept.
const MIN_GAIN: f32 = 1.0;
/// Training queries of the real base with the fewest of them.
const TRAINING: usize = 268;

fn optimize(world: &World, server: &ModelServer, run: &Path, args: &[&str]) -> Command {
    let run = run.display().to_string();
    let fixed = ["optimize", "--dataset", "shop", "--run", &run, "--no-cache"];
    let mut command = world.command(fixed.into_iter().chain(args.iter().copied()));
    command.env("OPENAI_BASE_URL", server.url());
    command
}

fn done(mut command: Command) -> Ran {
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran
}

/// Steps of a kind with their numbers.
fn steps<T: serde::de::DeserializeOwned>(run: &Path, kind: &str) -> Vec<(u64, T)> {
    let steps = Journal::open_read_only(run).unwrap().steps().unwrap().into_iter();
    steps
        .filter(|step| step.kind == kind)
        .map(|step| (step.n, serde_json::from_value(step.body).unwrap()))
        .collect()
}

/// The largest sum of reciprocal ranks that a program was seen to have on training queries before a
/// step; none where it was not run on all of them.
fn most(trials: &[(u64, Trial)], before: u64, program: &str, queries: &[usize]) -> Option<f32> {
    let of = trials
        .iter()
        .filter(|(n, trial)| *n < before && trial.program == program && trial.pool == "train");
    of.filter_map(|(_, trial)| {
        let ranks: BTreeMap<usize, f32> =
            trial.queries.iter().copied().zip(trial.reciprocal_ranks.iter().copied()).collect();
        queries.iter().map(|query| ranks.get(query).copied()).sum::<Option<f32>>()
    })
    .reduce(f32::max)
}

/// Checks that no program that was made for a category before was better there than the one that
/// was changed, by as much as keeps a change.
#[track_caller]
fn parents_are_best(run: &Path) -> usize {
    let trials: Vec<(u64, Trial)> = steps(run, "trial");
    let choices: Vec<(u64, Choice)> = steps(run, "parent");
    let mut made: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (n, choice) in &choices {
        let own = made.entry(choice.category).or_default();
        let parent = most(&trials, *n, &choice.parent, &choice.queries).unwrap();
        for other in own.iter() {
            let sum = most(&trials, *n, other, &choice.queries).unwrap_or(0.0);
            assert!(
                sum < parent + MIN_GAIN,
                "step {n} changes {} with {parent} where {other} has {sum}",
                choice.parent
            );
        }
        own.extend([choice.parent.clone(), choice.child.clone()]);
    }
    choices.len()
}

/// Checks that a child was run on all training queries only if it was kept.
#[track_caller]
fn gates_are_held(run: &Path) {
    let trials: Vec<(u64, Trial)> = steps(run, "trial");
    let kept: Vec<(u64, Value)> = steps(run, "decision");
    let kept: BTreeSet<&str> = kept
        .iter()
        .filter(|(_, decision)| decision["accepted"] == true)
        .map(|(_, decision)| decision["to"].as_str().unwrap())
        .collect();
    let n_train = trials.iter().map(|(_, trial)| trial.queries.len()).max().unwrap();
    let mut dropped = 0;
    for (n, choice) in steps::<Choice>(run, "parent") {
        let of = |pair: &&(u64, Trial)| pair.1.program == choice.child && pair.1.pool == "train";
        let own: Vec<&(u64, Trial)> = trials.iter().filter(of).collect();
        // A plan that was tried before is no child alone.
        if own.iter().any(|pair| pair.0 < n) {
            continue;
        }
        let first = &own[0].1;
        assert!(first.queries.len() <= GATE.min(choice.queries.len()), "{first:?}");
        assert!(first.queries.iter().all(|query| choice.queries.contains(query)));
        if !kept.contains(choice.child.as_str()) {
            dropped += 1;
            let whole = own.iter().any(|pair| pair.1.queries.len() == n_train);
            assert!(!whole, "{}", choice.child);
        }
    }
    assert!(dropped > 0, "every change was kept");
}

#[test]
fn the_program_that_is_changed_is_the_best_of_its_category() {
    let world = World::shop();
    let run = world.path("run").display().to_string();
    world.run(["optimize", "--dataset", "shop", "--run", &run]).done();
    assert_eq!(parents_are_best(Path::new(&run)), 24);
    gates_are_held(Path::new(&run));

    let server = ModelServer::start(Mood::Works);
    let run = world.path("both");
    done(optimize(
        &world,
        &server,
        &run,
        &["--model", "scripted", "--steps", "6", "--llm-steps", "3"],
    ));
    assert!(parents_are_best(&run) > 6);
}

#[test]
fn categories_are_found_and_filled_in_three_requests() {
    let world = World::new();
    let files = world.path("files");
    let options = SampleOptions { seed: 0, scale: Some(0.0008) };
    generate(SampleKind::Amazon, options, &files, &mut |_| {}).unwrap();
    for (split, n) in [("train", TRAINING), ("val", 85)] {
        let file = files.join(format!("split/{split}.index"));
        let all = fs::read_to_string(&file).unwrap();
        let kept: Vec<&str> = all.lines().take(n).collect();
        assert_eq!(kept.len(), n);
        fs::write(&file, kept.join("\n")).unwrap();
    }
    let source = files.display().to_string();
    world.run(["data", "import", "--name", "shop", "--from", &source]).done();
    world.run(["index", "shop"]).done();
    let server = ModelServer::start(Mood::Works);
    let run = world.path("run");
    let args = ["--actor", "llm", "--model", "scripted", "--steps", "0"];
    done(optimize(&world, &server, &run, &args));
    let system = |request: &Value| request["messages"][0]["content"].as_str().unwrap().to_owned();
    let requests = server.requests();
    let of = |start: &str| requests.iter().filter(|one| system(one).starts_with(start)).count();
    let (found, filled) = (of("You find kinds"), of("You sort queries"));
    assert!(found == 1 && filled >= 1 && found + filled <= 3, "{found} and {filled}");
    // Every query has one place, and none was asked about twice.
    let (_, categories) = steps::<Value>(&run, "categories").remove(0);
    let places: Vec<u64> = categories["found"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| one["train"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()))
        .collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), TRAINING);
    assert_eq!(places.len(), TRAINING);
    let sorted = requests.iter().filter(|one| system(one).starts_with("You sort queries"));
    let asked: usize = sorted
        .map(|one| {
            let user = one["messages"][1]["content"].as_str().unwrap();
            let (_, queries) = user.split_once("# Queries").unwrap();
            queries.lines().filter(|line| line.split_once(". ").is_some()).count()
        })
        .sum();
    assert_eq!(asked, TRAINING - 200 + 85);
}

#[test]
fn first_programs_are_asked_for_at_once_and_tried_out() {
    let world = World::shop();
    let server = ModelServer::start(Mood::Works);
    let run = world.path("run");
    let args = ["--actor", "llm", "--model", "scripted", "--llm-steps", "2", "--json"];
    done(optimize(&world, &server, &run, &args));
    assert!(server.most_at_once() >= 2, "{} at once", server.most_at_once());
    let tried: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request["messages"].to_string())
        .filter(|messages| messages.contains(TRIED_OUT))
        .collect();
    let attempts: Vec<(u64, Value)> = steps(&run, "attempt");
    let initial: Vec<&Value> =
        attempts.iter().map(|one| &one.1).filter(|one| one["what"] == "initial").collect();
    assert_eq!(tried.len(), initial.len());
    for messages in &tried {
        assert!(messages.contains("its mean reciprocal rank on 12 of the"), "{messages}");
    }
    // Whoever gives advice again on a category is told what came of the first.
    let contrasts = server.requests().into_iter().map(|request| request["messages"].to_string());
    let contrasts: Vec<String> =
        contrasts.filter(|one| one.contains("You compare queries that")).collect();
    let told = contrasts.iter().filter(|one| one.contains("# What was tried before")).count();
    assert!(told >= contrasts.len() / 2, "{told} of {}", contrasts.len());
    // The revision was taken where it was no worse.
    let journal = Journal::open_read_only(&run).unwrap();
    let source = |one: &Value| {
        let id = one["program"].as_str().unwrap();
        journal.program(id).unwrap().unwrap().source().to_owned()
    };
    assert!(initial.iter().any(|one| source(one).contains(REVISED)), "{initial:?}");
    // Every category has steps of its own, no more than it may have, and is tuned before.
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, one) in attempts.iter().filter(|one| one.1["what"] == "improve") {
        *turns.entry(one["category"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(turns.len(), initial.len(), "{turns:?}");
    assert!(turns.values().all(|&turns| turns <= 2), "{turns:?}");
    let first = steps::<Choice>(&run, "parent")[0].0;
    let tuned = steps::<Value>(&run, "tune").into_iter().filter(|one| one.0 < first).count();
    assert!(tuned >= 1, "nothing was tuned before the first improvement");
}

#[test]
fn a_model_takes_part_where_one_is_configured() {
    let world = World::shop();
    let dry = ["optimize", "--dataset", "shop", "--dry-run", "--json"];
    let none = world.run(dry).json_lines().remove(0);
    assert_eq!(none["llm"]["calls"][1], 0, "{none}");
    // Neither a key nor a service is needed to say what would be asked.
    let mut command = world.command(dry);
    command.env("AGENT_MODEL", "scripted");
    let both = Ran::of(command.output().unwrap()).json_lines().remove(0);
    let most = |line: &Value| line["llm"]["calls"][1].as_u64().unwrap();
    assert!(most(&both) > 0, "{both}");
    let mut command = world.command(dry.into_iter().chain(["--no-llm-tools"]));
    command.env("AGENT_MODEL", "scripted");
    let without = Ran::of(command.output().unwrap()).json_lines().remove(0);
    let of_tools = 2 * asks::REQUESTS_PER_RUN * asks::max_runs(25) as u64;
    assert_eq!(most(&both) - most(&without), of_tools);

    let server = ModelServer::start(Mood::Works);
    let run = world.path("run");
    let mut command = optimize(&world, &server, &run, &["--steps", "0"]);
    command.env("AGENT_MODEL", "scripted");
    let ran = done(command);
    let first = ran.stderr.lines().next().unwrap();
    let words = "with the search actor and the llm actor (model scripted), whose programs may also";
    assert!(first.contains(words), "{first}");
    let run = world.path("search").display().to_string();
    let args = ["optimize", "--dataset", "shop", "--run", &run, "--steps", "0"];
    let asked = server.asked();
    for (model, actor) in [("", &[][..]), ("scripted", &["--actor", "search"])] {
        let mut command = world.command(args.into_iter().chain(actor.iter().copied()));
        command.env("AGENT_MODEL", model).env("OPENAI_BASE_URL", server.url());
        let ran = done(command);
        let first = ran.stderr.lines().next().unwrap();
        assert!(first.contains("with the search actor (no language model)"), "{first}");
        fs::remove_dir_all(&run).unwrap();
    }
    assert_eq!(server.asked(), asked);
}

#[test]
fn programs_that_ask_a_model_are_run_on_their_own_queries_alone() {
    // Few questions prove nothing where words alone answer most.
    let world = World::shop_with(VALIDATION);
    let server = ModelServer::start(Mood::Asks);
    let asked = |run: &Path, args: &[&str]| -> Vec<String> {
        let fixed = ["--actor", "llm", "--model", "scripted", "--llm-steps", "2"];
        let ran = done(optimize(&world, &server, run, &[&fixed, args].concat()));
        assert!(!ran.stderr.contains("queries failed"), "{}", ran.stderr);
        let journal = Journal::open_read_only(run).unwrap();
        let trials: Vec<(u64, Trial)> = steps(run, "trial");
        let ids: BTreeSet<String> = trials.into_iter().map(|one| one.1.program).collect();
        let asks = |id: &String| {
            journal.program(id).unwrap().unwrap().source().contains("classify_by_llm")
        };
        ids.into_iter().filter(asks).collect()
    };
    let of_tools = || {
        let requests = server.requests();
        let text = requests.iter().map(|request| request["messages"].to_string());
        text.filter(|text| text.contains("You choose the class that fits a text best")).count()
    };
    let run = world.path("run");
    let ids = asked(&run, &["--test"]);
    assert!(!ids.is_empty(), "no program asked");
    let bundle = Bundle::read(&run.join("bundle.json")).unwrap();
    assert!(bundle.asks(), "the bundle asks nothing");
    let trials: Vec<(u64, Trial)> = steps(&run, "trial");
    let n_train = trials.iter().map(|(_, trial)| trial.queries.len()).max().unwrap();
    let own = trials.iter().map(|one| &one.1).filter(|trial| ids.contains(&trial.program));
    let mut kept = 0;
    for trial in own.filter(|trial| trial.pool == "train") {
        assert!(trial.queries.len() < n_train, "{trial:?}");
        kept += usize::from(trial.queries.len() > GATE);
    }
    let most = asks::max_runs(VALIDATION) as u64 * asks::REQUESTS_PER_RUN;
    let n = of_tools();
    assert!(n > 0 && n as u64 <= most, "{n} requests, {kept} long trials");
    // Without them the same program is refused before it asks anything.
    let run = world.path("without");
    asked(&run, &["--no-llm-tools"]);
    assert_eq!(of_tools(), n);
    let frozen = fs::read_to_string(run.join("bundle.json")).unwrap();
    assert!(!frozen.contains("classify_by_llm"));
}
