//! Tests of the classifier, and tests with MEBench, a published benchmark of questions over
//! tables, if its files are available: the classifier must recognise the kinds of its questions,
//! and its SQL statements must run.

use serde_json::Value as Json;

use crate::{
    given::real_data,
    kind::{Kind, KindModel},
};
use agent_kb::table::{Budget, Column, ColumnKind, Database, Limits, Table, with_literals};

/// Returns the questions in a file of MEBench; `None` if the data are not available.
fn questions(file: &str) -> Option<Vec<Json>> {
    let text = std::fs::read_to_string(real_data("mebench")?.join(file)).unwrap();
    // An answer in each file holds a NaN, which is not JSON.
    let read = |line: &str| serde_json::from_str(&line.replace("NaN", "null")).unwrap();
    Some(text.lines().map(read).collect())
}

fn text<'a>(of: &'a Json, name: &str) -> &'a str {
    of[name].as_str().unwrap().trim()
}

#[test]
fn a_model_taught_with_the_training_questions_knows_the_kinds_of_the_test_questions() {
    let (Some(train), Some(test)) = (questions("train.jsonl"), questions("test.jsonl")) else {
        return;
    };
    let read = |one: &Json| {
        let name = text(one, "type").to_lowercase();
        (Kind::named(name.split(' ').next().unwrap()).unwrap(), text(one, "question").to_owned())
    };
    let train: Vec<(Kind, String)> = train.iter().map(read).collect();
    let test: Vec<(Kind, String)> = test.iter().map(read).collect();
    let model = KindModel::taught(train.iter().map(|(kind, text)| (*kind, text.as_str())));
    let share = |model: &KindModel| {
        let right = test.iter().filter(|(kind, text)| model.ranked(text)[0].0 == *kind).count();
        right as f64 / test.len() as f64
    };
    let (taught, built_in) = (share(&model), share(KindModel::built_in()));
    println!(
        "kinds of {} questions, accuracy: trained {taught:.4}, built-in {built_in:.4}",
        test.len()
    );
    assert!(taught >= 0.93, "{taught}");
}

/// Runs each question's SQL statement on an empty table with the columns that the question names.
/// Questions that have only SQL comments instead of a statement are skipped.
#[test]
fn published_statements_bind() {
    let Some(questions) = questions("test.jsonl") else { return };
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let column = |name: &str| Column {
        name: plain(name),
        kind: ColumnKind::Text,
        unit: None,
        source: String::new(),
        cells: Vec::new(),
        unfit: 0,
    };
    let (mut bound, mut all) = (0, 0);
    for question in &questions {
        let sql = text(question, "sql");
        if sql.lines().all(|line| line.trim().starts_with("--")) {
            continue;
        }
        let columns = text(question, "properties").split(',').map(column).collect();
        let table = Table { rows: Vec::new(), columns };
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let database =
            Database::load(&[(&plain(text(question, "topic")), &table)], &Budget::start()).unwrap();
        let ran = database.query(&with_literals(sql, &names).0, &Limits::default());
        all += 1;
        match ran {
            Ok(_) => bound += 1,
            Err(error) => println!("{error}: {sql}"),
        }
    }
    println!("{bound} of {all} published statements run");
    assert!(bound as f64 >= 0.94 * all as f64, "{bound} of {all}");
}

#[test]
fn questions_of_other_subjects_are_told_apart() {
    let questions = [
        ("How many ships are there in the harbour?", Kind::Aggregation),
        ("Which ship is the longest?", Kind::Superlative),
        ("Is there a correlation between length and speed?", Kind::Correlation),
        ("Is the speed of ships normally distributed?", Kind::Distribution),
        ("Do the variances of the two fleets differ?", Kind::Variance),
        ("What would the mean be if the tugs were left out?", Kind::Hypothetical),
        ("How is the flag related to the age of a ship?", Kind::Descriptive),
        ("Which is faster, the Aurora or the Borealis?", Kind::Intercomparison),
    ];
    for (question, kind) in questions {
        assert_eq!(KindModel::built_in().ranked(question)[0].0, kind, "{question}");
    }
}
