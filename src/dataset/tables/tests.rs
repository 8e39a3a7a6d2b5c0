//! Tests with tables that they write themselves, the same base in several formats.

mod export;
mod names;

use std::{fs, path::Path, sync::atomic::AtomicBool};

use crate::{
    DatasetError, Home, ImportOptions, ImportReport, InputFormat, Split, Summary, id_list, id_of,
    ids::AnswerIds,
    import_neutral, load_split, node_of_id,
    tables::{EdgesTable, Guess, GuessOptions, Mapping, TableHint, guess, import_tables},
};
use agent_kb::{Direction, Kb, sqlite};
use rusqlite::{Connection, OpenFlags};

const BRANDS: &str = "id,name,country\nB-001,Northpeak,NO\nB-002,Tidewell,NL\n";
const PRODUCTS: &str = "sku,title,description,price,brand_id,tags,similar\n\
    SKU-1,Summit Bottle,\"steel, double wall\",19.5,B-001,steel;outdoor,SKU-2|SKU-3\n\
    SKU-2,Ridge Mug,a mug,9,B-001,steel;camping,\n\
    SKU-3,Harbor Bottle,glass,12.25,B-002,glass;kitchen,SKU-1\n";
const BOUGHT: &str = "sku,brand_id,quantity\nSKU-1,B-002,3\nSKU-3,B-001,1\n";
const QUERIES: &str =
    "id,query,answer_ids\n1,a steel bottle,[SKU-1]\n2,of Northpeak,\"['SKU-1', \"\"SKU-2\"\"]\"\n";

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("home"));
    (dir, home)
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(dir.join("split")).unwrap();
    for (name, text) in files {
        fs::write(dir.join(name), text).unwrap();
    }
}

fn import(
    source: &Path,
    mapping: &Mapping,
    home: &Home,
    options: &ImportOptions,
) -> Result<ImportReport, DatasetError> {
    let stop = AtomicBool::new(false);
    import_tables((source, mapping), home, "shop", options, &mut |_| {}, &stop)
}

fn guess_of(source: &Path) -> Result<Guess, DatasetError> {
    guess(source, &GuessOptions::default())
}

fn imported(source: &Path, home: &Home) -> ImportReport {
    let mapping = guess_of(source).unwrap().mapping;
    import(source, &mapping, home, &ImportOptions::default()).unwrap()
}

fn csv_tables(dir: &Path) {
    let files = [
        ("brands.csv", BRANDS),
        ("products.csv", PRODUCTS),
        ("bought.csv", BOUGHT),
        ("qa.csv", QUERIES),
        ("split/val.index", "1\n2\n"),
        ("dataset.toml", "candidate_types = [\"product\"]\n"),
    ];
    write(dir, &files);
}

/// Opens an SQLite database, or creates it.
fn connect(file: &Path) -> rusqlite::Result<Connection> {
    sqlite::connect(file, OpenFlags::default())
}

fn database(file: &Path) {
    let connection = connect(file).unwrap();
    let sql = "CREATE TABLE brands (id TEXT PRIMARY KEY, name TEXT, country TEXT);
        CREATE TABLE products (sku TEXT PRIMARY KEY, title TEXT, description TEXT, price REAL,
            brand_id TEXT REFERENCES brands(id), tags TEXT, similar TEXT, photo BLOB);
        CREATE TABLE bought (sku TEXT REFERENCES products, brand_id TEXT REFERENCES brands,
            quantity INT, PRIMARY KEY (sku, brand_id));
        INSERT INTO brands VALUES ('B-001','Northpeak','NO'), ('B-002','Tidewell','NL');
        INSERT INTO products VALUES
            ('SKU-1','Summit Bottle','steel, double wall',19.5,'B-001','steel;outdoor','SKU-2|SKU-3',x'00'),
            ('SKU-2','Ridge Mug','a mug',9,'B-001','steel;camping',NULL,NULL),
            ('SKU-3','Harbor Bottle','glass',12.25,'B-002','glass;kitchen','SKU-1',NULL);
        INSERT INTO bought VALUES ('SKU-1','B-002',3), ('SKU-3','B-001',1);";
    connection.execute_batch(sql).unwrap();
}

fn check(kb: &Kb) {
    let of = |key: &str| *kb.nodes_of_key(key).first().unwrap();
    assert_eq!(kb.types(), ["bought", "brand", "product"]);
    assert_eq!(kb.name(of("SKU-1")), "Summit Bottle");
    let field = |key: &str, name: &str| kb.field(of(key), kb.field_id(name).unwrap());
    assert_eq!(field("SKU-1", "tags"), Some("steel; outdoor"));
    assert_eq!(field("SKU-3", "price"), Some("12.25"));
    let to = |key: &str, relation: &str| -> Vec<String> {
        let relation = kb.relation_id(relation).unwrap();
        let to = kb.neighbors(of(key), relation, Direction::Out);
        to.iter().map(|&node| kb.key(node).into_owned()).collect()
    };
    assert_eq!(to("SKU-1", "has_brand"), ["B-001"]);
    assert_eq!(to("SKU-1", "similar"), ["SKU-2", "SKU-3"]);
    assert_eq!(to("SKU-3", "bought"), ["B-001"]);
    assert_eq!(kb.relations(), ["bought", "has_brand", "similar", "sku"]);
    // A row of a table of edges with other columns is a node too, but no candidate by default.
    assert_eq!(field("bought-1", "quantity"), Some("3"));
    assert_eq!(to("bought-1", "sku"), ["SKU-1"]);
}

