//! Tests of cassettes: recording, playing back, and invalid files.

use std::{fs, thread};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{Finish, Message, Usage};

fn exchange(n: usize) -> Exchange {
    let request = Request {
        role: Role::new(["actor", "comparator", "categories"][n % 3]),
        model: "model".to_owned(),
        messages: vec![Message::user("system"), Message::user(format!("what is\nnumber {n}?"))],
        temperature: None,
        max_tokens: 10,
        parameters: serde_json::Map::new(),
        json: None,
        sample: 0,
    };
    let usage = Usage { tokens_in: n as u64, tokens_out: 1, estimated: false };
    let reply = Reply { text: format!("answer {n}"), finish: Finish::Stop, usage };
    Exchange { request, reply, paid: true }
}

fn record(recorder: &Recorder, n: usize) {
    let exchange = exchange(n);
    recorder.put(&exchange.request.key(), &exchange).expect("recorded");
}

#[test]
fn what_is_recorded_by_threads_is_replayed_and_sorted() {
    let home = TempDir::new().expect("directory");
    let files = [1, 8].map(|threads| {
        let path = home.path().join(format!("{threads}.jsonl"));
        let recorder = Recorder::open(&path).expect("open");
        thread::scope(|scope| {
            for thread in 0..threads {
                let recorder = &recorder;
                scope.spawn(move || {
                    (0..30).filter(|n| n % threads == thread).for_each(|n| record(recorder, n));
                });
            }
        });
        record(&recorder, 3);
        recorder.finish().expect("finish");
        fs::read_to_string(path).expect("read")
    });
    assert_eq!(files[0], files[1]);
    let keys: Vec<&str> = files[0].lines().collect();
    assert!(keys.is_sorted() && keys.len() == 30);
    let cassette = Cassette::open(&home.path().join("8.jsonl")).expect("open");
    assert_eq!(cassette.unused().len(), 30);
    for n in 0..29 {
        assert_eq!(cassette.ask(&exchange(n).request).expect("reply"), exchange(n).reply);
    }
    let unused: Vec<&str> = cassette.unused().iter().map(|line| &*line.excerpt).collect();
    assert_eq!(unused, ["what is number 29?"]);
}

