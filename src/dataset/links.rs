//! Rejects symbolic links that lead out of a data directory. An import would read the linked files,
//! and its messages would quote them.

use std::{fs, path::Path};

use crate::{DatasetError, Result};

/// Maximum number of entries inspected in each directory.
const MAX_ENTRIES: usize = 10_000;
/// Maximum depth of nested folders that are inspected.
const MAX_DEPTH: usize = 4;

/// Checks all symbolic links in the directory `source` and its folders. A `source` that is not a
/// directory is accepted.
///
/// # Errors
/// [`DatasetError::BadInput`] for the first link that leads to a file or directory outside of
/// `source`.
pub(super) fn refuse_outside(source: &Path) -> Result<()> {
    match fs::canonicalize(source) {
        Ok(root) if root.is_dir() => check(source, &root, MAX_DEPTH),
        // The import reports a path that is not a readable directory.
        _ => Ok(()),
    }
}

fn check(dir: &Path, root: &Path, depth: usize) -> Result<()> {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten().take(MAX_ENTRIES) {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            check(&path, root, depth - 1)?;
        }
        let target = kind.is_symlink().then(|| fs::canonicalize(&path).ok()).flatten();
        let is_outside = |to: &Path| !to.starts_with(root) && (to.is_file() || to.is_dir());
        if target.is_some_and(|to| is_outside(&to)) {
            let message = "it links outside of the directory; copy its target, or import the \
                           directory that holds it";
            return Err(DatasetError::bad_input(path, message));
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_within_a_directory_pass_and_those_to_outside_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::create_dir_all(source.join("tables/more")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(source.join("a.csv"), "id\n1\n").unwrap();
        symlink("../a.csv", source.join("tables/b.csv")).unwrap();
        symlink("/dev/zero", source.join("zero.csv")).unwrap();
        symlink("nowhere", source.join("c.csv")).unwrap();
        refuse_outside(&source).unwrap();
        // The directory itself may be a link.
        symlink(&source, dir.path().join("link")).unwrap();
        refuse_outside(&dir.path().join("link")).unwrap();
        for (place, to) in [("tables/more/d.csv", "secret"), ("folder", "")] {
            symlink(dir.path().join(to), source.join(place)).unwrap();
            let error = refuse_outside(&source).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains("outside"), "{error}");
            fs::remove_file(source.join(place)).unwrap();
        }
    }
}
