//! Detects the format of an input by file names; reads at most the first bytes of a file.

use std::path::Path;

use serde::Deserialize;

use crate::{
    DatasetError, Result,
    tables::{MAPPING_FILE, holds_data},
};

/// Maximum number of files of a directory that are inspected.
const MAX_FILES: usize = 10_000;
/// Suffixes of uncompressed and compressed files.
const PACKED: [&str; 3] = ["", ".gz", ".zst"];

/// Format of the data to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputFormat {
    /// A directory with `nodes.jsonl` and `edges.tsv`.
    Neutral,
    /// A directory with the files of the STaRK benchmark.
    Stark,
    /// A table file or a database file, or a directory of such files.
    Tables,
    /// A file of N-Triples.
    Triples,
}

impl InputFormat {
    /// Detects the format of a file or directory from file names and, if need be, the first bytes
    /// of a file.
    ///
    /// # Errors
    /// [`DatasetError::BadInput`] if the path does not exist or the directory has no known files.
    pub fn detect(source: &Path) -> Result<InputFormat> {
        if source.is_dir() {
            let message = "nothing to import; add tables (.csv, .tsv, .jsonl, .sqlite), or \
                           nodes.jsonl and edges.tsv";
            return of_directory(source).ok_or_else(|| DatasetError::bad_input(source, message));
        }
        if !source.exists() {
            let message = "no such file or directory; give the path of your data";
            return Err(DatasetError::bad_input(source, message));
        }
        let name = source.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_triples = PACKED.iter().any(|packed| name.ends_with(&format!(".nt{packed}")));
        // The import reports a file that is not a table.
        Ok(if is_triples { InputFormat::Triples } else { InputFormat::Tables })
    }
}

fn of_directory(dir: &Path) -> Option<InputFormat> {
    let has = |file: &str| PACKED.iter().any(|packed| dir.join(format!("{file}{packed}")).exists());
    if dir.join(MAPPING_FILE).exists() {
        return Some(InputFormat::Tables);
    }
    if has("nodes.jsonl") || has("edges.tsv") {
        return Some(InputFormat::Neutral);
    }
    if dir.join("processed.zip").exists() || is_stark(&dir.join("processed")) {
        return Some(InputFormat::Stark);
    }
    let entries = std::fs::read_dir(dir).ok()?.take(MAX_FILES).flatten();
    // The import reports data files that are not tables.
    if entries.into_iter().any(|entry| holds_data(&entry.path())) {
        return Some(InputFormat::Tables);
    }
    // The import reports the missing files of an unpacked archive.
    dir.join("processed").is_dir().then_some(InputFormat::Stark)
}

/// Whether a folder named `processed` has files of the STaRK benchmark; other data may also use
/// that name.
fn is_stark(folder: &Path) -> bool {
    let is_known = |path: &Path| {
        let extension = path.extension().unwrap_or_default();
        extension == "pkl" || extension == "pt" || path.ends_with("cache")
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_FILES).flatten();
    entries.into_iter().any(|entry| is_known(&entry.path()))
}
