//! Questions over many nodes on real bases, where `AGENT_TEST_HOME` names a home with `products`,
//! `biomed` and `papers` indexed: questions made with their answers, the same reworded by hand, and
//! questions that have no answer.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, atomic::AtomicBool},
};

use agent::{
    answer::{AnswerValue, Cell, Single},
    ask::{
        Analyst, AskError,
        answer::{Answered, Outcome, shown_value},
        synthesize::{Question, synthesize},
    },
    dataset::{
        Home, Split, load_split,
        sample::{SampleKind, SampleOptions, generate},
    },
    eval::ValueResult,
    index::IndexedBase,
    synth::Watch,
};

use crate::{
    answers::schema,
    bundles::{SEARCHES, world_with},
    model::{ModelServer, Mood},
    support::{World, real_bases},
};

/// A base, a question in the words of the maker, and the same in other words.
const REWORDINGS: &str = include_str!("ask_rewordings.tsv");
/// A sample, a kind, a question as people word it, and its answer, which `scripts/ask-wordings.py`
/// computed from the files of the sample.
const WORDINGS: &str = include_str!("../data/ask/wordings.tsv");
/// The same, written when the program had been mended by the first, and before any was asked.
const FURTHER: &str = include_str!("../data/ask/further.tsv");
/// The same again.
const THIRD: &str = include_str!("../data/ask/third.tsv");
/// Questions that are made of a base.
const N: usize = 200;

fn made(base: &IndexedBase, n: usize, seed: u64) -> Vec<Question> {
    let stop = AtomicBool::new(false);
    synthesize(base, n, seed, &mut Watch { progress: &mut |_, _, _| {}, stop: &stop }).unwrap().all
}

