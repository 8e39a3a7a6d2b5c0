//! Tests of replies in the journal.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::json;
use tempfile::TempDir;

use super::{exchange, filled, keep, program, seen};
use crate::journal::{Journal, JournalError};
use agent_llm::{LlmError, ReplyStore, Role, Usage};

#[test]
fn replies_are_kept_once_listed_by_role_and_key_and_survive() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let dir = TempDir::new().expect("directory");
    let journal = filled(dir.path(), 0);
    let replies = journal.replies().expect("replies");
    is_shared(&replies);
    for n in [5, 2, 4, 3, 1] {
        let (key, exchange) = (exchange(n).request.key(), exchange(n));
        assert_eq!(replies.get(&key).expect("get"), None);
        replies.put(&key, &exchange).expect("put");
        let mut other = exchange.clone();
        other.reply.text = "another".to_owned();
        replies.put(&key, &other).expect("again does nothing");
        assert_eq!(replies.get(&key).expect("get"), Some(exchange));
    }
    let listed = replies.exchanges().expect("listed");
    let names: Vec<_> =
        listed.iter().map(|(key, one)| (one.request.role.clone(), key.clone())).collect();
    assert!(names.is_sorted() && names.len() == 5, "{names:?}");
    assert_eq!(names[0].0, Role::new("actor"));
    drop(journal);
    let locked = Journal::resume(dir.path());
    assert!(matches!(locked, Err(JournalError::Locked { .. })), "replies may still be written");
    drop(replies);
    for journal in [Journal::open_read_only(dir.path()), Journal::resume(dir.path())] {
        let replies = journal.expect("open").replies().expect("replies");
        assert_eq!(replies.exchanges().expect("listed"), listed);
    }
}

#[test]
fn unusable_replies_are_listed_as_paid_and_do_not_answer() {
    let dir = TempDir::new().expect("directory");
    let journal = filled(dir.path(), 0);
    let replies = journal.replies().expect("replies");
    let (key, exchange) = (exchange(1).request.key(), exchange(1));
    for tokens_out in [7, 8] {
        let usage = Usage { tokens_in: 5, tokens_out, estimated: false };
        replies.note_unusable(&key, &exchange.request, usage).expect("noted");
    }
    assert_eq!(replies.get(&key).expect("get"), None);
    replies.put(&key, &exchange).expect("put");
    drop((journal, replies));
    let journal = Journal::resume(dir.path()).expect("resume");
    let listed = journal.replies().expect("replies").exchanges().expect("listed");
    let unusable = listed.iter().filter(|(_, one)| one.paid && one.reply.text.is_empty());
    let taken: Vec<u64> = unusable.map(|(_, one)| one.reply.usage.tokens_out).collect();
    assert_eq!((listed.len(), taken), (3, vec![7, 8]));
}

#[test]
fn threads_keep_replies_while_steps_are_committed() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 0);
    let replies = journal.replies().expect("replies");
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let n @ 0..40 = next.fetch_add(1, Ordering::Relaxed) {
                    // Two threads keep each exchange.
                    let exchange = exchange(n / 2);
                    replies.keep(&exchange.request.key(), &exchange).expect("kept");
                }
            });
        }
        for n in 0..10 {
            journal.commit("step", &n.to_string(), &n, &[program(n)]).expect("commit");
        }
    });
    assert_eq!(replies.exchanges().expect("listed").len(), 20);
    drop((journal, replies));
    let journal = Journal::resume(dir.path()).expect("resume");
    assert_eq!(seen(&journal).expect("seen").1.len(), 10);
}

#[test]
fn a_step_names_replies_that_are_kept() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 0);
    let key = keep(&journal, 1).expect("kept");
    let step = |journal: &mut Journal, replies: &[String]| {
        journal.commit_with("propose", "1", &json!(1), &[program(1)], replies)
    };
    let unknown = step(&mut journal, &["0".repeat(64)]);
    assert!(matches!(unknown, Err(JournalError::UnknownReply { .. })), "{unknown:?}");
    for bad in ["", "a b", &"x".repeat(5_000)] {
        let bad = step(&mut journal, &[bad.to_owned()]);
        assert!(matches!(bad, Err(JournalError::BadKey)), "{bad:?}");
    }
    let many = step(&mut journal, &vec![key.clone(); 10_001]);
    assert!(matches!(many, Err(JournalError::TooLarge { .. })), "{many:?}");
    let named = [key.clone(), key];
    step(&mut journal, &named).expect("commit");
    step(&mut journal, &named).expect("equal");
    let fewer = step(&mut journal, &named[..1]);
    assert!(matches!(fewer, Err(JournalError::Conflict { .. })), "{fewer:?}");
    assert_eq!(journal.steps().expect("steps")[0].replies, named);
}

#[test]
fn o4_nothing_is_asked_for_that_cannot_be_kept_and_what_was_paid_for_is() {
    let dir = TempDir::new().expect("directory");
    let mut journal = filled(dir.path(), 3);
    let replies = journal.replies().expect("replies");
    let pages = |pages: i64| {
        let connection = &journal.files.lock().unwrap().store.connection;
        let used: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).expect("n");
        let most = if pages == 0 { used } else { pages };
        let seen = |_: &rusqlite::Row<'_>| Ok(());
        connection.pragma_update_and_check(None, "max_page_count", most, seen).expect("pragma");
    };
    pages(0);
    let mut large = exchange(7);
    large.reply.text = "x".repeat(1 << 16);
    let full = replies.put(&large.request.key(), &large);
    assert!(
        matches!(&full, Err(LlmError::Store(text)) if text.contains("disk is full")),
        "{full:?}"
    );
    pages(1 << 30);
    // No new step starts, but replies that other threads paid for meanwhile are stored.
    let next = replies.get(&exchange(9).request.key());
    assert!(matches!(&next, Err(LlmError::Store(text)) if text.contains("--resume")), "{next:?}");
    let step = journal.commit("step", "1", &1, &[]);
    assert!(matches!(step, Err(JournalError::Stopped { .. })), "{step:?}");
    let paid = exchange(8);
    replies.put(&paid.request.key(), &paid).expect("kept");
    assert_eq!(replies.get(&paid.request.key()).expect("get"), Some(paid.clone()));
    drop((journal, replies));
    let replies = Journal::resume(dir.path()).expect("resume").replies().expect("replies");
    assert_eq!(replies.find(&paid.request.key()).expect("find"), Some(paid));
    assert_eq!(replies.find(&large.request.key()).expect("find"), None);
}
