//! Columns, SQL and statistics over small bases, and refused statements.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::*;
use crate::{
    Direction, KbMeta, KbWriter,
    table::{
        statistics::{StatisticsError, TestResult},
        value::{category, date, quantity, year},
    },
};

/// Results of SciPy 1.17 for the same numbers.
#[derive(Deserialize)]
struct Fixture {
    test: String,
    data: Vec<Vec<f64>>,
    statistic: f64,
    p: f64,
}

fn tested(test: &str, data: &[Vec<f64>]) -> Result<TestResult, StatisticsError> {
    let (one, other) = (&data[0], data.get(1));
    let pair = || other.expect("two samples");
    match test {
        "shapiro_wilk" => statistics::shapiro_wilk(one),
        "jarque_bera" => statistics::jarque_bera(one),
        "pearson" => statistics::pearson(one, pair()),
        "spearman" => statistics::spearman(one, pair()),
        "f" => statistics::f_test(one, pair()),
        "brown_forsythe" => statistics::brown_forsythe(data),
        "kruskal_wallis" => statistics::kruskal_wallis(data),
        "chi_square" => {
            let counts = |row: &Vec<f64>| row.iter().map(|count| *count as u64).collect();
            statistics::chi_square(&data.iter().map(counts).collect::<Vec<Vec<u64>>>())
        }
        other => panic!("no test {other}"),
    }
}

#[test]
fn statistics_are_those_of_scipy() {
    let fixtures: Vec<Fixture> = serde_json::from_str(include_str!("scipy.json")).unwrap();
    assert!(fixtures.len() >= 20);
    for Fixture { test, data, statistic, p } in fixtures {
        let found = tested(&test, &data).unwrap();
        let near = |found: f64, known: f64| (found - known).abs() <= 1e-6 * known.abs().max(1.0);
        assert!(near(found.statistic, statistic), "{test}: {} is not {statistic}", found.statistic);
        assert!(near(found.p, p), "{test}: p {} is not {p}", found.p);
    }
}

#[test]
fn too_little_is_no_statistic() {
    assert!(statistics::pearson(&[1.0, 2.0], &[2.0, 1.0]).is_err());
    assert!(statistics::pearson(&[1.0, 1.0, 1.0], &[2.0, 1.0, 3.0]).is_err());
    assert!(statistics::shapiro_wilk(&[4.0; 9]).is_err());
    assert!(statistics::kruskal_wallis(&[vec![1.0, 2.0]]).is_err());
    assert!(statistics::chi_square(&[vec![1, 2]]).is_err());
    assert!(statistics::brown_forsythe(&[vec![1.0], vec![2.0]]).is_err());
}

#[test]
fn numbers_have_units_and_separators() {
    let of = |text: &str| quantity(text).map(|one| (one.number, one.unit));
    let unit = |number: f64, unit: &str| Some((number, Some(unit.to_owned())));
    assert_eq!(of("1,234.5"), Some((1234.5, None)));
    assert_eq!(of("1.234,5"), Some((1234.5, None)));
    assert_eq!(of("1 234"), Some((1234.0, None)));
    assert_eq!(of("12,5"), Some((12.5, None)));
    assert_eq!(of("1,234"), Some((1234.0, None)));
    assert_eq!(of("-3e-2"), Some((-0.03, None)));
    assert_eq!(of("$ 12.99"), unit(12.99, "USD"));
    assert_eq!(of("12.99 EUR"), unit(12.99, "EUR"));
    assert_eq!(of("£9"), unit(9.0, "GBP"));
    assert_eq!(of("1.44 ounces"), unit(1.44, "ounces"));
    assert_eq!(of("12 %"), unit(12.0, "%"));
    assert_eq!(of("3 million"), Some((3e6, None)));
    for no in [
        "",
        "10 - 20",
        "3.4 x 2.1 inches",
        "19q13.4",
        "2020-03-01",
        "1.2.3",
        "ten",
        "2 in Gift Cards (",
    ] {
        assert_eq!(of(no), None, "{no:?}");
    }
}

