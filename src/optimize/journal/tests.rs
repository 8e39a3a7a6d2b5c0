//! Tests of the journal through its public API, with faults injected into its files.

mod crashes;
mod damage;
mod disk;
mod replies;

use std::{collections::BTreeMap, fs, path::Path, process};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rusqlite::OpenFlags;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    given,
    journal::{
        BODY_BYTES, BODY_DEPTH, DATABASE_FILE, Journal, JournalError, PROGRAM_BYTES, writer_pid,
    },
};
use agent_kb::sqlite;
use agent_llm::{Exchange, Finish, Message, Reply, Request, Role, Usage};
use agent_sandbox::{Code, Limits, program::Program};

/// Content of a journal: its configuration, steps, programs, and replies with their keys.
type Seen = (Value, Vec<Value>, Vec<Program>, Vec<(String, Exchange)>);

fn program(number: usize) -> Program {
    Program::new(&format!("//! category: {number}\nfn retrieve(q, c, p) {{ {number} }}"))
}

/// Creates a journal with `n_steps` steps in a directory.
fn filled(dir: &Path, n_steps: usize) -> Journal {
    let mut journal = Journal::create(dir, &json!({"seed": 7})).expect("create");
    for n in 0..n_steps {
        add(&mut journal, n).expect("commit");
    }
    journal
}

fn add(journal: &mut Journal, n: usize) -> Result<(), JournalError> {
    let body = json!({"n": n, "text": "x".repeat(n * 37 % 300), "score": 1.0 / (n as f64 + 3.0)});
    let programs = [program(n), program(n / 2)];
    let replies = if n % 3 == 1 { vec![keep(journal, n)?] } else { Vec::new() };
    journal.commit_with("score", &format!("query {n}"), &body, &programs, &replies)
}

/// Returns the `n`-th example exchange.
fn exchange(n: usize) -> Exchange {
    let request = Request {
        role: Role::new(["actor", "comparator"][n % 2]),
        model: "model".to_owned(),
        messages: vec![Message::user(format!("question {n}"))],
        temperature: Some(0.1 + n as f64 / 3.0),
        max_tokens: 100,
        parameters: serde_json::Map::new(),
        json: None,
        sample: 0,
    };
    let usage = Usage { tokens_in: 10 + n as u64, tokens_out: 5, estimated: false };
    let reply = Reply { text: format!("answer {n}"), finish: Finish::Stop, usage };
    Exchange { request, reply, paid: n % 2 == 1 }
}

/// Stores the `n`-th example exchange and returns its key.
fn keep(journal: &Journal, n: usize) -> Result<String, JournalError> {
    let exchange = exchange(n);
    let key = exchange.request.key();
    journal.replies()?.keep(&key, &exchange)?;
    Ok(key)
}

fn seen(journal: &Journal) -> Result<Seen, JournalError> {
    let steps = journal.steps()?;
    let steps = steps
        .into_iter()
        .map(|step| json!([step.n, step.kind, step.key, step.programs, step.replies, step.body]))
        .collect();
    let replies = journal.replies()?.exchanges()?;
    Ok((journal.config().clone(), steps, journal.programs()?, replies))
}

/// Returns the journal's content, or the error, when it is opened for reading and when it is
/// resumed.
fn reopened(dir: &Path) -> [Result<Seen, JournalError>; 2] {
    // The reader first: a writer may repair the log.
    let read = Journal::open_read_only(dir).and_then(|journal| seen(&journal));
    [read, Journal::resume(dir).and_then(|journal| seen(&journal))]
}

/// Copies the current files of a run, as a crash would leave them, to a new directory.
fn image(dir: &Path) -> TempDir {
    let copy = TempDir::new().expect("directory");
    for entry in fs::read_dir(dir).expect("read") {
        let entry = entry.expect("entry");
        // The shared index is rebuilt after a crash.
        if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copy");
        }
    }
    copy
}

