//! Free space of a file system.

use std::path::Path;

/// Returns the number of bytes that this user may still write to the file system of a directory;
/// `None` if the number cannot be determined.
#[cfg(unix)]
pub fn free_bytes(dir: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt as _;

    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).ok()?;
    // SAFETY: the structure holds only numbers, for which zero bytes are valid.
    #[expect(unsafe_code, reason = "the system's interface")]
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte, and `found` is writable.
    #[expect(unsafe_code, reason = "the system's interface")]
    let status = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) };
    #[allow(clippy::useless_conversion, reason = "elsewhere the numbers are shorter")]
    let bytes = || u64::from(found.f_bavail).checked_mul(u64::from(found.f_frsize));
    (status == 0).then(bytes).flatten()
}

/// Returns `None`: not supported on this system.
#[cfg(not(unix))]
pub fn free_bytes(_: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_free_space_and_a_missing_one_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(dir.path()).is_some());
        assert_eq!(free_bytes(&dir.path().join("missing")), None);
    }
}
