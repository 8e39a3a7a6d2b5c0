//! Tests of ambiguous questions, names in upper or lower case, links within a type, and groups.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use serde_json::json;

use crate::{
    Analyst, AskError, AskReading,
    answer::{Answered, Outcome},
};
use agent_index::IndexedBase;
use agent_testing::base_of;

/// Opens a base with tickets, which people of two departments open and handle and which are about
/// languages and places, and with packages that depend on other packages.
fn desk() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let mut add = |kind: &str, name: &str, details: serde_json::Value| {
            let id = nodes.len();
            let node = json!({"id": id, "type": kind, "name": name, "details": details});
            nodes.push(node.to_string());
            id
        };
        let sales = add("department", "Sales", json!({"city": "Oslo"}));
        let legal = add("department", "Legal", json!({"city": "Rome"}));
        let people: Vec<usize> = ["Ada Lind", "Bo Quist", "Cy Rahn", "Di Sand"]
            .into_iter()
            .map(|name| add("employee", name, json!({"hours": 30})))
            .collect();
        let languages: Vec<usize> =
            ["C", "C++", "C#"].into_iter().map(|name| add("language", name, json!({}))).collect();
        add("language", "Go", json!({}));
        let mercury = add("planet", "mercury", json!({}));
        let metal = add("metal", "Mercury", json!({}));
        let packages: Vec<usize> = ["lodestar", "quill", "tern"]
            .into_iter()
            .map(|name| add("package", name, json!({"hours": 5})))
            .collect();
        let mut link = |from: usize, relation: &str, to: usize| {
            edges.push(format!("{from}\t{relation}\t{to}"));
        };
        for (at, person) in people.iter().enumerate() {
            link(*person, "works_in", if at < 2 { sales } else { legal });
            if at > 0 {
                link(*person, "has_manager", people[0]);
            }
        }
        link(packages[1], "depends_on", packages[0]);
        link(packages[2], "depends_on", packages[0]);
        for n in 0..12 {
            let details = json!({
                "priority": if n % 2 == 0 { "high" } else { "low" },
                "opened": format!("2025-{:02}-11", 1 + n / 2),
                "ended": format!("2025-{:02}-25", 1 + n / 2),
            });
            let ticket = add("ticket", &format!("Broken seam {n}"), details);
            let mut link = |relation: &str, to: usize| {
                edges.push(format!("{ticket}\t{relation}\t{to}"));
            };
            link("opened_by", people[n % 4]);
            link("handled_by", people[n % 3]);
            link("about", languages[n % 3]);
            if n < 5 {
                link("about", mercury);
                link("mentions", metal);
            }
        }
        base_of(&(nodes.join("\n") + "\n"), &(edges.join("\n") + "\n"), "ticket")
    });
    BASE.clone()
}

fn ask(question: &str) -> Result<Answered, AskError> {
    Analyst::new(desk()).ask(question)
}

/// Asks a question that must have one reading and a number as answer; returns the number.
fn number(question: &str) -> f64 {
    match ask(question).unwrap_or_else(|error| panic!("{question}: {error}")).outcome {
        Outcome::Number { value, .. } => value,
        other => panic!("{question}: {other:?}"),
    }
}

/// Asks a question that must be ambiguous; returns its readings.
fn readings(question: &str) -> Vec<AskReading> {
    match ask(question) {
        Err(AskError::Ambiguous(readings)) => readings,
        other => panic!("{question}: {:?}", other.map(|one| one.told)),
    }
}

#[test]
fn of_two_relations_that_lead_there_neither_is_taken_in_silence() {
    let question = "How many tickets are from the department Sales?";
    let found = readings(question);
    let told: Vec<&str> = found.iter().map(|one| one.told.as_str()).collect();
    assert_eq!(told, ["8 (ticket rows)", "6 (ticket rows)"]);
    assert!(found[0].path[0].contains("handled_by"), "{found:?}");
    assert!(found[1].path[0].contains("opened_by"), "{found:?}");
    let analyst = Analyst::new(desk());
    for (reading, answer) in [(1, 8.0), (2, 6.0)] {
        let answered = analyst.ask_noting(question, Some(reading), |_| ()).unwrap();
        assert_eq!(answered.outcome, Outcome::Number { value: answer, unit: None });
    }
    // Tables are alike only with the same rows.
    assert_eq!(readings("How many tickets are there per department?").len(), 2);
    let known = AskError::NoReading { reading: 3, known: 2 };
    assert_eq!(analyst.ask_noting(question, Some(3), |_| ()).unwrap_err(), known);
    // A word of the relation, or a synonym, selects the link of the name beside it.
    assert_eq!(number("How many tickets were opened by Ada Lind and handled by Bo Quist?"), 1.0);
    assert_eq!(number("How many tickets did Ada Lind handle?"), 4.0);
    assert_eq!(number("How many tickets were opened by people in Sales?"), 6.0);
    assert_eq!(number("How many tickets are handled by people in Sales?"), 8.0);
}