#[test]
fn csv_a_database_and_json_lines_of_one_base_are_one_base() {
    let (dir, home) = home();
    let tables = dir.path().join("tables");
    csv_tables(&tables);
    let csv = imported(&tables, &home);
    let kb = Kb::open(&csv.base.kb_dir()).unwrap();
    check(&kb);
    let val = load_split(&csv.base, &Split::Val).unwrap();
    let keys = |at: usize| val[at].answers.iter().map(|&node| kb.key(node)).collect::<Vec<_>>();
    assert_eq!((keys(0), keys(1)), (vec!["SKU-1".into()], vec!["SKU-1".into(), "SKU-2".into()]));

    let file = dir.path().join("shop.db");
    database(&file);
    check(&Kb::open(&imported(&file, &home).base.kb_dir()).unwrap());

    let lines = dir.path().join("lines");
    let products = r#"{"sku": "SKU-1", "title": "Summit Bottle", "description": "steel, double wall", "price": 19.5, "brand_id": "B-001", "tags": ["steel", "outdoor"], "similar": ["SKU-2", "SKU-3"]}
{"sku": "SKU-2", "title": "Ridge Mug", "description": "a mug", "price": 9, "brand_id": "B-001", "tags": ["steel", "camping"]}

{"sku": "SKU-3", "title": "Harbor Bottle", "description": "glass", "price": 12.25, "brand_id": "B-002", "tags": ["glass", "kitchen"], "similar": ["SKU-1"]}
"#;
    let brands = "{\"id\": \"B-001\", \"name\": \"Northpeak\", \"country\": \"NO\"}\n{\"id\": \"B-002\", \"name\": \"Tidewell\", \"country\": \"NL\"}\n";
    let bought = "{\"sku\": \"SKU-1\", \"brand_id\": \"B-002\", \"quantity\": 3}\n{\"sku\": \"SKU-3\", \"brand_id\": \"B-001\", \"quantity\": 1}\n";
    let toml = "candidate_types = [\"product\"]\n";
    let files = [
        ("brands.jsonl", brands),
        ("products.jsonl", products),
        ("bought.jsonl", bought),
        ("dataset.toml", toml),
    ];
    write(&lines, &files);
    let json = imported(&lines, &home);
    check(&Kb::open(&json.base.kb_dir()).unwrap());
    // The same nodes, texts, edges and keys in the same order.
    assert_eq!(json.base.record.fingerprint, csv.base.record.fingerprint);
}

#[test]
fn ids_of_questions_may_begin_with_a_word() {
    let (dir, home) = home();
    csv_tables(dir.path());
    let rows = "id,query,answer_ids\nQ31,red mug,[SKU-2]\nquery-7,blue mug,[SKU-3]\n";
    write(dir.path(), &[("qa.csv", rows), ("split/train.index", "Q31\n"), ("split/val.index", "")]);
    let report = imported(dir.path(), &home);
    let queries = load_split(&report.base, &Split::Train).unwrap();
    assert_eq!(queries.iter().map(|query| query.id).collect::<Vec<_>>(), [31]);
}

#[test]
fn questions_without_splits_are_divided() {
    let (dir, home) = home();
    csv_tables(dir.path());
    fs::remove_dir_all(dir.path().join("split")).unwrap();
    let queries: String = (1..10).map(|id| format!("{id},steel {id},[SKU-1]\n")).collect();
    fs::write(dir.path().join("qa.csv"), format!("id,query,answer_ids\n{queries}")).unwrap();
    let report = imported(dir.path(), &home);
    let n = |split| load_split(&report.base, &split).unwrap().len();
    assert_eq!((n(Split::Train), n(Split::Val), report.base.record.splits["test"]), (5, 2, 2));
    let told = report.repairs.iter().find(|repair| repair.kind == "splits").unwrap();
    assert!(told.message.contains("drew 5 training, 2 validation and 2 test"), "{told:?}");
    // The same questions are drawn again.
    let drawn = report.base.record.query_files.clone();
    assert_eq!(imported(dir.path(), &home).base.record.query_files, drawn);
}

#[test]
fn a_guess_is_written_edited_and_read_again() {
    let (dir, _) = home();
    csv_tables(dir.path());
    let guessed = guess_of(dir.path()).unwrap();
    let file = dir.path().join("mapping.toml");
    fs::write(&file, guessed.mapping.to_toml()).unwrap();
    let mut read = Mapping::read(&file).unwrap();
    assert!(read.nodes.iter().all(|table| table.line > 0));
    read.nodes.iter_mut().for_each(|table| table.line = 0);
    read.edges.iter_mut().for_each(|table| table.line = 0);
    assert_eq!(read, guessed.mapping);
    assert_eq!(
        guessed.notes,
        ["bought.csv: edges cannot have fields, so each row becomes a node too: quantity"]
    );
    assert_eq!(
        guessed.mapping.lines(),
        [
            "brands.csv: one brand per row: id id, name name, fields country",
            "products.csv: one product per row: id sku, name title, fields description price tags, \
             brand_id -has_brand-> brand, similar -similar-> product",
            "bought.csv: one bought per row: ids by row, fields quantity, sku -sku-> product, \
             brand_id -has_brand-> brand",
            "bought.csv: one edge per row: sku (product) -bought-> brand_id (brand)",
        ]
    );
}

#[test]
fn a_column_with_a_wrong_id_is_a_relation_and_the_id_is_told() {
    let (dir, home) = home();
    let composers = "id,name\nbach,J. S. Bach\nclara,Clara Schumann\nliszt,Franz Liszt\n";
    let pieces = "id,title,by\np1,Mass,bach\np2,Trio,clara\np3,Etude,liszt\np4,Fugue,bachh\n";
    write(dir.path(), &[("composers.csv", composers), ("pieces.csv", pieces)]);
    let mapping = guess_of(dir.path()).unwrap().mapping;
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let DatasetError::Problems(wrong) = &error else { panic!("{error}") };
    let told: Vec<(u64, &str)> =
        wrong.first.iter().map(|one| (one.line, one.message.as_str())).collect();
    assert_eq!(told, [(5, "no composer has the id \"bachh\"")]);
}

