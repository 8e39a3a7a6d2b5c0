//! Tables that the tests write, one base in several forms.

use std::{fs, path::Path, sync::atomic::AtomicBool};

use crate::{
    dataset::{
        DatasetError, Home, ImportOptions, ImportReport, Split, Summary, id_list, id_of,
        ids::AnswerIds,
        import_neutral, load_split, node_of_id,
        tables::{EdgesTable, Mapping, TableHint, guess, import_tables},
    },
    kb::{Direction, Kb},
};

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
    import_tables(source, mapping, home, "shop", options, &mut |_| {}, &stop)
}

fn imported(source: &Path, home: &Home) -> ImportReport {
    let mapping = guess(source, &[]).unwrap().mapping;
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

fn database(file: &Path) {
    let connection = rusqlite::Connection::open(file).unwrap();
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
    assert_eq!(kb.types(), ["brand", "product"]);
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
    assert_eq!(kb.relations(), ["bought", "has_brand", "similar"]);
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
    let bought = "{\"sku\": \"SKU-1\", \"brand_id\": \"B-002\"}\n{\"sku\": \"SKU-3\", \"brand_id\": \"B-001\"}\n";
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
fn a_guess_is_written_edited_and_read_again() {
    let (dir, _) = home();
    csv_tables(dir.path());
    let guessed = guess(dir.path(), &[]).unwrap();
    let file = dir.path().join("mapping.toml");
    fs::write(&file, guessed.mapping.to_toml()).unwrap();
    let mut read = Mapping::read(&file).unwrap();
    assert!(read.nodes.iter().all(|table| table.line > 0));
    read.nodes.iter_mut().for_each(|table| table.line = 0);
    read.edges.iter_mut().for_each(|table| table.line = 0);
    assert_eq!(read, guessed.mapping);
    assert_eq!(guessed.notes, ["bought.csv: edges have no fields: quantity left out"]);
    assert_eq!(
        guessed.mapping.lines(),
        [
            "brands.csv: a brand per row: id id, name name, fields country",
            "products.csv: a product per row: id sku, name title, fields description price tags, \
             brand_id -has_brand-> brand, similar -similar-> product",
            "bought.csv: an edge per row: sku (product) -bought-> brand_id (brand)",
        ]
    );
}

#[test]
fn a_column_with_a_wrong_id_is_a_relation_and_the_id_is_told() {
    let (dir, home) = home();
    let composers = "id,name\nbach,J. S. Bach\nclara,Clara Schumann\nliszt,Franz Liszt\n";
    let pieces = "id,title,by\np1,Mass,bach\np2,Trio,clara\np3,Etude,liszt\np4,Fugue,bachh\n";
    write(dir.path(), &[("composers.csv", composers), ("pieces.csv", pieces)]);
    let mapping = guess(dir.path(), &[]).unwrap().mapping;
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let DatasetError::Wrong(wrong) = &error else { panic!("{error}") };
    let told: Vec<(u64, &str)> =
        wrong.first.iter().map(|one| (one.line, one.message.as_str())).collect();
    assert_eq!(told, [(5, "no composer has the id \"bachh\"")]);
}

#[test]
fn options_say_what_would_be_guessed_otherwise() {
    let (dir, home) = home();
    csv_tables(dir.path());
    let hints: Vec<TableHint> =
        ["products.csv:item:name=description,brand_id=made_by->maker", "brands.csv:maker"]
            .map(|text| text.parse().unwrap())
            .into();
    let mut mapping = guess(dir.path(), &hints).unwrap().mapping;
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
    let mapping = guess(dir.path(), &[]).unwrap().mapping;
    write(dir.path(), &[("products.csv", &products)]);
    let error = import(dir.path(), &mapping, &home, &ImportOptions::default()).unwrap_err();
    let DatasetError::Wrong(wrong) = &error else { panic!("{error}") };
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
    assert!(last.here.contains("Harbor Bottle"), "{}", last.here);
    let lenient = ImportOptions { lenient: true, ..ImportOptions::default() };
    let report = import(dir.path(), &mapping, &home, &lenient).unwrap();
    assert_eq!((report.base.record.n_nodes, report.problems.len()), (5, 5));
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
        "mapping.toml:1: no table makes nodes of type \"brnd\"; the types are: brand, product",
        "mapping.toml:7: cannot read \"../brands.csv\": it does not lie below",
        "mapping.toml:11: cannot read \"no.csv\": there is no such file",
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
    let mapping = guess(dir.path(), &[]).unwrap().mapping;
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
    // Programs that fill gaps write whole numbers so.
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
            Ok(list) => assert_eq!(AnswerIds::of(&kb).parse(&list).ok(), Some(vec![node])),
            Err(id) => assert_eq!((kb.name(node), &*id), ("Slate", "it's \"so\", ok")),
        }
    }
    assert_eq!(id_of(&kb, kb.nodes_of_key("7")[0]), "plant:7");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_with_the_feature_that_reads_it() {
    let (dir, _) = home();
    fs::write(dir.path().join("x.parquet"), "PAR1").unwrap();
    let error = guess(dir.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("x.parquet") && error.contains("--features parquet"), "{error}");
}

#[cfg(feature = "parquet")]
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

    /// What a column is written from.
    enum Column<'a> {
        Texts(&'a [&'a str]),
        Numbers(&'a [f64]),
        /// Several texts a row.
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
        let schema = "message s { required binary sku (UTF8); required binary brand_id (UTF8); }";
        let columns = [Column::Texts(&["SKU-1", "SKU-3"]), Column::Texts(&["B-002", "B-001"])];
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
        let mapping = guess(&from, &[]).unwrap().mapping;
        let file = from.join("products.parquet");
        let whole = fs::read(&file).unwrap();
        let mut refused = 0;
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            fs::write(&file, &bytes).unwrap();
            let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
            match import(&from, &mapping, &home, &options) {
                Err(DatasetError::BadInput { path, .. }) => {
                    assert_eq!(path, file);
                    refused += 1;
                }
                // Values, names or nothing were changed.
                Err(DatasetError::Wrong(_)) | Ok(_) => {}
                Err(error) => panic!("byte {at}: {error}"),
            }
        }
        assert!(refused > 10, "{refused}");
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        let error = guess(&from, &[]).unwrap_err().to_string();
        assert!(error.contains("products.parquet") && error.contains("convert it"), "{error}");
    }
}