#[test]
fn a_point_before_three_digits_may_group_thousands() {
    for (text, fraction) in [("27.500", "27.5"), ("-3.125", "3.1250"), ("10.000 EUR", "10")] {
        let whole = text.chars().filter(char::is_ascii_digit).collect();
        let meanings = Some((whole, fraction.to_owned()));
        assert_eq!(value::thousands_or_fraction(text), meanings, "{text}");
        assert_eq!(value::thousands_or_fraction(fraction), None, "{fraction}");
    }
    for text in ["27.5", "0.125", "27500", "1234.567", "1.234.567", "4.2.1", "1.50"] {
        assert_eq!(value::thousands_or_fraction(text), None, "{text}");
    }
}

#[test]
fn dates_years_and_categories() {
    assert_eq!(date("2020-3-1").as_deref(), Some("2020-03-01"));
    assert_eq!(date("31.03.2020").as_deref(), Some("2020-03-31"));
    assert_eq!(date("2020-03-31T10:00:00Z").as_deref(), Some("2020-03-31"));
    assert_eq!(date("2020-13-01"), None);
    assert_eq!(date("1.2.3"), None);
    assert_eq!(year("published 2011"), Some(2011));
    assert_eq!(year("12345"), None);
    assert_eq!(category("U.S.A."), category("United States"));
    assert_eq!(category("Café-Bar"), category("cafe bar"));
    assert_ne!(category("UK"), category("US"));
}

fn people() -> Table {
    let named = |names: &[&str]| {
        let named =
            |name: &&str| NamedValue { key: Key::Value((*name).into()), name: (*name).into() };
        Cell::Many(names.iter().map(named).collect())
    };
    let column = |name: &str, kind, cells| Column {
        name: name.to_owned(),
        kind,
        unit: None,
        source: format!("field {name}"),
        cells,
        unfit: 0,
    };
    let ages = (0..1_000).map(|at| Cell::Number(f64::from(at % 90))).collect();
    let tags = (0..1_000).map(|at| named(if at % 2 == 0 { &["a"] } else { &["a", "b"] }));
    Table {
        rows: (0..1_000).collect(),
        columns: vec![
            column("age", ColumnKind::Number, ages),
            column("tag", ColumnKind::Categories, tags.collect()),
        ],
    }
}

fn asked(sql: &str) -> Result<Rows, SqlError> {
    Database::load(&[("t", &people())], &Budget::start()).unwrap().query(sql, &Limits::default())
}

#[test]
fn sql_reads_tables_and_has_statistics() {
    let one = |sql: &str| asked(sql).unwrap().rows[0][0].clone();
    assert_eq!(one("SELECT count(*) FROM t WHERE age > 44"), SqlValue::Int(495));
    assert_eq!(one("SELECT count(*) FROM t_tag WHERE value = 'b'"), SqlValue::Int(500));
    assert_eq!(one("SELECT tag FROM t WHERE id = 1"), SqlValue::Text("a; b".into()));
    assert_eq!(one("SELECT median(id) FROM t"), SqlValue::Real(499.5));
    assert_eq!(one("SELECT quantile(id, 0.25) FROM t"), SqlValue::Real(249.75));
    assert_eq!(one("SELECT corr(id, id * 2) FROM t"), SqlValue::Real(1.0));
    assert_eq!(one("SELECT year('2011-02-03')"), SqlValue::Int(2011));
    assert_eq!(one("SELECT left('Grönland', 3)"), SqlValue::Text("Grö".into()));
    assert_eq!(one("SELECT floor(1987 / 10) * 10"), SqlValue::Real(1980.0));
    assert_eq!(one("SELECT pow(2, 10) + mod(7, 4) + ceil(0.5)"), SqlValue::Real(1028.0));
    assert_eq!(one("SELECT ln(0)"), SqlValue::Null);
    // Every function that statements may call exists.
    for name in database::known_functions() {
        let known = [0, 1, 2, 3].into_iter().any(|n| {
            let arguments = vec!["1"; n].join(", ");
            let calls = [name.to_string(), format!("{name}({arguments})")];
            let over = format!("{name}({arguments}) OVER (ORDER BY id)");
            calls.iter().chain([&over]).any(|call| asked(&format!("SELECT {call} FROM t")).is_ok())
        });
        assert!(known, "{name}");
    }
    let SqlValue::Real(variance) = one("SELECT variance(id) FROM t") else { panic!("a number") };
    assert!((variance - 83_416.666_666).abs() < 1e-3);
    assert_eq!(one("SELECT variance(age) FROM t WHERE id < 1"), SqlValue::Null);
}