#[test]
fn a_request_that_is_not_recorded_is_told_with_the_nearest() {
    let home = TempDir::new().expect("directory");
    let path = home.path().join("c.jsonl");
    let recorder = Recorder::open(&path).expect("open");
    [10, 20, 21].into_iter().for_each(|n| record(&recorder, n));
    drop(recorder);
    let cassette = Cassette::open(&path).expect("open");
    let mut other = exchange(20).request;
    other.temperature = Some(0.5);
    let error = cassette.ask(&other).expect_err("unrecorded");
    let text = error.to_string();
    assert!(matches!(error, LlmError::Unrecorded(_)), "{text}");
    for part in ["c.jsonl", "tools", "number 20", &exchange(20).request.key()[..12]] {
        let role = exchange(20).request.role;
        let part = if part == "tools" { role.name() } else { part };
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    fs::write(&path, "").expect("write");
    let empty = Cassette::open(&path).expect("open").ask(&other).expect_err("unrecorded");
    assert!(empty.to_string().contains("no request is recorded"), "{empty}");
}

#[test]
fn a_file_of_another_kind_without_a_line_end_stays_as_it_is() {
    let home = TempDir::new().expect("directory");
    let path = home.path().join("notes.json");
    fs::write(&path, r#"{"kept": 1}"#).expect("write");
    let refused = Recorder::open(&path);
    assert!(matches!(refused, Err(CassetteError::Line { line: 1, .. })), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).expect("read"), r#"{"kept": 1}"#);
}

#[test]
fn recording_goes_on_after_a_kill_and_the_later_reply_counts() {
    let home = TempDir::new().expect("directory");
    let path = home.path().join("c.jsonl");
    let recorder = Recorder::open(&path).expect("open");
    (0..3).for_each(|n| record(&recorder, n));
    let busy = Recorder::open(&path);
    assert!(matches!(busy, Err(CassetteError::Busy { .. })), "{busy:?}");
    drop(recorder);
    let whole = fs::read(&path).expect("read");
    fs::write(&path, &whole[..whole.len() - 7]).expect("write");
    let torn = Cassette::open(&path);
    assert!(matches!(torn, Err(CassetteError::Line { line: 3, .. })), "{torn:?}");
    let recorder = Recorder::open(&path).expect("open");
    (0..3).for_each(|n| record(&recorder, n));
    recorder.finish().expect("finish");
    assert_eq!(fs::read(&path).expect("read"), whole);
    let mut again = exchange(1);
    again.reply.text = "another answer".to_owned();
    recorder.put(&again.request.key(), &again).expect("put");
    drop(recorder);
    let cassette = Cassette::open(&path).expect("open");
    assert_eq!(cassette.recorded().count(), 3);
    assert_eq!(cassette.ask(&again.request).expect("reply").text, "another answer");
}

#[test]
fn wrong_lines_are_named() {
    let home = TempDir::new().expect("directory");
    let path = home.path().join("c.jsonl");
    let good = encoded(&RecordedExchange::new(&"0".repeat(64), &exchange(1)), &path).expect("line");
    for (bad, word) in [
        (good.replace(&"0".repeat(64), "../x"), "hexadecimal"),
        (good.replace("answer 1", ""), "empty"),
        (good.replace("\"comparator\"", "7"), "integer `7`"),
        (good.replace("\"model\":", "\"authorization\":\"x\",\"model\":"), "authorization"),
        ("{}\n".to_owned(), "missing field"),
        ("\n".to_owned(), "EOF"),
        ("[".repeat(1 << 20) + "\n", "invalid type"),
        ("x".repeat(LINE_BYTES as usize + 1), "longer"),
        (good.trim().to_owned(), "not finished"),
    ] {
        fs::write(&path, format!("{good}{bad}")).expect("write");
        let error = Cassette::open(&path).expect_err(word).to_string();
        assert!(error.contains(":2: ") && error.contains(word), "{word}: {error}");
    }
    let absent = Cassette::open(&home.path().join("absent")).expect_err("absent").to_string();
    assert!(absent.contains("cannot open"), "{absent}");
    let file = File::create(&path).expect("create");
    file.set_len(CASSETTE_BYTES + 1).expect("length");
    let large = Cassette::open(&path);
    assert!(matches!(large, Err(CassetteError::TooLarge { .. })), "{large:?}");
}

#[test]
fn a_reply_too_long_for_a_line_is_refused_with_the_limit_of_a_line() {
    let home = TempDir::new().expect("directory");
    let path = home.path().join("c.jsonl");
    let mut long = exchange(1);
    long.reply.text = "x".repeat(LINE_BYTES as usize);
    let refused = encoded(&RecordedExchange::new(&"0".repeat(64), &long), &path);
    let error = refused.expect_err("too long").to_string();
    assert!(error.contains(&format!("{LINE_BYTES} bytes")), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_cassette_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..400usize) {
        let home = TempDir::new().expect("directory");
        let path = home.path().join("c.jsonl");
        let mut text = encoded(&RecordedExchange::new(&"0".repeat(64), &exchange(1)), &path).expect("line");
        let at = text.floor_char_boundary(at);
        text.insert_str(at, &String::from_utf8_lossy(&bytes));
        for content in [text.as_bytes(), &bytes] {
            fs::write(&path, content).expect("write");
            if let Err(error) = Cassette::open(&path) {
                prop_assert!(error.to_string().contains("c.jsonl:"), "{error}");
            }
        }
    }

    #[test]
    fn excerpts_are_short_and_on_one_line(text in ".{0,600}") {
        let mut request = exchange(0).request;
        request.messages.push(Message::user(text));
        let excerpt = excerpt(&request);
        prop_assert!(excerpt.chars().count() <= EXCERPT_CHARS);
        prop_assert!(!excerpt.contains(char::is_control));
    }
}

#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "the test makes a pipe")]
#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let dir = TempDir::new().expect("directory");
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    for error in [Recorder::open(&pipe).map(drop), Cassette::open(&pipe).map(drop)] {
        assert!(error.unwrap_err().to_string().contains("not a regular file"));
    }
}
