//! Counts the heap of each thread, so that programs can be charged for the memory that they hold.
//!
//! Wraps the system allocator. The counter is one integer per thread without a destructor, so
//! counting never allocates. Memory that one thread allocates and another one frees is subtracted
//! from the counter of the other one, so a program must be measured on one thread, from start to
//! end. This module does not depend on programs and limits nothing: an allocation that the
//! operating system refuses ends the process.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Charge for each block in addition to its size, in bytes: the allocator's overhead, and the stack
/// that dropping the block may take. A chain of nested lists holds two blocks of 40 bytes per link,
/// but dropping it takes over 90 bytes of stack per link. Without this charge, a heap budget would
/// allow chains that overflow any stack when they are dropped.
const BLOCK_BYTES: i64 = 64;

thread_local! {
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
    static MOST_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system allocator with a counter per thread.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Number of bytes that this thread has allocated, with [`BLOCK_BYTES`] for each block, minus the
/// number that it has freed; negative if it has freed memory of other threads.
pub(super) fn live_bytes() -> i64 {
    LIVE_BYTES.try_with(Cell::get).unwrap_or(0)
}

/// Returns the maximum of [`live_bytes`] since the last call of this function.
pub(super) fn take_most_bytes() -> i64 {
    let live = live_bytes();
    MOST_BYTES.try_with(|most| most.replace(live).max(live)).unwrap_or(live)
}

fn count(change: i64) {
    // Fails only while the thread ends, when nothing is measured any more.
    let _ = LIVE_BYTES.try_with(|live| {
        let now = live.get().wrapping_add(change);
        live.set(now);
        let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(now)));
    });
}

// SAFETY: every call is passed on unchanged to the system allocator, which upholds the contract;
// counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count(layout.size() as i64 + BLOCK_BYTES);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            count(layout.size() as i64 + BLOCK_BYTES);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64 + BLOCK_BYTES));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `realloc`.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if !moved.is_null() {
            count(new_size as i64 - layout.size() as i64);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, live_bytes, take_most_bytes};

    #[test]
    fn growing_zeroing_and_freeing_are_counted() {
        let start = live_bytes();
        let mut bytes = vec![0u8; 1 << 20];
        assert_eq!(live_bytes() - start, (1 << 20) + BLOCK_BYTES);
        bytes.reserve_exact(1 << 20);
        assert_eq!(live_bytes() - start, (1 << 21) + BLOCK_BYTES);
        bytes.shrink_to(1 << 20);
        drop(bytes);
        assert_eq!(live_bytes(), start);
        assert!(take_most_bytes() - start >= (1 << 21));
        assert_eq!(take_most_bytes(), start);
    }

    #[test]
    fn another_thread_is_not_charged() {
        let start = live_bytes();
        let held = std::thread::spawn(|| vec![0u8; 1 << 20]).join().expect("thread");
        assert!(live_bytes() - start < 1 << 16);
        drop(held);
    }
}
