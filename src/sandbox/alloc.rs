//! Counts the heap of every thread, so that a program can be charged for what it holds.
//!
//! Wraps the system allocator. The counter is one integer per thread without a destructor, so
//! that counting never allocates. Memory freed by another thread than the one that took it makes
//! the first look too full and the second too empty: a program is measured on one thread, from
//! start to end. It knows nothing of programs, and it never refuses: an allocation that the
//! operating system refuses still ends the process.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// The system allocator with a counter per thread.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes this thread took minus bytes it gave back since it began; negative where it gave back
/// what other threads took.
pub(super) fn live_bytes() -> i64 {
    LIVE_BYTES.try_with(Cell::get).unwrap_or(0)
}

fn count(change: i64) {
    // Fails only while the thread ends, when nothing is measured any more.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get().wrapping_add(change)));
}

// SAFETY: every call is handed on unchanged to the system allocator, which upholds the contract;
// counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            count(layout.size() as i64);
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            count(layout.size() as i64);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
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
    use super::live_bytes;

    #[test]
    fn growing_zeroing_and_freeing_are_counted() {
        let start = live_bytes();
        let mut bytes = vec![0u8; 1 << 20];
        assert_eq!(live_bytes() - start, 1 << 20);
        bytes.reserve_exact(1 << 21);
        assert_eq!(live_bytes() - start, (1 << 21) + (1 << 20));
        bytes.shrink_to(1 << 20);
        drop(bytes);
        assert_eq!(live_bytes(), start);
    }

    #[test]
    fn another_thread_is_not_charged() {
        let start = live_bytes();
        let held = std::thread::spawn(|| vec![0u8; 1 << 20]).join().expect("thread");
        assert!(live_bytes() - start < 1 << 16);
        drop(held);
    }
}
