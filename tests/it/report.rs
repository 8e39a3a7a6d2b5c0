//! `agent report`: one page that is whole and needs nothing else, with the record that its view shows
//! as text. `scripts/check-explorer.mjs` opens it in a browser.

use std::fs;

use serde_json::Value;

use crate::support::World;

/// A name that a browser would run.
const HOSTILE: &str = "<script>alert('x')</script>";

/// A world with a finished run on a base whose names are hostile.
fn world_with_run() -> World {
    let world = World::new();
    for file in ["nodes.jsonl", "edges.tsv", "dataset.toml"] {
        let path = world.path("tiny").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let text = text
            .replace("has_brand", &format!("has_{HOSTILE}"))
            .replace("dart\"", &format!("dart {HOSTILE}\""))
            .replace("Tiny", HOSTILE);
        fs::write(path, text).unwrap();
    }
    world.run(["data", "import", "--name", "tiny", "--from", &world.source()]).done();
    world.run(["index", "tiny"]).done();
    world.run(["optimize", "--dataset", "tiny", "--run", "run", "--steps", "2"]).done();
    world
}

/// The record of a page, which is one file that may run its own script and fetch nothing.
#[track_caller]
pub(crate) fn record(html: &str) -> Value {
    assert!(html.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
    for foreign in [" src=", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign} is in the page");
    }
    let (_, rest) = html.split_once("<script type=\"application/json\" id=\"record\">").unwrap();
    let (record, rest) = rest.split_once("</script>").unwrap();
    assert_eq!((html.matches("<script").count(), rest.matches("</script>").count()), (2, 1));
    serde_json::from_str(record).unwrap()
}

#[test]
fn a_page_has_the_record_of_the_run_and_every_text_stays_text() {
    let world = world_with_run();
    let out = world.run(["report", "--run", "run"]).done();
    assert_eq!(out.trim(), "run/report.html");
    let html = fs::read_to_string(world.path("run/report.html")).unwrap();
    let page = record(&html);
    assert!(!html.contains(HOSTILE) && page.to_string().contains(HOSTILE), "{html}");
    let (run, found) = (&page["run"], &page["found"]);
    assert_eq!(run["dataset"], "tiny");
    assert_eq!(run["state"], "finished");
    assert_eq!(run["bundle"], true);
    for list in ["curve", "categories", "archive", "phases"] {
        assert!(!run[list].as_array().unwrap().is_empty(), "{run}");
    }
    assert!(run["roles"].as_array().unwrap().is_empty(), "no language model was asked");
    let programs = page["programs"].as_array().unwrap();
    assert!(!programs.is_empty());
    assert!(programs.iter().all(|of| of["frozen"].is_boolean() && of["source"].is_string()));
    let steps: Vec<u64> =
        page["steps"].as_array().unwrap().iter().map(|step| step["n"].as_u64().unwrap()).collect();
    assert!(steps.len() > 1 && steps.is_sorted_by(|a, b| a > b), "{steps:?}");
    let systems: Vec<&Value> =
        found["systems"].as_array().unwrap().iter().map(|system| &system["name"]).collect();
    assert_eq!(systems[0], "bundle");
    assert!(systems.contains(&&Value::from("bm25+names")), "{systems:?}");
    assert!(found["losses"]["n"].as_u64().unwrap() > 0, "{found}");
    assert!(!found["against"].as_object().unwrap().is_empty(), "{found}");
    let again = "agent optimize --dataset tiny --actor search --seed 1 --steps 2";
    assert!(found["commands"][0].as_str().unwrap().starts_with(again), "{found}");
    // The same run gives the same page.
    world.run(["report", "--run", "run", "--out", "again.html"]).done();
    assert_eq!(fs::read_to_string(world.path("again.html")).unwrap(), html);
    world.run(["report", "--run", "run", "--out", "run/run.sqlite"]).fails(1, &["FILE.html"]);
    world.run(["report", "--run", "nowhere"]).fails(1, &["nowhere"]);
    #[cfg(unix)]
    {
        // A run of somebody else may hold a link in the place of its page.
        fs::write(world.path("mine"), "kept").unwrap();
        fs::remove_file(world.path("run/report.html")).unwrap();
        std::os::unix::fs::symlink(world.path("mine"), world.path("run/report.html")).unwrap();
        world
            .run(["report", "--run", "run"])
            .fails(1, &["run/report.html", "it is a symbolic link"]);
        assert_eq!(fs::read_to_string(world.path("mine")).unwrap(), "kept");
        fs::remove_file(world.path("run/report.html")).unwrap();
    }
    opened(&world);
}