#[test]
fn readings_with_one_answer_are_answered() {
    let answered =
        ask("How many tickets are from Di Sand or from Cy Rahn or Bo Quist or Ada Lind?");
    let answered = answered.unwrap();
    assert_eq!(answered.outcome, Outcome::Number { value: 12.0, unit: None });
    assert!(answered.assumed.iter().any(|told| told.contains("readings")), "{answered:?}");
}

#[test]
fn a_field_of_two_types_is_asked_back() {
    let found = readings("What is the average of hours?");
    let told: Vec<&str> = found.iter().map(|one| one.path[0].as_str()).collect();
    assert_eq!(told, ["every employee", "every package"]);
    assert_eq!(number("What is the average of hours of packages?"), 5.0);
}

#[test]
fn names_are_spelled_in_any_letters_and_signs_count() {
    assert_eq!(number("how many tickets are about c++"), 4.0);
    assert_eq!(number("How many tickets are about C#?"), 4.0);
    assert_eq!(number("How many tickets about C are there?"), 4.0);
    assert_eq!(number("how many tickets did bo quist open"), 3.0);
    // Upper or lower case does not select one of two nodes with the same name.
    for name in ["mercury", "Mercury"] {
        assert_eq!(number(&format!("How many tickets are about {name}?")), 5.0, "{name}");
        let both = format!("How many tickets are there on {name}?");
        assert_eq!(number(&both), 5.0, "{name}");
    }
}

#[test]
fn a_value_beside_its_field_is_a_value() {
    assert_eq!(number("How many high priority tickets are there?"), 6.0);
    assert_eq!(number("What share of tickets has low priority?"), 50.0);
}

#[test]
fn links_within_a_type_are_followed_and_no_name_counts_itself() {
    assert_eq!(number("How many employees have no manager?"), 1.0);
    let found = readings("How many packages depend on lodestar?");
    assert_eq!(found[0].told, "2 (package rows)");
    let found = readings("How many employees report to Ada Lind?");
    assert_eq!(found[0].told, "3 (employee rows)");
    assert_eq!(number("How many employees are called Ada Lind?"), 1.0);
}

#[test]
fn both_is_not_either_and_two_types_are_two_questions() {
    assert_eq!(number("How many tickets are about C or C#?"), 8.0);
    assert_eq!(number("How many tickets are about both C and C#?"), 0.0);
    let error = ask("How many tickets and packages are there?").unwrap_err().to_string();
    assert!(error.contains("at once"), "{error}");
}

#[test]
fn numbers_per_group_are_groups() {
    for question in [
        "What is the number of tickets per priority?",
        "Number of tickets by priority",
        "tickets per priority",
    ] {
        let answered = ask(question).unwrap_or_else(|error| panic!("{question}: {error}"));
        assert_eq!(
            (answered.outcome, answered.result.rows.len()),
            (Outcome::Table, 2),
            "{question}"
        );
    }
    let answered = ask("How many tickets were opened per month?").unwrap();
    assert_eq!(answered.result.rows.len(), 6);
    assert_eq!(number("How many tickets were opened in Q1 2025?"), 6.0);
    assert_eq!(number("How many tickets ended after March 2025?"), 6.0);
    let answered = ask("What is the most common language?").unwrap();
    assert_eq!(answered.told, "C, C#, C++: 4 (number of ticket rows)");
}

#[test]
fn a_number_of_another_question_is_no_answer() {
    refused(desk(), "What share of all hours of employees is in Sales?", "shares of a total");
    refused(desk(), "What are the worst hours of employees?", "has no rating");
    refused(desk(), "What is the difference in total hours of Sales and Legal?", "how much more A");
    // Tickets are opened and ended; the latter is not their age.
    assert!(ask("Which is the oldest ticket?").unwrap().told.contains("opened"));
    for question in [
        "most common language",
        "the most common languages of all tickets",
        "Which language is most common among tickets?",
    ] {
        let told = ask(question).unwrap_or_else(|error| panic!("{question}: {error}")).told;
        assert!(told.starts_with("C, C") && told.contains(": 4 ("), "{question}: {told}");
    }
}