#[test]
fn hostile_sql_is_refused() {
    let hostile = [
        "INSERT INTO t VALUES (1, 2, 3)",
        "UPDATE t SET age = 0",
        "DELETE FROM t",
        "DROP TABLE t",
        "CREATE TABLE u (a)",
        "ATTACH 'x.db' AS x",
        "PRAGMA query_only = 0",
        "VACUUM INTO 'x.db'",
        "SELECT 1; DROP TABLE t",
        "SELECT 1 -- and more",
        "SELECT 1 /* and more */",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT 1, 2, 3",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000000)",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_table_info('t')",
        "EXPLAIN SELECT 1",
        "REPLACE INTO t VALUES (1, 2, 3)",
        "ALTER TABLE t ADD COLUMN x",
        "CREATE TEMP TABLE u AS SELECT 1",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "DETACH DATABASE main",
        "WITH x AS (SELECT 1) UPDATE t SET age = 0",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT count(*) FROM r",
        "SELECT zeroblob(1000000000)",
        "SELECT hex(randomblob(100))",
        "SELECT printf('%1000000000d', 1)",
        "SELECT quote(id) FROM t",
        "SELECT * FROM sqlite_schema",
        "SELECT * FROM json_each('[1, 2]')",
        "SELECT count(*) FROM json_tree('[1, 2]')",
        "SELECT count(*) FROM jsonb_each('[1, 2]')",
        "SELECT 1 IN (SELECT value FROM \"JSON_each\"('[1, 2]'))",
        "SELECT count(*) FROM dbstat",
        "SELECT sqlite_version()",
        "SELECT last_insert_rowid(), changes()",
        "SELECT * FROM pragma_database_list",
        "SELECT 1\u{0}; DROP TABLE t",
        "; DROP TABLE t",
        "",
    ];
    for sql in hostile {
        let refused = asked(sql).unwrap_err();
        assert!(matches!(refused, SqlError::Refused(_)), "{sql}: {refused:?}");
    }
    assert!(matches!(asked(&format!("SELECT {}", "1+".repeat(20_000))), Err(SqlError::TooLong(_))));
    for sql in ["SELECT nothing FROM t", "SELECT writefile('x', 'y')"] {
        assert!(matches!(asked(sql), Err(SqlError::Wrong(_))), "{sql}");
    }
    // Texts of more than 64 KiB and statements of many tables or parts are refused.
    let many = format!("SELECT count(*) FROM {}", vec!["t"; 70].join(" NATURAL JOIN "));
    let deep = format!("SELECT {}1{}", "abs(".repeat(1_200), ")".repeat(1_200));
    let wide = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(100));
    let columns = format!("SELECT {}1 FROM t", "id, ".repeat(3_000));
    for sql in [
        "SELECT format('%1000000000d', 1)",
        "SELECT replace(format('%0900000d', 0), '0', 'abcdefgh')",
        "SELECT length(format('%0900000d', 0) || format('%0900000d', 0))",
        "SELECT group_concat(format('%0900d', a.id)) FROM t a, t b",
        &many,
        &deep,
        &wide,
        &columns,
    ] {
        let found = asked(sql);
        assert!(matches!(found, Err(SqlError::Wrong(_))), "{}: {found:?}", &sql[..20]);
    }
    assert!(!std::path::Path::new("x.db").exists());
}