#[test]
fn a_step_is_computed_once_and_then_read() {
    fn is_send<T: Send>() {}
    is_send::<Journal>();
    let home = TempDir::new().expect("directory");
    let dir = home.path().join("a run/nested");
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let doubles: Vec<f64> = (0..5_000)
        .map(|_| f64::from_bits(random.next_u64()))
        .filter(|number| number.is_finite())
        .chain([0.1 + 0.2, -0.0, 5e-324, f64::MAX])
        .collect();
    let singles: Vec<f32> = (0..5_000)
        .map(|_| f32::from_bits(random.next_u32()))
        .filter(|number| number.is_finite())
        .collect();
    let bits = |(doubles, singles): &(Vec<f64>, Vec<f32>)| -> (Vec<u64>, Vec<u32>) {
        (
            doubles.iter().map(|number| number.to_bits()).collect(),
            singles.iter().map(|number| number.to_bits()).collect(),
        )
    };
    let numbers = (doubles, singles);
    let mut journal = Journal::create(&dir, &json!({"b": 1, "a": [0.1]})).expect("create");
    let first = journal
        .step::<_, JournalError>("score", "ä\0\n", || Ok((numbers.clone(), vec![program(1)])))
        .expect("step");
    assert_eq!(bits(&first), bits(&numbers));
    drop(journal);
    let mut journal = Journal::resume(&dir).expect("resume");
    let again = journal
        .step::<(Vec<f64>, Vec<f32>), JournalError>("score", "ä\0\n", || panic!("computed twice"))
        .expect("step");
    assert_eq!(bits(&again), bits(&numbers));
    assert_eq!(journal.config().to_string(), r#"{"b":1,"a":[0.1]}"#);
    assert_eq!(journal.programs().expect("programs"), [program(1)]);
    assert_eq!(journal.find::<Value>("score", "other").expect("find"), None);
    assert!(matches!(journal.find::<String>("score", "ä\0\n"), Err(JournalError::Decode { .. })));
}

#[test]
fn the_longest_program_is_stored_and_no_longer_one() {
    let dir = TempDir::new().expect("directory");
    let mut journal = Journal::create(dir.path(), &json!({})).expect("create");
    let largest = Limits::default().module_bytes;
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    module.resize(largest, 7);
    let module = Program::module(&module);
    assert!(matches!(module.code(), Code::Wasm(bytes) if bytes.len() == largest));
    assert!(module.source().len() < PROGRAM_BYTES);
    let text = |bytes| Program::new(&"/".repeat(bytes));
    let programs = [module, text(PROGRAM_BYTES)];
    journal.commit("score", "0", &0, &programs).expect("commit");
    let large = journal.commit("score", "1", &0, &[text(PROGRAM_BYTES + 1)]);
    assert!(matches!(large, Err(JournalError::TooLarge { .. })), "{large:?}");
    drop(journal);
    let journal = Journal::resume(dir.path()).expect("resume");
    assert!(journal.programs().expect("programs") == programs);
    let found = journal.program(programs[0].id()).expect("read");
    assert!(found.as_ref() == Some(&programs[0]));
}

#[test]
fn a_failed_computation_or_an_unreadable_result_stores_nothing() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 1);
    let failed: Result<u8, Box<dyn std::error::Error>> =
        journal.step("llm", "1", || Err("the network is down".into()));
    assert_eq!(failed.expect_err("error").to_string(), "the network is down");
    let nan = journal.step::<f64, JournalError>("llm", "1", || Ok((f64::NAN, vec![])));
    assert!(matches!(nan, Err(JournalError::Decode { .. })), "{nan:?}");
    let keys = BTreeMap::from([((1, 2), 3)]);
    assert!(matches!(journal.commit("x", "", &keys, &[]), Err(JournalError::Encode { .. })));
    let nested = |levels| (1..levels).fold(json!([]), |inner, _| json!([inner]));
    let deep = journal.commit("x", "", &nested(BODY_DEPTH + 1), &[]);
    assert!(matches!(deep, Err(JournalError::TooLarge { .. })), "{deep:?}");
    journal.commit("x", "", &nested(BODY_DEPTH), &[]).expect("commit");
    let large = journal.commit("x", "1", &"x".repeat(BODY_BYTES - 1), &[]);
    assert!(matches!(large, Err(JournalError::TooLarge { .. })), "{large:?}");
    let long = journal.commit(&"x".repeat(65), "1", &1, &[]);
    assert!(matches!(long, Err(JournalError::TooLarge { .. })), "{long:?}");
    journal.commit("x", "2", &"x".repeat(BODY_BYTES - 2), &[]).expect("the largest body");
    assert_eq!(journal.steps().expect("steps").len(), 3);
}

