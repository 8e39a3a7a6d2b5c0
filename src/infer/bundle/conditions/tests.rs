//! Conditions of questions over a small help desk, and what they do to a ranking.

use std::sync::{Arc, LazyLock};

use serde_json::json;

use super::*;
use agent_testing::{base_in, base_of};

/// Tickets of two people about two products, with a status, two dates, hours and perhaps no
/// product.
fn desk() -> Arc<IndexedBase> {
    static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
        let person = |id: u32, name: &str, unit: &str, hired: &str| {
            let details = json!({"department": unit, "hired": hired});
            json!({"id": id, "type": "employee", "name": name, "details": details})
        };
        let mut nodes = vec![
            person(0, "Anna Ode", "Purchasing", "2019-03-01"),
            person(1, "Max Behr", "Legal", "2010-07-15"),
        ];
        let others = [
            (2, "open", "status"),
            (3, "closed", "status"),
            (4, "Lumen Router 500", "product"),
            (5, "Fjord Scanner 650", "product"),
            (6, "Purchasing", "department"),
            (7, "Legal", "department"),
        ];
        let other = |(id, name, kind)| json!({"id": id, "type": kind, "name": name});
        nodes.extend(others.map(other));
        let mut edges = "0\thas_department\t6\n1\thas_department\t7\n".to_owned();
        for at in 0..8 {
            let id = at + 8;
            let created = format!("2025-{:02}-10", at + 1);
            let mut details = json!({"created": created, "hours": at.to_string()});
            if at % 2 == 1 {
                details["closed"] = format!("2025-{:02}-20", at + 2).into();
            }
            let name = format!("Problem {at}");
            nodes.push(json!({"id": id, "type": "ticket", "name": name, "details": details}));
            edges += &format!("{id}\trequested_by\t{}\n{id}\thas_status\t{}\n", at / 4, 2 + at % 2);
            if at > 1 {
                edges += &format!("{id}\tabout\t{}\n", 4 + at % 3 % 2);
            }
        }
        let nodes: Vec<String> = nodes.iter().map(|node| format!("{node}\n")).collect();
        let nodes = nodes.concat();
        base_of(&nodes, &edges, "ticket")
    });
    BASE.clone()
}

/// Reads a question: its conditions, the rest of its text, and its order by date.
fn read(text: &str) -> (Vec<String>, String, Option<bool>) {
    let found = Conditions::read(&desk(), text);
    (found.all.iter().map(Condition::to_string).collect(), found.rest, found.newest_first)
}

#[test]
fn what_a_question_states_becomes_conditions() {
    for (text, conditions, rest) in [
        ("tickets created in March 2025", "created=2025-03", "tickets"),
        ("tickets from 5 March 2025 by Anna Ode", "created=2025-03-05", "tickets by Anna Ode"),
        (
            "tickets by Anna Ode opened on March 5th, 2025",
            "created=2025-03-05",
            "tickets by Anna Ode",
        ),
        ("tickets that were closed before 2025-03", "closed<2025-03", "tickets"),
        ("tickets closed on 20.03.2025?", "closed=2025-03-20", "tickets ?"),
        ("tickets since 2025", "created>=2025", "tickets"),
        ("tickets between March 2025 and May 2025", "created>=2025-03 created<=2025-05", "tickets"),
        ("tickets created in Q1 2025", "created>=2025-01 created<=2025-03", "tickets"),
        ("tickets of people hired after 2012", "employee.hired>2012", "tickets of people"),
        ("tickets with more than 3 hours", "hours>3", "tickets"),
        ("tickets whose hours are at least 2", "hours>=2", "tickets"),
        (
            "tickets about the Lumen Router 500 that are not closed",
            "status!=closed",
            "tickets about the Lumen Router 500",
        ),
        ("tickets that aren't closed or open", "status!=closed,open", "tickets"),
        ("tickets not requested by Anna Ode", "employee!=Anna Ode", "tickets"),
        (
            "tickets of people not in Purchasing",
            "employee.department!=Purchasing",
            "tickets of people",
        ),
        ("tickets by Anna Ode without a product", "product!=*", "tickets by Anna Ode"),
        ("tickets other than Problem 3 by Anna Ode", "name!=Problem 3", "tickets by Anna Ode"),
        ("tickets from March 2025 onwards", "created>=2025-03", "tickets"),
        ("tickets 2024 through 2025", "created>=2024 created<=2025", "tickets"),
        ("tickets from 2024, 2025 or 2026", "created=2024,2025,2026", "tickets"),
        ("tickets opened no later than March 2025", "created<=2025-03", "tickets"),
        ("tickets since the end of March 2025", "created>2025-03", "tickets"),
        ("tickets with two hours or more", "hours>=2", "tickets"),
        ("tickets with no more than 3 hours", "hours<=3", "tickets"),
        ("tickets that don't have more than 3 hours", "hours<=3", "tickets"),
        ("tickets not created before March 2025", "created>=2025-03", "tickets"),
        (
            "tickets by Anna Ode, leaving out those about the Lumen Router 500",
            "product!=Lumen Router 500",
            "tickets by Anna Ode,",
        ),
        (
            "tickets by Anna Ode where the Lumen Router 500 isn't the product",
            "product!=Lumen Router 500",
            "tickets by Anna Ode",
        ),
    ] {
        let (found, left, _) = read(text);
        assert_eq!((found.join(" ").as_str(), left.as_str()), (conditions, rest), "{text}");
    }
    for (text, newest) in [
        ("the newest tickets by Anna Ode", true),
        ("the last tickets by Anna Ode", true),
        ("the most recently opened tickets by Anna Ode", true),
        ("the oldest tickets by Anna Ode", false),
    ] {
        let rest = "the tickets by Anna Ode".to_owned();
        assert_eq!(read(text), (vec![], rest, Some(newest)), "{text}");
    }
}

