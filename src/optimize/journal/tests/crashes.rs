//! Tests of the journal on a disk that stops, loses data or fails at every possible point.
//!
//! Kinds of faults: killed processes (`o1_*`), power cuts (`o2_*`) and failed operations (`o3_*`).
//! After each fault, a resumed run ends with the same steps and replies as an uninterrupted run,
//! and nothing that was acknowledged is lost. `AGENT_TEST_CRASHES` multiplies the number of random
//! cases.

use std::{fs, path::Path};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tempfile::TempDir;

use super::{
    Seen, add,
    disk::{Disk, Fault, Files, Kind, Op, killed, power_cut},
    exchange, seen,
};
use crate::journal::{DATABASE_FILE, Journal, JournalError};
use agent_llm::ReplyStore;

/// Number of steps of the tested run.
const STEPS: usize = 7;
/// Number of pages in the write-ahead log at which a checkpoint is made; small, so that checkpoints
/// are tested.
const LOG_PAGES: u32 = 12;

/// Creates a directory, in memory if possible, because syncing a disk is slow.
pub(super) fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("directory")
}

fn directory_with(files: &Files) -> TempDir {
    let dir = directory();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).expect("write");
    }
    dir
}

/// Returns the factor by which the number of random cases is multiplied.
fn times() -> u64 {
    std::env::var("AGENT_TEST_CRASHES").map_or(1, |n| n.parse().expect("a number"))
}

/// Starts or resumes the tested run and completes it. Calls `reported` with the number of
/// acknowledged steps, first after opening and then after each step.
fn go_on(
    dir: &Path,
    acknowledged: &mut usize,
    reported: &mut dyn FnMut(usize),
) -> Result<Seen, JournalError> {
    let mut journal = match dir.join(DATABASE_FILE).exists() {
        true => Journal::resume(dir)?,
        false => Journal::create(dir, &json!({"seed": 7}))?,
    };
    let pages = |journal: &Journal| {
        let connection = &journal.files.lock().unwrap().store.connection;
        connection.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, |_| Ok(()))
    };
    pages(&journal).expect("pragma");
    let done = journal.steps()?.len();
    assert!(done >= *acknowledged, "{done} of {acknowledged} acknowledged steps are left");
    *acknowledged = done;
    reported(done);
    for n in done..STEPS {
        add(&mut journal, n)?;
        *acknowledged = n + 1;
        reported(n + 1);
    }
    seen(&journal)
}

fn finish(dir: &Path, mut acknowledged: usize) -> Seen {
    go_on(dir, &mut acknowledged, &mut |_| {}).expect("the run goes on")
}

/// An uninterrupted run: its final content, its disk operations, and pairs of a number of
/// operations and the number of steps acknowledged by then.
struct Undisturbed {
    seen: Seen,
    ops: Vec<Op>,
    acknowledged: Vec<(usize, usize)>,
}

impl Undisturbed {
    fn new() -> Self {
        let dir = directory();
        let disk = Disk::watch(dir.path());
        let mut acknowledged = Vec::new();
        let mut note = |n| acknowledged.push((disk.n_ops(), n));
        let seen = go_on(dir.path(), &mut 0, &mut note).expect("undisturbed");
        let ops = disk.ops();
        assert!(ops.len() > 100, "{} ops", ops.len());
        Self { seen, ops, acknowledged }
    }

    /// Checks that a reader, which repairs nothing, sees the first steps of the run or an error.
    fn is_read_in_part(&self, dir: &Path) {
        if let Ok((config, steps, programs, replies)) =
            Journal::open_read_only(dir).and_then(|journal| seen(&journal))
        {
            assert_eq!(config, self.seen.0);
            assert!(self.seen.1.starts_with(&steps), "{} steps", steps.len());
            assert!(self.seen.2.starts_with(&programs));
            assert!(replies.iter().all(|reply| self.seen.3.contains(reply)));
        }
    }

    /// Returns the number of steps that were acknowledged after the first `n_ops` operations.
    fn acknowledged(&self, n_ops: usize) -> usize {
        self.acknowledged.iter().rev().find(|(ops, _)| *ops <= n_ops).map_or(0, |(_, n)| *n)
    }
}

#[test]
fn o1_a_kill_at_every_write_loses_nothing_and_changes_nothing() {
    let run = Undisturbed::new();
    for n in 0..=run.ops.len() {
        for torn in [false, true] {
            let files = killed(&run.ops, n, torn);
            let dir = directory_with(&files);
            run.is_read_in_part(dir.path());
            let seen = finish(dir.path(), run.acknowledged(n));
            assert_eq!(seen, run.seen, "killed at op {n} of {}, torn: {torn}", run.ops.len());
        }
    }
}

