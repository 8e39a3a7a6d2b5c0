//! Files that are rendered from the sources equal what would be rendered now.
//! `UPDATE=1 cargo test --release generated` writes them.

use std::{fs, path::Path};

use agent::{
    sandbox::interface_page,
    serve, systems,
    tools::{reference_page, registry, toolkit_toml},
};

/// Compares a file of the repository with its text, or writes it.
#[track_caller]
fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        return fs::write(&path, text).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let differing = stored.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        stored == text,
        "{file} is stale at line {}; write it with `UPDATE=1 cargo test --release generated`",
        differing.unwrap_or_else(|| stored.lines().count().min(text.lines().count())) + 1
    );
}

#[test]
fn generated_toolkit_is_what_the_registry_says() {
    let text = toolkit_toml().unwrap();
    check("toolkits/stark/toolkit.toml", &text);
    // Readable by any TOML reader, with one table per tool.
    let table: toml::Table = text.parse().unwrap();
    let functions = table["function"].as_array().unwrap();
    assert_eq!(functions.len(), registry().len());
    assert!(functions.iter().all(|function| function.as_table().unwrap().len() == 6));
}

#[test]
fn generated_interface_of_modules_names_every_tool() {
    let page = interface_page(registry());
    check("sandboxes/wasm/wit/retrieval.wit", &page);
    assert!(page.contains("\n    search: func("), "{page}");
}

#[test]
fn generated_reference_names_every_tool() {
    let page = reference_page();
    check("docs/tools.md", &page);
    for spec in registry() {
        assert!(page.contains(&spec.signature()), "{} is in no known group", spec.name);
    }
}

#[test]
fn generated_page_of_systems_has_a_line_for_each() {
    let page = systems::reference_page();
    check("docs/systems.md", &page);
    for spec in systems::SYSTEMS {
        assert!(page.contains(&format!("\n| `{}` | {} |", spec.written(), spec.summary)));
    }
}

#[test]
fn generated_page_of_limits_names_every_route() {
    let page = serve::limits_page();
    check("docs/limits.md", &page);
    assert!(page.contains("\n| `/v1/query` |"), "{page}");
}
