//! `agent report`: one page that is whole, needs nothing else, and shows every text as text.

use std::fs;

use crate::support::World;

/// A name that a browser would run.
const HOSTILE: &str = "<script>alert('x')</script>";
/// Tags that are never closed.
const VOID: [&str; 2] = ["meta", "!DOCTYPE"];

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

/// Checks that every tag is closed, in order; gives the tags.
#[track_caller]
fn tags(html: &str) -> Vec<String> {
    let (mut open, mut seen): (Vec<String>, Vec<String>) = Default::default();
    for part in html.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap().to_owned();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_ref(), Some(&name), "in <{tag}>");
        } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        seen.push(name);
    }
    assert_eq!(open, Vec::<String>::new());
    seen
}

#[test]
fn a_page_tells_the_run_and_escapes_every_text() {
    let world = world_with_run();
    let out = world.run(["report", "--run", "run"]).done();
    assert_eq!(out.trim(), "run/report.html");
    let html = fs::read_to_string(world.path("run/report.html")).unwrap();
    let seen = tags(&html);
    for tag in ["svg", "polyline", "table", "details", "pre"] {
        assert!(seen.iter().any(|name| name == tag), "{tag} is not in the page");
    }
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
    for words in [
        "Quality over steps",
        "Baselines",
        "bm25+names",
        "Where answers are lost",
        "Categories and their programs",
        "Changes and their sequential test",
        "What it took",
        "measuring and freezing",
        "No language model was asked.",
        "agent optimize --dataset tiny --actor search --seed 1 --steps 2",
        "prefers-color-scheme: dark",
    ] {
        assert!(html.contains(words), "{words} is not in the page");
    }
    // Nothing is fetched.
    for foreign in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign} is in the page");
    }
    // The same run gives the same page.
    world.run(["report", "--run", "run", "--out", "again.html"]).done();
    assert_eq!(fs::read_to_string(world.path("again.html")).unwrap(), html);
    world.run(["report", "--run", "run", "--out", "run/run.sqlite"]).fails(1, &["FILE.html"]);
    world.run(["report", "--run", "nowhere"]).fails(1, &["nowhere"]);
    opened(&world);
}

/// Checks that the page is handed to a browser where there is one, and named where there is none.
#[cfg(unix)]
fn opened(world: &World) {
    use std::{os::unix::fs::PermissionsExt as _, thread, time::Duration};

    let report = || world.command(["report", "--run", "run", "--open"]);
    let none = report().env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").output().unwrap();
    let told = String::from_utf8(none.stderr).unwrap();
    assert!(told.contains("no browser") && told.contains("run/report.html"), "{told}");
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
    tags(&html);
    assert!(!html.contains("Where answers are lost") && html.contains("Categories and"));
    fs::remove_file(world.path("run/bundle.json")).unwrap();
    world.run(["report", "--run", "run"]).done();
    let html = fs::read_to_string(world.path("run/report.html")).unwrap();
    tags(&html);
    assert!(html.contains("The run is not finished") && html.contains("--resume"));
}

#[test]
fn a_page_of_a_model_draws_how_it_was_trained() {
    let world = World::indexed();
    let train = ["train", "dense", "--dataset", "tiny", "--made", "20", "--epochs", "2"];
    world.run(train.into_iter().chain(["--name", "words"])).done();
    let out = world.run(["report", "--model", "words", "--out", "model.html"]).done();
    assert_eq!(out.trim(), "model.html");
    let html = fs::read_to_string(world.path("model.html")).unwrap();
    let seen = tags(&html);
    assert_eq!(
        seen.iter().filter(|name| *name == "svg").count(),
        4,
        "two drawings, opened and closed"
    );
    for words in
        ["Model words", "dense:trained, trained on tiny", "settings.rate", "Loss of training"]
    {
        assert!(html.contains(words), "{words} is not in the page");
    }
    let points = html.split("<polyline class=\"best\" points=\"").skip(1);
    let looks: Vec<usize> =
        points.map(|rest| rest.split('"').next().unwrap().split(' ').count()).collect();
    assert_eq!(looks, [3, 3], "a look before training and one after each epoch");
    let refused = world.run(["report", "--model", "nobody"]);
    assert!(refused.stderr.contains("there is no model \"nobody\""), "{}", refused.stderr);
    let both = world.run(["report", "--model", "words", "--run", "run"]);
    assert_eq!(both.status, 2, "{}", both.stderr);
    let record = world.run(["report", "--model", "words", "--out", "record.json"]);
    assert!(record.stderr.contains("FILE.html"), "{}", record.stderr);
}