/// After a process was killed, the resumed run pays only for calls whose replies were not stored.
#[test]
fn o1_no_reply_that_was_kept_is_paid_for_again() {
    const REPLIES: usize = 6;
    let ask_all = |dir: &Path, reported: &mut dyn FnMut(usize)| -> usize {
        let journal = match dir.join(DATABASE_FILE).exists() {
            true => Journal::resume(dir).expect("resume"),
            false => Journal::create(dir, &json!({"seed": 7})).expect("create"),
        };
        let replies = journal.replies().expect("replies");
        let mut paid = 0;
        for n in 0..REPLIES {
            let exchange = exchange(n);
            let key = exchange.request.key();
            if replies.get(&key).expect("get").is_none() {
                paid += 1;
                replies.put(&key, &exchange).expect("put");
                reported(n + 1);
            }
        }
        paid
    };
    let dir = directory();
    let disk = Disk::watch(dir.path());
    let mut kept = vec![(0, 0)];
    let paid = ask_all(dir.path(), &mut |n| kept.push((disk.n_ops(), n)));
    assert_eq!(paid, REPLIES);
    let ops = disk.ops();
    let mut random = ChaCha8Rng::seed_from_u64(14);
    for at in 0..=ops.len() {
        let before = kept.iter().rev().find(|(ops, _)| *ops <= at).map_or(0, |(_, n)| *n);
        for files in [
            killed(&ops, at, false),
            killed(&ops, at, true),
            power_cut(&ops, at, &mut random),
            power_cut(&ops, at, &mut random),
        ] {
            let dir = directory_with(&files);
            let paid = ask_all(dir.path(), &mut |_| {});
            assert!(before + paid <= REPLIES, "{before} stored, {paid} paid for, op {at}");
            assert_eq!(ask_all(dir.path(), &mut |_| {}), 0);
        }
    }
}

#[test]
fn o1_three_kills_in_a_row_and_kills_while_recovering_change_nothing() {
    let run = Undisturbed::new();
    let mut random = ChaCha8Rng::seed_from_u64(11);
    for case in 0..60 * times() {
        let at = random.random_range(0..=run.ops.len());
        let mut files = killed(&run.ops, at, case % 2 == 0);
        let mut acknowledged = run.acknowledged(at);
        for _ in 0..3 {
            let dir = directory_with(&files);
            let disk = Disk::watch(dir.path());
            let mut acks = vec![(0, acknowledged)];
            let mut note = |n| acks.push((disk.n_ops(), n));
            let seen = go_on(dir.path(), &mut acknowledged, &mut note).expect("goes on");
            assert_eq!(seen, run.seen, "case {case}");
            let ops = disk.ops();
            // The log is recorded only once it is opened; before that, the image has its content.
            let early = random.random_range(0..2) == 0;
            let most = if early { ops.len().min(12) } else { ops.len() };
            let at = random.random_range(0..=most);
            let mut next = files.clone();
            next.extend(killed(&ops, at, random.random_range(0..2) == 0));
            let deleted = ops[..at].iter().filter_map(|op| match op {
                Op::Delete { file, .. } => Some(file),
                _ => None,
            });
            for file in deleted {
                if !killed(&ops, at, false).contains_key(file) {
                    next.remove(file);
                }
            }
            files = next;
            acknowledged = acks.iter().rev().find(|(ops, _)| *ops <= at).map_or(0, |(_, n)| *n);
        }
        let dir = directory_with(&files);
        assert_eq!(finish(dir.path(), acknowledged), run.seen, "case {case}");
    }
}

#[test]
fn o2_torn_lost_and_reordered_writes_lose_only_what_was_not_acknowledged() {
    let run = Undisturbed::new();
    let mut random = ChaCha8Rng::seed_from_u64(12);
    for n in 0..=run.ops.len() {
        for case in 0..3 * times() {
            let files = power_cut(&run.ops, n, &mut random);
            let dir = directory_with(&files);
            run.is_read_in_part(dir.path());
            let seen = finish(dir.path(), run.acknowledged(n));
            assert_eq!(seen, run.seen, "power cut at op {n}, case {case}");
        }
    }
}

