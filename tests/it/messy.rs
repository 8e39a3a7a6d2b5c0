//! A messy export, as programs and people leave them, is imported by one command that counts every repair.
//! `UPDATE=1 cargo test --release messy` writes the summary.

use std::{fmt::Write as _, fs, path::Path};

use crate::support::World;

/// What people see.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/messy.txt");
const DEPARTMENTS: [&str; 4] = ["Einkauf", "Vertrieb", "Büro", "Lager"];
const PEOPLE: usize = 60;
const TICKETS: usize = 200;

/// People in Windows-1252 by semicolons: German dates and decimals, markers of missing values, a list by
/// comma, and two rows twice.
fn people() -> Vec<u8> {
    let mut rows = "id;name;department;hired;salary;skills;manager\r\n".to_owned();
    for at in (0..PEOPLE).chain([3, 17]) {
        let (department, day) = (DEPARTMENTS[at % 4], 1 + at % 28);
        let hired = if at % 10 == 9 { "NULL".to_owned() } else { format!("{day:02}.03.2019") };
        let skills = ["Excel, Löten", "Löten", "n/a", "Excel"][at % 4];
        let manager = if at == 0 { "NULL".to_owned() } else { format!("E{:03}", at / 8) };
        writeln!(
            rows,
            "E{at:03};Jürgen Weiß {at};{department};{hired};3.{at:03},50;{skills};{manager}\r"
        )
        .unwrap();
    }
    rows.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin letters")).collect()
}

/// Tickets in UTF-8 with a byte order mark: dates with a time, few-valued columns, missing values.
fn tickets() -> Vec<u8> {
    let mut rows = "\u{feff}id,subject,status,created,closed,requested_by\n".to_owned();
    for at in 0..TICKETS {
        let status = ["open", "closed", "waiting"][at % 3];
        let closed = if status == "closed" { "2025-04-01" } else { ["", "NULL", "-"][at % 3] };
        let (day, by) = (1 + at % 28, at * 7 % PEOPLE);
        writeln!(
            rows,
            "T{at:04},\"Störung, Gerät {at}\",{status},2025-03-{day:02} 08:15,{closed},E{by:03}"
        )
        .unwrap();
    }
    rows.into_bytes()
}

#[test]
fn one_command_imports_a_messy_export_and_counts_each_repair() {
    let world = World::new();
    let dir = world.path("messy");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("people.csv"), people()).unwrap();
    fs::write(dir.join("tickets.csv"), tickets()).unwrap();
    let ran = world.run(["data", "import", "--name", "messy", "--from", "messy"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // The time differs from run to run.
    let (before, after) = ran.stdout.split_once(" (imported in ").unwrap();
    let (_, after) = after.split_once(')').unwrap();
    let page = format!("{}---\n{before}{after}", ran.stderr);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(Path::new(GOLDEN), &page).unwrap();
    }
    let stored = fs::read_to_string(GOLDEN).unwrap();
    let differing = stored.lines().zip(page.lines()).find(|(a, b)| a != b);
    assert!(stored == page, "{differing:?}; UPDATE=1 writes {GOLDEN}\n{page}");
    // What was repaired is found.
    world.run(["index", "messy"]).done();
    let count = |conditions: &[&str]| {
        let mut args = vec!["search", "messy", "-k", "1000", "--json", "Jürgen Störung"];
        args.extend(conditions.iter().flat_map(|text| ["--where", text]));
        world
            .run(args)
            .json_lines()
            .iter()
            .map(|line| line["hits"].as_array().map_or(1, Vec::len))
            .sum::<usize>()
    };
    let of = |n: usize, holds: &dyn Fn(usize) -> bool| (0..n).filter(|&at| holds(at)).count();
    assert_eq!(count(&["department=büro"]), of(PEOPLE, &|at| at % 4 == 2));
    assert_eq!(
        count(&["type=people", "hired>=2019-03-15"]),
        of(PEOPLE, &|at| at % 10 != 9 && at % 28 >= 14)
    );
    assert_eq!(count(&["salary<3010"]), 10);
    assert_eq!(count(&["skills=Löten"]), of(PEOPLE, &|at| at % 4 < 2));
    assert_eq!(count(&["status=closed"]), of(TICKETS, &|at| at % 3 == 1));
    assert_eq!(count(&["type=ticket", "closed!=*"]), of(TICKETS, &|at| at % 3 != 1));
}