#[test]
fn a_step_has_one_result() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 0);
    journal.commit("a", "1", &json!({"x": 1, "y": 2}), &[program(1)]).expect("commit");
    journal.commit("a", "1", &json!({"y": 2, "x": 1}), &[program(1)]).expect("equal");
    journal.commit("b", "1", &2, &[program(1), program(2), program(1)]).expect("another kind");
    for (body, programs) in [(json!({"x": 1}), vec![program(1)]), (json!({"x": 1, "y": 2}), vec![])]
    {
        let other = journal.commit("a", "1", &body, &programs);
        assert!(matches!(other, Err(JournalError::Conflict { n: 1, .. })), "{other:?}");
    }
    journal.commit("a", "2", &3, &[]).expect("a conflict does not stop the journal");
    drop(journal);
    let steps = Journal::resume(dir.path()).expect("resume").steps().expect("steps");
    let names: Vec<_> = steps.iter().map(|step| (step.n, &*step.kind, &*step.key)).collect();
    assert_eq!(names, [(1, "a", "1"), (2, "b", "1"), (3, "a", "2")]);
    assert_eq!(steps[1].programs, [program(1).id(), program(2).id(), program(1).id()]);
}

#[test]
fn there_is_one_writer_and_any_number_of_readers() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 1);
    let second = Journal::resume(dir.path());
    let pid = process::id();
    assert!(matches!(second, Err(JournalError::Locked { pid: Some(found), .. }) if found == pid));
    assert!(second.expect_err("locked").to_string().contains(&format!("process {pid}")));
    assert_eq!(writer_pid(dir.path()), Some(pid));
    let mut reader = Journal::open_read_only(dir.path()).expect("reader");
    add(&mut journal, 1).expect("commit beside a reader");
    assert_eq!(seen(&reader).expect("seen"), seen(&journal).expect("seen"));
    assert!(matches!(add(&mut reader, 2), Err(JournalError::ReadOnly { .. })));
    let copy = image(dir.path());
    assert_eq!(writer_pid(copy.path()), None, "a copied lock file names no writer");
    Journal::resume(copy.path()).expect("a copied lock holds nothing");
    drop(journal);
    assert_eq!(writer_pid(dir.path()), None);
    add(&mut Journal::resume(dir.path()).expect("after drop"), 2).expect("commit");
    assert_eq!(reader.steps().expect("steps").len(), 3);
    // The id of a process that has ended.
    fs::write(dir.path().join("lock"), "1").expect("write");
    Journal::resume(dir.path()).expect("a stale lock");
}

#[test]
fn a_run_begins_only_where_nothing_is() {
    let home = TempDir::new().expect("directory");
    let dir = home.path().join("run");
    let not_a_run = |found| matches!(found, Err(JournalError::NotARun { .. }));
    assert!(not_a_run(Journal::resume(&dir)) && not_a_run(Journal::open_read_only(&dir)));
    fs::create_dir(&dir).expect("create");
    assert!(not_a_run(Journal::resume(&dir)));
    assert_eq!(fs::read_dir(&dir).expect("read").count(), 0, "looking leaves nothing behind");
    // Files of a creation that was killed.
    fs::write(dir.join("lock"), "").expect("write");
    fs::write(dir.join("run.sqlite.new"), "half").expect("write");
    fs::write(dir.join("run.sqlite.new-journal"), "half").expect("write");
    assert!(not_a_run(Journal::resume(&dir)));
    drop(filled(&dir, 1));
    assert!(matches!(Journal::create(&dir, &json!({})), Err(JournalError::Exists { .. })));
    assert_eq!(Journal::resume(&dir).expect("resume").steps().expect("steps").len(), 1);
    fs::rename(dir.join(DATABASE_FILE), dir.join("other.txt")).expect("rename");
    assert!(matches!(Journal::create(&dir, &json!({})), Err(JournalError::NotEmpty { .. })));
    let file = dir.join("other.txt");
    assert!(matches!(Journal::create(&file, &json!({})), Err(JournalError::Io { .. })));
    assert!(not_a_run(Journal::resume(&file)));
}