#[test]
fn columns_that_name_rows_are_known_in_several_languages() {
    for column in ["subject", "Betreff", "nombre"] {
        let (dir, home) = home();
        let tickets = format!("id,{column},status\nT-1,Printer jams,open\nT-2,No sound,closed\n");
        write(dir.path(), &[("tickets.csv", &tickets)]);
        let report = imported(dir.path(), &home);
        let kb = Kb::open(&report.base.kb_dir()).unwrap();
        assert_eq!(kb.name(0), "Printer jams", "{column}");
    }
}

#[test]
fn first_and_last_names_are_joined() {
    for (columns, names) in [
        ("id,first_name,last_name,title", ["Ada King", "Bo"]),
        ("CustomerId,LastName,FirstName,Company", ["King Ada", "Bo"]),
        ("id,Vorname,Name,Titel", ["Ada King", "Bo"]),
        ("id,nombre,apellidos,ciudad", ["Ada King", "Bo"]),
        ("id,name,surname,title", ["Ada King", "Bo"]),
        ("id,customer_first_name,customer_last_name,title", ["Ada King", "Bo"]),
        ("id,first_name,last_name,name", ["Countess", "Lord"]),
    ] {
        let (dir, home) = home();
        let text = format!("{columns}\n1,Ada,King,Countess\n2,Bo,,Lord\n");
        write(dir.path(), &[("customers.csv", &text)]);
        let guessed = guess_of(dir.path()).unwrap().mapping;
        let file = dir.path().join("mapping.toml");
        fs::write(&file, guessed.to_toml()).unwrap();
        let mapping = Mapping::read(&file).unwrap();
        assert_eq!(mapping.nodes[0].name, guessed.nodes[0].name);
        let report = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap();
        let kb = Kb::open(&report.base.kb_dir()).unwrap();
        assert_eq!([kb.name(0), kb.name(1)], names, "{columns}");
    }
}

#[test]
fn options_say_what_would_be_guessed_otherwise() {
    let (dir, home) = home();
    csv_tables(dir.path());
    let hints: Vec<TableHint> =
        ["products.csv:item:name=title+price,brand_id=made_by->maker", "brands.csv:maker"]
            .map(|text| text.parse().unwrap())
            .into();
    let mut mapping = guess(dir.path(), &GuessOptions { hints: &hints, ..GuessOptions::default() })
        .unwrap()
        .mapping;
    assert_eq!(mapping.nodes[0].name, ["title", "price"]);
    let edges: EdgesTable = "bought.csv:taken:sku->item,brand_id->maker".parse().unwrap();
    mapping.edges.push(edges);
    mapping.candidate_types.push("item".to_owned());
    let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
    let report = import(dir.path(), &mapping, &home, &options).unwrap();
    let named = |summary: &Summary| {
        let types = summary.types.iter().map(|of| of.name.clone()).collect::<Vec<_>>();
        let relations = summary.relations.iter().map(|of| of.name.clone());
        (types, relations.collect::<Vec<_>>())
    };
    let (types, relations) = named(&report.summary);
    assert_eq!(types, ["item", "maker"]);
    assert_eq!(relations, ["made_by", "similar", "taken"]);
    assert!(home.list().unwrap().is_empty(), "a dry run installs nothing");
}

#[test]
fn all_wrong_rows_are_told_together_with_place_and_remedy() {
    let (dir, home) = home();
    csv_tables(dir.path());
    let products = PRODUCTS.replace("B-002", "B-017")
        + "SKU-3,again,x,1,B-001,,\n,no id,x,1,B-001,,\nSKU-9,short\nSKU-8,\"open,x,1,B-001,,\n";
    let mapping = guess_of(dir.path()).unwrap().mapping;
    write(dir.path(), &[("products.csv", &products)]);
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let DatasetError::Problems(wrong) = &error else { panic!("{error}") };
    let told: Vec<(u64, &str)> =
        wrong.first.iter().map(|one| (one.line, one.message.as_str())).collect();
    assert_eq!(
        told,
        [
            (5, "the product \"SKU-3\" occurs twice"),
            (6, "the row has no id: column \"sku\" is empty"),
            (7, "2 columns, not 7"),
            (8, "a quote that opens in this row is never closed"),
            (4, "no brand has the id \"B-017\""),
        ]
    );
    let last = &wrong.first[4];
    assert!(last.hint.starts_with("brands.csv has ids from B-001 to B-002; add the brand"));
    assert!(last.excerpt.contains("Harbor Bottle"), "{}", last.excerpt);
    let lenient = ImportOptions { lenient: true, ..ImportOptions::default() };
    let report = import(dir.path(), &mapping, &home, &lenient).unwrap();
    assert_eq!((report.base.record.n_nodes, report.problems.len()), (7, 5));
}