#[test]
fn o2_a_log_cut_at_every_byte_of_its_last_record_redoes_that_record_only() {
    let run = Undisturbed::new();
    // The position before the final checkpoint of the log.
    let at = run.acknowledged.last().expect("steps").0;
    let mut files = killed(&run.ops, at, false);
    let log = format!("{DATABASE_FILE}-wal");
    let whole = files[&log].clone();
    let record = 24 + 4_096;
    for cut in whole.len() - record..whole.len() {
        // Every byte in the header of the record, and every seventeenth of the page.
        if cut > whole.len() - record + 24 && cut % 17 != 0 {
            continue;
        }
        files.insert(log.clone(), whole[..cut].to_vec());
        let dir = directory_with(&files);
        assert_eq!(finish(dir.path(), STEPS - 1), run.seen, "cut at {cut}");
    }
}

#[test]
fn o3_every_failed_write_is_reported_and_changes_nothing() {
    let run = Undisturbed::new();
    for (kind, forever) in [
        (Kind::Write, false),
        (Kind::Write, true),
        (Kind::Full, false),
        (Kind::Full, true),
        (Kind::Read, false),
        (Kind::Read, true),
    ] {
        let mut reported = 0;
        for at in 0.. {
            let dir = directory();
            let disk = Disk::watch(dir.path());
            disk.fail(Some(Fault { at, kind, forever }));
            let mut acknowledged = 0;
            let ended = go_on(dir.path(), &mut acknowledged, &mut |_| {});
            if !disk.failed() {
                break;
            }
            disk.fail(None);
            match ended {
                Ok(seen) => assert_eq!(seen, run.seen, "{kind:?} {at}"),
                Err(error) => {
                    reported += 1;
                    let text = error.to_string();
                    let path = dir.path().display().to_string();
                    assert!(text.contains(&path), "{kind:?} {at}: {text}");
                }
            }
            let seen = finish(dir.path(), acknowledged);
            assert_eq!(seen, run.seen, "{kind:?} at {at}, forever: {forever}");
        }
        assert!(reported > 20, "{kind:?}, forever: {forever}: {reported} faults were reported");
    }
}

#[test]
fn o3_after_a_failed_sync_nothing_is_written_until_it_is_resumed() {
    let dir = directory();
    let disk = Disk::watch(dir.path());
    let mut journal = Journal::create(dir.path(), &json!({"seed": 7})).expect("create");
    add(&mut journal, 0).expect("commit");
    // A step makes many writes; its sync comes last.
    let mut at = 0;
    let failed = loop {
        let ops = disk.n_ops();
        disk.fail(Some(Fault { at, kind: Kind::Write, forever: false }));
        let added = add(&mut journal, 3);
        disk.fail(None);
        let lost = disk.ops()[ops..].iter().any(|op| matches!(op, Op::LostSync { .. }));
        match (added, lost) {
            (Err(error), true) => break error,
            (Err(_), false) => {
                drop(journal);
                journal = Journal::resume(dir.path()).expect("resume");
                at += 1;
            }
            (Ok(()), _) => panic!("no sync failed before write {at}"),
        }
    };
    assert!(failed.to_string().contains("while syncing"), "{failed}");
    let before = disk.n_ops();
    for n in 4..7 {
        assert!(matches!(add(&mut journal, n), Err(JournalError::Stopped { .. })));
    }
    drop(journal);
    assert_eq!(disk.n_ops(), before, "something was written after a failed sync");
}

/// The system may drop data that a failed sync could not write, although the file still shows it
/// until a power cut. Later acknowledged data must not follow such a gap.
#[test]
fn o3_what_a_failed_sync_may_have_dropped_is_written_again() {
    let run = Undisturbed::new();
    let mut cases = 0;
    for at in 0.. {
        let dir = directory();
        let disk = Disk::watch(dir.path());
        let before_create = Journal::create(dir.path(), &json!({"seed": 7}));
        drop(before_create.expect("create"));
        disk.fail(Some(Fault { at, kind: Kind::Write, forever: false }));
        let (mut acknowledged, mut n_ops) = (0, 0);
        let ended = go_on(dir.path(), &mut acknowledged, &mut |_| n_ops = disk.n_ops());
        let reached = disk.failed();
        disk.fail(None);
        if !reached {
            break;
        }
        if ended.is_err() {
            go_on(dir.path(), &mut acknowledged, &mut |_| n_ops = disk.n_ops()).expect("goes on");
        }
        let ops = disk.ops();
        cases += usize::from(ops.iter().any(|op| matches!(op, Op::LostSync { .. })));
        for seed in 0..4 {
            let cut = power_cut(&ops, n_ops, &mut ChaCha8Rng::seed_from_u64(seed));
            let dir = directory_with(&cut);
            assert_eq!(finish(dir.path(), STEPS), run.seen, "at {at}");
        }
    }
    assert!(cases >= 5, "{cases} failed syncs");
}