#[test]
fn answers_do_not_depend_on_the_time() {
    for call in [
        "strftime('%s', 'now')",
        "strftime('%s', 'no' || 'w')",
        "strftime('%s', x'6e6f77')",
        "strftime('%s')",
        "strftime('%s', 'subsec')",
        "date('NOW')",
        "date()",
        "current_date",
        "current_timestamp",
        "datetime('2020-01-01')",
    ] {
        let refused = asked(&format!("SELECT {call}")).unwrap_err();
        assert!(matches!(refused, SqlError::Refused(_)), "{call}: {refused:?}");
    }
    // Other times are those of SQLite.
    let sqlite = crate::sqlite::in_memory().unwrap();
    for call in [
        "date('2020-01-31', '+1 month', 'start of month')",
        "date(2451545)",
        "date(NULL)",
        "date('no date')",
        "date('2020-13-01')",
        "strftime('%Y-%m', '2020-05-17')",
        "strftime('%s', 1.5, 'unixepoch')",
        "strftime('%j', '12:00')",
        "strftime(NULL, '2020-05-17')",
        "strftime()",
    ] {
        let sql = format!("SELECT {call}");
        let known: Option<String> = sqlite.query_row(&sql, [], |row| row.get(0)).unwrap();
        let known = known.map_or(SqlValue::Null, SqlValue::Text);
        assert_eq!(asked(&sql).unwrap().rows[0][0], known, "{call}");
    }
}

#[test]
fn endless_sql_is_stopped() {
    let begun = Instant::now();
    let cross = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.age + b.age + c.age + d.age = -1";
    assert_eq!(asked(cross), Err(SqlError::Deadline(Duration::from_secs(2))));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let rows = "SELECT a.id FROM t a, t b, t c";
    assert_eq!(asked(rows), Err(SqlError::TooMuch { rows: 10_000 }));
    // Statements that process a billion rows without recursion.
    for sql in [
        "WITH a AS (SELECT x.id FROM t x, t y) SELECT count(*) FROM a b, a c WHERE b.id + c.id < 0",
        "SELECT max(a.id + b.id + c.id + d.id) FROM t a, t b, t c, t d",
        "SELECT count(*) FROM (SELECT DISTINCT a.id * 1000 + b.id AS n FROM t a, t b) x, t c, t d \
         WHERE x.n + c.id + d.id < 0",
        "SELECT a.id FROM t a, t b, t c ORDER BY a.age + b.age + c.age LIMIT 1",
    ] {
        assert_eq!(asked(sql), Err(SqlError::Deadline(Duration::from_secs(2))), "{sql}");
    }
    let long = "SELECT replace(replace(replace(format('%0500d', 1), '0', format('%0500d', 1)), '0', \
                format('%0500d', 1)), '0', format('%0500d', 1))";
    assert!(asked(long).is_err());
}

/// A table with one row of a long text, and one with many rows of long texts.
fn long() -> Database {
    let table = |n: usize| Table {
        rows: (0..n as u32).collect(),
        columns: vec![Column {
            name: "text".to_owned(),
            kind: ColumnKind::Categories,
            unit: None,
            source: String::new(),
            cells: vec![Cell::Text("a".repeat(40_000).into()); n],
            unfit: 0,
        }],
    };
    Database::load(&[("t", &table(1)), ("u", &table(300))], &Budget::start()).unwrap()
}

#[test]
fn no_instruction_outlasts_the_deadline() {
    let database = long();
    let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
    let twice = |sql: &str, n: usize| vec![sql; n].join(", ");
    let needle = "substr(text, 1, 16000) || 'b'";
    let over = |sql: &str| format!("SELECT sum({sql}) FROM u, u v, u w");
    let statements = [
        over("instr(v.text, substr(w.text, 1, 16000) || 'b')"),
        over("length(replace(v.text, substr(w.text, 1, 16000) || 'b', 'c'))"),
        over("length(trim(v.text || 'c', w.text || 'b'))"),
        over("v.text LIKE '%' || substr(w.text, 1, 190) || 'b'"),
        format!("SELECT {} FROM t", twice("(text LIKE '%' || substr(text, 1, 190) || id)", 400)),
        format!("SELECT {} FROM t", twice(&format!("instr(text, {needle})"), 300)),
        format!("SELECT {} FROM t", twice("strftime(replace(text, 'a', '%w'), '2020-01-01')", 100)),
        // Many copies of one expression.
        format!(
            "SELECT {} FROM (SELECT text LIKE '%' || substr(text, 1, 190) || 'b' AS c FROM t)",
            twice("c", 900)
        ),
        format!("SELECT {} FROM (SELECT length(lower(text)) AS c FROM t)", twice("c", 900)),
        format!(
            "WITH {} SELECT count(*) FROM c20",
            (1..=20).fold("c0 AS (SELECT 1 AS n)".to_owned(), |all, at| {
                let last = at - 1;
                format!("{all}, c{at} AS (SELECT x.n FROM c{last} x, c{last} y)")
            })
        ),
    ];
    for sql in &statements {
        let begun = Instant::now();
        let found = database.query(sql, &limits);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}: {found:?} {sql}");
    }
}