#[test]
fn a_mapping_that_does_not_fit_is_told_with_its_lines() {
    let (dir, home) = home();
    csv_tables(dir.path());
    let text = "[[nodes]]\nfile = \"products.csv\"\ntype = \"product\"\nid = \"skuu\"\n\
        relations = [{ column = \"brand_id\", relation = \"by\", to = \"brnd\" }]\n\n\
        [[nodes]]\nfile = \"../brands.csv\"\ntype = \"brand\"\n\n\
        [[edges]]\nfile = \"no.csv\"\nsource = { column = \"a\", type = \"product\" }\n\
        target = { column = \"b\", type = \"product\" }\nrelation = \"x\"\n";
    fs::write(dir.path().join("mapping.toml"), text).unwrap();
    let mapping = Mapping::read(&dir.path().join("mapping.toml")).unwrap();
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let text = error.to_string();
    for words in [
        "mapping.toml:1: products.csv has no column \"skuu\"; its columns are: sku, title",
        "mapping.toml:1: no table has nodes of type \"brnd\"; the types are: brand, product",
        "mapping.toml:7: cannot read \"../brands.csv\": it is not below",
        "mapping.toml:11: cannot read \"no.csv\": no such file",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}

#[test]
fn ids_that_types_share_are_told_apart() {
    let (dir, home) = home();
    let files = [
        ("cats.csv", "id,name\n1,Tom\n2,Kit\n"),
        ("dogs.csv", "id,name,cat_id\n1,Rex,2.0\n2,Bo,\n"),
        ("qa.csv", "id,query,answer_ids\n1,a,[cat:1]\n2,b,[3]\n3,c,[1]\n"),
    ];
    write(dir.path(), &files);
    let mapping = guess_of(dir.path()).unwrap().mapping;
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("qa.csv:3: no node has the id \"3\""), "{text}");
    assert!(
        text.contains("qa.csv:4: 2 nodes have the id \"1\"; write the type before it"),
        "{text}"
    );
    let lenient = ImportOptions { lenient: true, ..ImportOptions::default() };
    let report = import(dir.path(), &mapping, &home, &lenient).unwrap();
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    // Some programs write the integers of columns with gaps so.
    let has_cat = kb.relation_id("has_cat").unwrap();
    assert_eq!(*kb.neighbors(2, has_cat, Direction::Out), [1]);
    let neutral = dir.path().join("neutral");
    let nodes = "{\"id\": \"a\", \"type\": \"x\", \"name\": \"A\"}\n{\"id\": 7, \"type\": \"x\", \"name\": \"B\"}\n";
    write(
        &neutral,
        &[("nodes.jsonl", nodes), ("edges.tsv", "src_id\trelation\tdst_id\na\tr\t7\n")],
    );
    let stop = AtomicBool::new(false);
    let options = ImportOptions::default();
    let report = import_neutral(&neutral, &home, "n", &options, &mut |_| {}, &stop).unwrap();
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    assert_eq!((kb.nodes_of_key("7"), kb.key(0).into_owned()), (vec![1], "a".to_owned()));
    assert_eq!(kb.n_edges(), 1);
}

/// Guesses the mapping of a directory or database; returns the description of each table.
fn lines(source: &Path) -> Vec<String> {
    guess_of(source).unwrap().mapping.lines()
}

#[test]
fn a_table_with_ids_of_its_own_is_no_table_of_edges() {
    let (dir, _) = home();
    let shops = "shop_id,name,city\n1,A,Oslo\n2,B,Rome\n3,C,Oslo\n";
    let items = "item_id,title,text,shop_id\n1,Cup,a cup,1\n2,Mug,a mug,1\n";
    write(dir.path(), &[("shops.csv", shops), ("items.csv", items)]);
    let expected =
        "one item per row: id item_id, name title, fields text, shop_id -has_shop-> shop";
    assert_eq!(lines(dir.path())[0], format!("items.csv: {expected}"));
    // Text ids in differently named columns, all of them also ids of shops.
    for (own, id) in [("id", "id"), ("code", "code"), ("item_id", "id")] {
        let shops = format!("{id},name,city\nx1,A,Oslo\nx2,B,Rome\nx3,C,Oslo\n");
        let items = format!("{own},shop_id,price\nx1,x2,1\nx2,x1,2\n");
        write(dir.path(), &[("shops.csv", &shops), ("items.csv", &items)]);
        let told = lines(dir.path())[0].clone();
        assert!(told.contains(&format!("one item per row: id {own}, ")), "{told}");
    }
    let file = dir.path().join("shop.sqlite");
    let sql = "CREATE TABLE shops (shop_id INTEGER PRIMARY KEY, name);
        CREATE TABLE goods (article_id INTEGER PRIMARY KEY, title, shop_id REFERENCES shops);
        INSERT INTO shops VALUES (1,'A'), (2,'B'), (3,'C');
        INSERT INTO goods VALUES (1,'Cup',1), (2,'Mug',1);";
    connect(&file).unwrap().execute_batch(sql).unwrap();
    let told = lines(&file)[0].clone();
    assert!(told.contains("one good per row: id article_id, name title"), "{told}");
}

#[test]
fn rows_with_texts_are_nodes_even_if_they_link_twice() {
    let (dir, _) = home();
    let long = "it is a fine bottle that keeps tea warm for hours";
    let reviews = format!(
        "sku,brand_id,text\nSKU-1,B-002,{long} 1\nSKU-1,B-001,{long} 2\nSKU-2,B-001,{long} 3\n"
    );
    let files = [("brands.csv", BRANDS), ("products.csv", PRODUCTS), ("reviews.csv", &reviews)];
    write(dir.path(), &files);
    let expected = "reviews.csv: one review per row: ids by row, fields text, \
        sku -sku-> product, brand_id -has_brand-> brand";
    assert_eq!(lines(dir.path())[2], expected);
}