#[test]
fn a_difference_of_two_is_a_number() {
    let question = "How many more tickets were handled by Sales than by Legal?";
    assert_eq!(number(question), 4.0);
    assert_eq!(number("How many fewer tickets were handled by Sales than by Legal?"), -4.0);
    assert_eq!(number("How many more tickets does C have than C++?"), 0.0);
    refused(desk(), "How many more tickets does C have?", "two or more subjects");
}

#[test]
fn a_field_of_yes_and_no_is_a_condition() {
    let shop = |name: &str, flag: &str| {
        let open = i32::from(flag == "Y");
        let details = json!({"has_cafe": flag, "open": open, "rent": 5 * open, "discount": 0});
        json!({"type": "shop", "name": name, "details": details})
    };
    let shops = [shop("North", "Y"), shop("South", "N"), shop("East", "Y")];
    let with_id = |(id, mut shop): (usize, serde_json::Value)| {
        shop["id"] = json!(id);
        shop.to_string()
    };
    let lines: Vec<String> = shops.into_iter().enumerate().map(with_id).collect();
    let base = base_of(&(lines.join("\n") + "\n"), "", "shop");
    let told = |question: &str| Analyst::new(base.clone()).ask(question).unwrap().told;
    assert!(told("Which shops have a café?").starts_with("East, North (2"));
    assert!(told("How many shops have no café?").starts_with("1 "));
    assert!(told("What share of shops has a café?").starts_with("66.6667 %"));
    assert!(told("Number of shops by café").starts_with("2 groups"));
    assert!(told("How many shops are open?").starts_with("2 "));
    assert!(told("How many shops have open 0?").starts_with("1 "));
    assert!(told("Count the shops that have a café but no rent").starts_with("0 "));
    assert!(told("Which shops are not open?").starts_with("South (1"));
    assert!(told("What is the share of open shops?").starts_with("66.6667 %"));
    assert!(told("How many shops have no rent?").starts_with("1 "));
    assert!(told("What share of shops has a discount?").starts_with("0 %"));
    assert!(told("Is South open?").starts_with("no"));
    assert!(told("Is East open?").starts_with("yes"));
}

/// A wholesaler: orders with lines, a date of shipping, and a country that is also the suppliers'.
fn wholesaler() -> Arc<IndexedBase> {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    let mut add = |kind: &str, name: &str, details: serde_json::Value| {
        let id = nodes.len();
        let node = json!({"id": id, "type": kind, "name": name, "details": details});
        nodes.push(node.to_string());
        id
    };
    let makers = [("Nord", "Norway"), ("West", "Spain")];
    let makers = makers.map(|(name, country)| {
        add("supplier", name, json!({"country": country, "active_since": 1990 + country.len()}))
    });
    let clerks = ["Ada Lind", "Bo Quist"].map(|name| add("employee", name, json!({})));
    edges.push(format!("{}\treports_to\t{}", clerks[1], clerks[0]));
    let countries = ["Norway", "Spain", "Chile"].map(|name| add("ship_country", name, json!({})));
    let goods: Vec<usize> = (0..4)
        .map(|n| {
            let stock = json!({"unit_price": 10 + n, "units_in_stock": 7 * (n / 2)});
            let product = add("product", &format!("Tin {n}"), stock);
            edges.push(format!("{product}\thas_supplier\t{}", makers[n % 2]));
            product
        })
        .collect();
    for n in 0..6 {
        let shipped = if n < 4 { "2025-03-01" } else { "" };
        let order = add("order", &format!("{n}"), json!({"shipped_date": shipped}));
        edges.push(format!("{order}\thas_employee\t{}", clerks[n % 2]));
        edges.push(format!("{order}\thas_ship_country\t{}", countries[n % 3]));
        let details = json!({"quantity": n + 1, "discount": if n < 2 { 0.25 } else { 0.0 }});
        let line = add("order_detail", &format!("order_detail-{n}"), details);
        edges.push(format!("{line}\thas_order\t{order}"));
        edges.push(format!("{line}\thas_product\t{}", goods[n % 4]));
        edges.push(format!("{order}\torder_details\t{}", goods[n % 4]));
    }
    base_of(&(nodes.join("\n") + "\n"), &(edges.join("\n") + "\n"), "order")
}

