//! Tests of plans as JSON documents: plans of answers that run again, edited plans, and hostile
//! plans.

use serde_json::{Value, json};

use crate::{Analyst, AskError, answer::Outcome, tests::shop};

#[test]
fn the_plan_of_an_answer_gives_that_answer() {
    let analyst = Analyst::new(shop());
    for question in [
        "How many products are there?",
        "How many products by \"Umbra\" cost more than 20 dollars?",
        "How many products are not by \"Umbra\" or \"Lark\"?",
        "How many products have a release date between May 2012 and June 2014?",
        "What is the mean price per brand?",
        "How many products were released per year?",
        "Which two products are the cheapest?",
        "Which products by \"Lark\" cost over 50 dollars?",
        "Is there any product that costs over 1000 dollars?",
        "What is the price of products by \"Lark\"?",
        "Which product is the newest?",
        "Does \"Umbra\" have a higher mean price than \"Lark\"?",
        "What share of products were bought?",
        "Are the prices of products normally distributed?",
        "Do the prices vary more in \"Umbra\" than in \"Lark\"?",
        "How is the brand of products related to their price?",
        "What would the mean price be without \"Umbra\"?",
        "What would the mean price be if prices rose by 10 %?",
    ] {
        let first = analyst.ask(question).unwrap_or_else(|error| panic!("{question}: {error}"));
        let again = analyst.run_plan(&first.plan).unwrap();
        assert_eq!((&first.told, &first.sql), (&again.told, &again.sql), "{question}");
        assert_eq!((&first.outcome, &first.path), (&again.outcome, &again.path), "{question}");
        assert_eq!(first.plan, again.plan, "{question}");
    }
}

fn by_brand() -> Value {
    json!({
        "kind": "aggregation",
        "rows": "product",
        "conditions": [{
            "name": "Lark",
            "nodes": ["Lark"],
            "steps": [{"relation": "has_brand", "direction": "in", "type": "product"}],
        }],
        "columns": [{"field": "price"}, {"field": "release_date"}],
        "operation": {"number": {"of": ["max", 0]}},
    })
}

#[test]
fn a_written_plan_names_nodes() {
    let answered = Analyst::new(shop()).run_plan(&by_brand()).unwrap();
    assert_eq!(answered.outcome, Outcome::Number { value: 110.0, unit: Some("USD".to_owned()) });
}

#[test]
fn wrong_plans_are_refused_with_what_is_wrong() {
    let edited = |edit: fn(&mut Value)| {
        let mut plan = by_brand();
        edit(&mut plan);
        plan
    };
    for (plan, told) in [
        (json!("rows"), "invalid type"),
        (edited(|plan| plan["rows"] = json!("planet")), "no type"),
        (edited(|plan| plan["rows"] = json!(1)), "must be a name"),
        (edited(|plan| plan["rows"] = json!("brand")), "no brand has a field"),
        (edited(|plan| plan["columns"][0] = json!({"field": "colour"})), "no field"),
        (edited(|plan| plan["columns"][0] = json!({"names": []})), "needs steps"),
        (edited(|plan| plan["columns"] = json!(vec![json!({"field": "price"}); 17])), "17 columns"),
        (edited(|plan| plan["conditions"][0]["nodes"] = json!(["Nobody"])), "no node called"),
        (edited(|plan| plan["conditions"][0]["nodes"] = json!([99_999])), "no node 99999"),
        (edited(|plan| plan["conditions"][0]["nodes"] = json!([])), "1 to"),
        (edited(|plan| plan["conditions"][0]["steps"][0]["direction"] = json!("out")), "no edge"),
        (edited(|plan| plan["operation"] = json!({"number": {"of": ["max", 7]}})), "no column 7"),
        (edited(|plan| plan["operation"] = json!({"number": {"of": ["max", 1]}})), "no numbers"),
        (edited(|plan| plan["operation"] = json!({"drop": "t"})), "unknown variant"),
        (
            edited(|plan| {
                plan["operation"] = json!({"first": {"column": 0, "high": true, "top": 1_000_000}});
            }),
            "is not between 1",
        ),
        (
            edited(|plan| {
                plan["filters"] = json!([{"date": {"column": 1, "bound": "above", "date": "x'"}}]);
            }),
            "holds no dates",
        ),
        (
            edited(|plan| {
                let mut test = json!({"filled": {"column": 0}});
                for _ in 0..40 {
                    test = json!({ "not": test });
                }
                plan["filters"] = json!([test]);
            }),
            "depth of tests",
        ),
        (
            edited(|plan| {
                plan["filters"] = json!(vec![json!({"filled": {"column": 0}}); 1_000]);
            }),
            "1000 tests",
        ),
        (edited(|plan| plan["operation"] = json!({"share": []})), "a share needs a test"),
        (
            edited(|plan| {
                plan["operation"] = json!({"compare": {"subjects": [], "measure": "rows", "high": true, "yes_no": true}});
            }),
            "two or more subjects",
        ),
        (edited(|plan| plan["answer"] = json!(42)), "unknown field"),
        (edited(|plan| plan["rows"] = json!("x".repeat(100_000))), "the base has no type \"xx"),
        (edited(|plan| plan[&"x".repeat(100_000)] = json!(1)), "unknown field `xx"),
        (
            edited(|plan| {
                let test = json!({"column": 0, "bound": "between", "number": 1});
                plan["filters"] = json!([{ "number": test }]);
            }),
            "needs an upper limit \"to\"",
        ),
        (
            edited(|plan| {
                let test = json!({"column": 1, "bound": "between", "date": "2020"});
                plan["filters"] = json!([{ "date": test }]);
            }),
            "a test for each end",
        ),
        (edited(|plan| plan["supposed"] = json!({"leave_out": []})), "at least one test"),
        (
            edited(|plan| {
                let scale = json!({"column": 0, "times": 1e308, "plus": 0});
                plan["supposed"] = json!({ "scale": scale });
            }),
            "is out of range",
        ),
        (
            edited(|plan| {
                let statement = "SELECT price * 1e308 FROM t";
                plan["operation"] = json!({"sql": {"statement": statement, "answer": "number"}});
            }),
            "is out of range",
        ),
    ] {
        match Analyst::new(shop()).run_plan(&plan) {
            Err(AskError::Plan(error)) => {
                assert!(error.contains(told) && error.len() < 600, "{told}: {error}");
            }
            other => panic!("{plan}: {:?}", other.map(|one| one.told)),
        }
    }
}

