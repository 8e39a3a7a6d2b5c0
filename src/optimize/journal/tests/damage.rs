//! Tests of damaged files (`o6_*`), and of the time that it takes to resume a run.
//!
//! `AGENT_TEST_FLIPS` sets the number of random changes to files that are tried; 100 000 take some
//! minutes.

use std::{fs, time::Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::{Seen, add, crashes::directory, exchange, filled, image, program, seen};
use crate::journal::{DATABASE_FILE, Journal, JournalError, store::Store};
use agent_llm::ReplyStore;

/// Size in bytes of a page of the database.
const PAGE: usize = 4_096;

/// Damages the content of a file in a random way. Returns the name of the kind of damage.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut ChaCha8Rng) -> &'static str {
    let n = bytes.len();
    let at = random.random_range(0..n);
    let pages = n / PAGE;
    match random.random_range(0..10) {
        0..=3 => {
            bytes[at] ^= 1 << random.random_range(0..8);
            "a bit flipped"
        }
        4 | 5 => {
            bytes[at] ^= random.random_range(1..=255u8);
            "a byte changed"
        }
        6 => {
            bytes.truncate(at);
            "cut"
        }
        7 => {
            let end = n.min(at + random.random_range(1..64));
            random.fill_bytes(&mut bytes[at..end]);
            "noise"
        }
        8 if pages > 1 => {
            let (a, b) = (random.random_range(0..pages), random.random_range(0..pages));
            let page = bytes[a * PAGE..(a + 1) * PAGE].to_vec();
            bytes.copy_within(b * PAGE..(b + 1) * PAGE, a * PAGE);
            bytes[b * PAGE..(b + 1) * PAGE].copy_from_slice(&page);
            "two pages swapped"
        }
        _ => {
            let a = random.random_range(0..n.min(other.len()).div_ceil(PAGE)) * PAGE;
            let end = n.min(other.len()).min(a + PAGE);
            bytes[a..end].copy_from_slice(&other[a..end]);
            "a page of another run"
        }
    }
}

/// Returns the journal's content or the error that a reader gets on opening it, then the same for a
/// writer.
fn found(dir: &std::path::Path) -> [Result<Seen, JournalError>; 2] {
    let read = || Journal::open_read_only(dir).and_then(|journal| seen(&journal));
    let first = read();
    // Opens as a writer does, without the disk space that a run reserves.
    let checked = Store::open(&dir.join(DATABASE_FILE), true).map(drop);
    [first, checked.and_then(|()| read())]
}

#[test]
fn o6_no_mutation_is_taken_for_another_run() {
    let n_mutations: usize =
        std::env::var("AGENT_TEST_FLIPS").map_or(1_500, |n| n.parse().expect("a number"));
    let dir = directory();
    let journal = filled(dir.path(), 8);
    let whole = seen(&journal).expect("seen");
    // First the log has all data, then the database.
    let logged = image(dir.path());
    drop(journal);
    let other = directory();
    let mut another = Journal::create(other.path(), &json!({"seed": 8})).expect("create");
    (0..8).for_each(|n| add(&mut another, n).expect("commit"));
    let other_logged = image(other.path());
    drop(another);
    let log = "run.sqlite-wal";
    let read = |dir: &std::path::Path, name: &str| fs::read(dir.join(name)).expect("read");
    let (database, database_before) =
        (read(dir.path(), DATABASE_FILE), read(logged.path(), DATABASE_FILE));
    let (wal, other_wal) = (read(logged.path(), log), read(other_logged.path(), log));
    let other = read(other.path(), DATABASE_FILE);

    let mut random = ChaCha8Rng::seed_from_u64(31);
    let (mut refused, mut unharmed, mut shortened) = (0, 0, 0);
    let location = directory();
    for case in 0..n_mutations {
        for entry in fs::read_dir(location.path()).expect("read") {
            fs::remove_file(entry.expect("entry").path()).expect("remove");
        }
        let in_log = case % 3 == 0;
        let mut changed = if in_log { wal.clone() } else { database.clone() };
        let what = mutate(&mut changed, if in_log { &other_wal } else { &other }, &mut random);
        let what = format!("case {case}: {what}, in the log: {in_log}");
        let put =
            |name: &str, bytes: &[u8]| fs::write(location.path().join(name), bytes).expect("write");
        put(DATABASE_FILE, if in_log { &database_before } else { &changed });
        if in_log {
            put(log, &changed);
        }
        for found in found(location.path()) {
            match found {
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains(DATABASE_FILE), "{what}: {error}");
                }
                Ok(seen) if seen == whole => unharmed += 1,
                // Damaged records of the log count as never written.
                Ok((config, steps, programs, replies)) => {
                    shortened += 1;
                    assert!(in_log, "{what}");
                    assert!(config == whole.0 && whole.1.starts_with(&steps), "{what}");
                    assert!(whole.2.starts_with(&programs), "{what}");
                    assert!(replies.iter().all(|reply| whole.3.contains(reply)), "{what}");
                }
            }
        }
    }
    eprintln!(
        "{n_mutations} mutations: {refused} refused, {unharmed} without effect, {shortened} cut short"
    );
    assert!(refused > n_mutations / 4 && shortened > n_mutations / 20);
}

