//! Tests of the shared cache: stored replies, skipped replies, and the limit of its size.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use super::*;
use crate::{Finish, Message, Reply, Request, Schema, Usage};

fn exchange(n: usize, text: &str) -> Exchange {
    let request = Request {
        role: Role::new("actor"),
        model: format!("model {}", n % 2),
        messages: vec![Message::user(format!("question {n}"))],
        temperature: Some(0.1),
        max_tokens: 10,
        parameters: serde_json::Map::new(),
        json: None,
        sample: 0,
    };
    let reply = Reply { text: text.to_owned(), finish: Finish::Stop, usage: Usage::default() };
    Exchange { request, reply, paid: true }
}

fn put(cache: &SharedCache, n: usize, text: &str) -> String {
    let exchange = exchange(n, text);
    let key = exchange.request.key();
    cache.put(&key, &exchange).expect("never fails");
    key
}

fn text(cache: &SharedCache, key: &str) -> Option<String> {
    cache.get(key).expect("never fails").map(|exchange| exchange.reply.text)
}

/// Returns the paths of all files below a directory.
fn files(dir: &Path) -> BTreeSet<PathBuf> {
    let folders = fs::read_dir(dir).expect("read").map(|entry| entry.expect("entry").path());
    folders
        .flat_map(|folder| fs::read_dir(folder).expect("read"))
        .map(|entry| entry.expect("entry").path())
        .collect()
}

#[test]
fn an_exchange_is_kept_for_other_processes_and_cleared() {
    let home = TempDir::new().expect("directory");
    let dir = home.path().join("cache/replies");
    let cache = SharedCache::new(&dir);
    assert_eq!(cache.contents().expect("contents"), Contents::default());
    let keys: Vec<String> = (0..3).map(|n| put(&cache, n, "first\n\u{1b}")).collect();
    put(&cache, 0, "second");
    let other = SharedCache::new(&dir);
    for key in &keys {
        assert_eq!(text(&other, key).as_deref(), Some("first\n\u{1b}"));
    }
    assert_eq!((other.hits(), other.problem()), (3, None));
    let contents = other.contents().expect("contents");
    assert_eq!((contents.all.entries, contents.unreadable), (3, 0));
    let models: Vec<_> =
        contents.models.iter().map(|(name, kept)| (&**name, kept.entries)).collect();
    assert_eq!(models, [("model 0", 2), ("model 1", 1)]);
    fs::write(dir.join("note.txt"), "of somebody else").expect("write");
    assert_eq!(other.clear().expect("clear"), contents.all);
    assert!(dir.join("note.txt").exists());
    assert_eq!(text(&cache, &keys[0]), None);
    for bad in ["", "../../../etc/passwd", &"é".repeat(32), &"A".repeat(64)] {
        cache.put(bad, &exchange(0, "")).expect("never fails");
        assert_eq!(text(&cache, bad), None);
    }
    assert_eq!(cache.contents().expect("contents"), Contents::default());
    assert_eq!(fs::read_dir(home.path()).expect("read").count(), 1, "a key named another place");
}

#[test]
fn a_reply_that_cannot_be_used_is_not_kept() {
    let dir = TempDir::new().expect("directory");
    let cache = SharedCache::new(dir.path());
    let schema = serde_json::json!({"type": "object", "required": ["a"]});
    let json = Some(Schema { name: "x".to_owned(), schema });
    let asked = |text: &str, finish: Finish, json: &Option<Schema>| {
        let Exchange { request, reply, paid } = exchange(0, text);
        let request = Request { json: json.clone(), ..request };
        Exchange { request, reply: Reply { finish, ..reply }, paid }
    };
    for (bad, good) in [
        (asked("no", Finish::Stop, &json), asked("{\"a\":1}", Finish::Stop, &json)),
        (asked("half", Finish::Length, &None), asked("whole", Finish::Stop, &None)),
        (asked("no", Finish::Filter, &None), asked("whole", Finish::Stop, &None)),
    ] {
        let key = good.request.key();
        cache.clear().expect("clear");
        cache.put(&key, &bad).expect("never fails");
        assert_eq!(cache.contents().expect("contents").all.entries, 0);
        cache.put(&key, &good).expect("never fails");
        assert_eq!(text(&cache, &key), Some(good.reply.text));
    }
    assert_eq!(cache.problem(), None);
}