/// Checks that the answer to a question begins with `answer`; if that is empty, that the question
/// is refused.
fn begins(base: &Arc<IndexedBase>, question: &str, answer: &str) {
    match Analyst::new(base.clone()).ask(question) {
        Ok(answered) => assert!(
            !answer.is_empty() && answered.told.starts_with(answer),
            "{question}: {}",
            answered.told
        ),
        Err(error) => assert!(answer.is_empty(), "{question}: {error}"),
    }
}

#[test]
fn questions_about_a_business_are_read_as_it_speaks() {
    let base = wholesaler();
    for (question, answer) in [
        ("How many orders are not shipped?", "2 "),
        ("Which products are out of stock?", "Tin 0, Tin 1 (2"),
        ("How many products are in stock?", "2 "),
        ("What are the top 2 most expensive products?", "Tin 3 13, Tin 2 12"),
        ("What are the cheapest 2 products?", "Tin 0 10, Tin 1 11"),
        ("How many orders did Ada Lind handle?", "3 "),
        ("Which employees report to Ada Lind?", "Bo Quist (1"),
        ("Who does Bo Quist report to?", "Ada Lind (1"),
        ("How many order lines have a discount of more than 10 %?", "2 "),
        ("How many order lines have a discount?", "2 "),
        ("How many order lines have a higher quantity than 2?", "4 "),
        ("How many order lines would be left without those with a discount over 10 %?", "4 "),
        ("What is the total quantity of Tin 1 sold?", "8 "),
        // Suppliers have a country, and no supplier is in Chile, where an order went.
        ("How many suppliers are in Chile?", "0 "),
        ("How many products are from Spain?", "2 "),
        ("How many products are supplied by suppliers in Norway?", "2 "),
        ("Is Ada Lind in Norway?", ""),
    ] {
        begins(&base, question, answer);
    }
    refused(base.clone(), "Which supplier has been active the longest?", "earliest or latest");
    refused(base.clone(), "How many order lines have a better quantity than 2?", "has no rating");
    refused(base, "What is the mean quantity with and without discount?", "two groups");
}

#[test]
fn values_of_named_rows_are_stated() {
    let base = wholesaler();
    for (question, answer) in [
        ("What is the unit price of Tin 2?", "12 (unit price of Tin 2)"),
        ("how much does tin 3 cost", "13 (unit price of Tin 3)"),
        ("country Nord", "Norway (country of Nord)"),
        ("where is Nord", "Norway (country of Nord)"),
        // The discount is a field of what joins the order and the product.
        ("What discount did order 1 have for Tin 1?", "0.25 (discount of order_detail-1)"),
        ("Who is Bo Quist's boss?", "Ada Lind ("),
        ("supplier of Tin 1", "West ("),
        ("when was order 2 shipped", "2025-03-01 (shipped date of 2)"),
        ("price of Tin 2", "12 (unit price of Tin 2)"),
        ("which of our suppliers are in Spain", "West (1 supplier row)"),
        // No year of a product is known, the first of several is not stated, and a date is no year.
        ("When was Tin 1 sold?", ""),
        ("first unit price of Tin 2", ""),
        ("What is the weight of Tin 1?", ""),
    ] {
        begins(&base, question, answer);
    }
    // Of several rows, each has its value.
    let answered = Analyst::new(base).ask("unit price of products by West").unwrap();
    assert_eq!((answered.outcome, answered.result.rows.len()), (Outcome::Table, 2));
}

#[test]
fn a_heading_asks_for_a_list() {
    for (question, answer) in [
        ("tickets about C", "Broken seam 0, Broken seam 3, Broken seam 6, Broken seam 9 (4"),
        ("Which tickets about C have low priority?", "Broken seam 3, Broken seam 9 (2"),
        ("tickets per language, 2025 or later", "3 groups: number of ticket rows by language"),
        ("languages with 4 tickets or more", "C, C#, C++ (3"),
        ("number of tickets handled, by city", "2 groups: number of ticket rows by city"),
    ] {
        let told = ask(question).unwrap_or_else(|error| panic!("{question}: {error}")).told;
        assert!(told.starts_with(answer), "{question}: {told}");
    }
}

