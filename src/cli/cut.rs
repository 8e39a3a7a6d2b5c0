//! Reports the mapped file that another process truncated. Reading beyond the new end of a mapped
//! file is a bus error, which would otherwise end the process without a message. Writing beyond the
//! limit on file sizes (`ulimit -f`) becomes a write error instead of ending the process.
//!
//! The signal handler calls only async-signal-safe functions: it opens, reads, writes and exits. It
//! looks up the faulting address in the system's list of mappings to find the file. Linux only; on
//! other systems, the module does nothing.

#[cfg(target_os = "linux")]
pub(super) use linux::install;

/// Does nothing: other systems lack the list of mappings.
#[cfg(not(target_os = "linux"))]
pub(super) fn install() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::{ffi::CStr, mem, ptr};

    use crate::Exit;

    /// File that lists the mappings of this process, one per line:
    /// `from-to rights offset device inode    path`.
    const MAPPINGS: &CStr = c"/proc/self/maps";
    /// Maximum number of bytes kept of a line of [`MAPPINGS`]; the rest of a longer line is
    /// dropped. A path has at most 4,096 bytes.
    const LINE_BYTES: usize = 4_096 + 128;
    const BEGINS: &[u8] = b"error: ";
    const ENDS: &[u8] = b" was cut short or replaced while it was read, or its disk failed\n\
        hint: check it with `agent doctor`, then import or index the dataset again\n";

    /// Installs the handler for bus errors (SIGBUS), and ignores the signal for files that are too
    /// large (SIGXFSZ).
    pub(crate) fn install() {
        // SAFETY: `action` is a plain structure for which zeros are valid; the handler has the
        // signature that SA_SIGINFO asks for, and calls only functions that are safe in a handler.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = tell as extern "C" fn(_, _, _) as usize;
            // The handler runs on the thread's own stack, which is intact. The alternate signal
            // stack may be too small.
            action.sa_flags = libc::SA_SIGINFO;
            // If this fails, a bus error ends the process without a message.
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }

    /// Handles a bus error: writes the path of the mapped file to stderr and ends the process. If
    /// the address is in no mapped file, restores the default handler, which ends the process when
    /// the instruction is repeated.
    extern "C" fn tell(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the system gives the handler a valid structure, which has an address for SIGBUS.
        let address = unsafe { (*info).si_addr() } as usize;
        let mut line = [0; LINE_BYTES];
        match mapped_at(address, &mut line) {
            Some(path) => {
                path.iter_mut()
                    .filter(|byte| byte.is_ascii_control())
                    .for_each(|byte| *byte = b'?');
                write(BEGINS);
                write(path);
                write(ENDS);
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(Exit::Failed as libc::c_int) }
            }
            None => {
                // SAFETY: the instruction is repeated when the handler returns, and then the
                // default ends the process.
                unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
            }
        }
    }

    fn write(bytes: &[u8]) {
        // SAFETY: pointer and length are those of a slice; a failed write cannot be reported.
        unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Returns the path of the file that is mapped at this address, as a slice of the buffer
    /// `line`; `None` if no file is mapped there or the list of mappings cannot be read.
    fn mapped_at(address: usize, line: &mut [u8; LINE_BYTES]) -> Option<&mut [u8]> {
        // SAFETY: the path ends with zero.
        let file = unsafe { libc::open(MAPPINGS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if file < 0 {
            return None;
        }
        let mut length = 0;
        loop {
            let mut byte = 0u8;
            // SAFETY: one byte is read into one byte. The process ends soon, so the cost of one
            // call per byte does not matter.
            let n = unsafe { libc::read(file, (&raw mut byte).cast(), 1) };
            if n != 1 {
                return None;
            }
            if byte != b'\n' {
                // Bytes beyond the buffer are dropped.
                if let Some(place) = line.get_mut(length) {
                    *place = byte;
                    length += 1;
                }
                continue;
            }
            if holds(line.get(..length)?, address) {
                break;
            }
            length = 0;
        }
        let line = line.get_mut(..length)?;
        let path = line.iter().position(|byte| *byte == b'/')?;
        line.get_mut(path..)
    }

    /// Whether a line of [`MAPPINGS`], `from-to ...`, describes a mapping that contains this
    /// address.
    fn holds(line: &[u8], address: usize) -> bool {
        let mut bounds = [0usize; 2];
        let mut at = 0;
        for byte in line {
            match (byte, char::from(*byte).to_digit(16)) {
                (b'-', _) if at == 0 => at = 1,
                (_, Some(digit)) => {
                    let Some(bound) = bounds.get_mut(at) else { return false };
                    *bound = bound.wrapping_shl(4) | digit as usize;
                }
                _ => break,
            }
        }
        (bounds[0]..bounds[1]).contains(&address)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_file_behind_an_address_is_found() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("some file");
            std::fs::write(&path, vec![1; 10_000]).unwrap();
            let file = std::fs::File::open(&path).unwrap();
            // SAFETY: nobody changes the file.
            let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
            for address in [map.as_ptr() as usize, map.as_ptr() as usize + 9_999] {
                let mut line = [0; LINE_BYTES];
                let found = mapped_at(address, &mut line).unwrap();
                assert_eq!(found, path.to_str().unwrap().as_bytes());
            }
            assert!(mapped_at(8, &mut [0; LINE_BYTES]).is_none());
            // The stack is no file.
            let on_stack = &raw const map as usize;
            assert!(mapped_at(on_stack, &mut [0; LINE_BYTES]).is_none());
        }

        #[test]
        fn bounds_of_a_line_are_read() {
            let line = b"7f00-7f1F r--s 00000000 08:01 12   /a";
            assert_eq!(
                [0x7eff, 0x7f00, 0x7f1e, 0x7f1f].map(|at| holds(line, at)),
                [false, true, true, false]
            );
            assert!(!holds(b"", 0) && !holds(b"zz-zz", 0));
        }
    }
}