#[test]
fn numbers_with_thousands_are_no_lists_of_ids() {
    let (dir, _) = home();
    let people: String = (1..=400).map(|id| format!("{id},Person {id}\n")).collect();
    let plays = "id,name,budget,actor_ids\n1,Ebb,\"268,300.00\",\"12,14\"\n\
        2,Flood,\"45,200.00\",\"101,202\"\n3,Tide,\"9,100.00\",\"7,9\"\n";
    let people = format!("id,name\n{people}");
    write(dir.path(), &[("people.csv", &people), ("plays.csv", plays)]);
    let told = lines(dir.path())[1].clone();
    let expected = "fields budget, actor_ids -has_actor-> people";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn numbers_that_several_tables_have_as_ids_link_to_the_smallest_and_this_is_noted() {
    let (dir, _) = home();
    let rows = |n: usize| (1..=n).map(|id| format!("{id},Name {id}\n")).collect::<String>();
    let named = |n| format!("id,name\n{}", rows(n));
    let train = |(id, depot): (usize, &usize)| format!("{id},Train {id},{depot}\n");
    let trains: String = (1..).zip(&[2, 3, 4, 5, 6]).map(train).collect();
    let trains = format!("id,name,depot_id\n{trains}");
    let tables = [("runs.csv", &named(9)), ("stations.csv", &named(6)), ("trains.csv", &trains)];
    write(dir.path(), &tables.map(|(file, text)| (file, text.as_str())));
    let guess = guess_of(dir.path()).unwrap();
    let told = guess.mapping.lines();
    assert!(told[2].ends_with("depot_id -has_depot-> station"), "{}", told[2]);
    let note = "trains.csv: depot_id may hold ids of station, run; station was chosen; edit the \
        mapping to change this";
    assert!(guess.notes.iter().any(|line| line == note), "{:?}", guess.notes);
    // Numbers up to the table's own size are its own ids: a parent, say.
    let own = trains.replace(",6\n", ",1\n").replace("depot", "follower");
    fs::write(dir.path().join("trains.csv"), own).unwrap();
    let told = lines(dir.path());
    assert!(told[2].ends_with("follower_id -has_follower-> train"), "{}", told[2]);
}

#[test]
fn a_few_wrong_ids_do_not_change_what_a_table_is_taken_for() {
    let (dir, home) = home();
    let brands = "id,name\nB1,Northpeak\nB2,Tidewell\n";
    let countries = "id,name\nNO,Norway\nNL,Netherlands\n";
    let row = |n: usize| {
        let (brand, country) = [("B1", "NO"), ("B2", "NL")][n % 2];
        format!("S{n},Thing {n},{brand},{country}\n")
    };
    for (wrong, message) in [
        ("S1,Again,B1,NO\n", "products.csv:11: the product \"S1\" occurs twice; ids are unique"),
        (",None,B1,NO\n", "products.csv:11: the row has no id: column \"sku\" is empty"),
    ] {
        let rows: String = (1..10).map(row).collect();
        let products = format!("sku,title,brand_id,country\n{rows}{wrong}");
        let files =
            [("brands.csv", brands), ("countries.csv", countries), ("products.csv", &products)];
        write(dir.path(), &files);
        let mapping = guess_of(dir.path()).unwrap().mapping;
        let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        let lenient = ImportOptions { lenient: true, ..ImportOptions::default() };
        let report = import(dir.path(), &mapping, &home, &lenient).unwrap();
        assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (13, 18));
        assert_eq!(report.problems.iter().map(|of| of.count).sum::<u64>(), 1);
    }
    // A first column without an id-like name, with one repeated value in twenty rows.
    let rows: String = (1..20).map(|n| format!("INV/{n},Work {n},NO\n")).collect();
    let works = format!("Inventory No.,title,country\n{rows}INV/1,Again,NL\n");
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("countries.csv", countries), ("works.csv", &works)]);
    assert!(lines(dir.path())[1].contains("id Inventory No., name title"), "{works}");
    // With too many invalid ids, there is a note.
    write(dir.path(), &[("works.csv", "sku,title\nS1,A\nS1,B\nS2,C\n")]);
    let told = "works.csv: sku is empty or repeated in 1 of 3 rows, so rows are numbered; \
        if sku holds the ids, correct these rows";
    assert_eq!(guess_of(dir.path()).unwrap().notes, [told]);
}

#[test]
fn what_follows_from_rows_that_are_wrong_is_one_line() {
    let (dir, home) = home();
    let brands = BRANDS.replace("B-002,Tidewell,NL", "B-002,Tidewell");
    let files = [("brands.csv", brands.as_str()), ("products.csv", PRODUCTS)];
    write(dir.path(), &files);
    let links = ["products.csv:product:brand_id->brand", "brands.csv:brand"];
    let hints: Vec<TableHint> = links.map(|text| text.parse().unwrap()).into();
    let mapping = guess(dir.path(), &GuessOptions { hints: &hints, ..GuessOptions::default() })
        .unwrap()
        .mapping;
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("brands.csv:3: 2 columns, not 3"), "{text}");
    let summed = "products.csv: 1 line refers to nodes or queries on invalid lines (edge to an";
    assert!(text.contains(summed) && !text.contains("no brand has the id"), "{text}");
}

#[test]
fn a_foreign_key_of_several_columns_is_told_and_makes_no_relation() {
    let (dir, home) = home();
    let file = dir.path().join("pairs.sqlite");
    let sql = "CREATE TABLE a (x TEXT, y TEXT, n TEXT, PRIMARY KEY (x, y));
        CREATE TABLE b (id INTEGER PRIMARY KEY, ax TEXT, ay TEXT,
            FOREIGN KEY (ax, ay) REFERENCES a (x, y));
        INSERT INTO a VALUES ('1','2','one');
        INSERT INTO b VALUES (1,'1','2');";
    connect(&file).unwrap().execute_batch(sql).unwrap();
    let guessed = guess_of(&file).unwrap();
    let told = "pairs.sqlite:b: the key (ax, ay) of a has several columns, so it cannot become \
        a relation; add a single id column to a, and a column with these ids to pairs.sqlite:b";
    assert_eq!(guessed.notes, [told]);
    let report = import(&file, &guessed.mapping, &home, &ImportOptions::default()).unwrap();
    assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (2, 0));
}