#[test]
fn a_value_of_a_linked_node_is_a_condition() {
    assert_eq!(number("How many employees are in Oslo?"), 2.0);
    assert_eq!(number("How many employees are in Oslo or Rome?"), 4.0);
    assert_eq!(number("How many employees are not in Rome?"), 2.0);
    // Tickets are opened and handled by employees; both lead to a city.
    assert_eq!(readings("How many tickets are from Oslo?").len(), 2);
}

#[test]
fn questions_are_read_as_people_begin_them() {
    assert_eq!(number("Could you please tell me how many tickets are about C or Go?"), 4.0);
    assert_eq!(number("whats the number of tickets about C?"), 4.0);
    assert_eq!(number("what % of tickets have high priority?"), 50.0);
    let expected: BTreeSet<String> = ["C", "C#", "C++"].map(str::to_owned).into();
    for question in
        ["Which language is linked to the most tickets?", "languages with over 3 tickets"]
    {
        let answered = ask(question).unwrap_or_else(|error| panic!("{question}: {error}"));
        let Outcome::Names { names, .. } = answered.outcome else { panic!("{question}") };
        assert_eq!(BTreeSet::from_iter(names), expected, "{question}");
    }
    let answered = ask("C tickets per month, 2025 onwards").unwrap();
    assert_eq!((answered.outcome, answered.result.rows.len()), (Outcome::Table, 4));
}

#[test]
fn nothing_is_answered_in_place_of_what_is_asked() {
    for question in [
        "top 2 employees with the most tickets opened, with the number of tickets for each",
        "Which two employees opened the most tickets, and how many did each of them open?",
    ] {
        let answered = ask(question).unwrap_or_else(|error| panic!("{question}: {error}"));
        let is_names = matches!(answered.outcome, Outcome::Names { .. });
        assert!(is_names && answered.told.contains("number of ticket"), "{}", answered.told);
    }
    for (question, told) in [
        ("How many employees have a priority?", "not a field of employee"),
        ("How many employees work in another department than their manager?", "of each row"),
        (
            "Was there a month in which Ada Lind opened more tickets than Bo Quist?",
            "whether any row",
        ),
    ] {
        let error = ask(question).unwrap_err().to_string();
        assert!(error.contains(told), "{question}: {error}");
    }
}

#[test]
fn nodes_that_satisfy_conditions_are_listed() {
    for (question, names) in [
        ("List employees that have no manager", vec!["Ada Lind"]),
        ("Which tickets with low priority were opened after May 2025?", vec!["Broken seam 11"]),
        ("Which tickets were opened after 2025?", vec![]),
    ] {
        let answered = ask(question).unwrap_or_else(|error| panic!("{question}: {error}"));
        let Outcome::Names { names: own, .. } = answered.outcome else { panic!("{question}") };
        assert_eq!(own, names, "{question}");
    }
    // Nobody reports to themselves; the direction is ambiguous.
    let found = readings("Which employees report to Ada Lind?");
    assert!(found.iter().any(|one| one.told.starts_with("Bo Quist, Cy Rahn, Di Sand")));
    assert!(!found.iter().any(|one| one.told.starts_with("Ada Lind ")));
    for (question, yes) in [
        ("Is there any ticket that was opened in 2024?", false),
        ("Are there any tickets about C++?", true),
    ] {
        assert_eq!(ask(question).unwrap().outcome, Outcome::Truth(yes), "{question}");
    }
    // Without a condition, of another type, and with a word that nothing explains.
    for question in [
        "Which employees are there?",
        "Is there anything in Sales?",
        "Which tickets were opened by a happy employee?",
    ] {
        let error = ask(question).unwrap_err();
        assert!(error.may_be_for_nodes(), "{question}: {error}");
    }
}

#[test]
fn each_is_of_something_and_from_may_have_no_end() {
    let error = ask("Legal: how many employees for each?").unwrap_err().to_string();
    assert!(error.contains("name the type or field after"), "{error}");
    assert_eq!(number("How many tickets were opened from 2025 on?"), 12.0);
}

/// Asks a question that must be refused; the reason must contain `told`.
fn refused(base: Arc<IndexedBase>, question: &str, told: &str) {
    match Analyst::new(base).ask(question) {
        Err(error @ (AskError::Missing(_) | AskError::Unknown { .. })) => {
            assert!(error.to_string().contains(told), "{question}: {error}");
        }
        other => panic!("{question}: {:?}", other.map(|one| one.told)),
    }
}

