//! Questions over many nodes on real bases, where `AGENT_TEST_HOME` names a home with `products`,
//! `biomed` and `papers` indexed: questions made with their answers, the same reworded by hand, and
//! questions that have no answer.

use std::{collections::BTreeMap, sync::Arc};

use agent::{
    ask::{
        Analyst, AskError,
        score::{Expected, score},
        synthesize::synthesize,
    },
    dataset::sample::{SampleKind, SampleOptions, generate},
};

use crate::support::{World, real_bases};

/// A base, a question in the words of the maker, and the same in other words.
const REWORDINGS: &str = include_str!("ask_rewordings.tsv");
/// Questions of each kind.
const EACH: usize = 25;

#[test]
fn questions_that_are_made_are_answered_and_so_are_most_in_other_words() {
    let (mut same, mut all) = (0, 0);
    for (base, indexed) in real_bases() {
        let analyst = Analyst::new(Arc::new(indexed));
        let made = synthesize(analyst.base(), EACH, 1);
        let right = made.iter().filter(|one| {
            let answered = analyst.ask(&one.question);
            let is_right =
                answered.as_ref().is_ok_and(|answered| score(answered, &one.answer) >= 1.0);
            if !is_right {
                println!("{}: {}\n    {:?}", base.name, one.question, answered.map(|one| one.told));
            }
            is_right
        });
        let right = right.count();
        println!("{}: {right} of {} made questions", base.name, made.len());
        assert!(made.len() == 8 * EACH, "{}: {} questions", base.name, made.len());
        assert!(right as f64 >= 0.95 * made.len() as f64, "{}: {right}", base.name);
        for line in REWORDINGS.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let &[name, plain, reworded] = parts.as_slice() else { panic!("{line}") };
            if name != base.name {
                continue;
            }
            all += 1;
            let (known, found) = (analyst.ask(plain), analyst.ask(reworded));
            let known = known.unwrap_or_else(|error| panic!("{plain}: {error}"));
            let equal = found.as_ref().is_ok_and(|found| {
                found.outcome == known.outcome && found.result.rows == known.result.rows
            });
            if !equal {
                println!(
                    "{name}: {reworded}\n    {:?}\n    not {}",
                    found.map(|one| one.told),
                    known.told
                );
            }
            same += usize::from(equal);
        }
    }
    println!("{same} of {all} rewordings");
    assert!(same * 5 >= all * 4, "{same} of {all}");
}

/// The same on a sample base, which every machine has, by the command line.
#[test]
fn questions_made_of_a_sample_are_answered() {
    let world = World::new();
    let files = world.path("sample");
    let options = SampleOptions { seed: 0, scale: Some(0.0008) };
    generate(SampleKind::Amazon, options, &files, &mut |_| {}).unwrap();
    let from = files.display().to_string();
    world.run(["data", "import", "--name", "shop", "--from", &from]).done();
    world.run(["index", "shop"]).done();
    let made = world.run(["ask", "shop", "--make", "5"]).done();
    assert_eq!(made, world.run(["ask", "shop", "--make", "5"]).done());
    let file = world.path("made.jsonl").display().to_string();
    std::fs::write(&file, &made).unwrap();
    let scores = world.run(["ask", "shop", "--score", &file, "--json"]).json_lines();
    let all = scores.iter().find(|one| one["kind"] == "all").unwrap();
    let (n, right) = (all["n"].as_u64().unwrap(), all["right"].as_u64().unwrap());
    assert!(n >= 30 && right * 100 >= n * 95, "{all}");
    let csv = world.path("products.csv");
    let asked = ["ask", "shop", "How many products are there?", "--json"];
    let answer = &world.run(asked).json_lines()[0];
    let counted = answer["answer"]["number"]["value"].as_f64().unwrap() as usize;
    assert_eq!(answer["table"]["rows"].as_array().unwrap().len(), counted);
    let path = csv.display().to_string();
    let told = world.run(["ask", "shop", "How many products are there?", "--csv", &path]).done();
    assert!(told.contains("SELECT count(*)"), "{told}");
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), counted + 1);
    world.run(["ask", "shop", "How many products were sold in Atlantis?"]).fails(1, &["Atlantis"]);
}

#[test]
fn what_cannot_be_answered_is_said() {
    let told = BTreeMap::from([
        ("How many products were sold in Atlantis?", "sold"),
        ("What is the mean weight of products?", "weight"),
        ("How many products by \"No Such Brand At All\" are there?", "No Such Brand At All"),
        ("Which product has the highest?", "number"),
        ("Is the price of products correlated?", "number"),
        ("What would the mean price of products be if pigs were left out?", "pigs"),
        ("products for children", "no number"),
    ]);
    for (base, indexed) in real_bases().take(1) {
        let analyst = Analyst::new(Arc::new(indexed));
        for (question, word) in &told {
            let error = analyst.ask(question).expect_err(question);
            assert!(error.to_string().contains(word), "{}: {question}: {error}", base.name);
        }
        assert_eq!(analyst.ask("products for children").unwrap_err(), AskError::NoTable);
    }
}

#[test]
fn the_same_seed_makes_the_same_questions() {
    for (_, indexed) in real_bases().take(1) {
        let made = synthesize(&indexed, 3, 7);
        assert_eq!(made, synthesize(&indexed, 3, 7));
        assert_ne!(made, synthesize(&indexed, 3, 8));
        assert!(made.iter().any(|one| matches!(one.answer, Expected::Truth(_))));
    }
}