#[test]
fn conditions_are_read_in_the_languages_of_the_base() {
    let person = json!({"id": 0, "type": "person", "name": "Anna Ode"});
    let state = |id: u32, name: &str| json!({"id": id, "type": "status", "name": name});
    let ticket = |id: u32| {
        let details = json!({"erstellt": "2025-03-10", "Stunden": "4", "Preis": "27,50"});
        json!({"id": id, "type": "Meldung", "name": format!("Fall {id}"), "details": details})
    };
    let nodes = [person, state(1, "geschlossen"), state(2, "fermé"), ticket(3), ticket(4)];
    let nodes = nodes.map(|node| format!("{node}\n")).concat();
    let edges = "3\tvon\t0\n3\thas_status\t1\n4\thas_status\t2\n";
    let base = base_in("de,fr,es", &nodes, edges, "Meldung");
    for (text, conditions, rest) in [
        ("Meldungen im März 2025", "erstellt=2025-03", "Meldungen"),
        (
            "Meldungen, die am 10. März 2025 erstellt wurden",
            "erstellt=2025-03-10",
            "Meldungen, die wurden",
        ),
        ("Meldungen, die 2025 erstellt wurden", "", "Meldungen, die 2025 erstellt wurden"),
        ("Meldungen seit 2025 von Anna Ode", "erstellt>=2025", "Meldungen von Anna Ode"),
        ("Meldungen, die nicht geschlossen sind", "status!=geschlossen", "Meldungen, die sind"),
        ("Meldungen ohne Status", "status!=*", "Meldungen"),
        ("Meldungen mit mehr als drei Stunden", "Stunden>3", "Meldungen"),
        ("Meldungen unter 27.500 Euro", "", "Meldungen unter 27.500 Euro"),
        ("Meldungen für höchstens 30 Euro", "Preis<=30", "Meldungen"),
        ("les Meldungen à partir de mars 2025", "erstellt>=2025-03", "les Meldungen"),
        ("Meldungen qui ne sont pas fermé", "status!=fermé", "Meldungen"),
        ("Meldungen entre 2019 et 2021", "erstellt>=2019 erstellt<=2021", "Meldungen"),
        ("Meldungen antes del 5 de mayo de 2024", "erstellt<2024-05-05", "Meldungen"),
        ("Meldungen con al menos 2 Stunden", "Stunden>=2", "Meldungen"),
    ] {
        let found = Conditions::read(&base, text);
        let own: Vec<String> = found.all.iter().map(Condition::to_string).collect();
        assert_eq!((own.join(" ").as_str(), found.rest.as_str()), (conditions, rest), "{text}");
    }
    assert_eq!(Conditions::read(&base, "die neuesten Meldungen").newest_first, Some(true));
}

#[test]
fn excluded_words_are_not_searched_and_put_names_last() {
    let base = desk();
    for (text, wanted, texts) in [
        (
            "problems other than 3 or knights, with noise",
            "problems , with noise",
            "without 3, without knights",
        ),
        ("tickets besides type 1 and type 2", "tickets", "without type 1, without type 2"),
        ("tickets not for ink and with noise", "tickets not for ink and with noise", "without ink"),
        ("tickets no printers please", "tickets no printers please", "without printers"),
        (
            "tickets not for birthdays or urgent work",
            "tickets not for birthdays or urgent work",
            "without birthdays, without urgent work",
        ),
        ("tickets that aren't closed", "tickets", "status!=closed"),
        ("tickets other than closed", "tickets", "status!=closed"),
        ("not only tickets, can't remember", "not only tickets, can't remember", ""),
        ("tickets that don't print, lack of ink", "tickets that don't print, lack of ink", ""),
    ] {
        let found = Conditions::read(&base, text);
        assert_eq!(found.wanted, wanted);
        let applied = found.applied(&base, &[]).map(|applied| applied.texts.join(", "));
        assert_eq!(applied.unwrap_or_default(), texts, "{text}");
    }
    // Node 12 is about a scanner, nodes 10, 11 and 13 are about a router, node 9 is about none.
    assert_eq!(sorted(&base, "tickets other than 0 or 2", 8..12), [9, 11, 8, 10]);
    assert_eq!(sorted(&base, "tickets, no scanners", 9..14), [9, 10, 11, 13, 12]);
}

