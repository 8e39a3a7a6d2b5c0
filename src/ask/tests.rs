//! Tests of questions that a scripted model answers from the example base (accepted and refused
//! replies, repairs, fallbacks) and of questions that the rules answer from a small shop (results
//! and refusals).

use std::{
    fmt::Write,
    sync::{Arc, LazyLock},
};

use serde_json::json;

use crate::{
    Analyst, AskError, Helps,
    answer::{Answered, Outcome},
};
use agent_index::IndexedBase;
use agent_kb::table::SqlValue;
use agent_llm::{Finish, LlmError, Request, ledger::Ceilings};
use agent_retrieve::AssistFailure;
use agent_testing::{
    RequestLog, assistant, base_of, blocks, example_base, llm, llm_within, question, said,
};

const STEEL: &str = "How many products are made of steel?";

/// Returns the name of the prompt of a request to the model; empty if the request asks for no JSON.
fn prompt(request: &Request) -> &str {
    request.json.as_ref().map_or("", |schema| &schema.name)
}

/// Builds a model's reply with plans.
fn plans(plans: serde_json::Value) -> String {
    json!({"plans": plans, "why": ""}).to_string()
}

/// Builds a plan that counts products; a text column holds their material.
fn counted(filters: serde_json::Value) -> serde_json::Value {
    json!({"kind": "aggregation", "rows": "product", "columns": [{"field": "price"}],
           "texts": [{"name": "material", "description": "main material of the product"}],
           "filters": filters, "operation": {"number": "rows"}})
}

/// Replies as a model that plans with `plan` and reads the material of each product.
fn steel(request: &Request, plan: &serde_json::Value) -> String {
    match prompt(request) {
        "ask_plan" => plans(json!([plan])),
        "ask_cells" => {
            let value = |(n, (_, text)): (usize, &(String, String))| {
                let material = text.to_lowercase().contains("steel").then_some("Steel");
                json!({"n": n, "values": [material]})
            };
            let texts = blocks(question(request), "text ");
            json!({"rows": (1..).zip(&texts).map(value).collect::<Vec<_>>()}).to_string()
        }
        other => panic!("{other}"),
    }
}

fn analyst(
    helps: Helps,
    reply: impl Fn(&Request) -> Result<(String, Finish), LlmError> + Send + Sync + 'static,
) -> (Analyst, RequestLog) {
    let (model, heard) = llm(reply);
    (Analyst::new(example_base()).helped(assistant(model), helps), heard)
}

#[test]
fn cells_that_only_texts_have_are_read_by_the_model() {
    let is_steel = json!([{"value": {"column": 1, "key": "Steel"}}]);
    let (asked, heard) =
        analyst(Helps::Unread, move |request| said(steel(request, &counted(is_steel.clone()))));
    let answered = asked.ask(STEEL).unwrap();
    assert_eq!(answered.outcome, Outcome::Number { value: 3.0, unit: None });
    let column = answered.table.column("material").unwrap();
    assert!(column.source.contains("read from the document"), "{}", column.source);
    let said = |why: &str| answered.left_out.iter().find(|one| one.why.contains(why)).unwrap().rows;
    assert_eq!(said("no material in the document"), 6);
    let asked_for: Vec<String> =
        heard.requests().iter().map(|request| prompt(request).to_owned()).collect();
    assert_eq!(asked_for, ["ask_plan", "ask_cells"]);
    assert_eq!(answered.unassisted, None);
    // The plan can be run again, by a model alone.
    let plan = answered.plan;
    assert_eq!(asked.run_plan(&plan).unwrap().told, answered.told);
    let error = Analyst::new(example_base()).run_plan(&plan).unwrap_err().to_string();
    assert!(error.contains("need a language model"), "{error}");
}

