//! Gives memory that was freed back to the system. The allocator of glibc keeps it otherwise, for
//! each thread apart.

/// Gives back all memory that is free when this value is dropped, which takes about a millisecond.
/// Does nothing with allocators that give memory back themselves.
pub(super) struct GivesBack;

impl Drop for GivesBack {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: the function takes its own locks and touches no memory in use.
        #[expect(unsafe_code, reason = "the system's interface")]
        let _ = unsafe { libc::malloc_trim(0) };
    }
}