#[test]
fn words_without_meaning_are_names_where_names_stand() {
    assert_eq!(number("How many tickets are about Go?"), 0.0);
    assert_eq!(number("How many tickets are about C or Go?"), 4.0);
    refused(desk(), "how many tickets are about go", "put names in quotation marks: \"go\"");
    assert_eq!(number("how many tickets are about \"go\""), 0.0);
    refused(desk(), "How many tickets were opened in May?", "May");
    refused(desk(), "How many tickets were opened this year?", "year");
}

#[test]
fn a_negation_before_a_name_denies_the_name() {
    assert_eq!(number("How many tickets are not about C?"), 8.0);
    assert_eq!(number("How many tickets are not about the language C?"), 8.0);
    assert_eq!(number("How many tickets are neither about C nor about C#?"), 4.0);
}

#[test]
fn dates_are_read_in_digits_and_no_bound_is_dropped() {
    assert_eq!(number("How many tickets were opened after 11.03.2025?"), 6.0);
    assert_eq!(number("How many were opened before 12.03.2025 and have low priority?"), 3.0);
    refused(desk(), "How many tickets ended before they were opened?", "followed by a year");
    refused(desk(), "How many tickets were opened in Q1 2025 or May 2025?", "kinds of conditions");
    refused(desk(), "How many tickets were opened in 2024 or January 2025?", "kinds of conditions");
    refused(desk(), "How many tickets were opened in May 2025 and in June 2025?", "separately");
}

#[test]
fn a_bound_of_a_number_compares_no_names() {
    let found = told("How many packages with fewer than 5 stars are maintained by Ann or Bo?");
    assert_eq!(found, ["2 (package rows)"]);
    // The managers are employees too, of whom only the department is named.
    refused(desk(), "How many employees are managed by people in Sales?", "managed");
}

#[test]
fn a_verb_belongs_to_the_name_after_it() {
    let found = readings("How many tickets from Sales were handled by someone in Legal?");
    let told: Vec<&str> = found.iter().map(|one| one.told.as_str()).collect();
    assert_eq!(told, ["0 (ticket rows)", "2 (ticket rows)"]);
    // Each ticket has one department, also at the end of two links.
    assert_eq!(number("How many tickets were opened by Sales and Legal?"), 12.0);
}

/// Opens a base with packages and plugins, by people of two institutions in France, one of which is
/// called France.
fn tools() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let mut nodes = vec![
            json!({"type": "country", "name": "France"}),
            json!({"type": "institution", "name": "France"}),
            json!({"type": "institution", "name": "Ecole"}),
        ];
        nodes.extend(["Ann", "Bo", "Cy"].map(|name| json!({"type": "person", "name": name})));
        let mut edges = vec![(2, "located_in", 0), (3, "works_at", 1)];
        edges.extend([(4, "works_at", 2), (5, "works_at", 2)]);
        for n in 0..8 {
            let year = 2020 + n / (2 + n % 2 * 2);
            let mut details = json!({"released": format!("{year}-03-01"), "stars": n});
            if n % 4 == 0 {
                details["retired"] = json!(format!("{}-05-02", 2024 + n / 4));
            }
            let kind = if n % 2 == 0 { "package" } else { "plugin" };
            edges.push((nodes.len(), "maintained_by", 3 + n % 3));
            edges.push((nodes.len(), "reviewed_by", 3 + n / 2 % 3));
            nodes.push(json!({"type": kind, "name": format!("tool {n}"), "details": details}));
        }
        let node = |(id, mut node): (usize, serde_json::Value)| {
            node["id"] = json!(id);
            node.to_string() + "\n"
        };
        let nodes: String = nodes.into_iter().enumerate().map(node).collect();
        let edge = |(from, relation, to)| format!("{from}\t{relation}\t{to}\n");
        base_of(&nodes, &edges.into_iter().map(edge).collect::<String>(), "package")
    });
    BASE.clone()
}

/// Asks a question about [`tools`]; returns the answer, or the answers of its readings.
fn told(question: &str) -> Vec<String> {
    match Analyst::new(tools()).ask(question) {
        Ok(answered) => vec![answered.told],
        Err(AskError::Ambiguous(readings)) => readings.into_iter().map(|one| one.told).collect(),
        Err(error) => panic!("{question}: {error}"),
    }
}