#[test]
fn a_damaged_entry_is_absent_is_told_once_and_is_written_again() {
    let dir = TempDir::new().expect("directory");
    let cache = SharedCache::new(dir.path());
    let key = put(&cache, 0, "the reply");
    let path = cache.file(&key).expect("file");
    let whole = fs::read(&path).expect("read");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        for damaged in [&changed[..], &whole[..at]] {
            fs::write(&path, damaged).expect("write");
            let fresh = SharedCache::new(dir.path());
            // The last byte and the names in the first line say nothing of the exchange.
            let found = text(&fresh, &key);
            assert_eq!(found.is_none(), fresh.problem().is_some(), "at {at}");
            assert!(found.is_none_or(|found| found == "the reply"), "at {at}");
        }
    }
    fs::write(&path, &whole[..whole.len() / 2]).expect("write");
    assert_eq!(text(&cache, &key), None);
    let problem = cache.problem().expect("told");
    assert!(problem.contains(&key), "{problem}");
    put(&cache, 0, "the reply");
    assert_eq!(text(&cache, &key).as_deref(), Some("the reply"));
    // The entry of another request.
    let other = put(&cache, 1, "another reply");
    fs::copy(cache.file(&other).expect("file"), &path).expect("copy");
    assert_eq!(text(&cache, &key), None);
}

#[test]
fn the_oldest_entries_go_when_there_is_no_room() {
    let dir = TempDir::new().expect("directory");
    let size = {
        let cache = SharedCache::new(dir.path());
        put(&cache, 0, &"x".repeat(1_000));
        let size = cache.contents().expect("contents").all.bytes;
        cache.clear().expect("clear");
        size
    };
    // A question has one digit or two.
    let limit = size * 20 + 100;
    let cache = SharedCache::with_limit(dir.path(), limit);
    let keys: Vec<String> = (0..20)
        .map(|n| {
            let key = put(&cache, n, &"x".repeat(1_000));
            // The one written last is the oldest.
            let file = File::options().append(true).open(cache.file(&key).expect("file"));
            let age = Duration::from_secs(1_000_000 - n as u64);
            file.expect("open").set_modified(SystemTime::UNIX_EPOCH + age).expect("set");
            key
        })
        .collect();
    let newest = put(&cache, 20, &"x".repeat(1_000));
    let left = cache.contents().expect("contents").all;
    assert!(left.bytes <= limit && left.entries >= 15, "{left:?}");
    assert!(text(&cache, &newest).is_some());
    let kept: Vec<bool> = keys.iter().map(|key| text(&cache, key).is_some()).collect();
    assert!(kept[0] && !kept[19] && kept.windows(2).all(|pair| pair[0] >= pair[1]), "{kept:?}");
    let large = put(&cache, 21, &"x".repeat(size as usize * 21));
    assert_eq!(text(&cache, &large), None);
    assert!(cache.problem().expect("told").contains("size limit"));
}

#[test]
fn threads_and_caches_write_at_the_same_time() {
    let dir = TempDir::new().expect("directory");
    thread::scope(|scope| {
        for thread in 0..8 {
            let dir = dir.path();
            scope.spawn(move || {
                let cache = SharedCache::new(dir);
                for n in 0..20 {
                    let key = put(&cache, (n + thread) % 20, "reply");
                    assert_eq!(text(&cache, &key).as_deref(), Some("reply"));
                }
                assert_eq!(cache.problem(), None);
            });
        }
    });
    assert_eq!(files(dir.path()).len(), 20);
}

#[test]
fn a_cache_that_cannot_be_written_fails_nobody() {
    let home = TempDir::new().expect("directory");
    let file = home.path().join("file");
    fs::write(&file, "in the way").expect("write");
    let cache = SharedCache::new(&file.join("replies"));
    let key = put(&cache, 0, "reply");
    assert_eq!(text(&cache, &key), None);
    assert!(cache.problem().expect("told").contains("cannot store a reply"));
}
