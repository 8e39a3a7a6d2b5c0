//! Counts the openings of a base's test split, that is, how often an evaluation has read its
//! answers. Every use of these answers biases later measurements.
//!
//! The count is stored in the file `openings/KEY` in the home directory. KEY is a digest of
//! `qa.csv` and the test split, so the count continues if the same questions are imported again or
//! under another name.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{Base, DatasetError, Home, Result, queries::TEST_FILES};
use agent_ground::files;

/// Name of the directory in the home directory that holds the counts of openings.
const DIRECTORY: &str = "openings";
/// Maximum number of bytes read from the file of a count; a `u64` has at most 20 digits.
const MAX_BYTES: u64 = 64;

impl Home {
    /// Returns how often the test split of a base has been opened.
    ///
    /// # Errors
    /// [`DatasetError::Io`], also if the file holds no number.
    pub fn openings(&self, base: &Base) -> Result<u64> {
        let path = self.openings_file(base);
        match files::open(&path) {
            Ok(mut file) => read(&mut file, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(DatasetError::io("read", &path)(error)),
        }
    }

    /// Adds one to the recorded number of test-split openings of a base and returns the new number.
    /// Atomic across processes.
    ///
    /// # Errors
    /// [`DatasetError::Io`], also if the file holds no number.
    pub fn count_opening(&self, base: &Base) -> Result<u64> {
        self.raise_openings(base, |n| n.saturating_add(1))
    }

    /// Raises the recorded number of test-split openings of a base to the number in `file`, if that
    /// is higher; returns the resulting number.
    ///
    /// # Errors
    /// As [`Home::count_opening`].
    pub fn adopt_openings(&self, base: &Base, file: &Path) -> Result<u64> {
        let mut opened = files::open(file).map_err(DatasetError::io("read", file))?;
        let count = read(&mut opened, file)?;
        self.raise_openings(base, |n| n.max(count))
    }

    /// Replaces the recorded number of openings `n` with `raised(n)`, which must be at least `n`.
    fn raise_openings(&self, base: &Base, raised: impl FnOnce(u64) -> u64) -> Result<u64> {
        let path = self.openings_file(base);
        let dir = self.path().join(DIRECTORY);
        fs::create_dir_all(&dir).map_err(DatasetError::io("create", &dir))?;
        let mut file = files::open_to_lock(&path).map_err(DatasetError::io("open", &path))?;
        // Released when the file is closed.
        file.lock().map_err(DatasetError::io("lock", &path))?;
        let n = raised(read(&mut file, &path)?);
        // A count never gets shorter, so it overwrites the old one completely.
        let written = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(format!("{n}\n").as_bytes()))
            .and_then(|()| file.sync_all());
        written.map_err(DatasetError::io("write", &path))?;
        Ok(n)
    }

    /// Returns the path of the file with the number of test-split openings of a base; the file may
    /// not exist.
    pub fn openings_file(&self, base: &Base) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        for name in TEST_FILES {
            let digest = base.record.query_files.get(name).map_or("", |file| file.blake3.as_str());
            hasher.update(digest.as_bytes()).update(b"\n");
        }
        self.path().join(DIRECTORY).join(hasher.finalize().to_hex().as_str())
    }
}

/// Reads the number of openings in a file; 0 if the file is empty.
fn read(file: &mut File, path: &Path) -> Result<u64> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(DatasetError::io("read", path))?;
    match text.trim() {
        "" => Ok(0),
        number => number.parse().map_err(|_| {
            let reason =
                "it does not hold a number; write the number of test split openings into it";
            DatasetError::io("read", path)(io::Error::new(io::ErrorKind::InvalidData, reason))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{
        ImportOptions, import_neutral,
        sample::{SampleKind, SampleOptions, generate},
    };

    #[test]
    fn every_opening_is_counted_also_after_an_import_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("files");
        let options = SampleOptions { seed: 0, scale: Some(0.0008) };
        generate(SampleKind::Amazon, options, &files, &mut |_| {}).unwrap();
        let home = Home::new(dir.path().join("home"));
        let import = |name: &str| {
            let (options, stop) = (ImportOptions::default(), Default::default());
            import_neutral(&files, &home, name, &options, &mut |_| {}, &stop).unwrap().base
        };
        let base = import("one");
        assert_eq!(home.openings(&base).unwrap(), 0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        home.count_opening(&base).unwrap();
                    }
                });
            }
        });
        assert_eq!(home.openings(&base).unwrap(), 12);
        let other = import("other");
        assert_eq!(home.count_opening(&other).unwrap(), 13);
        fs::write(home.openings_file(&base), "many").unwrap();
        assert!(matches!(home.count_opening(&base), Err(DatasetError::Io { .. })));
    }
}
