//! Bases in other languages than English: detected, set, shown, and searched by inflected forms, parts of
//! compounds, other spellings of umlauts, and words inside sentences without spaces.

use std::fs;

use crate::support::World;

/// Articles of a German help desk; those behind the first three are noise.
const GERMAN: [(&str, &str); 6] = [
    ("Kühlschrank", "Der Kühlschrank kühlt nicht mehr, weil die Dichtung der Tür beschädigt ist."),
    ("Schreibtischlampe", "Die Lampe flackert, sobald der Schalter am Kabel berührt wird."),
    ("Rechnungsprüfung", "Bei der Prüfung fehlte eine Gutschrift auf dem Konto des Kunden."),
    ("Zugangskarte", "Ohne die Karte öffnet sich das Tor zum Lager am Morgen nicht."),
    ("Bohrhammer", "Das Gerät wird nach kurzer Zeit heiß und schaltet sich dann ab."),
    ("Kaffeemaschine", "Vor dem Wochenende wird der Behälter geleert und gründlich gereinigt."),
];
/// Articles of a Chinese one.
const CHINESE: [(&str, &str); 6] = [
    ("激光打印机", "打印时纸张经常卡住，请先打开后盖再把纸取出来。"),
    ("无线鼠标", "鼠标的电池没电以后，电脑上的指针就不能移动了。"),
    ("会议室", "会议室的投影屏幕太暗，需要更换里面的灯泡。"),
    ("门禁卡", "员工丢失门禁卡以后要马上通知安全部门。"),
    ("咖啡机", "每个周末都要把水箱倒空并且清洗干净。"),
    ("空调", "夏天温度太高的时候，空调会自动关闭。"),
];

/// Installs and indexes the articles as a base; what the two commands said.
fn install(world: &World, name: &str, language: &str, articles: &[(&str, &str)]) -> String {
    let dir = world.path(name);
    fs::create_dir_all(&dir).unwrap();
    let nodes = articles.iter().enumerate().map(|(at, (name, text))| {
        let details = serde_json::json!({ "text": text });
        serde_json::json!({"id": at, "type": "article", "name": name, "details": details})
    });
    let nodes: String = nodes.map(|node| format!("{node}\n")).collect();
    fs::write(dir.join("nodes.jsonl"), nodes).unwrap();
    fs::write(dir.join("edges.tsv"), "src_id\trelation\tdst_id\n").unwrap();
    fs::write(dir.join("dataset.toml"), language).unwrap();
    let source = dir.display().to_string();
    let imported = world.run(["data", "import", "--name", name, "--from", &source]);
    let indexed = world.run(["index", name]);
    assert_eq!((imported.status, indexed.status), (0, 0), "{}{}", imported.stderr, indexed.stderr);
    imported.stderr + indexed.stderr.as_str()
}

/// The first node that a system finds.
fn first(world: &World, name: &str, system: &str, query: &str) -> Option<u64> {
    let hits = world.run(["search", name, query, "--system", system, "--json"]).json_lines();
    hits.first().and_then(|hit| hit["id"].as_u64())
}

#[test]
fn a_german_base_is_found_by_inflected_forms_compounds_and_spelled_out_umlauts() {
    let world = World::new();
    let said = install(&world, "desk", "", &GERMAN);
    assert!(said.contains("languages: German; ") && said.contains("English only"), "{said}");
    assert!(said.contains("languages of word search: German"), "{said}");
    assert!(world.run(["data", "show", "desk"]).done().contains("languages   German\n"));
    for system in ["bm25", "bm25f"] {
        for (query, node) in [
            ("Was tun mit kaputten Kuehlschraenken?", 0),
            ("Lampen am Schreibtisch", 1),
            ("geprüfte Rechnungen", 2),
            ("Gutschriften auf Konten", 2),
        ] {
            assert_eq!(first(&world, "desk", system, query), Some(node), "{system}: {query}");
        }
    }
}

#[test]
fn a_chinese_base_is_found_by_words_inside_a_sentence() {
    let world = World::new();
    let said = install(&world, "desk", "", &CHINESE);
    assert!(said.contains("languages: Chinese; "), "{said}");
    for system in ["bm25", "bm25f"] {
        for (query, node) in [
            ("请问激光打印机怎么办？", 0),
            ("我的鼠标没电了", 1),
            ("谁知道怎么更换灯泡", 2),
            ("昨天丢失了门禁卡", 3),
        ] {
            assert_eq!(first(&world, "desk", system, query), Some(node), "{system}: {query}");
        }
    }
}

#[test]
fn the_language_of_a_base_can_be_set() {
    let world = World::new();
    let said = install(&world, "desk", "language = \"none\"\n", &GERMAN);
    assert!(said.contains("languages of word search: none"), "{said}");
    assert_eq!(first(&world, "desk", "bm25", "Kuehlschraenken"), None);
    let said = install(&world, "desk", "language = [\"de\", \"en\"]\n", &GERMAN);
    assert!(said.contains("languages of word search: English and German"), "{said}");
    assert_eq!(first(&world, "desk", "bm25", "Kuehlschraenken"), Some(0));
    fs::write(world.path("desk/dataset.toml"), "language = \"deutsch\"\n").unwrap();
    let source = world.path("desk").display().to_string();
    let refused = world.run(["data", "import", "--name", "desk", "--from", &source]);
    let said = refused.stderr;
    assert!(
        refused.status != 0 && said.contains("unknown language \"deutsch\"; use none, or"),
        "{said}"
    );
}