#[test]
fn texts_are_read_of_the_rows_that_other_filters_leave() {
    let filters = json!([{"number": {"column": 0, "bound": "below", "number": 15, "to": null}},
                         {"value": {"column": 1, "key": "steel"}}]);
    let (asked, heard) =
        analyst(Helps::Unread, move |request| said(steel(request, &counted(filters.clone()))));
    let answered = asked.ask(STEEL).unwrap();
    let cheap = asked.ask("How many products have a price below 15?").unwrap();
    let requests = heard.requests();
    let read = blocks(question(requests.last().unwrap()), "text ").len();
    assert_eq!(Outcome::Number { value: read as f64, unit: None }, cheap.outcome);
    assert_eq!(answered.outcome, Outcome::Number { value: 1.0, unit: None });
}

#[test]
fn what_the_rules_understand_is_not_asked() {
    let (asked, heard) = analyst(Helps::Unread, |_| panic!("asked"));
    let answered = asked.ask("How many products are there?").unwrap();
    assert_eq!(answered.outcome, Outcome::Number { value: 9.0, unit: None });
    assert_eq!(heard.count(), 0);
}

#[test]
fn a_misspelled_word_is_refused_with_the_word_that_is_near() {
    let asked = Analyst::new(example_base());
    for (question, told) in [
        ("How many produkts are there?", "did you mean product instead of produkts?"),
        ("What is the average prise of products?", "did you mean price instead of prise?"),
        (
            "How many products are made of unobtainium?",
            "no node or value of this base has this name",
        ),
    ] {
        let error = asked.ask(question).unwrap_err().to_string();
        assert!(error.contains(told), "{question}: {error}");
    }
}

#[test]
fn nodes_of_two_things_together_are_no_comparison() {
    let asked = Analyst::new(example_base());
    for question in [
        "products made together by Northpeak and Kestrel",
        "I am looking for products sold together with Northpeak and Kestrel.",
    ] {
        let error = asked.ask(question).unwrap_err();
        assert!(error.may_be_for_nodes(), "{question}: {error}");
    }
}

/// Builds a plan with an SQL statement, whose result is read as `answer` says.
fn by_sql(statement: &str, answer: &str) -> serde_json::Value {
    json!({"kind": "aggregation", "rows": "product", "columns": ["name", {"field": "price"}],
           "operation": {"sql": {"statement": statement, "answer": answer}}})
}

#[test]
fn what_is_wrong_with_a_plan_is_shown_to_the_model_once() {
    let (asked, heard) = analyst(Helps::All, |request| {
        let asked = question(request);
        let again =
            asked.contains("no such column: weight") && asked.contains("t(id, name, price)");
        let statement = if again { "SELECT count(*) FROM t" } else { "SELECT weight FROM t" };
        said(plans(json!([by_sql(statement, "number")])))
    });
    let answered = asked.ask(STEEL).unwrap();
    assert_eq!(answered.outcome, Outcome::Number { value: 9.0, unit: None });
    assert_eq!(answered.sql, ["SELECT count(*) FROM t"]);
    assert_eq!(heard.count(), 2);
}

#[test]
fn no_statement_but_a_reading_one_over_the_table_is_run() {
    for hostile in [
        "DROP TABLE t",
        "SELECT 1; DELETE FROM t",
        "SELECT * FROM sqlite_master",
        "SELECT count(*) FROM products",
        "SELECT \"colour\" FROM t",
        "ATTACH 'x.db' AS x",
    ] {
        let (asked, heard) =
            analyst(Helps::Unread, move |_| said(plans(json!([by_sql(hostile, "number")]))));
        // The answer of the rules is kept.
        assert!(matches!(asked.ask(STEEL), Err(AskError::Unknown { .. })), "{hostile}");
        assert_eq!(heard.count(), 2, "{hostile}");
    }
}