/// Ranks the nodes in this order and applies the conditions of a question to the ranking.
fn sorted(base: &IndexedBase, text: &str, nodes: Range<NodeId>) -> Vec<NodeId> {
    let ranking = nodes.zip((0..10).map(|n| 1.0 - 0.1 * n as f32)).collect();
    let sorted = Conditions::read(base, text).apply(base, ranking);
    sorted.into_iter().map(|pair| pair.0).collect()
}

/// Products with these names and prices.
fn shop(products: &[(&str, Option<&str>)]) -> Arc<IndexedBase> {
    let node = |(id, &(name, price)): (usize, &(&str, Option<&str>))| {
        let details = price.map_or(json!({}), |price| json!({"price": price}));
        json!({"id": id, "type": "product", "name": name, "details": details}).to_string() + "\n"
    };
    let nodes: Vec<String> = products.iter().enumerate().map(node).collect();
    base_of(&nodes.concat(), "", "product")
}

#[test]
fn a_name_that_states_the_absence_is_not_excluded() {
    let names = ["Latex bands", "Bands, latex-free", "Non-latex bands", "Learning without latex"];
    let base = shop(&names.map(|name| (name, None)));
    assert_eq!(sorted(&base, "bands without latex", 0..4), [1, 2, 3, 0]);
}

#[test]
fn a_node_without_the_number_that_is_compared_is_neither_first_nor_last() {
    let mats = [("Mat", None), ("Red mat", Some("50")), ("Blue mat", Some("10"))];
    let base = shop(&mats);
    assert_eq!(sorted(&base, "mats under 20 euros", 0..3), [2, 0, 1]);
    assert_eq!(sorted(&shop(&mats[..2]), "mats under 20 euros", 0..2), [0, 1], "none fulfils it");
}

#[test]
fn what_a_question_asks_for_is_excluded_by_name() {
    let names = ["Mats", "Carpets", "Big mats", "Rugs"].map(|name| (name, None));
    assert_eq!(sorted(&shop(&names), "products, anything except mats", 0..4), [1, 3, 0, 2]);
}

#[test]
fn what_the_base_does_not_have_stays_in_the_question() {
    for text in [
        "tickets about model 2025",
        "tickets in March by Anna Ode",
        "not just any tickets",
        "tickets that are not urgent",
        "more than a feeling",
        "\"not closed\"",
        "tickets under 20 euros",
        "is there something without much noise",
        "tickets not by the end in March 2025",
        "tickets not in 2012, 2013 or 2014",
        "tickets after 2000 restarts",
        "tickets over 50 inches",
        "tickets of less than two hundred hours",
        "not only closed tickets",
        "why isn't the status closed",
        "I can't see a status closed",
        "is there no status closed",
        "whether or not closed",
        "the T closed valve",
        "tickets with no status messages",
    ] {
        let (found, rest, newest) = read(text);
        assert!(found.is_empty() && newest.is_none() && rest == text, "{text}: {found:?} {rest}");
    }
}

#[test]
fn nodes_that_fulfil_the_conditions_come_first_and_none_is_lost() {
    let base = desk();
    let tickets = base.kb.nodes_of_type(base.kb.type_id("ticket").unwrap()).to_vec();
    let ranking: Vec<(NodeId, f32)> =
        tickets.iter().map(|&node| (node, 1.0 - node as f32 / 100.0)).collect();
    let asked = Conditions::read(&base, "tickets that are not closed created after March 2025");
    let sorted = asked.apply(&base, ranking.clone());
    let names: Vec<&str> = sorted.iter().map(|pair| base.kb.name(pair.0)).collect();
    assert_eq!(
        names,
        [
            "Problem 4",
            "Problem 6",
            "Problem 0",
            "Problem 1",
            "Problem 2",
            "Problem 3",
            "Problem 5",
            "Problem 7"
        ]
    );
    assert!(sorted.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{sorted:?}");
    assert_eq!(asked.applied(&base, &sorted).unwrap().n_fulfilled, 2);
    // Where no ranked node fulfils them, the other nodes of the base that do are appended.
    let late = Conditions::read(&base, "tickets created after July 2025");
    let found = late.completed(&base, ranking[..3].to_vec(), &[]);
    assert_eq!(found[3..].iter().map(|pair| pair.0).collect::<Vec<_>>(), tickets[7..]);
    assert_eq!(late.completed(&base, ranking.clone(), &[]), ranking);
    // Where none fulfils them, the order stays.
    let none = Conditions::read(&base, "tickets created in March 2031");
    assert_eq!(none.apply(&base, ranking.clone()), ranking);
    assert_eq!(none.applied(&base, &ranking).unwrap().n_fulfilled, 0);
    let oldest = Conditions::read(&base, "oldest tickets");
    assert_eq!(oldest.by_date(&base, &tickets[2..5]).unwrap(), tickets[2..5]);
    let newest = Conditions::read(&base, "newest tickets").by_date(&base, &tickets[2..5]).unwrap();
    assert_eq!(newest, tickets[2..5].iter().rev().copied().collect::<Vec<_>>());
}