#[test]
fn questions_that_are_made_are_answered_and_so_are_most_in_other_words() {
    let (mut same, mut all) = (0, 0);
    for (base, indexed) in real_bases() {
        let analyst = Analyst::new(Arc::new(indexed));
        let made = made(analyst.base(), N, 1);
        let right = made.iter().filter(|one| {
            let answered = analyst.ask(&one.text);
            let value = answered.as_ref().ok().map(|answered| answered.value());
            let is_right = ValueResult::new(0, value.as_ref(), &one.answer).score() >= 1.0;
            if !is_right {
                println!("{}: {}\n    {:?}", base.name, one.text, answered.map(|one| one.told));
            }
            is_right
        });
        let right = right.count();
        println!("{}: {right} of {} made questions", base.name, made.len());
        assert!(made.len() == N, "{}: {} questions", base.name, made.len());
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

/// Whether an answer is the one that was computed apart: numbers to 1e-6, shares also in percent.
fn is_right(answered: &Answered, expected: &serde_json::Value) -> bool {
    let close = |one: f64, other: f64| (one - other).abs() <= 1e-6 * other.abs().max(1.0);
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let statistic = match (expected.get("statistic"), &answered.statistic) {
        (Some(expected), Some(found)) => close(found.statistic, number(expected)),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let said = match &answered.outcome {
        Outcome::Number { value, unit } => expected.get("number").is_some_and(|expected| {
            let percent = unit.as_deref() == Some("%");
            close(*value, number(expected) * if percent { 100.0 } else { 1.0 })
        }),
        Outcome::Names { names, .. } => expected.get("names").is_some_and(|expected| {
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            *expected == serde_json::json!(names)
        }),
        Outcome::Truth(truth) => expected.get("truth").is_some_and(|expected| expected == truth),
        Outcome::Table => expected.get("groups").is_some_and(|groups| {
            let groups = groups.as_object().unwrap();
            let rows = &answered.result.rows;
            rows.len() == groups.len()
                && rows.iter().all(|row| {
                    let group = groups.get(&shown_value(&row[0])).map(number);
                    let mut numbers = row[1..].iter().filter_map(|value| value.number());
                    group.is_some_and(|group| numbers.any(|own| close(own, group)))
                })
        }),
    };
    said && statistic
}

/// A sample of the default seed, imported and indexed.
fn sample(world: &World, name: &str, kind: SampleKind, scale: f64) -> Analyst {
    let files = world.path(name);
    generate(kind, SampleOptions { seed: 0, scale: Some(scale) }, &files, &mut |_| {}).unwrap();
    let from = files.display().to_string();
    world.run(["data", "import", "--name", name, "--from", &from]).done();
    world.run(["index", name]).done();
    let base = Home::new(world.path("home")).get(name).unwrap();
    let indexed = IndexedBase::open(&base.kb_dir(), &base.index_dir(), name).unwrap();
    Analyst::new(Arc::new(indexed))
}

/// As people word questions, on the samples, which every machine has.
#[test]
fn questions_in_free_words_are_answered() {
    let world = World::new();
    let samples = [
        ("amazon", SampleKind::Amazon, 0.0008),
        ("mag", SampleKind::Mag, 0.0008),
        ("prime", SampleKind::Prime, 0.01),
    ];
    let mut counts = [[0; 3]; 3];
    for (name, kind, scale) in samples {
        let analyst = sample(&world, name, kind, scale);
        for (lines, counts) in [WORDINGS, FURTHER, THIRD].into_iter().zip(&mut counts) {
            let [right, wrong, all] = counts;
            for line in lines.lines() {
                let parts: Vec<&str> = line.split('\t').collect();
                let &[own, _, question, expected] = parts.as_slice() else { panic!("{line}") };
                if own != name {
                    continue;
                }
                *all += 1;
                let expected = serde_json::from_str(expected).unwrap();
                match analyst.ask(question) {
                    Ok(answered) if is_right(&answered, &expected) => *right += 1,
                    Ok(answered) => {
                        *wrong += 1;
                        println!("{name}: {question}\n    wrong: {}", answered.told);
                    }
                    Err(error) => println!("{name}: {question}\n    refused: {error}"),
                }
            }
        }
    }
    for ([right, wrong, all], least) in counts.into_iter().zip([90, 80, 70]) {
        println!("{right} of {all} free wordings are answered, {wrong} wrongly");
        assert!(right * 100 >= all * least, "{right} of {all}");
    }
}

#[test]
fn shares_have_a_whole_and_a_part() {
    let world = World::new();
    let analyst = sample(&world, "amazon", SampleKind::Amazon, 0.0008);
    let number = |question: &str| match analyst.ask(question).unwrap().outcome {
        Outcome::Number { value, .. } => value,
        other => panic!("{question}: {other:?}"),
    };
    let both = number("How many products with the brand \"Bekrifil\" have a price above 50?");
    let made = number("How many products with the brand \"Bekrifil\" are there?");
    let dear = number("How many products have a price above 50?");
    for (question, whole) in [
        ("What share of the products by \"Bekrifil\" cost over 50?", made),
        ("What percentage of \"Bekrifil\" products have a price above 50?", made),
        ("Of the products by \"Bekrifil\", what percentage have a price above 50?", made),
        ("What share is by \"Bekrifil\" among the products with a price above 50?", dear),
        ("What share of the products that cost over 50 is by \"Bekrifil\"?", dear),
    ] {
        let share = number(question);
        assert!((share - 100.0 * both / whole).abs() < 1e-9, "{question}: {share}");
    }
    let open = "What is the percentage of \"Bekrifil\" products with a price above 50?";
    assert!(analyst.ask(open).unwrap_err().to_string().contains("whole"));
}

/// What must not be answered by something else than what is asked.
#[test]
fn what_is_asked_in_another_way_is_not_answered_in_this() {
    let world = World::new();
    let analyst = sample(&world, "mag", SampleKind::Mag, 0.0008);
    for (question, told) in [
        ("How many papers and how many authors are there?", "at once"),
        ("How many papers cite others and what percentage has the most?", "at once"),
        ("What is the mean and the median reference count of papers?", "at once"),
        ("How many papers have more references than the average?", "a comparison"),
        ("How many papers did \"T. Flistodrim\" not write?", "negates"),
        ("How many papers are there and which venue has the most papers?", "at once"),
        ("How many papers are by \"T. Flistodrim\" or from 2010?", "different kinds"),
        (
            "How many papers are there if those from 2010 were left out and years rose by 1?",
            "at once",
        ),
        ("How many new papers are there?", "new"),
        ("How many used papers are there?", "used"),
        ("How many papers are significant?", "significant"),
        ("How many authors only wrote one paper?", "only"),
        ("How many papers have about 20 references?", "about"),
        ("What is the average number of papers per year?", "each group"),
        ("What is the mean reference count of the ten newest papers?", "top results"),
        ("How many papers are left if those before 2010 were removed and 2011 too?", "at once"),
    ] {
        let error = analyst.ask(question).expect_err(question).to_string();
        assert!(error.contains(told), "{question}: {error}");
    }
    // The papers of a topic by author, and not all papers of the authors who have one.
    let topic = "Which author wrote the most papers with the field of study \"Inverse genomics of \
                 polymers\"?";
    let found = analyst.ask(topic).unwrap();
    assert!(found.sql[0].contains("count(*)"), "{:?}", found.sql);
}

#[test]
fn bounds_stand_behind_numbers_and_may_be_denied() {
    let world = World::new();
    let analyst = sample(&world, "amazon", SampleKind::Amazon, 0.0008);
    let number = |question: &str| match analyst.ask(question).unwrap().outcome {
        Outcome::Number { value, .. } => value,
        other => panic!("{question}: {other:?}"),
    };
    let dear = number("How many products have a price above 50?");
    let all = number("How many products have a price?");
    assert_eq!(number("How many products don't cost more than 50?"), all - dear);
    let most = number("How many products have a price of at least 50?");
    assert_eq!(number("How many products cost 50 dollars or more?"), most);
    assert_eq!(number("How many products cost 50 dollars and up?"), most);
    let two = number("How many products have at least 2 colors?");
    assert_eq!(number("How many products have 2 or more colors?"), two);
    let between = number("How many products cost between 20.01 and 49.99?");
    assert_eq!(number("How many products cost more than 20 and less than 50?"), between);
    let one = number("How many products have 1 color?");
    assert_eq!(number("How many products have exactly one color?"), one);
    for twice in [
        "How much is the cheapest and the most expensive product?",
        "What is the difference between the highest and the lowest price?",
    ] {
        assert!(matches!(analyst.ask(twice), Err(AskError::Missing(_))), "{twice}");
    }
    for word in ["stock", "sold", "stopped"] {
        let question = format!("How many products of \"Bekrifil\" are {word}?");
        let error = analyst.ask(&question).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// Questions for nodes go to the bundle, but for those that conditions alone answer: they have the
/// labelled answers, nearly all.
#[test]
fn questions_for_nodes_are_listed_rightly_or_not_taken() {
    for (base, indexed) in real_bases() {
        let analyst = Analyst::new(Arc::new(indexed));
        let mut queries = load_split(&base, &Split::Train).unwrap();
        queries.extend(load_split(&base, &Split::Val).unwrap());
        let (mut listed, mut right, mut taken) = (0, 0, 0);
        for query in &queries {
            match analyst.ask(&query.text) {
                Err(error) if error.may_be_for_nodes() => {}
                Ok(answered) if answered.plan["operation"] == "list" => {
                    let counted = answered.counted.as_deref().unwrap_or(&answered.table.rows);
                    listed += 1;
                    right += usize::from(counted == query.answers.as_slice());
                }
                found => {
                    println!("{}: {}\n    {:?}", base.name, query.text, found.map(|one| one.told));
                    taken += 1;
                }
            }
        }
        let n = queries.len();
        println!("{}: of {n}, {listed} are listed, {right} rightly; {taken} others", base.name);
        assert!(taken * 20 <= n && listed > 0, "{}: {taken} of {n}", base.name);
        assert!(right * 100 >= listed * 95, "{}: {right} of {listed}", base.name);
    }
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
    let make = |name: &str| {
        let to = world.path(name).display().to_string();
        let make = ["data", "synthesize", "shop", "--kind", "table", "--queries", "40"];
        world.run(make.into_iter().chain(["--to", &to])).done();
        fs::read_to_string(world.path(name).join("qa.csv")).unwrap()
    };
    let (first, again) = (make("first"), make("again"));
    assert_eq!(first, again);
    assert!(first.lines().nth(1).unwrap().contains(",synthetic,1"), "{first}");
    let file = world.path("first/qa.csv").display().to_string();
    let eval = ["eval", "--dataset", "shop", "--system", "ask", "--split", &file, "--by", "kind"];
    let scores = world.run(eval.into_iter().chain(["--json"])).json_lines().remove(0);
    let (n, right) = (scores["n"].as_f64().unwrap(), scores["exact"]["mean"].as_f64().unwrap());
    assert!(n >= 30.0 && right >= 0.95, "{scores}");
    assert_eq!(scores["groups"].as_object().unwrap().len(), 8);
    assert!(scores["table_f1"].is_null() || scores["table_f1"]["mean"].as_f64().unwrap() > 0.9);
    let table = world.run(eval).done();
    assert!(table.contains("hypothetical"), "{table}");
    let csv = world.path("products.csv");
    let asked = ["ask", "shop", "How many products are there?", "--json"];
    let answer = &world.run(asked).json_lines()[0];
    let counted = answer["answer"]["number"]["value"].as_f64().unwrap() as usize;
    assert_eq!(answer["table"]["rows"].as_array().unwrap().len(), counted);
    let path = csv.display().to_string();
    let told = world.run(["ask", "shop", "How many products are there?", "--csv", &path]).done();
    assert!(told.contains("SELECT count(*)"), "{told}");
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), counted + 1);
    let cheap = "Which products cost less than 20?";
    let answer = &world.run(["ask", "shop", cheap, "--json"]).json_lines()[0];
    let names = answer["answer"]["names"]["names"].as_array().unwrap().len();
    world.run(["ask", "shop", cheap, "--csv", &path]).done();
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), names + 1);
    world.run(["ask", "shop", "How many products were sold in Atlantis?"]).fails(1, &["Atlantis"]);
    // They become the questions of a base that has none of its own.
    let refused = world.run(["data", "synthesize", "shop", "--kind", "table"]);
    refused.fails(1, &["labelled questions"]);
    let own = world.run(["data", "synthesize", "shop", "--kind", "table", "--actor", "llm"]);
    own.fails(2, &["neither a language model nor templates"]);
}

#[test]
fn made_questions_are_those_of_a_base_without_labels() {
    let world = World::new();
    let files = world.path("files");
    let options = SampleOptions { seed: 0, scale: Some(0.0008) };
    generate(SampleKind::Amazon, options, &files, &mut |_| {}).unwrap();
    fs::remove_file(files.join("qa.csv")).unwrap();
    fs::remove_dir_all(files.join("split")).unwrap();
    let from = files.display().to_string();
    world.run(["data", "import", "--name", "mine", "--from", &from]).done();
    world.run(["index", "mine"]).done();
    let told = world.run(["data", "synthesize", "mine", "--kind", "table", "--queries", "40"]);
    assert!(told.done().contains("questions over many nodes of \"mine\""));
    let eval = ["eval", "--dataset", "mine", "--system", "ask", "--split", "train,val", "--json"];
    let scores = world.run(eval).json_lines().remove(0);
    assert!(scores["exact"]["mean"].as_f64().unwrap() >= 0.95, "{scores}");
}

#[test]
fn nodes_are_left_to_the_bundle() {
    let (world, _) = world_with(SEARCHES);
    let ask = |question: &str| world.run(["ask", "tiny", question, "--bundle", "bundle.json"]);
    let nodes = ask("a steel dart");
    assert!(nodes.stderr.contains("the bundle answers with nodes"), "{}", nodes.stderr);
    assert!(nodes.done().contains("steel dart"));
    assert!(ask("How many products are there?").done().starts_with("4 "));
    ask("How many products are sold in Atlantis?").fails(1, &["Atlantis"]);
    let alone = world.run(["ask", "tiny", "a steel dart"]);
    alone.fails(1, &["--bundle FILE"]);
}

/// A category whose program ranks by what it counts over a table.
#[test]
fn a_category_of_a_bundle_may_compute_with_tables() {
    let (world, _) = world_with(
        r#"fn params() { #{ k: #{ value: 5, min: 1, max: 10 } } }
        fn retrieve(query, candidates, params) {
            let found = search(query, "product", params.k);
            let brands = aggregate(nodes(found), "name", "count", "has_brand:out");
            let first = [];
            for row in table(nodes(found), ["has_brand:out"]) {
                if brands[0].group in row["has_brand:out"] { first.push(row.id); }
            }
            found + uniform(nodes(first), 100.0)
        }"#,
    );
    // Of three that have a word, two are of one brand: they come first.
    let ask = ["ask", "tiny", "a durable kite", "--bundle", "bundle.json"];
    let told = world.run(ask).done();
    let place = |name: &str| told.find(name).unwrap_or_else(|| panic!("{name}: {told}"));
    assert!(place("red kite") < place("blue kite") && place("blue kite") < place("steel dart"));
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny", "a durable kite"];
    let answer = &world.run(query.into_iter().chain(["--explain", "--json"])).json_lines()[0];
    let calls = answer["hits"][0]["calls"].as_array().unwrap();
    let tools: Vec<&str> = calls.iter().filter_map(|call| call["tool"].as_str()).collect();
    assert!(tools.contains(&"aggregate") && tools.contains(&"table"), "{tools:?}");
}

#[test]
fn a_model_answers_what_the_rules_do_not_understand_and_is_replayed() {
    let (world, server) = (World::indexed(), ModelServer::start(Mood::Works));
    let question = "How many products are made of steel?";
    let ask = ["ask", "tiny", question, "--effort", "1", "--model", "scripted"];
    let run = |more: &[&str], url: &str| {
        let mut command = world.command(ask.into_iter().chain(more.iter().copied()));
        crate::support::Ran::of(command.env("OPENAI_BASE_URL", url).output().unwrap())
    };
    let recorded = run(&["--record", "asked.jsonl"], &server.url()).done();
    assert!(recorded.starts_with("1 (") && recorded.contains("material = 'steel'"), "{recorded}");
    assert!(recorded.contains("read from the document") || recorded.contains("wrote the plan"));
    assert_eq!(server.asked(), 2);
    let replayed = run(&["--replay", "asked.jsonl"], "http://127.0.0.1:9/v1").done();
    assert_eq!((recorded, server.asked()), (replayed, 2));
    // What the rules understand asks nobody.
    let plain = ["ask", "tiny", "How many products are there?", "--effort", "1"];
    let mut command = world.command(plain.into_iter().chain(["--model", "scripted"]));
    let told = command.env("OPENAI_BASE_URL", server.url()).output().unwrap();
    assert!(crate::support::Ran::of(told).done().starts_with("4 "));
    assert_eq!(server.asked(), 2);
    let refusing = ModelServer::start(Mood::Refuses);
    run(&["--no-cache"], &refusing.url()).fails(1, &["key"]);
    let babbling = ModelServer::start(Mood::Babbles);
    let words = ["not understood", "the language model gave no usable reply: "];
    run(&["--no-cache"], &babbling.url()).fails(1, &words);
    // The model declines what the rules answer.
    let declined = ["ask", "tiny", "How many products are there?", "--effort", "2"];
    let mut command = world.command(declined.into_iter().chain(["--model", "scripted"]));
    let told = command.env("OPENAI_BASE_URL", server.url()).output().unwrap();
    let words = ["found no answer in this base", "--effort 0 answers by rules"];
    crate::support::Ran::of(told).fails(1, &words);
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
        let first = made(&indexed, 24, 7);
        assert_eq!(first, made(&indexed, 24, 7));
        assert_ne!(first, made(&indexed, 24, 8));
        let truth = |one: &Question| {
            matches!(one.answer, AnswerValue::Single(Single { value: Cell::Bool(_), .. }))
        };
        assert!(first.iter().any(truth));
    }
}