#[test]
fn what_is_wrong_with_the_replies_is_noted_if_the_rules_refuse_too() {
    let wrong = plans(json!([by_sql("SELECT sum(weight) FROM t", "number")]));
    for (reply, reason) in [("no JSON".to_owned(), "JSON"), (wrong, "no such column: weight")] {
        let (asked, _) = analyst(Helps::Unread, move |_| said(reply.clone()));
        let mut noted = String::new();
        let error = asked.ask_noting(STEEL, None, |why| noted = why.to_owned()).unwrap_err();
        assert!(matches!(error, AskError::Unknown { .. }), "{error}");
        assert!(noted.contains(reason) && !noted.contains('\n'), "{noted}");
    }
}

#[test]
fn what_the_base_has_not_makes_a_reply_unusable() {
    let edited = |path: &str, value: serde_json::Value| {
        let mut plan = counted(json!([]));
        *plan.pointer_mut(path).unwrap() = value;
        plans(json!([plan]))
    };
    let replies = [
        "no JSON".to_owned(),
        edited("/rows", json!("planet")),
        edited("/columns/0", json!({"field": "weight"})),
        edited("/filters", json!([{"is": [99_999]}])),
        edited("/filters", json!([{"is": ["Nobody"]}])),
        edited("/filters", json!([{"number": {"column": 7, "bound": "above", "number": 1}}])),
        edited("/operation", json!({"number": {"of": ["mean", 9]}})),
    ];
    for reply in replies {
        let told = reply.clone();
        let (asked, _) = analyst(Helps::All, move |_| said(told.clone()));
        let question = "How many products of the brand Northpeak are there?";
        // The rules answer it.
        let answered = asked.ask(question).unwrap();
        assert_eq!(answered.outcome, Outcome::Number { value: 3.0, unit: None }, "{reply}");
        assert_eq!(answered.unassisted, Some(AssistFailure::Unusable), "{reply}");
    }
}

#[test]
fn nodes_are_offered_with_their_ids() {
    let (asked, _) = analyst(Helps::All, |request| {
        let offered = blocks(question(request), "names").remove(0).1;
        let line = offered.lines().find(|line| line.contains("\"Northpeak\" (brand)")).unwrap();
        let id: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        let steps = json!([{"relation": "has_brand", "direction": "in", "type": "product"}]);
        let mut plan = by_sql("SELECT id FROM t ORDER BY id", "names");
        plan["conditions"] = json!([{"name": "Northpeak", "nodes": [id], "steps": steps}]);
        said(plans(json!([plan])))
    });
    let answered = asked.ask("What does northpeak make?").unwrap();
    let Outcome::Names { names, .. } = answered.outcome else { panic!("{:?}", answered.outcome) };
    assert_eq!(names, ["Summit Steel Bottle", "Trail Wool Socks", "Ridge Steel Mug"]);
}

#[test]
fn several_plans_are_several_readings() {
    let of = |function: &str| {
        json!({"kind": "aggregation", "rows": "product", "columns": [{"field": "price"}],
               "operation": {"number": {"of": [function, 0]}}})
    };
    let (asked, _) = analyst(Helps::All, move |_| said(plans(json!([of("mean"), of("median")]))));
    let question = "What do products usually cost?";
    let Err(AskError::Ambiguous(readings)) = asked.ask(question) else { panic!() };
    let second = asked.ask_noting(question, Some(2), |_| ()).unwrap();
    assert_eq!((readings.len(), &readings[1].told), (2, &second.told));
    let error = asked.ask_noting(question, Some(3), |_| ()).unwrap_err();
    assert_eq!(error, AskError::NoReading { reading: 3, known: 2 });
}

#[test]
fn a_model_that_declines_says_why() {
    let declines = json!({"plans": [], "why": "No type has salaries."}).to_string();
    let (asked, heard) = analyst(Helps::Unread, move |_| said(declines.clone()));
    // It may be a question for nodes.
    assert_eq!(asked.ask("a steel bottle").unwrap_err(), AskError::NoTable);
    let error = asked.ask("What is the average salary of products?").unwrap_err().to_string();
    assert!(error.ends_with("no answer in this base: No type has salaries."), "{error}");
    assert_eq!(heard.count(), 2);
}

