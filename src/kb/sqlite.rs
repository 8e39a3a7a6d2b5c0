//! Opens SQLite databases, and counts the heap that SQLite uses on each thread.
//!
//! SQLite itself counts its heap only for the whole process, so that one large statement would stop
//! all others. But each statement runs on one thread. SQLite's allocator is therefore wrapped with
//! one that counts the heap of each thread. That must happen before SQLite starts, so all databases
//! must be opened by [`connect`] or [`in_memory`].

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    path::Path,
    sync::OnceLock,
};

use rusqlite::{Connection, OpenFlags, ffi};

/// Overhead of a memory block, in bytes: SQLite's size field, the allocator's header, and the
/// rounding to 16 bytes. For many short rows, sorting needs as much for the overhead as for the
/// rows.
const BLOCK_BYTES: i64 = 24;

/// The functions of SQLite's own allocator.
struct Allocator {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// SQLite's own allocator, which the counting allocator calls; `None` if SQLite had started before,
/// or cannot be configured.
static ALLOCATOR: OnceLock<Option<Allocator>> = OnceLock::new();

thread_local! {
    static HEAP: Cell<i64> = const { Cell::new(0) };
}

/// Opens the database file `path`, which may be a URI if `flags` allow URIs.
///
/// # Errors
/// As [`Connection::open_with_flags`]; `SQLITE_MISUSE` if SQLite's heap cannot be counted.
pub fn connect(path: impl AsRef<Path>, flags: OpenFlags) -> rusqlite::Result<Connection> {
    count_heap()?;
    #[allow(clippy::disallowed_methods, reason = "the heap is counted")]
    Connection::open_with_flags(path, flags)
}

/// Opens a new database in memory.
///
/// # Errors
/// As [`connect`].
pub fn in_memory() -> rusqlite::Result<Connection> {
    connect(":memory:", OpenFlags::default())
}

/// Returns the number of bytes that SQLite allocated on this thread, minus the number that it freed
/// on it; the size of a block includes its overhead. Memory that another thread frees is subtracted
/// there, so only the growth during one statement is meaningful.
pub fn heap() -> i64 {
    HEAP.get()
}

/// Replaces SQLite's allocator by the counting allocator, once per process.
fn count_heap() -> rusqlite::Result<()> {
    let counted = ALLOCATOR.get_or_init(|| {
        // SAFETY: a null pointer is a valid `Option` of a function and a valid pointer.
        let mut methods: ffi::sqlite3_mem_methods = unsafe { std::mem::zeroed() };
        // SAFETY: this option takes a pointer to the methods, which SQLite fills.
        let found = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
        let allocator = Allocator {
            malloc: methods.xMalloc?,
            free: methods.xFree?,
            realloc: methods.xRealloc?,
            size: methods.xSize?,
        };
        (found == ffi::SQLITE_OK).then_some(())?;
        methods.xMalloc = Some(counted_malloc);
        methods.xFree = Some(counted_free);
        methods.xRealloc = Some(counted_realloc);
        // SAFETY: SQLite copies the methods, and calls none before it starts, which is after the
        // allocator is stored.
        let set = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
        (set == ffi::SQLITE_OK).then_some(allocator)
    });
    let misuse = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_MISUSE), None);
    counted.is_some().then_some(()).ok_or_else(misuse)
}

/// Returns SQLite's own allocator.
fn allocator() -> &'static Allocator {
    // SQLite calls the functions below only if `count_heap` has set `ALLOCATOR`.
    ALLOCATOR.get().and_then(Option::as_ref).unwrap_or_else(|| std::process::abort())
}

/// Adds `sign` times the size of a memory block, with its overhead, to the heap of this thread.
fn count(block: *mut c_void, sign: i64) {
    if !block.is_null() {
        // SAFETY: the block comes from this allocator and is not yet freed.
        let bytes = unsafe { (allocator().size)(block) };
        HEAP.set(HEAP.get() + sign * (i64::from(bytes) + BLOCK_BYTES));
    }
}

unsafe extern "C" fn counted_malloc(bytes: c_int) -> *mut c_void {
    // SAFETY: SQLite passes a size that its own allocator accepts.
    let block = unsafe { (allocator().malloc)(bytes) };
    count(block, 1);
    block
}

unsafe extern "C" fn counted_free(block: *mut c_void) {
    count(block, -1);
    // SAFETY: SQLite frees a block that it got from `counted_malloc` or `counted_realloc`.
    unsafe { (allocator().free)(block) };
}

unsafe extern "C" fn counted_realloc(block: *mut c_void, bytes: c_int) -> *mut c_void {
    count(block, -1);
    // SAFETY: as in `counted_free`, with a size that SQLite's own allocator accepts.
    let moved = unsafe { (allocator().realloc)(block, bytes) };
    // If the reallocation failed, the old block stays allocated.
    count(if moved.is_null() { block } else { moved }, 1);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_counts_its_own_heap() {
        let connection = in_memory().unwrap();
        let before = heap();
        connection.execute_batch("CREATE TABLE t AS SELECT randomblob(1000000) AS x").unwrap();
        assert!(heap() - before > 1_000_000);
        std::thread::spawn(|| assert_eq!(heap(), 0)).join().unwrap();
        drop(connection);
        assert!(heap() - before < 1_000_000);
    }
}
