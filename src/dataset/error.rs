//! What can go wrong with dataset files and installed bases. Line problems carry file and line,
//! so that the same type serves the strict import (first one ends it) and the lenient one (all
//! are counted, the first few kept).

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use crate::kb::KbError;

/// Examples kept of each kind of problem.
const EXAMPLES: usize = 5;
/// Installed names that an unknown-name error lists at most.
pub(super) const MAX_LISTED: usize = 20;

/// Why a dataset could not be imported, found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// A line of an input file is wrong.
    #[error("{0}")]
    Line(Problem),
    /// The store could not be written or opened.
    #[error(transparent)]
    Kb(#[from] KbError),
    /// A file or directory could not be read or written; a full disk ends here too.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted, an infinitive.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An input file ends early or cannot be unpacked.
    #[error(
        "{path}:{line}: cannot read on: {source}; the file is cut off or damaged, fetch it again"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line (1-based) that could not be read.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// The base has labels of the user's own.
    #[error(
        "\"{name}\" has {n} questions that were labelled, which are never replaced; write the new ones \
         elsewhere with --to DIR"
    )]
    Labelled {
        /// The base.
        name: String,
        /// Its questions.
        n: u64,
    },
    /// A file is larger than its limit.
    #[error("{path} holds more than {limit} bytes; split it or raise the limit in the source")]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// The limit in bytes, unpacked.
        limit: u64,
    },
    /// None of the possible file names exists.
    #[error("{dir} has no {file}, {file}.gz or {file}.zst; a dataset needs one of them")]
    MissingFile {
        /// The dataset directory.
        dir: PathBuf,
        /// The name without packing suffix.
        file: &'static str,
    },
    /// The same data are there twice.
    #[error("{dir} has both {first} and {second}; keep one")]
    AmbiguousFile {
        /// The dataset directory.
        dir: PathBuf,
        /// One name.
        first: String,
        /// Another name.
        second: String,
    },
    /// `dataset.toml` is wrong.
    #[error("{path}: {message}")]
    BadToml {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// A file of the STaRK benchmark, or its directory, is not as it should be.
    #[error("{path}: {message}")]
    BadStark {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// A nodes file without nodes.
    #[error("{path} holds no nodes; write at least one")]
    NoNodes {
        /// The nodes file.
        path: PathBuf,
    },
    /// So many ids are missing that filling them in makes no sense.
    #[error("{path}: more than {limit} node ids are missing; number the nodes 0, 1, 2, ...")]
    TooManyMissingIds {
        /// The nodes file.
        path: PathBuf,
        /// The most that are filled in.
        limit: u32,
    },
    /// A base name has other characters or is too long.
    #[error(
        "\"{name}\" is no base name; use 1 to {limit} of a-z, 0-9, - and _, a letter or digit first"
    )]
    BadName {
        /// The name.
        name: String,
        /// The most characters.
        limit: usize,
    },
    /// No base of that name is installed.
    #[error("no dataset \"{name}\" is installed{}; {}", hint(.nearest), listed(.installed))]
    UnknownName {
        /// The name.
        name: String,
        /// All installed names, sorted.
        installed: Vec<String>,
        /// The installed name that is closest, if any is close.
        nearest: Option<String>,
    },
    /// A dataset argument is neither a base nor a directory.
    #[error("\"{dataset}\" is neither the name of an installed dataset nor a directory")]
    NotFound {
        /// The argument.
        dataset: String,
    },
    /// An installed base has no such split.
    #[error("dataset \"{name}\" has no {split} split; it has: {known}")]
    NoSplit {
        /// The base.
        name: String,
        /// The split that was asked for.
        split: String,
        /// The splits that exist, comma-separated.
        known: String,
    },
    /// The test split was asked for where it may not be seen.
    #[error("the test split is closed here; only an evaluation may open it")]
    TestClosed,
    /// A stored file of a base is not what was imported.
    #[error("{path} is damaged: {what}; import the dataset again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not agree.
        what: String,
    },
    /// The caller asked to stop.
    #[error("stopped; nothing was installed")]
    Stopped,
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(", did you mean \"{name}\"?")).unwrap_or_default()
}