/// Tickets that two people open and handle.
fn desk(world: &World) {
    let (mut nodes, mut edges) = (String::new(), "src_id\trelation\tdst_id\n".to_owned());
    for (id, name) in ["Ada Lind", "Bo Quist"].into_iter().enumerate() {
        nodes += &format!("{{\"id\": \"p{id}\", \"type\": \"person\", \"name\": \"{name}\"}}\n");
    }
    for n in 0..5 {
        nodes += &format!("{{\"id\": \"t{n}\", \"type\": \"ticket\", \"name\": \"Seam {n}\"}}\n");
        edges +=
            &format!("t{n}\topened_by\tp{}\nt{n}\thandled_by\tp{}\n", n % 2, usize::from(n > 3));
    }
    fs::create_dir_all(world.path("desk")).unwrap();
    fs::write(world.path("desk/nodes.jsonl"), nodes).unwrap();
    fs::write(world.path("desk/edges.tsv"), edges).unwrap();
    let from = world.path("desk").display().to_string();
    world.run(["data", "import", "--name", "desk", "--from", &from]).done();
    world.run(["index", "desk"]).done();
}

#[test]
fn what_can_be_read_in_two_ways_is_asked_back() {
    let world = World::new();
    desk(&world);
    let question = "How many tickets does Ada Lind have?";
    let asked = world.run(["ask", "desk", question]);
    assert_eq!(asked.status, 3, "{}", asked.stderr);
    for told in [
        "2 possible meanings",
        "--reading K",
        "  1  4 (ticket rows)",
        "  2  3 (ticket rows)",
        "opened_by",
    ] {
        assert!(asked.stdout.contains(told), "{told}: {}", asked.stdout);
    }
    let asked = world.run(["ask", "desk", question, "--json"]);
    let reply: serde_json::Value = serde_json::from_str(&asked.stdout).unwrap();
    assert_eq!((asked.status, &reply["answer"]), (3, &serde_json::Value::Null), "{reply}");
    assert_eq!(reply["readings"].as_array().unwrap().len(), 2, "{reply}");
    let chosen = world.run(["ask", "desk", question, "--reading", "2"]).done();
    assert!(chosen.starts_with("3 (ticket rows)"), "{chosen}");
    world
        .run(["ask", "desk", question, "--reading", "3"])
        .fails(1, &["reading 3 does not exist; the question has 2 possible meanings"]);
    world.run(["ask", "desk", question, "--reading", "0"]).fails(2, &["--reading"]);
    // The plan of an answer gives that answer.
    let first = &world.run(["ask", "desk", question, "--reading", "2", "--json"]).json_lines()[0];
    let plan = first["plan"].to_string();
    let again = &world.run(["ask", "desk", "--plan", &plan, "--json"]).json_lines()[0];
    assert_eq!((&first["answer"], &first["sql"]), (&again["answer"], &again["sql"]));
    let wrong = plan.replace("opened_by", "closed_by");
    let refused = world.run(["ask", "desk", "--plan", &wrong]);
    refused.fails(1, &["closed_by", "plan.schema.json"]);
    world.run(["ask", "desk", "--plan", "rows"]).fails(2, &["not JSON"]);
    world.run(["ask", "desk"]).fails(2, &["QUESTION"]);
    world.run(["ask", "desk", question, "--plan", &plan]).fails(2, &["--plan"]);
}

#[test]
fn plans_are_as_their_schema_says() {
    let world = World::new();
    let analyst = sample(&world, "amazon", SampleKind::Amazon, 0.0008);
    let schema = schema("plan.schema.json");
    for question in [
        "How many products cost more than 10 and are not by \"Bekrifil\"?",
        "What is the mean price per brand?",
        "Which two products are the cheapest?",
        "Does \"Bekrifil\" have a higher mean price than \"Libugri\"?",
        "What share of products has a price under 10?",
        "Are the prices of products normally distributed?",
        "Do the prices vary more in \"Bekrifil\" than in \"Libugri\"?",
        "What would the mean price be without \"Bekrifil\"?",
        "What would the mean price be if prices rose by 10 %?",
    ] {
        let answered = analyst.ask(question).unwrap_or_else(|error| panic!("{question}: {error}"));
        let mut plan = answered.plan;
        let wrong: Vec<String> = schema.iter_errors(&plan).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{question}: {plan}: {wrong:?}");
        plan["operation"] = serde_json::json!({"drop": "t"});
        assert!(!schema.is_valid(&plan), "{question}");
    }
}