#[test]
fn values_are_those_of_the_base_however_they_are_spelled() {
    let graded = |key: &str| {
        let mut plan = by_brand();
        plan["columns"][1] = json!({"field": "grade"});
        plan["filters"] = json!([{"value": {"column": 1, "key": key}}]);
        plan["operation"] = json!({"number": "rows"});
        Analyst::new(shop()).run_plan(&plan)
    };
    let number = |value: f64| Outcome::Number { value, unit: None };
    assert_eq!(graded(" C. ").unwrap().outcome, number(2.0));
    let AskError::Plan(error) = graded("'; DROP TABLE t; --").unwrap_err() else { panic!() };
    assert!(error.starts_with("no product has the grade"), "{error}");
}

#[test]
fn a_plan_may_have_a_statement_that_only_reads() {
    let analyst = Analyst::new(shop());
    let by_sql = |statement: &str, answer: &str| {
        let mut plan = by_brand();
        let steps = json!([{"relation": "has_brand", "direction": "out", "type": "brand"}]);
        plan["columns"][1] = json!({ "names": steps });
        plan["operation"] = json!({"sql": {"statement": statement, "answer": answer}});
        plan
    };
    for (statement, answer, told) in [
        ("SELECT count(*) FROM t WHERE price > (SELECT avg(price) FROM t)", "number", "2"),
        (
            "SELECT t.id, price FROM t ORDER BY price DESC LIMIT 2",
            "names",
            "Gadget Zeta10 110, Gadget Zeta7 80",
        ),
        ("SELECT value, count(*) FROM t_brand GROUP BY value", "names", "Lark: 4"),
        ("SELECT max(price) > 100 FROM t", "yes_no", "yes"),
        ("SELECT price FROM t", "table", "4 rows"),
    ] {
        let plan = by_sql(statement, answer);
        let answered = analyst.run_plan(&plan).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answered.told, told);
        assert_eq!(analyst.run_plan(&answered.plan).unwrap().told, told);
    }
    let many = "t_brand a, t_brand b, t_brand c, t_brand d, t_brand e, t_brand f, t_brand g, \
                 t_brand h, t_brand i, t_brand j, t_brand k, t_brand l, t_brand m, t_brand n";
    for (statement, told) in [
        ("DELETE FROM t", "SELECT"),
        ("SELECT name FROM t", "the tables are t(id, price, brand), t_brand(id, key, value)"),
        ("SELECT price FROM t WHERE price > 1000", "no row"),
        (&format!("SELECT count(*) FROM {many}"), "stopped after 2000 ms"),
    ] {
        let error = analyst.run_plan(&by_sql(statement, "number")).unwrap_err().to_string();
        assert!(error.to_lowercase().contains(&told.to_lowercase()), "{told}: {error}");
    }
    let mut filtered = by_sql("SELECT count(*) FROM t", "number");
    filtered["filters"] = json!([{"filled": {"column": 0}}]);
    let error = analyst.run_plan(&filtered).unwrap_err().to_string();
    assert!(error.contains("must not be combined with filters"), "{error}");
}