#[test]
fn a_crash_keeps_what_was_committed_and_nothing_else() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 20);
    let before = seen(&journal).expect("seen");
    // Writes rows to the log without a commit: the page cache is too small for the transaction.
    let run = |sql: &str| journal.files.lock().unwrap().store.connection.execute_batch(sql);
    run("PRAGMA cache_size = 1; BEGIN").expect("begin");
    let big = "x".repeat(1 << 20);
    let insert = "INSERT INTO step VALUES(21, 'a', 'b', '', '', ?1, zeroblob(32))";
    journal.files.lock().unwrap().store.connection.execute(insert, [&big]).expect("insert");
    let crashed = image(dir.path());
    let log = fs::metadata(crashed.path().join("run.sqlite-wal")).expect("log").len();
    assert!(log > 1 << 20, "the rows are in the log: {log} bytes");
    run("ROLLBACK").expect("rollback");
    for found in reopened(crashed.path()) {
        assert_eq!(found.expect("reopened"), before);
    }
    // Every prefix of the log yields a prefix of the steps.
    add(&mut journal, 20).expect("commit");
    let all = seen(&journal).expect("seen");
    let crashed = image(dir.path());
    let log = fs::read(crashed.path().join("run.sqlite-wal")).expect("log");
    let mut lengths = Vec::new();
    for cut in (0..=200).map(|part| log.len() * part / 200) {
        let torn = image(crashed.path());
        fs::write(torn.path().join("run.sqlite-wal"), &log[..cut]).expect("write");
        let [read, resumed] =
            reopened(torn.path()).map(|found| found.expect("a torn log is whole"));
        assert_eq!(read, resumed);
        assert_eq!(resumed.1[..], all.1[..resumed.1.len()]);
        lengths.push(resumed.1.len());
        if cut % 7 == 0 {
            let mut journal = Journal::resume(torn.path()).expect("resume");
            (resumed.1.len()..21).for_each(|n| add(&mut journal, n).expect("commit"));
            assert_eq!(seen(&journal).expect("seen"), all);
        }
    }
    assert!(lengths.is_sorted());
    assert_eq!((lengths[0], lengths[200]), (0, 21));
}

#[test]
fn damage_is_reported_or_harmless() {
    let dir = TempDir::new().expect("directory");
    let journal = filled(dir.path(), 60);
    let whole = seen(&journal).expect("seen");
    drop(journal);
    let path = dir.path().join(DATABASE_FILE);
    let bytes = fs::read(&path).expect("read");
    let check = |changed: &[u8], what: &str| -> bool {
        let copy = TempDir::new().expect("directory");
        fs::write(copy.path().join(DATABASE_FILE), changed).expect("write");
        let found = reopened(copy.path());
        let refused = found.iter().filter(|found| found.is_err()).count();
        for found in found.into_iter().flatten() {
            assert_eq!(found, whole, "{what}");
        }
        refused > 0
    };
    for cut in (0..200).map(|part| bytes.len() * part / 200) {
        assert!(check(&bytes[..cut], &format!("cut at {cut}")), "cut at {cut}");
    }
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut n_refused = 0;
    let n_flips = std::env::var("AGENT_TEST_FLIPS").map_or(500, |n| n.parse().expect("a number"));
    for _ in 0..n_flips {
        let (at, flip) = (random.random_range(0..bytes.len()), random.random_range(1..=255u8));
        let mut changed = bytes.clone();
        changed[at] ^= flip;
        n_refused += usize::from(check(&changed, &format!("byte {at} xor {flip}")));
    }
    assert!(n_refused > n_flips / 2, "{n_refused} of {n_flips} flips were noticed");
}

