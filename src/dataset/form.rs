//! In which form is an input? By names of files alone; must not read more than the first bytes.

use std::path::Path;

use crate::{
    DatasetError,
    tables::{MAPPING_FILE, holds_data},
};

/// Files of a directory that are looked at.
const MAX_FILES: usize = 10_000;
const PACKED: [&str; 3] = ["", ".gz", ".zst"];

/// How an input is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A directory with `nodes.jsonl` and `edges.tsv`.
    Neutral,
    /// A directory with the files of the STaRK benchmark.
    Stark,
    /// A table or a database, or a directory of them.
    Tables,
    /// A file of N-Triples.
    Triples,
}

impl Form {
    /// The form of a file or directory.
    ///
    /// # Errors
    /// [`DatasetError::BadInput`] says what could be there.
    pub fn of(source: &Path) -> Result<Form, DatasetError> {
        let bad = |message: &str| {
            let (path, message) = (source.to_path_buf(), message.to_owned());
            DatasetError::BadInput { path, message }
        };
        if source.is_dir() {
            return of_directory(source).ok_or_else(|| {
                bad("there is nothing to import; add tables (.csv, .tsv, .jsonl, .sqlite), or \
                    nodes.jsonl and edges.tsv")
            });
        }
        if !source.exists() {
            return Err(bad("there is no such file or directory; give the path of your data"));
        }
        match is_triples(source) {
            true => Ok(Form::Triples),
            // What is no table is told when it is opened.
            false => Ok(Form::Tables),
        }
    }
}

fn is_triples(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    PACKED.iter().any(|packed| name.ends_with(&format!(".nt{packed}")))
}

fn of_directory(dir: &Path) -> Option<Form> {
    let has = |file: &str| PACKED.iter().any(|packed| dir.join(format!("{file}{packed}")).exists());
    if dir.join(MAPPING_FILE).exists() {
        return Some(Form::Tables);
    }
    if has("nodes.jsonl") || has("edges.tsv") {
        return Some(Form::Neutral);
    }
    if dir.join("processed.zip").exists() || is_stark(&dir.join("processed")) {
        return Some(Form::Stark);
    }
    let entries = std::fs::read_dir(dir).ok()?.take(MAX_FILES).flatten();
    // Files of data that are no tables are told when the directory is opened.
    if entries.into_iter().any(|entry| holds_data(&entry.path())) {
        return Some(Form::Tables);
    }
    // What an unpacked archive lacks is told when it is opened.
    dir.join("processed").is_dir().then_some(Form::Stark)
}

/// Whether a folder has files of the benchmark; others call theirs `processed` too.
fn is_stark(folder: &Path) -> bool {
    let is_known = |path: &Path| {
        let extension = path.extension().unwrap_or_default();
        extension == "pkl" || extension == "pt" || path.ends_with("cache")
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_FILES).flatten();
    entries.into_iter().any(|entry| is_known(&entry.path()))
}