#[test]
fn intermediate_results_are_bounded() {
    let database = long();
    for sql in [
        "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY u.text || v.id DESC) AS n \
         FROM u, u v, u w)",
        "SELECT count(*) FROM (SELECT substr(u.text, 1, 9000) || v.id AS a, count(*) FROM u, u v GROUP BY 1)",
    ] {
        let found = database.query(sql, &Limits::default());
        assert!(matches!(found, Err(SqlError::TooMuchMemory(_))), "{sql}: {found:?}");
    }
    // Two million short rows, each in its own block of memory.
    let short = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY a.age + b.age) AS n \
                 FROM t a, t b, (SELECT 1 FROM t WHERE id < 2))";
    let limits = Limits { time: Duration::from_secs(60), ..Limits::default() };
    let found =
        Database::load(&[("t", &people())], &Budget::start()).unwrap().query(short, &limits);
    assert!(matches!(found, Err(SqlError::TooMuchMemory(_))), "{found:?}");
    // Later statements have the full limit again.
    assert!(database.query("SELECT text FROM u ORDER BY id DESC", &Limits::default()).is_ok());
}

#[test]
fn numbers_that_functions_keep_are_bounded_per_statement() {
    let database = Database::load(&[("t", &people())], &Budget::start()).unwrap();
    let limits = Limits { time: Duration::from_secs(60), ..Limits::default() };
    for (call, name) in [
        ("median(a.age)", "median"),
        ("quantile(a.age, 0.5)", "quantile"),
        ("percentile(a.age, 50)", "percentile"),
        ("corr(a.age, b.age)", "corr"),
        ("median(a.age), median(b.age), median(a.age + b.age)", "median"),
    ] {
        let found = database.query(&format!("SELECT {call} FROM t a, t b, t c"), &limits);
        assert_eq!(found, Err(SqlError::TooManyNumbers(name)), "{call}");
    }
    assert_eq!(
        SqlError::TooManyNumbers("corr").to_string(),
        "corr needs more than 2000000 numbers in memory; group or limit the rows"
    );
    // Numbers of one statement do not count for the next, nor those of a group for the next group.
    for _ in 0..3 {
        let found = database.query("SELECT corr(a.id, a.id) FROM t a, t b", &limits).unwrap();
        assert_eq!(found.rows, [[SqlValue::Real(1.0)]]);
    }
    let groups = "SELECT count(*), min(m) FROM (SELECT median(b.id) AS m FROM t a, t b, \
                  (SELECT 1 FROM t WHERE id < 3) GROUP BY a.id)";
    let found = database.query(groups, &limits).unwrap();
    assert_eq!(found.rows, [[SqlValue::Int(1_000), SqlValue::Real(499.5)]]);
}

#[test]
fn results_of_many_empty_texts_are_bounded() {
    let sql = format!("SELECT {} FROM t", vec!["''"; 1_000].join(", "));
    assert_eq!(asked(&sql), Err(SqlError::TooMuch { rows: 10_000 }));
}

#[test]
fn functions_of_texts_are_those_of_sqlite() {
    let sqlite = crate::sqlite::in_memory().unwrap();
    let own = long();
    let texts = ["''", "'a'", "'aab'", "'Ünïcode %_'", "'bana%na'", "12", "1.5", "3.0", "NULL"];
    let patterns =
        ["''", "'%'", "'a%'", "'%A_'", "'%n_na'", "'%b%'", "'1%'", "'_'", "'%\\%%'", "NULL"];
    let mut calls = Vec::new();
    for x in texts {
        calls.extend(["trim", "ltrim", "rtrim"].map(|name| format!("{name}({x})")));
        for y in texts {
            calls.extend(
                ["instr", "trim", "ltrim", "rtrim"].map(|name| format!("{name}({x}, {y})")),
            );
            calls.push(format!("replace({x}, {y}, 'xy')"));
        }
        calls.extend(patterns.map(|pattern| format!("{x} LIKE {pattern}")));
        calls.extend(patterns.map(|pattern| format!("{x} LIKE {pattern} ESCAPE '\\'")));
    }
    for call in calls {
        let sql = format!("SELECT {call}");
        let known: rusqlite::types::Value = sqlite.query_row(&sql, [], |row| row.get(0)).unwrap();
        let known = match known {
            rusqlite::types::Value::Null => SqlValue::Null,
            rusqlite::types::Value::Integer(number) => SqlValue::Int(number),
            rusqlite::types::Value::Text(text) => SqlValue::Text(text),
            other => panic!("{other:?}"),
        };
        assert_eq!(own.query(&sql, &Limits::default()).unwrap().rows[0][0], known, "{call}");
    }
}