#[test]
fn a_name_of_a_place_and_of_what_lies_in_it_is_either() {
    assert_eq!(told("How many people work at institutions in France?"), ["2 (person rows)"]);
    let found = told("How many people are from France?");
    assert_eq!(found, ["2 (person rows)", "1 (person row)"]);
}

#[test]
fn what_is_counted_is_said_or_asked_back() {
    let found = told("How many were released in 2020?");
    assert_eq!(found, ["1 (package row)", "2 (plugin rows)"]);
    assert_eq!(told("What is the mean of stars per person?").len(), 4);
    let found = told("Which year has the highest mean stars of plugins?");
    assert!(found[0].starts_with("2021: 6 "), "{found:?}");
    assert_eq!(told("How many packages released in 2020 have been retired?"), ["1 (package row)"]);
    let found = told("Which packages are maintained by Ann and Bo?");
    assert_eq!(found, ["tool 0, tool 4, tool 6 (3 package rows)"]);
    for (question, why) in [
        ("count by person", ""),
        ("How many packages are maintained and reviewed by the same person?", "within each row"),
        ("number of packages or plugins with over 2 stars", "at once"),
        ("How many are about tool 2?", "name the type"),
        ("How many packages were not retired in 2024?", "has no \"retired\""),
        ("How many packages does Ann both maintain and review?", "name the linked type"),
    ] {
        refused(tools(), question, why);
    }
}

/// Opens a base as from exported tables with abbreviated columns: offices, engineers with a
/// manager, tickets that are assigned to them, versions with numbers as names, and features of
/// products, each in one edition.
fn exports() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let nodes = r#"{"id": 0, "type": "office", "name": "Harbour", "details": {"capacity": 40, "what": "Quay"}}
{"id": 1, "type": "office", "name": "Mill", "details": {"capacity": 90, "what": "Tower"}}
{"id": 2, "type": "engineer", "name": "Ada Lind", "details": {"dob": "1971-02-01", "wage": 50}}
{"id": 3, "type": "engineer", "name": "Bo Quist", "details": {"dob": "1988-03-01", "wage": 70}}
{"id": 4, "type": "ticket", "name": "Broken seam", "details": {"prio": "P1", "status": "withdrawn"}}
{"id": 5, "type": "ticket", "name": "Lost key", "details": {"prio": "P1", "status": "open"}}
{"id": 6, "type": "ticket", "name": "Cold room", "details": {"prio": "P2", "status": "open"}}
{"id": 7, "type": "product", "name": "Quill"}
{"id": 8, "type": "product", "name": "Tern"}
{"id": 9, "type": "version", "name": "4.2", "details": {"lines": 100}}
{"id": 10, "type": "version", "name": "4.2", "details": {"lines": 300}}
{"id": 11, "type": "feature", "name": "Dark theme"}
{"id": 12, "type": "feature", "name": "Legal hold"}
{"id": 13, "type": "edition", "name": "Basic"}
{"id": 14, "type": "edition", "name": "Full"}
{"id": 15, "type": "product_feature", "name": "product_feature-1"}
{"id": 16, "type": "product_feature", "name": "product_feature-2"}
{"id": 17, "type": "product_feature", "name": "product_feature-3"}
"#;
        let mut edges = String::from("3\thas_mgr\t2\n4\tassigned_to\t2\n5\tassigned_to\t3\n");
        edges += "6\tassigned_to\t3\n4\tat\t0\n5\tat\t0\n6\tat\t1\n9\tof_product\t7\n";
        edges += "10\tof_product\t8\n";
        // Quill has the dark theme in its full edition, Tern in its basic one.
        for (row, product, feature, edition) in [(15, 7, 11, 14), (16, 7, 12, 13), (17, 8, 11, 13)]
        {
            edges += &format!("{row}\tprod\t{product}\n{row}\tfeat\t{feature}\n");
            edges += &format!("{row}\thas_edition\t{edition}\n{product}\thas_feature\t{feature}\n");
        }
        base_of(nodes, &edges, "ticket")
    });
    BASE.clone()
}

#[test]
fn abbreviations_in_names_are_read_as_the_words() {
    let base = exports();
    begins(&base, "Who is the oldest engineer?", "Ada Lind: 1971-02-01");
    begins(&base, "What is the mean wage of engineers?", "60 (mean");
    begins(&base, "How many tickets are there per priority?", "2 groups");
    begins(&base, "Which engineer is the best paid?", "Bo Quist: 70");
    begins(&base, "What is the biggest office?", "Mill: 90");
}

