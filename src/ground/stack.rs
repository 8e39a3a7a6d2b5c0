//! Returns the memory of the unused part of a thread's stack to the system. Otherwise the memory
//! that a deep call used stays with its thread as long as the thread lives.

/// Number of bytes of the stack below the current frame that are kept for the next calls.
const KEPT_BYTES: usize = 1 << 20;

/// Returns the unused part of the calling thread's stack to the system, except for the next
/// mebibyte. Takes a few microseconds. Does nothing on systems other than Linux with glibc.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    linux::give_back();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::{mem::MaybeUninit, ptr};

    use super::KEPT_BYTES;

    /// Largest page size in bytes of the architectures that Linux supports.
    const PAGE_BYTES: usize = 64 << 10;

    pub(super) fn give_back() {
        let Some(lowest) = lowest_address() else { return };
        let here = ptr::from_ref(&lowest).addr();
        let end = here.saturating_sub(KEPT_BYTES) / PAGE_BYTES * PAGE_BYTES;
        let Some(bytes) = end.checked_sub(lowest.addr()) else { return };
        // SAFETY: the range belongs to the stack of this thread and ends far below its current
        // frame, so it holds nothing that is in use; untouched stack reads as zeros.
        #[expect(unsafe_code, reason = "the system's interface")]
        let _ = unsafe { libc::madvise(lowest, bytes, libc::MADV_DONTNEED) };
    }

    /// Returns the lowest address of the calling thread's stack; `None` if it cannot be determined.
    fn lowest_address() -> Option<*mut libc::c_void> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let (mut lowest, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the calls write the places they are given; the attributes are read and destroyed
        // only if the first call has filled them.
        #[expect(unsafe_code, reason = "the system's interface")]
        let found = unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return None;
            }
            let found =
                libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            found
        };
        (found == 0).then_some(lowest)
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::{fs, hint::black_box, thread};

    use super::*;

    /// Returns the size of this process's anonymous memory, in MB.
    fn anonymous_mb() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Touches `mb` MB of the stack, one frame of a megabyte for each.
    fn touch(mb: usize) -> u8 {
        let frame = black_box([1_u8; 1 << 20]);
        if mb > 1 { touch(mb - 1).wrapping_add(black_box(&frame)[4096]) } else { frame[0] }
    }

    #[test]
    fn a_thread_that_went_deep_keeps_little() {
        let work = || {
            touch(64);
            let deep = anonymous_mb();
            give_back();
            // What is used again is there.
            let shallow = anonymous_mb();
            assert_eq!(touch(8), 8);
            (deep, shallow)
        };
        let thread = thread::Builder::new().stack_size(256 << 20).spawn(work).unwrap();
        let (deep, shallow) = thread.join().unwrap();
        assert!(deep >= shallow + 48, "{deep} MB before, {shallow} MB after");
    }
}