#[test]
fn hidden_files_are_left_out_and_other_data_are_told() {
    let (dir, _) = home();
    let files = [
        ("brands.csv", BRANDS),
        (".hidden.csv", "id\n1\n"),
        ("more.json", "[]"),
        ("sheet.xlsx", ""),
        ("README.md", ""),
    ];
    write(dir.path(), &files);
    let guessed = guess_of(dir.path()).unwrap();
    assert_eq!(guessed.mapping.nodes.len(), 1);
    let [json, sheet] = guessed.notes.as_slice() else { panic!("{:?}", guessed.notes) };
    assert!(json.starts_with("more.json: left out: not an array of objects"), "{json}");
    assert_eq!(
        sheet,
        "sheet.xlsx: left out: spreadsheets are not supported; save each sheet as CSV"
    );
    // With unsupported files only, the error includes their remedies.
    fs::remove_file(dir.path().join("brands.csv")).unwrap();
    assert_eq!(InputFormat::detect(dir.path()).unwrap(), InputFormat::Tables);
    let error = guess_of(dir.path()).unwrap_err().to_string();
    assert!(error.contains("no tables found; add ") && error.contains(sheet), "{error}");
}

#[test]
fn ids_that_are_written_mean_the_same_nodes_when_they_are_read() {
    let (dir, home) = home();
    let files = [
        ("plants.csv", "id,name\n7,Yew\n\"x, y\",Oak\n\"'q'\",Ash\n"),
        ("stones.csv", "id,name\n7,Flint\n\"it's \"\"so\"\", ok\",Slate\n"),
    ];
    let tables = dir.path().join("tables");
    write(&tables, &files);
    let kb = Kb::open(&imported(&tables, &home).base.kb_dir()).unwrap();
    assert_eq!(kb.n_nodes(), 5);
    for node in 0..5 {
        assert_eq!(node_of_id(&kb, &id_of(&kb, node)).unwrap(), node);
        match id_list(&kb, &[node]) {
            Ok(list) => {
                let parsed = AnswerIds::for_base(&kb).parse(&list).ok();
                assert_eq!(parsed.map(|(answers, _)| answers), Some(vec![node]));
            }
            Err(id) => assert_eq!((kb.name(node), &*id), ("Slate", "it's \"so\", ok")),
        }
    }
    assert_eq!(id_of(&kb, kb.nodes_of_key("7")[0]), "plant:7");
}

mod parquet_files {
    use std::{fs::File, sync::Arc};

    use parquet::{
        basic::{Compression, ZstdLevel},
        column::writer::ColumnWriter,
        data_type::ByteArray,
        file::{properties::WriterProperties, writer::SerializedFileWriter},
        schema::parser::parse_message_type,
    };

    use super::*;

