//! What only some machines have, such as real data: named by a variable of the environment and by
//! nothing else. A test that is not given what it needs is skipped, and every skip is counted and
//! said, also where the output of tests is captured. The tests of the library use this file too.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several crates, each of which uses a part"
)]

use std::{
    io::Write,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Names the folder of real data, with folders such as `products` and `stark-qa`.
pub(crate) const DATA: &str = "AGENT_TEST_DATA";

/// Tests that were skipped in this process.
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// What a variable names; where it names nothing, the skip is said.
pub(crate) fn variable(name: &str, what: &str) -> Option<PathBuf> {
    let given = std::env::var_os(name).filter(|value| !value.is_empty());
    if given.is_none() {
        skipped(&format!("{name} names no {what}"));
    }
    given.map(PathBuf::from)
}

/// A folder of the real data; where it is not there, the skip is said.
pub(crate) fn real_data(name: &str) -> Option<PathBuf> {
    let folder = variable(DATA, "folder of real data")?.join(name);
    if !folder.is_dir() {
        skipped(&format!("{} is not there", folder.display()));
        return None;
    }
    Some(folder)
}

/// Says that a test is skipped, and the how-manieth of this process it is.
pub(crate) fn skipped(why: &str) {
    let n = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not a macro: those are captured while tests pass. There is nowhere to tell that it failed.
    let _ = writeln!(std::io::stderr(), "skipped {n}: {test}: {why}");
}