/// Checks that the page is handed to a browser where there is one, and named where there is none.
#[cfg(unix)]
fn opened(world: &World) {
    use std::{os::unix::fs::PermissionsExt as _, thread, time::Duration};

    let report = || world.command(["report", "--run", "run", "--open"]);
    let none = report().env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").output().unwrap();
    let told = String::from_utf8(none.stderr).unwrap();
    assert!(told.contains("cannot start a browser") && told.contains("run/report.html"), "{told}");
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    let (opener, seen) = (bin.join("xdg-open"), world.path("seen"));
    fs::write(&opener, format!("#!/bin/sh\necho \"$1\" >{}\n", seen.display())).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let some = report().env("DISPLAY", ":0").env("PATH", &bin).output().unwrap();
    assert!(some.status.success(), "{some:?}");
    // Nobody waits for a browser, so its file may come later.
    let path = (0..600).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        fs::read_to_string(&seen).ok().filter(|text| text.ends_with('\n'))
    });
    assert!(path.unwrap().ends_with("run/report.html\n"));
}

#[cfg(not(unix))]
fn opened(_: &World) {}

#[test]
fn a_run_without_bundle_or_dataset_is_told_as_far_as_it_is() {
    let world = world_with_run();
    world.run(["data", "remove", "tiny"]).done();
    let ran = world.run(["report", "--run", "run"]);
    assert!(ran.stderr.contains("not installed"), "{}", ran.stderr);
    ran.done();
    let html = fs::read_to_string(world.path("run/report.html")).unwrap();
    let page = record(&html);
    assert!(page["found"]["losses"].is_null() && page["found"]["figures"].is_array(), "{page}");
    assert!(!page["run"]["categories"].as_array().unwrap().is_empty(), "{page}");
    fs::remove_file(world.path("run/bundle.json")).unwrap();
    world.run(["report", "--run", "run"]).done();
    let html = fs::read_to_string(world.path("run/report.html")).unwrap();
    let page = record(&html);
    assert_eq!(page["run"]["bundle"], false);
    assert!(page["found"]["commands"][1].as_str().unwrap().ends_with("--resume"), "{page}");
}

#[test]
fn a_page_of_a_model_has_the_record_of_its_training() {
    let world = World::indexed();
    let train = ["train", "dense", "--dataset", "tiny", "--made", "20", "--epochs", "2"];
    world.run(train.into_iter().chain(["--name", "words"])).done();
    let out = world.run(["report", "--model", "words", "--out", "model.html"]).done();
    assert_eq!(out.trim(), "model.html");
    let html = fs::read_to_string(world.path("model.html")).unwrap();
    let page = record(&html);
    assert_eq!(
        (&page["name"], &page["record"]["system"]),
        (&"words".into(), &"dense:trained".into())
    );
    assert_eq!(page["record"]["source"]["dataset"], "tiny");
    assert!(page["record"]["model"]["settings"]["rate"].is_number(), "{page}");
    let looks = page["record"]["curve"].as_array().unwrap();
    assert_eq!(looks.len(), 3, "a look before training and one after each epoch");
    let refused = world.run(["report", "--model", "nobody"]);
    assert!(refused.stderr.contains("there is no model \"nobody\""), "{}", refused.stderr);
    let both = world.run(["report", "--model", "words", "--run", "run"]);
    assert_eq!(both.status, 2, "{}", both.stderr);
    let record = world.run(["report", "--model", "words", "--out", "record.json"]);
    assert!(record.stderr.contains("FILE.html"), "{}", record.stderr);
}
