//! Reads untrusted files within limits, and creates temporary files with the usual permissions.
//!
//! A path may lead to a pipe without a writer or to an endless device, so only regular files are
//! opened, and no more than the limit is read of any file.
//!
//! Does not depend on what the files contain.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile, TempDir};

/// Opens a regular file for reading; follows symbolic links.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the path leads to a file that is not regular; it is then not
/// opened (opening a pipe would wait for its writer). Otherwise the error of the operating system.
pub fn open(path: &Path) -> io::Result<File> {
    regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    // Another file may be at the path by now.
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file for reading and appending; follows symbolic links, and creates a missing
/// file.
///
/// # Errors
/// As [`open`].
pub fn open_to_append(path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        metadata => regular(&metadata?)?,
    }
    let file = File::options().read(true).append(true).create(true).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file for reading and writing, for example to lock it. Creates a missing file;
/// keeps the content of an existing one.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::InvalidInput`] also for a symbolic link.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        metadata => regular(&metadata?)?,
    }
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

fn regular(metadata: &fs::Metadata) -> io::Result<()> {
    let message = "it is not a regular file; give the path of a regular file";
    let other = || io::Error::new(io::ErrorKind::InvalidInput, message);
    metadata.is_file().then_some(()).ok_or_else(other)
}

/// Reads a whole regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::FileTooLarge`] if the file is longer than `limit`.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let too_long = || {
        let message = format!("it holds more than {limit} bytes; shorten it");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    };
    if file.metadata()?.len() > limit {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Reads a whole regular file of at most `limit` bytes, which must be UTF-8.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`] if the content is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let not_text = |_| {
        let message = "it is not UTF-8 text; convert it to UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, message)
    };
    String::from_utf8(read(path, limit)?).map_err(not_text)
}

/// Fails if a path is a symbolic link, so that nothing is written to the link's target.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a link.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    let message = "it is a symbolic link; replace it with the file or directory that it points to";
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, message);
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if is_link { Err(refused()) } else { Ok(()) }
}

/// Returns advice to append to the message of a system error, such as to free space; empty if there
/// is none.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; free space there and run the command again",
        io::ErrorKind::QuotaExceeded => {
            "; raise the quota or free space there, and run the command again"
        }
        _ => "",
    }
}

/// Creates a file in `folder` that is removed when it is dropped, unless it is persisted. Unlike
/// most temporary files, it is accessible to other users as the umask allows.
///
/// # Errors
/// The error of the system.
pub fn temporary_file(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    with_mode(&mut Builder::new(), 0o666).prefix(prefix).tempfile_in(folder)
}

/// Moves a written [`temporary_file`] of `folder` to `path` in that folder, so that it survives a
/// power cut.
///
/// # Errors
/// The error of the system.
pub fn publish(file: NamedTempFile, path: &Path, folder: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path)?;
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Begins a file that appears at `path` only when it is complete. Returns a [`temporary_file`] and
/// the path to persist it at. If `path` is a symbolic link, the returned path is the link's
/// target, so that the link stays.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if `path` leads to something other than a regular file, such as
/// a device, which the output would replace. Otherwise the error of the operating system.
pub fn begin_output(path: &Path, prefix: &str) -> io::Result<(NamedTempFile, PathBuf)> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        metadata => regular(&metadata?)?,
    }
    let path = without_link(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((temporary_file(folder.unwrap_or(Path::new(".")), prefix)?, path))
}

/// Returns the target of `path` if it is a symbolic link, otherwise `path`.
///
/// # Errors
/// The error of the operating system, such as that the target is missing.
pub fn without_link(path: &Path) -> io::Result<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if is_link { fs::canonicalize(path) } else { Ok(path.to_owned()) }
}

/// Creates a directory in `folder` that is removed when it is dropped, unless it is kept. Other
/// users may access it as the umask allows.
///
/// # Errors
/// The error of the system.
pub fn temporary_dir(folder: &Path, prefix: &str) -> io::Result<TempDir> {
    with_mode(&mut Builder::new(), 0o777).prefix(prefix).tempdir_in(folder)
}

/// Sets the permissions of a new file or directory to `mode`, less the bits of the umask.
#[cfg(unix)]
fn with_mode<'a, 'b>(builder: &'a mut Builder<'b, 'b>, mode: u32) -> &'a mut Builder<'b, 'b> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn with_mode<'a, 'b>(builder: &'a mut Builder<'b, 'b>, _: u32) -> &'a mut Builder<'b, 'b> {
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "abc").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"abc");
        assert_eq!(read_text(&path, 3).unwrap(), "abc");
        assert_eq!(read(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(open(dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_refused_through_links_too() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("endless");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(read(&link, 10).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(open_to_append(&link).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(open_to_append(&dir.path().join("new")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn an_output_replaces_regular_files_alone_and_keeps_links() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| dir.path().join(name));
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let (staged, to) = begin_output(&link, ".new-").unwrap();
        fs::write(staged.path(), "after").unwrap();
        staged.persist(to).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        std::os::unix::net::UnixListener::bind(&pipe).unwrap();
        for other in [&pipe, dir.path()] {
            assert_eq!(
                begin_output(other, ".new-").unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
        assert_eq!(
            begin_output(&dir.path().join("new"), ".new-").unwrap().1,
            dir.path().join("new")
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_is_that_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        let (plain, folder) = (dir.path().join("plain"), dir.path().join("folder"));
        File::create(&plain).unwrap();
        fs::create_dir(&folder).unwrap();
        let file = temporary_file(dir.path(), ".x").unwrap();
        let made = temporary_dir(dir.path(), ".y").unwrap();
        assert_eq!(mode(file.path()), mode(&plain));
        assert_eq!(mode(made.path()), mode(&folder));
    }
}