#[test]
fn an_outage_or_a_ceiling_is_an_error_and_never_a_number() {
    let out = || LlmError::Remote(agent_remote::RemoteError::Setup("none".to_owned()));
    let (asked, _) = analyst(Helps::All, move |_| Err(out()));
    assert!(matches!(asked.ask("How many products are there?"), Err(AskError::Llm(_))));
    let (model, heard) =
        llm_within(|_| said("{}"), Ceilings { usd: None, tokens: Some(10) }, Vec::new());
    let asked = Analyst::new(example_base()).helped(assistant(Arc::clone(&model)), Helps::All);
    let error = asked.ask("How many products are there?").unwrap_err();
    assert!(matches!(error, AskError::Llm(LlmError::Budget { .. })), "{error}");
    assert_eq!(heard.count(), 0);
}

/// Opens a base with twelve products, of three brands in turn; four products were bought once.
pub(crate) fn shop() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let (mut nodes, mut edges) = (String::new(), String::new());
        let mut add = |id: usize, kind: &str, name: &str, details: serde_json::Value| {
            let node = json!({"id": id, "type": kind, "name": name, "details": details});
            writeln!(nodes, "{node}").unwrap();
        };
        for (id, brand) in ["Umbra", "Lark", "Ridge"].into_iter().enumerate() {
            add(id, "brand", brand, json!({}));
        }
        for n in 0..12 {
            let grade = ["A", "B", "C", "C"][n / 3];
            let details = json!({
                "price": format!("${}.00", 10 * (n + 1)),
                "grade": grade,
                "union": if n < 6 { "yes" } else { "no" },
                "release_date": format!("{}-05-17", 2010 + n),
            });
            add(3 + n, "product", &format!("Gadget Zeta{n}"), details);
            writeln!(edges, "{}\thas_brand\t{}", 3 + n, n % 3).unwrap();
        }
        for n in 0..4 {
            add(15 + n, "transaction", &format!("Order {n}"), json!({"amount": 10 + n}));
            writeln!(edges, "{}\tbought\t{}", 15 + n, 3 + 3 * n).unwrap();
        }
        base_of(&nodes, &edges, "product")
    });
    BASE.clone()
}

/// Asks a question that the rules must answer with a number; returns the number.
fn number(question: &str) -> f64 {
    match Analyst::new(shop()).ask(question).unwrap_or_else(|error| panic!("{question}: {error}")) {
        Answered { outcome: Outcome::Number { value, .. }, .. } => value,
        other => panic!("{question}: {}", other.told),
    }
}

/// Asks a question that the rules must refuse; returns the message of the error.
fn refused(question: &str) -> String {
    match Analyst::new(shop()).ask(question) {
        Ok(answered) => panic!("{question}: {}", answered.told),
        Err(error) => error.to_string(),
    }
}

#[test]
fn names_that_are_left_out_together_are_each_left_out() {
    for (question, answer) in [
        ("How many products are there except those by \"Umbra\" and \"Lark\"?", 4.0),
        ("How many products would be left without \"Umbra\", \"Lark\" and \"Ridge\"?", 0.0),
        ("How many products would there be without grade A and grade B?", 6.0),
        ("How many products would there be if only \"Umbra\" and \"Lark\" were left?", 8.0),
        ("How many products would there be without \"Umbra\" products over 50 dollars?", 10.0),
        ("How many products are there except those over 20 dollars and under 50 dollars?", 10.0),
        ("How many products are there except those under 20 dollars or over 50 dollars?", 4.0),
        ("How many products are not by \"Umbra\" and \"Lark\"?", 4.0),
        ("How many products are not by \"Umbra\" or \"Lark\"?", 4.0),
        ("How many products are not by \"Umbra\" and have grade \"A\"?", 2.0),
    ] {
        assert_eq!(number(question), answer, "{question}");
    }
    for (question, told) in [
        (
            "How many products are there except those under 20 dollars and over 50 dollars?",
            "two assumptions",
        ),
        (
            "How many products are there except those by \"Umbra\" and of grade \"B\"?",
            "two assumptions",
        ),
        ("How many products are not by \"Umbra\" and by \"Lark\"?", "is negated too"),
        ("How many products were lost?", "\"lost\""),
    ] {
        let error = refused(question);
        assert!(error.contains(told), "{question}: {error}");
    }
}

