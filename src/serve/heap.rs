//! Returns freed memory to the system. Otherwise the allocator of glibc keeps this memory,
//! separately for each thread.

/// Returns all free memory to the system when this value is dropped, which takes about a
/// millisecond. Does nothing with allocators that return memory themselves.
pub(super) struct GivesBack;

impl Drop for GivesBack {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: the function takes its own locks and touches no memory in use.
        #[expect(unsafe_code, reason = "the system's interface")]
        let _ = unsafe { libc::malloc_trim(0) };
    }
}