fn listed(installed: &[String]) -> String {
    if installed.is_empty() {
        return "none is installed, import one first".to_string();
    }
    let shown: Vec<&str> = installed.iter().take(MAX_LISTED).map(String::as_str).collect();
    let more = installed.len().saturating_sub(MAX_LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("installed: {}{rest}", shown.join(", "))
}

impl DatasetError {
    /// Wraps an I/O error with what was attempted and where.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> DatasetError {
        let path = path.into();
        move |source| DatasetError::Io { action, path, source }
    }
}

/// Kinds of line problems, in the order in which reports list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A line above [`crate::dataset::MAX_LINE_BYTES`].
    LineTooLong,
    /// Not JSON, or not of the expected shape.
    BadJson,
    /// A key beside id, type, name and details.
    UnknownKey,
    /// An id that was there before.
    DuplicateId,
    /// An id between this one and the one before is missing.
    MissingId,
    /// A type, relation or field name that is empty or too long, or a type or relation name with
    /// control characters.
    BadLabel,
    /// The first line is not the header.
    WrongHeader,
    /// A row with another number of columns than the header.
    RaggedRow,
    /// A value that is not a non-negative integer where an id is expected.
    BadId,
    /// An edge to a node that does not exist.
    UnknownNode,
    /// An answer list that cannot be read or is empty.
    BadAnswers,
    /// An answer that is not a node of the base.
    UnknownAnswer,
    /// A query id that was there before.
    DuplicateQuery,
    /// A split names a query that does not exist.
    UnknownQuery,
    /// A query that is in two splits.
    SplitOverlap,
}

impl ProblemKind {
    /// A few words for reports.
    pub fn label(self) -> &'static str {
        match self {
            ProblemKind::NotUtf8 => "not UTF-8",
            ProblemKind::LineTooLong => "line too long",
            ProblemKind::BadJson => "bad JSON",
            ProblemKind::UnknownKey => "unknown key",
            ProblemKind::DuplicateId => "duplicate node id",
            ProblemKind::MissingId => "missing node id",
            ProblemKind::BadLabel => "bad type, relation or field name",
            ProblemKind::WrongHeader => "wrong header",
            ProblemKind::RaggedRow => "wrong number of columns",
            ProblemKind::BadId => "bad id",
            ProblemKind::UnknownNode => "edge to an unknown node",
            ProblemKind::BadAnswers => "bad answer list",
            ProblemKind::UnknownAnswer => "unknown answer",
            ProblemKind::DuplicateQuery => "duplicate query id",
            ProblemKind::UnknownQuery => "unknown query in a split",
            ProblemKind::SplitOverlap => "query in two splits",
        }
    }
}

/// One wrong line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, 1-based, in the unpacked text.
    pub line: u64,
    /// The kind.
    pub kind: ProblemKind,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

/// How often a kind of problem was met in a lenient import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemCount {
    /// The kind.
    pub kind: ProblemKind,
    /// Occurrences.
    pub count: u64,
    /// The first five.
    pub examples: Vec<Problem>,
}

/// Takes problems as they come: the strict kind fails at the first, the lenient one counts.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) lenient: bool,
    counts: BTreeMap<ProblemKind, (u64, Vec<Problem>)>,
}

impl Problems {
    pub(super) fn new(lenient: bool) -> Problems {
        Problems { lenient, counts: BTreeMap::new() }
    }

    /// Ok means: leave the line out and go on.
    pub(super) fn add(
        &mut self,
        file: &Path,
        line: u64,
        kind: ProblemKind,
        message: impl Into<String>,
    ) -> Result<(), DatasetError> {
        let problem = Problem { file: file.to_path_buf(), line, kind, message: message.into() };
        if !self.lenient {
            return Err(DatasetError::Line(problem));
        }
        let (count, examples) = self.counts.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(problem);
        }
        Ok(())
    }

    pub(super) fn into_counts(self) -> Vec<ProblemCount> {
        let counts = self.counts.into_iter();
        counts.map(|(kind, (count, examples))| ProblemCount { kind, count, examples }).collect()
    }
}