#[test]
fn a_relation_that_is_said_of_rows_tells_them_apart() {
    for (question, answer) in [
        ("How many products were bought?", 4.0),
        ("How many products were never bought?", 8.0),
        ("What is the mean price of products that were bought?", 55.0),
        ("How many bought products have grade \"A\"?", 1.0),
        ("How many products were bought and cost over 50 dollars?", 2.0),
        ("What share of products were bought?", 100.0 / 3.0),
        ("What would the mean price of products that were bought be if prices rose by 10 %?", 60.5),
    ] {
        let found = number(question);
        assert!((found - answer).abs() < 1e-9, "{question}: {found}");
    }
    // No brand has the transactions, so the question does not ask for its products.
    let error = refused("How many products were bought by \"Umbra\"?");
    assert!(error.contains("\"bought\""), "{error}");
    let error = Analyst::new(example_base()).ask("How many products are bought?").unwrap_err();
    assert!(error.to_string().contains("not understood: bought"), "{error}");
}

#[test]
fn a_letter_that_nothing_explains_is_not_understood() {
    for (question, letter) in [
        ("How many products have grade F?", "F"),
        ("How many products are of size x?", "x"),
        ("How many products have a price above 500 g?", "g"),
    ] {
        let error = refused(question);
        let told = error.contains("not understood: ") && error.contains(&format!(" {letter};"));
        assert!(told, "{question}: {error}");
    }
    assert_eq!(number("How many products have a price above 50 dollars?"), 7.0);
}

#[test]
fn an_adjective_of_a_field_does_not_mean_that_it_has_a_value() {
    for (question, word) in [
        ("What fraction of products is pricey?", "pricey"),
        ("What fraction of stuff is pricey?", "pricey"),
        ("How many products are pricey?", "pricey"),
        ("How many products are not pricey?", "pricey"),
        ("How many products are expensive?", "expensive"),
        ("What is the mean price of pricey products?", "pricey"),
        ("How many products are priceless?", "priceless"),
    ] {
        let error = refused(question);
        assert!(error.contains(&format!("not understood: {word};")), "{question}: {error}");
    }
    for (question, answer) in [
        ("How many products have a price?", 12.0),
        ("How many products are priced?", 12.0),
        ("How expensive is the average product?", 65.0),
    ] {
        assert_eq!(number(question), answer, "{question}");
    }
}

#[test]
fn numbers_side_by_side_are_none() {
    for question in [
        "How many products cost more than two hundred dollars?",
        "How many products cost more than twenty five dollars?",
        "How many products have a price above 1 000?",
        "How many products cost 20 - 50 dollars?",
    ] {
        let error = refused(question);
        assert!(error.contains("adjacent numbers"), "{question}: {error}");
    }
    for question in [
        "How many products cost 20 to 50 dollars?",
        "How many products cost 20-50 dollars?",
        "How many products cost between 20 and 50 dollars?",
    ] {
        assert_eq!(number(question), 4.0, "{question}");
    }
    assert!(refused("How many products cost between 20 and 50 euros?").contains("USD"));
}

#[test]
fn an_amount_is_a_field_where_there_is_one() {
    assert_eq!(number("What is the total amount of transactions?"), 46.0);
}