#[test]
fn fields_and_numbers_of_linked_nodes_are_columns() {
    // Books of three authors, one of them by two; an author has a country and a year.
    let nodes = r#"{"id": 0, "type": "author", "name": "Ann", "details": {"country": "Chile", "born": 1950}}
{"id": 1, "type": "author", "name": "Bo", "details": {"country": "Norway", "born": 1960}}
{"id": 2, "type": "author", "name": "Cy", "details": {"country": "Norway"}}
{"id": 3, "type": "book", "name": "One", "details": {"pages": 100}}
{"id": 4, "type": "book", "name": "Two", "details": {"pages": 200}}
{"id": 5, "type": "book", "name": "Three", "details": {"pages": 300}}
{"id": 6, "type": "book", "name": "Four", "details": {"pages": 400}}
"#;
    let edges = "3\tby\t0\n4\tby\t1\n5\tby\t2\n6\tby\t0\n6\tby\t1\n";
    let analyst = Analyst::new(agent_testing::base_of(nodes, edges, "book"));
    let steps = json!([{"relation": "by", "direction": "out", "type": "author"}]);
    let plan = |field: &str, filters: Value, operation: Value| {
        let of_author = json!({"field_of": {"steps": steps, "field": field}});
        let columns = json!([of_author, {"field": "pages"}]);
        json!({"kind": "aggregation", "rows": "book", "columns": columns, "filters": filters, "operation": operation})
    };
    let answered = |plan: Value| analyst.run_plan(&plan).map_err(|error| error.to_string());

    let norwegian = json!([{"value": {"column": 0, "key": "norway"}}]);
    let listed = answered(plan("country", norwegian, json!("list"))).unwrap();
    assert!(listed.told.starts_with("Four, Three, Two"), "{}", listed.told);
    assert_eq!(analyst.run_plan(&listed.plan).unwrap().told, listed.told);
    let groups = json!({"groups": {"group": 0, "part": null, "measure": {"of": ["mean", 1]}, "first": null}});
    let grouped = answered(plan("country", json!([]), groups)).unwrap();
    assert_eq!(grouped.result.rows.len(), 2, "{}", grouped.told);

    // A year is a number and a part of a date; two authors have no single year.
    let before = json!([{"date": {"column": 0, "bound": "below", "date": "1955"}}]);
    let error = answered(plan("born", before.clone(), json!({"number": "rows"}))).unwrap_err();
    assert!(error.contains("born of book -by-> author has several values per row"), "{error}");
    let mut single = plan("born", before, json!("list"));
    single["conditions"] = json!([{"name": "rest", "nodes": ["One", "Two", "Three"], "steps": []}]);
    assert!(answered(single).unwrap().told.starts_with("One"));

    // Books of an author that another author wrote too.
    let back = json!([{"relation": "by", "direction": "in", "type": "book"}]);
    let among = |name: &str| json!([{"name": name, "nodes": [name], "steps": back}]);
    let counted = |among: Value| {
        let columns = json!([{"count_among": {"steps": back, "among": among}}]);
        let first = json!({"first": {"column": 0, "high": true, "top": 1}});
        answered(
            json!({"kind": "superlative", "rows": "author", "columns": columns, "operation": first}),
        )
    };
    let most = counted(among("Ann")).unwrap();
    assert!(most.told.starts_with("Ann: 2"), "{}", most.told);
    assert!(most.path.iter().any(|line| line.ends_with("those of \"Ann\"")), "{:?}", most.path);
    assert_eq!(
        counted(json!([])).unwrap_err(),
        "the plan cannot be run: \"count_among\" must contain at least one condition"
    );
    let astray = json!([{"name": "Ann", "nodes": ["Ann"], "steps": []}]);
    assert!(counted(astray).unwrap_err().contains("do not end at a book"));
    for (field, told) in [("pages", "no author has a field"), ("shoes", "no field")] {
        let error = answered(plan(field, json!([]), json!("list"))).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
}