#[test]
fn what_a_metapath_reaches_is_whole_and_names_that_are_too_many_are_refused() {
    let n = MAX_VALUES as u32 + 1;
    let dir = tempfile::tempdir().unwrap();
    let mut writer = KbWriter::create(dir.path()).unwrap();
    writer.push_node("topic", "Physics", "", &[]).unwrap();
    for paper in 1..=n {
        writer.push_node("paper", "A paper", "", &[]).unwrap();
        writer.push_edge(paper, "has_topic", 0).unwrap();
    }
    writer.push_edge(0, "part_of", 0).unwrap();
    let meta = KbMeta {
        title: "t".into(),
        licence: "none".into(),
        candidate_types: vec![],
        ..KbMeta::default()
    };
    writer.finish(&meta, &mut |_, _| true).unwrap();
    let kb = Kb::open(dir.path()).unwrap();
    let (topic, paper) = (kb.type_id("topic").unwrap(), kb.type_id("paper").unwrap());
    let relation = kb.relation_id("has_topic").unwrap();
    let steps = vec![MetapathStep { relation, direction: Direction::In, to: paper }];
    assert_eq!(reached(&kb, 0, &steps).len(), n as usize);
    let back = MetapathStep { direction: Direction::Out, to: topic, ..steps[0] };
    assert!(reached(&kb, 0, &[steps[0], back]).is_empty(), "the metapath leads back to its start");
    let part_of = kb.relation_id("part_of").unwrap();
    let within = MetapathStep { relation: part_of, direction: Direction::Out, to: topic };
    assert_eq!(reached(&kb, 0, &[within]), [0_u32], "the topic is a part of itself");
    let of_topic = |spec| read(&kb, topic, &[0], &spec, &Budget::start());
    let count = of_topic(ColumnSpec::Count(steps.clone())).unwrap();
    assert_eq!(count.cells, [Cell::Number(f64::from(n))]);
    let names = of_topic(ColumnSpec::Names(steps)).unwrap_err();
    assert!(names.to_string().contains("ask for their number"), "{names}");
}

#[test]
fn a_table_that_takes_too_much_is_refused() {
    let budget = Budget::start();
    budget.take(MAX_BYTES - 1, "a").unwrap();
    budget.take(1, "b").unwrap();
    let error = budget.take(1, "topic -> paper").unwrap_err();
    assert_eq!(
        error.to_string(),
        "topic -> paper makes the table larger than 96 MiB; ask about fewer rows"
    );
    let began = Instant::now();
    let error = loop {
        if let Err(error) = budget.step("topic -> paper") {
            break error;
        }
    };
    assert!(began.elapsed() >= MAX_TIME, "{error}");
    let message = "time limit of 4 s exceeded: topic -> paper; ask about fewer rows";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_cell_of_many_values_is_held() {
    let named = |n: u32| NamedValue { key: Key::Node(n), name: "a long name of a thing".into() };
    let column = Column {
        name: "things".to_owned(),
        kind: ColumnKind::Categories,
        unit: None,
        source: String::new(),
        cells: vec![Cell::Many((0..MAX_VALUES as u32).map(named).collect())],
        unfit: 0,
    };
    let table = Table { rows: vec![7], columns: vec![column] };
    let database = Database::load(&[("t", &table)], &Budget::start()).unwrap();
    let rows = database.query("SELECT count(*) FROM t_things", &Limits::default()).unwrap();
    assert_eq!(rows.rows, [[SqlValue::Int(MAX_VALUES as i64)]]);
}
