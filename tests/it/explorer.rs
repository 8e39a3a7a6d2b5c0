//! The explorer: that what is in the binary was built from the sources in `web/`, and that a server
//! sends it with what browsers need to know. `scripts/check-explorer.mjs` goes through it in one.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::serve::{Served, optimized};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of `web/` but fetched packages and the list of digests, from the repository's root.
fn files() -> Vec<String> {
    let (mut dirs, mut files) = (vec![root().join("web")], Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_name().unwrap();
            if path.is_dir() && name != "node_modules" {
                dirs.push(path);
            } else if path.is_file() && name != "dist.digest" {
                let from_root = path.strip_prefix(root()).unwrap();
                files.push(from_root.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_built_explorer_is_what_its_sources_say() {
    let noted = fs::read_to_string(root().join("web/dist.digest")).unwrap();
    let noted: BTreeMap<&str, &str> =
        noted.lines().filter_map(|line| line.split_once("  ")).map(|(a, b)| (b, a)).collect();
    for (file, digest) in &noted {
        let bytes = fs::read(root().join(file)).unwrap();
        let now: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(now, **digest, "{file} changed since the explorer was built; {}", mend());
    }
    for file in files() {
        assert!(noted.contains_key(file.as_str()), "{file} is not in web/dist.digest; {}", mend());
    }
    let lock = fs::read_to_string(root().join("web/package-lock.json")).unwrap();
    assert!(!lock.contains("\"resolved\""), "the lock file names a registry");
}

fn mend() -> &'static str {
    "run scripts/build-web.sh"
}

#[test]
fn the_explorer_is_sent_with_its_policy_and_what_may_be_kept() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    // The views that the page knows are addresses of the server.
    let place = fs::read_to_string(root().join("web/src/place.ts")).unwrap();
    let views = place.split("VIEWS = [").nth(1).unwrap().split("] as const").next().unwrap();
    let views: Vec<&str> =
        views.split("['").skip(1).map(|of| of.split('\'').next().unwrap()).collect();
    assert_eq!(views.first(), Some(&"ask"));
    let (_, _, page) = served.ask("GET", "/", "", "");
    for view in &views {
        let (status, head, body) = served.ask("GET", &format!("/{view}?base=x"), "", "");
        assert_eq!((status, &body), (200, &page), "{view}");
        assert!(head.contains("content-security-policy: default-src 'self'"), "{head}");
        assert!(head.contains("content-type: text/html"), "{head}");
    }
    let script = page.split("src=\"./").nth(1).unwrap().split('"').next().unwrap();
    let (status, head, body) = served.ask("GET", &format!("/{script}"), "", "");
    assert_eq!(status, 200);
    assert!(head.contains("immutable") && head.contains("text/javascript"), "{head}");
    assert_eq!(body, fs::read_to_string(root().join("web/dist").join(script)).unwrap());
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let again = format!("If-None-Match: {tag}\r\n");
    let (status, _, body) = served.ask("GET", &format!("/{script}"), &again, "");
    assert_eq!((status, body.as_str()), (304, ""));
    assert_eq!(served.get("/assets/none.js").0, 404);
    assert_eq!(served.get("/assets/..%2Findex.html").0, 404);
}

#[test]
fn what_is_in_a_base_is_told() {
    let world = optimized();
    let served = Served::start(&world, ["--bundle", "latest"]);
    let (_, bases) = served.get("/v1/base");
    let (status, schema) = served.get("/v1/schema?base=shop");
    assert_eq!(status, 200, "{schema}");
    let total = |of: &Value, count: &str| -> u64 {
        of.as_array().unwrap().iter().map(|of| of[count].as_u64().unwrap()).sum()
    };
    assert_eq!(total(&schema["types"], "nodes"), bases[0]["nodes"].as_u64().unwrap());
    assert_eq!(total(&schema["relations"], "edges"), bases[0]["edges"].as_u64().unwrap());

    let (_, all) = served.get("/v1/nodes?type=product&limit=200");
    let n = all["total"].as_u64().unwrap();
    let (mut cursor, mut nodes) = (Some(0), Vec::new());
    while let Some(at) = cursor {
        let (_, part) = served.get(&format!("/v1/nodes?type=product&limit=7&cursor={at}"));
        nodes.extend(part["nodes"].as_array().unwrap().clone());
        cursor = part["next"].as_u64();
    }
    assert_eq!(nodes.len() as u64, n);
    assert_eq!(nodes[..7], all["nodes"].as_array().unwrap()[..7]);
    let (_, same) = served.get(&format!("/v1/nodes?key={}", nodes[3]["key"].as_str().unwrap()));
    assert_eq!(same["nodes"][0], nodes[3]);

    let (_, systems) = served.get("/v1/systems");
    let names: Vec<&str> = systems["systems"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|of| of["name"].as_str())
        .collect();
    assert!(names.contains(&"bm25+names") && !names.contains(&"late"), "{names:?}");
    for name in names {
        let asked = serde_json::json!({"query": "steel", "system": name, "k": 1});
        let (status, reply) = served.send("POST", "/v1/search", &asked);
        assert_eq!(status, 200, "{name}: {reply}");
    }

    let (_, bundles) = served.get("/v1/bundles");
    let (status, programs) = served.get("/v1/bundles/active/programs");
    assert_eq!(status, 200, "{programs}");
    assert_eq!(programs["bundle"], bundles[0]["id"]);
    let categories = bundles[0]["categories"].as_array().unwrap();
    assert_eq!(programs["programs"].as_array().unwrap().len(), categories.len());
    for (told, known) in programs["programs"].as_array().unwrap().iter().zip(categories) {
        assert_eq!(told["category"], known["name"]);
        assert!(told["id"].as_str().unwrap().starts_with(known["program"].as_str().unwrap()));
        assert!(told["source"].as_str().unwrap().contains("retrieve"), "{told}");
    }
    for (path, code) in [
        ("/v1/nodes", 400),
        ("/v1/nodes?type=nothing", 400),
        ("/v1/nodes?type=product&limit=0", 400),
        ("/v1/nodes?type=product&key=1", 400),
        ("/v1/schema?base=shup", 404),
        ("/v1/systems?bas=shop", 400),
    ] {
        let (status, reply) = served.get(path);
        assert_eq!(status, code, "{path}: {reply}");
        assert!(reply["error"]["remedy"].is_string(), "{path}: {reply}");
    }
}