#[test]
fn rows_changed_by_other_hands_are_noticed() {
    let dir = TempDir::new().expect("directory");
    drop(filled(dir.path(), 4));
    for (sql, word) in [
        ("UPDATE step SET body = '{}' WHERE n = 2", "digest"),
        (
            "UPDATE step SET n = 9 WHERE n = 2; UPDATE step SET n = 2 WHERE n = 3; \
          UPDATE step SET n = 3 WHERE n = 9",
            "digest",
        ),
        ("DELETE FROM step WHERE n = 2", "missing"),
        ("DELETE FROM program WHERE n = 2", "missing"),
        ("UPDATE program SET source = 'x' WHERE n = 2", "digest"),
        ("UPDATE program SET step = 1 WHERE n = 4", "does not belong to step"),
        ("UPDATE run SET config = '{}'", "digest"),
        ("DELETE FROM run", "no rows"),
        ("CREATE TABLE more(x)", "tables"),
        ("DROP TABLE program", "tables"),
        ("PRAGMA application_id = 1", "not a run journal"),
        ("PRAGMA user_version = 0", "format 0"),
        ("PRAGMA user_version = 1", "start again"),
        ("UPDATE reply SET reply = '{}' WHERE rowid = 1", "digest"),
        ("UPDATE reply SET paid = NOT paid WHERE rowid = 1", "digest"),
        ("UPDATE reply SET key = 'x' WHERE rowid = 1", "missing"),
        ("DELETE FROM reply WHERE rowid = 1", "missing"),
        ("PRAGMA user_version = 3", "newer version"),
    ] {
        let copy = image(dir.path());
        let path = copy.path().join(DATABASE_FILE);
        let connection = sqlite::connect(&path, OpenFlags::default()).expect("open");
        connection.pragma_update(None, "foreign_keys", false).expect("pragma");
        connection.execute_batch(sql).expect("change");
        drop(connection);
        let error = Journal::resume(copy.path()).expect_err(sql);
        assert!(error.to_string().contains(word), "{sql}: {error}");
        let other = matches!(
            error,
            JournalError::NewerVersion { found: 3, supported: 2, .. }
                | JournalError::OlderVersion { found: 1, supported: 2, .. }
        );
        assert!(other || matches!(error, JournalError::Damaged { .. }), "{sql}: {error:?}");
    }
}

#[test]
fn a_full_disk_stops_the_journal_and_leaves_it_whole() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 3);
    let before = seen(&journal).expect("seen");
    let pages: i64 = journal
        .files
        .lock()
        .unwrap()
        .store
        .connection
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .expect("page count");
    let limit = |_: &rusqlite::Row<'_>| Ok(());
    let pragma = |journal: &Journal, pages: i64| {
        let connection = &journal.files.lock().unwrap().store.connection;
        connection.pragma_update_and_check(None, "max_page_count", pages, limit)
    };
    pragma(&journal, pages + 3).expect("pragma");
    let full = journal.commit("big", "1", &"x".repeat(1 << 16), &[program(9)]);
    let message = full.expect_err("full").to_string();
    assert!(message.contains("disk is full") && message.contains(DATABASE_FILE), "{message}");
    pragma(&journal, 1 << 30).expect("pragma");
    assert!(matches!(add(&mut journal, 3), Err(JournalError::Stopped { .. })));
    let paid =
        journal.step::<u8, JournalError>("llm", "1", || panic!("paid, with nowhere to put it"));
    assert!(matches!(paid, Err(JournalError::Stopped { .. })));
    assert_eq!(seen(&journal).expect("reading goes on"), before);
    drop(journal);
    let mut journal = Journal::resume(dir.path()).expect("resume");
    assert_eq!(seen(&journal).expect("seen"), before);
    add(&mut journal, 3).expect("space was made");
}

/// This test needs a disk of 10 to 64 MiB, mounted at `AGENT_TEST_SMALL_DISK`.
#[test]
fn what_was_paid_for_when_the_disk_fills_up_is_kept() {
    let Some(disk) = given::variable("AGENT_TEST_SMALL_DISK", "small disk") else { return };
    let home = TempDir::new_in(disk).expect("directory");
    let dir = home.path().join("run");
    let mut journal = filled(&dir, 3);
    let ballast = home.path().join("ballast");
    let fill = || {
        let mut file = fs::File::create(&ballast).expect("ballast");
        while std::io::Write::write_all(&mut file, &[1; 1 << 10]).is_ok() {}
    };
    fill();
    let reply = "x".repeat(1 << 20);
    let step = |journal: &mut Journal, key: &str| {
        journal.step::<String, JournalError>("llm", key, || Ok((reply.clone(), vec![])))
    };
    assert_eq!(step(&mut journal, "1").expect("kept"), reply);
    fill();
    let paid = journal.step::<u8, JournalError>("llm", "2", || panic!("paid on a full disk"));
    let message = paid.expect_err("stopped").to_string();
    assert!(message.contains("disk is full"), "{message}");
    let before = seen(&journal).expect("seen");
    drop(journal);
    fill();
    let full = Journal::resume(&dir);
    assert!(matches!(full, Err(JournalError::Full { .. })), "{full:?}");
    assert_eq!(seen(&Journal::open_read_only(&dir).expect("read")).expect("seen"), before);
    fs::remove_file(&ballast).expect("remove");
    let mut journal = Journal::resume(&dir).expect("resume");
    assert_eq!(seen(&journal).expect("seen"), before);
    step(&mut journal, "2").expect("room again");
    // Commits steps until the disk is full; all acknowledged steps must be stored.
    let n_steps = (3..).find(|n| step(&mut journal, &n.to_string()).is_err()).expect("full");
    drop(journal);
    let steps = Journal::open_read_only(&dir).expect("read").steps().expect("steps");
    assert_eq!(steps.len(), 3 + n_steps - 1);
}