#[test]
fn words_of_questions_are_no_fields_or_assumptions() {
    let base = exports();
    begins(&base, "What is the total capacity of offices?", "130 (total");
    begins(&base, "How many withdrawn tickets are there?", "1 (");
    begins(&base, "Top 1 engineers by number of assigned tickets", "Bo Quist: 2");
    begins(&base, "How many lines has version 4.2 of Tern?", "300 (");
    begins(&base, "Does Ada Lind manage Bo Quist?", "");
}

#[test]
fn conditions_over_one_table_of_links_hold_of_one_row() {
    let told = match Analyst::new(exports())
        .ask("Which features does Quill have in the Basic edition?")
    {
        Ok(answered) => vec![answered.told],
        Err(AskError::Ambiguous(readings)) => readings.into_iter().map(|one| one.told).collect(),
        Err(error) => panic!("{error}"),
    };
    assert!(told.contains(&"Legal hold (1 feature row)".to_owned()), "{told:?}");
}

/// Opens a base as from the tables of a works: lots, counted in cases, deviations of lots, and
/// milestones, whose owners and whose projects' grants belong to departments.
fn works() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let nodes = r#"{"id": 0, "type": "unit", "name": "CS"}
{"id": 1, "type": "lot_hdr", "name": "BK1-1", "details": {"qty_cs": 10, "made": "2025-01-05"}}
{"id": 2, "type": "lot_hdr", "name": "BK1-2", "details": {"qty_cs": 30, "made": "2025-07-05"}}
{"id": 3, "type": "deviation", "name": "D-1", "details": {"sev": 1, "cases_aff": 7}}
{"id": 4, "type": "deviation", "name": "D-2", "details": {"sev": 3, "cases_aff": 9}}
{"id": 5, "type": "deviation", "name": "D-3", "details": {"sev": 3, "cases_aff": 1}}
{"id": 6, "type": "department", "name": "Law"}
{"id": 7, "type": "department", "name": "Music"}
{"id": 8, "type": "person", "name": "Ada Lind"}
{"id": 9, "type": "person", "name": "Bo Quist"}
{"id": 10, "type": "grant", "name": "Peat", "details": {"start_dt": "2014-01-01"}}
{"id": 11, "type": "grant", "name": "Hedgerows", "details": {"start_dt": "2019-01-01"}}
{"id": 12, "type": "project", "name": "P-1"}
{"id": 13, "type": "milestone", "name": "M-1"}
{"id": 14, "type": "milestone", "name": "M-2"}
{"id": 15, "type": "paper", "name": "On peat", "details": {"pub_year": 2016}}
"#;
        let mut edges = "3\thas_lot\t1\n4\thas_lot\t2\n5\thas_lot\t2\n1\thas_unit\t0\n".to_owned();
        edges += "8\thas_dept\t6\n9\thas_dept\t7\n10\thas_dept\t6\n11\thas_dept\t7\n";
        edges += "12\thas_grant\t10\n13\thas_proj\t12\n14\thas_proj\t12\n";
        edges += "13\thas_owner\t8\n14\thas_owner\t9\n15\thas_proj\t12\n";
        base_of(nodes, &edges, "lot_hdr")
    });
    BASE.clone()
}

#[test]
fn names_of_columns_are_no_names_of_things() {
    begins(&works(), "Which lot has the highest QTY_CS?", "BK1-2: 30");
    // The cases of a deviation are not those of a lot.
    refused(works(), "Which lot had the most cases?", "name the field or its type");
    begins(&works(), "deviations per severity", "2 groups");
    begins(&works(), "Which grant started earliest?", "Peat: 2014-01-01");
}

#[test]
fn two_routes_to_a_type_are_two_readings() {
    let Err(AskError::Ambiguous(found)) =
        Analyst::new(works()).ask("How many milestones are in Law?")
    else {
        panic!()
    };
    let told: Vec<&str> = found.iter().map(|one| one.told.as_str()).collect();
    assert_eq!(told, ["1 (milestone row)", "2 (milestone rows)"]);
    begins(&works(), "How many milestones are in Law by their owner?", "1 ");
}

#[test]
fn the_first_month_of_a_range_has_the_year_of_the_second() {
    begins(&works(), "lots made between 1 January and 30 June 2025, how many?", "1 ");
    begins(&works(), "How many lots were made from January thru July 2025?", "2 ");
}