#[test]
fn columns_may_be_called_as_keywords() {
    assert_eq!(number("How many products have union \"yes\"?"), 6.0);
    let answered =
        Analyst::new(shop()).ask("How many products are there per transaction?").unwrap();
    assert_eq!(answered.result.rows.len(), 4);
}

#[test]
fn dates_are_bounded_and_ordered() {
    for (question, answer) in [
        ("How many products are more recent than 2015?", 6.0),
        ("How many products were released in May 2012?", 1.0),
        ("How many products have a release date after 17 May 2019?", 2.0),
        ("How many products have a release date after 2019-05-16?", 3.0),
        ("How many products have a release date between May 2012 and June 2014?", 3.0),
        ("How many products have a release date until Q2 2012?", 3.0),
        ("How many products are newer than April 2015?", 7.0),
    ] {
        assert_eq!(number(question), answer, "{question}");
    }
    let (n, rows) = first(shop(), "Which product is the newest?");
    assert_eq!((n, rows[0][2].clone()), (1, SqlValue::Text("2021-05-17".to_owned())));
    for question in [
        "Which is newer, \"Gadget Zeta1\" or \"Gadget Zeta2\"?",
        "How many products are newer than 15?",
    ] {
        refused(question);
    }
}

/// Asks a question that the rules must answer with names; returns the number of names and the rows
/// of the result.
fn first(base: Arc<IndexedBase>, question: &str) -> (usize, Vec<Vec<SqlValue>>) {
    match Analyst::new(base).ask(question).unwrap_or_else(|error| panic!("{question}: {error}")) {
        Answered { outcome: Outcome::Names { names, .. }, result, .. } => {
            (names.len(), result.rows)
        }
        other => panic!("{question}: {}", other.told),
    }
}

#[test]
fn first_ones_are_as_many_as_are_asked_for_and_all_that_tie() {
    let (n, rows) = first(shop(), "Which two products are the cheapest?");
    assert_eq!((n, rows[0][0].clone()), (2, SqlValue::Text("3".to_owned())));
    assert_eq!(
        first(shop(), "Which two brands have the most products with a price above 50?").0,
        3
    );
    assert_eq!(first(shop(), "What are the top 2 brands by mean price?").0, 2);
    for n in ["99999999999999999999", "0"] {
        let question = format!("What are the top {n} products by price?");
        assert!(refused(&question).contains("is not between 1 and"), "{question}");
    }
    let (n, rows) = first(many(), "Which paper has the highest rating?");
    assert_eq!((n, rows.len()), (MANY, MANY + 50));
    let (n, _) = first(many(), "What are the top 60 papers by rating?");
    assert_eq!(n, MANY);
}

/// Number of papers with the same name and the best rating; all others have a lower rating.
const MANY: usize = 150;

/// Opens a base with papers on one topic, [`MANY`] of which have the best rating.
fn many() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let mut nodes = json!({"id": 0, "type": "topic", "name": "Physics"}).to_string() + "\n";
        let mut edges = String::new();
        for id in 1..=2 * MANY {
            let (name, rating) = if id <= MANY { ("Water Flow", 5) } else { ("Heat", id % 4) };
            let details = json!({"rating": rating});
            let node = json!({"id": id, "type": "paper", "name": name, "details": details});
            writeln!(nodes, "{node}").unwrap();
            writeln!(edges, "{id}\thas_topic\t0").unwrap();
        }
        base_of(&nodes, &edges, "paper")
    });
    BASE.clone()
}

#[test]
fn all_nodes_of_a_name_count() {
    let asked = Analyst::new(many());
    let answered = asked.ask("How many papers have the name \"Water Flow\"?").unwrap();
    assert_eq!(answered.outcome, Outcome::Number { value: MANY as f64, unit: None });
    let error = asked.ask("What share of papers with a rating over 9 have the topic \"Physics\"?");
    assert_eq!(error.unwrap_err().to_string(), "there is no paper that satisfies the conditions");
}