    /// Cells of a column, one per row.
    enum Column<'a> {
        Texts(&'a [&'a str]),
        Numbers(&'a [f64]),
        /// A list of texts per row.
        Lists(&'a [&'a [&'a str]]),
    }

    fn write_table(path: &Path, schema: &str, compression: Compression, columns: &[Column<'_>]) {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for column in columns {
            let mut writer = group.next_column().unwrap().unwrap();
            match (writer.untyped(), column) {
                (ColumnWriter::ByteArrayColumnWriter(to), Column::Texts(texts)) => {
                    let texts: Vec<ByteArray> = texts.iter().map(|&text| text.into()).collect();
                    to.write_batch(&texts, None, None).unwrap();
                }
                (ColumnWriter::DoubleColumnWriter(to), Column::Numbers(numbers)) => {
                    to.write_batch(numbers, None, None).unwrap();
                }
                (ColumnWriter::ByteArrayColumnWriter(to), Column::Lists(rows)) => {
                    let texts: Vec<ByteArray> =
                        rows.concat().into_iter().map(ByteArray::from).collect();
                    let places = |row: &[&str]| row.len().max(1);
                    let repeats: Vec<i16> = rows
                        .iter()
                        .flat_map(|row| (0..places(row)).map(|at| i16::from(at > 0)))
                        .collect();
                    let defined: Vec<i16> = rows
                        .iter()
                        .flat_map(|row| vec![i16::from(!row.is_empty()); places(row)])
                        .collect();
                    to.write_batch(&texts, Some(&defined), Some(&repeats)).unwrap();
                }
                _ => panic!("the column is of another kind"),
            }
            writer.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
    }

    fn tables(dir: &Path) {
        write(dir, &[("dataset.toml", "candidate_types = [\"product\"]\n")]);
        let schema = "message s { required binary id (UTF8); required binary name (UTF8); required binary country; }";
        let columns = [
            Column::Texts(&["B-001", "B-002"]),
            Column::Texts(&["Northpeak", "Tidewell"]),
            Column::Texts(&["NO", "NL"]),
        ];
        write_table(&dir.join("brands.parquet"), schema, Compression::UNCOMPRESSED, &columns);
        let schema = "message s { required binary sku (UTF8); required binary title (UTF8); \
            required binary description (UTF8); required double price; \
            required binary brand_id (UTF8); repeated binary tags (UTF8); \
            repeated binary similar (UTF8); }";
        let columns = [
            Column::Texts(&["SKU-1", "SKU-2", "SKU-3"]),
            Column::Texts(&["Summit Bottle", "Ridge Mug", "Harbor Bottle"]),
            Column::Texts(&["steel, double wall", "a mug", "glass"]),
            Column::Numbers(&[19.5, 9.0, 12.25]),
            Column::Texts(&["B-001", "B-001", "B-002"]),
            Column::Lists(&[&["steel", "outdoor"], &["steel", "camping"], &["glass", "kitchen"]]),
            Column::Lists(&[&["SKU-2", "SKU-3"], &[], &["SKU-1"]]),
        ];
        let zstd = Compression::ZSTD(ZstdLevel::default());
        write_table(&dir.join("products.parquet"), schema, zstd, &columns);
        let schema = "message s { required binary sku (UTF8); required binary brand_id (UTF8);
            required binary quantity (UTF8); }";
        let columns = [["SKU-1", "SKU-3"], ["B-002", "B-001"], ["3", "1"]];
        let columns = columns.each_ref().map(|texts| Column::Texts(texts));
        write_table(&dir.join("bought.parquet"), schema, Compression::SNAPPY, &columns);
    }

    #[test]
    fn parquet_is_read_as_other_tables_are() {
        let (dir, home) = home();
        let from = dir.path().join("parquet");
        tables(&from);
        check(&Kb::open(&imported(&from, &home).base.kb_dir()).unwrap());
    }

    #[test]
    fn a_damaged_file_is_told_as_one() {
        let (dir, home) = home();
        let from = dir.path().join("parquet");
        tables(&from);
        let mapping = guess_of(&from).unwrap().mapping;
        let file = from.join("products.parquet");
        let whole = fs::read(&file).unwrap();
        let mut refused = 0;
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            fs::write(&file, &bytes).unwrap();
            let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
            match import(&from, &mapping, &home, &options) {
                Err(DatasetError::BadInput(message)) => {
                    assert!(message.starts_with(file.to_str().unwrap()), "{message}");
                    refused += 1;
                }
                // The byte changed values or names, or nothing.
                Err(DatasetError::Problems(_)) | Ok(_) => {}
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
        assert!(refused > 10, "{refused}");
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        let error = guess_of(&from).unwrap_err().to_string();
        assert!(error.contains("products.parquet") && error.contains("convert it"), "{error}");
    }
}

#[test]
fn a_stray_quote_costs_its_own_row_alone() {
    let (dir, home) = home();
    let row = |n: usize| match n {
        // The first quote would extend the row to the second quote, or to the end of the file.
        10 => "P10,\"5 inch cup,small\n".to_owned(),
        40 => "P40,\"8 inch\" cup,\"large\"\n".to_owned(),
        60 => "P60,\"never closed,small\n".to_owned(),
        n => format!("P{n},Cup {n},\"a cup\nof two lines\"\n"),
    };
    let cups: String = (1..100).map(row).collect();
    write(dir.path(), &[("cups.csv", &format!("id,name,size\n{cups}"))]);
    let options = GuessOptions { no_values: true, ..GuessOptions::default() };
    let mapping = guess(dir.path(), &options).unwrap().mapping;
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let text = error.to_string();
    // Most rows take two lines.
    let place = |line: usize| format!("cups.csv:{line}: a quote that opens in this row is never");
    assert!(text.contains(&place(20)) && text.contains(&place(118)), "{text}");
    let lenient = ImportOptions { lenient: true, ..ImportOptions::default() };
    let report = import(dir.path(), &mapping, &home, &lenient).unwrap();
    assert_eq!(report.base.record.n_nodes, 97);
}

#[test]
fn links_to_rows_behind_the_sample_and_keys_of_late_rows_are_found() {
    let (dir, home) = home();
    let n = 60_000;
    let papers: String = (0..n).map(|at| format!("{{\"id\": \"W{at}\"}}\n")).collect();
    let late = "{\"id\": \"W\", \"venue\": \"x y\"}\n";
    let citations: String =
        (0..200).map(|at| format!("W{},W{}\n", n - 1 - at, n - 300 + at)).collect();
    let files = [
        ("papers.jsonl", format!("{papers}{late}")),
        ("citations.csv", format!("citing_paper,cited_paper\n{citations}")),
    ];
    write(dir.path(), &files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let expected = [
        "citations.csv: one edge per row: citing_paper (paper) -citations-> cited_paper (paper)",
        "papers.jsonl: one paper per row: id id, fields venue",
    ];
    let mut told = lines(dir.path());
    told.sort();
    assert_eq!(told, expected);
    let report = imported(dir.path(), &home);
    assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (60_001, 200));
}

#[test]
fn a_foreign_key_may_be_to_another_unique_column() {
    let (dir, home) = home();
    let file = dir.path().join("shop.sqlite");
    let sql = "CREATE TABLE brands (id INTEGER PRIMARY KEY, code TEXT UNIQUE, name TEXT);
        CREATE TABLE products (sku TEXT PRIMARY KEY, brand_code TEXT REFERENCES brands(code));
        INSERT INTO brands VALUES (1,'NP','Northpeak'), (2,'TW','Tidewell');
        INSERT INTO products VALUES ('S1','NP'), ('S2','TW'), ('S3','NP');
        CREATE VIEW northpeak AS SELECT * FROM products WHERE brand_code = 'NP';";
    let connection = connect(&file).unwrap();
    connection.execute_batch(sql).unwrap();
    let report = imported(&file, &home);
    assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (5, 3));
    let hint = "shop.sqlite:product".parse().unwrap();
    let error = guess(&file, &GuessOptions { hints: &[hint], ..GuessOptions::default() })
        .unwrap_err()
        .to_string();
    assert!(error.contains("it has 2 tables, which cannot all be of type \"product\""), "{error}");
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    assert_eq!(kb.nodes_of_key("NP").len(), 1);
    // If another table refers to the primary key, it stays the id, and a note reports the key that
    // cannot link.
    let more = "CREATE TABLE shops (name TEXT PRIMARY KEY, main INTEGER REFERENCES brands);
        INSERT INTO shops VALUES ('North', 1);";
    connection.execute_batch(more).unwrap();
    let guessed = guess_of(&file).unwrap();
    let told = "shop.sqlite:products: brand_code refers to code of brands, whose id is id, so it cannot \
        become a relation; if code is unique, use it as the id of brands";
    let views =
        "shop.sqlite: views are left out: northpeak; to import one, store its rows as a table";
    assert_eq!(guessed.notes, [views, told]);
    let report = import(&file, &guessed.mapping, &home, &ImportOptions::default()).unwrap();
    assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (6, 1));
}