/// Prints the time that it takes to resume the run; the upper bound only detects hangs.
#[test]
fn o1_a_run_of_200_steps_is_resumed_in_an_instant() {
    let dir = directory();
    let mut journal = Journal::create(dir.path(), &json!({"seed": 7})).expect("create");
    let replies = journal.replies().expect("replies");
    for n in 0..200 {
        let mut exchange = exchange(n);
        exchange.request.messages[0].text += &"what a prompt says, and more ".repeat(700);
        exchange.reply.text = "fn retrieve(query, candidates, params) { candidates }\n".repeat(40);
        let key = exchange.request.key();
        replies.put(&key, &exchange).expect("put");
        let ranks: Vec<f32> = (0..2_000).map(|query| 1.0 / (query + n) as f32).collect();
        let body = json!({"n": n, "reciprocal_ranks": ranks[1..]});
        journal.commit_with("trial", &n.to_string(), &body, &[program(n)], &[key]).expect("commit");
    }
    let length = fs::metadata(dir.path().join("run.sqlite-wal")).expect("log").len();
    let killed = image(dir.path());
    drop((journal, replies));
    for (dir, what) in [(killed.path(), "killed"), (dir.path(), "ended")] {
        let began = Instant::now();
        let journal = Journal::resume(dir).expect("resume");
        let steps = journal.steps().expect("steps").len();
        let took = began.elapsed();
        eprintln!("{what}: 200 steps and replies, log of {length} bytes: resumed in {took:?}");
        assert_eq!(steps, 200);
        assert!(took.as_secs() < 20, "{took:?}");
    }
}

#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "the test makes a pipe")]
#[test]
fn a_pipe_in_a_run_directory_is_not_waited_for() {
    for name in ["lock", "run.sqlite-journal", "run.sqlite-wal"] {
        let dir = directory();
        drop(filled(dir.path(), 2));
        let path = dir.path().join(name);
        let _ = fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        assert!(Journal::resume(dir.path()).is_err(), "{name}");
        let read = Journal::open_read_only(dir.path());
        assert_eq!(read.is_ok(), name == "lock", "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_a_run_directory_is_not_followed() {
    use std::os::unix::fs::symlink;

    let (dir, outside) = (directory(), directory());
    drop(filled(dir.path(), 2));
    let precious = outside.path().join("precious");
    fs::write(&precious, "kept").expect("written");
    for name in ["lock", "reserve", DATABASE_FILE] {
        let path = dir.path().join(name);
        let own = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        for target in [&precious, &outside.path().join("new")] {
            symlink(target, &path).expect("linked");
            let resumed = Journal::resume(dir.path());
            // The reserve is written anew in the place of the link.
            assert_eq!(resumed.is_ok(), name == "reserve", "{name}");
            drop(resumed);
            let _ = fs::remove_file(&path);
        }
        own.into_iter().for_each(|bytes| fs::write(&path, bytes).expect("written"));
    }
    assert_eq!(fs::read(&precious).expect("read"), b"kept");
    assert!(!outside.path().join("new").exists());
    assert_eq!(Journal::resume(dir.path()).expect("resume").steps().expect("steps").len(), 2);
}
