//! Questions over many nodes on real bases, where `AGENT_TEST_HOME` names a home with `products`,
//! `biomed` and `papers` indexed: questions made with their answers, the same reworded by hand, and
//! questions that have no answer.

use std::{collections::BTreeMap, sync::Arc};

use agent::ask::{
    Analyst, AskError,
    score::{Expected, score},
    synthesize::synthesize,
};

use crate::support::real_bases;

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