#[test]
fn what_spreadsheets_write_is_read_and_what_hides_the_rows_is_told() {
    let (dir, _) = home();
    // Empty rows below a table, a header of two lines, commas in a tab-separated file.
    let files = [
        ("brands.csv", "id,name\nB1,Northpeak\nB2,Tidewell\n,\n,\n"),
        ("goods.csv", "sku,\"Product\nname\"\nS1,Mug\n"),
        ("things.tsv", "id\tname, full\nT1\tCup, blue\n"),
    ];
    write(dir.path(), &files);
    let told = lines(dir.path());
    assert_eq!(told[0], "brands.csv: one brand per row: id id, name name");
    assert!(told[1].starts_with("goods.csv: one good per row: id sku, name Product"), "{told:?}");
    assert!(told[2].starts_with("things.tsv: one thing per row: id id"), "{told:?}");
    let alone = dir.path().join("alone.csv");
    for (text, why) in [
        ("a,a\n1,2\n", "alone.csv:1: two columns are called \"a\""),
        ("id,\"name\nS1,Mug\n", "alone.csv:1: a quote that opens in this row is never closed"),
        ("id,name\n", "no table has rows"),
    ] {
        fs::write(&alone, text).unwrap();
        let error = guess_of(&alone).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    // Other data may also have a folder `processed`.
    fs::create_dir(dir.path().join("processed")).unwrap();
    assert_eq!(InputFormat::detect(dir.path()).unwrap(), InputFormat::Tables);
}

#[test]
fn rows_that_are_the_same_and_ids_far_from_zero_do_not_mislead_the_guess() {
    let (dir, _) = home();
    let staff: String = (1001..1031).map(|id| format!("{id},Dean {id}\n")).collect();
    let course = |n: u32| format!("C{n},Course {n},{},{},{}\n", 1001 + n % 30, n % 9, 1 + n % 6);
    let courses: String = (0..60).map(course).collect();
    let staff = format!("no,name\n{staff}1001,Dean 1001\n1002,Dean 1002\n1003,Dean 1003\n");
    let courses = format!("code,title,lecturer,credits,max_guests\n{courses}");
    let guests: String = (1..9).map(|n| format!("{n},Guest {n},C{n}\n")).collect();
    let guests = format!("guest_no,name,first_code\n{guests}");
    let files = [("staff.csv", &staff), ("courses.csv", &courses), ("guests.csv", &guests)];
    write(dir.path(), &files.map(|(name, text)| (name, text.as_str())));
    assert_eq!(
        guess_of(dir.path()).unwrap().mapping.lines(),
        [
            "courses.csv: one course per row: id code, name title, fields credits max_guests, \
             lecturer -lecturer-> staff",
            "guests.csv: one guest per row: id guest_no, name name, \
             first_code -has_first-> course",
            "staff.csv: one staff per row: id no, name name",
        ]
    );
}

#[test]
fn of_rows_that_are_the_same_one_is_taken() {
    let (dir, home) = home();
    csv_tables(dir.path());
    let mapping = guess_of(dir.path()).unwrap().mapping;
    let first = PRODUCTS.lines().nth(1).unwrap();
    write(dir.path(), &[("products.csv", &format!("{PRODUCTS}{first}\n{first}\n"))]);
    let report = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap();
    assert_eq!((report.base.record.n_nodes, report.repeated_rows), (7, 2));
    // The same key with different cells is still an error.
    let (key, _) = first.split_once(',').unwrap();
    let other = first.replacen(',', ",Other ", 1);
    write(dir.path(), &[("products.csv", &format!("{PRODUCTS}{other}\n"))]);
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    assert!(error.to_string().contains(&format!("\"{key}\" occurs twice")), "{error}");
}

#[test]
fn the_tables_of_a_full_text_index_are_no_types() {
    let (dir, home) = home();
    let file = dir.path().join("notes.sqlite");
    let sql = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
        INSERT INTO note VALUES (1, 'first'), (2, 'second');
        CREATE VIRTUAL TABLE found USING fts5(title);
        INSERT INTO found VALUES ('first');
        CREATE VIRTUAL TABLE place USING rtree(id, x0, x1);
        INSERT INTO place VALUES (1, 0, 1);";
    connect(&file).unwrap().execute_batch(sql).unwrap();
    let mapping = guess_of(&file).unwrap().mapping;
    let types: Vec<&str> = mapping.nodes.iter().map(|of| of.node_type.as_str()).collect();
    assert_eq!(types, ["note"]);
    let report = import(&file, &mapping, &home, &ImportOptions::default()).unwrap();
    assert_eq!(report.base.record.n_nodes, 2);
}