#[test]
fn files_that_vanish_stop_the_journal() {
    for name in ["", "lock", DATABASE_FILE, "run.sqlite-wal"] {
        let home = TempDir::new().expect("directory");
        let dir = home.path().join("run");
        let mut journal = filled(&dir, 3);
        let aside = home.path().join("aside");
        fs::rename(dir.join(name), &aside).expect("rename");
        if name == "lock" {
            fs::write(dir.join(name), "").expect("another lock");
        }
        let paid = journal.step::<u8, JournalError>("llm", "1", || panic!("paid for nothing"));
        assert!(matches!(paid, Err(JournalError::Moved { .. })), "{name}: {paid:?}");
        if name != "lock" {
            fs::rename(&aside, dir.join(name)).expect("rename");
            add(&mut journal, 3).expect("put back");
        }
    }
}

#[test]
fn a_read_only_directory_can_be_read() {
    let home = TempDir::new().expect("directory");
    let dir = home.path().join("a run");
    let journal = filled(&dir, 3);
    let before = seen(&journal).expect("seen");
    drop(journal);
    let set = |read_only: bool| {
        for path in [&dir, &dir.join("lock"), &dir.join(DATABASE_FILE)] {
            let mut permissions = fs::metadata(path).expect("metadata").permissions();
            permissions.set_readonly(read_only);
            fs::set_permissions(path, permissions).expect("permissions");
        }
    };
    set(true);
    if fs::write(dir.join("probe"), "").is_ok() {
        given::skipped("this user may write to read-only directories");
        return;
    }
    let resumed = Journal::resume(&dir);
    let read = Journal::open_read_only(&dir).and_then(|journal| seen(&journal));
    let created = Journal::create(&dir.join("inner"), &json!({}));
    set(false);
    assert!(matches!(resumed, Err(JournalError::Io { .. })), "{resumed:?}");
    assert_eq!(read.expect("read"), before);
    assert!(matches!(created, Err(JournalError::Io { .. })), "{created:?}");
}

#[test]
fn a_program_is_found_by_the_beginning_of_its_id() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 0);
    let programs: Vec<Program> = (0..9_000).map(program).collect();
    journal.commit("propose", "", &0, &programs).expect("commit");
    let wanted = &programs[17];
    for prefix in [wanted.id().to_owned(), wanted.id()[..12].to_uppercase()] {
        assert_eq!(journal.program(&prefix).expect("found").as_ref(), Some(wanted));
    }
    let absent = "0".repeat(64);
    assert_eq!(journal.program(&absent).expect("absent"), None);
    for prefix in ["", "12345", "1234567g", &"0".repeat(65), "%%%%%%%", "ééééé"] {
        assert!(matches!(journal.program(prefix), Err(JournalError::BadPrefix { .. })), "{prefix}");
    }
    let mut ids: Vec<&str> = programs.iter().map(Program::id).collect();
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0][..6] == pair[1][..6]).expect("9 000 of 16^6");
    drop(journal);
    let journal = Journal::resume(dir.path()).expect("resume");
    assert_eq!(journal.programs().expect("programs"), programs);
    let error = journal.program(&pair[0][..6]).expect_err("two");
    assert!(matches!(&error, JournalError::Ambiguous { ids, .. } if ids == pair), "{error:?}");
}
