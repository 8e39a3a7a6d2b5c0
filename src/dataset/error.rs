//! Errors of dataset files and installed bases. A problem with the input has a file, a line and a
//! remedy. A strict import reads to the end and fails with all problems; a lenient import skips
//! invalid lines and counts them.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use agent_ground::files;
use agent_kb::KbError;

/// Maximum number of examples kept per kind of problem.
const EXAMPLES: usize = 5;
/// Maximum number of problems that an error lists; further ones are counted.
pub const MAX_LISTED_PROBLEMS: usize = 50;
/// Maximum length of an excerpt, characters.
const MAX_EXCERPT_CHARS: usize = 100;
/// Maximum number of installed names listed in an unknown-name error.
pub(super) const MAX_LISTED_NAMES: usize = 20;

/// Why a dataset could not be imported, found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The input has invalid lines.
    #[error("{0}")]
    Problems(Box<ProblemReport>),
    /// The store could not be written or opened.
    #[error(transparent)]
    Kb(#[from] KbError),
    /// A file or directory could not be read or written, for example because the disk is full.
    #[error("cannot {action} {path}: {source}{}", files::remedy(source))]
    Io {
        /// Attempted action, an infinitive.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An input file is truncated or cannot be unpacked.
    #[error(
        "{path}:{line}: cannot read further: {source}; the file is truncated or damaged, fetch it again"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The line (1-based) that could not be read.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// The base has the user's own labels.
    #[error(
        "\"{name}\" has {n} labelled questions, which are never replaced; write the new ones \
         elsewhere with --to DIR"
    )]
    HasOwnLabels {
        /// The base.
        name: String,
        /// Number of its questions.
        n: u64,
    },
    /// The base was replaced since it was opened.
    #[error("\"{name}\" was replaced or removed in the meantime; run the command again")]
    BaseChanged {
        /// The base.
        name: String,
    },
    /// An update would lose more than half of the nodes, or all questions.
    #[error(
        "\"{name}\" would lose {loss}; review the changes with --dry-run, then accept them with \
         --force"
    )]
    WouldLoseData {
        /// The base.
        name: String,
        /// The lost content, such as `7 of 10 nodes`.
        loss: String,
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
    #[error(
        "{dir} has no {file}, {file}.gz or {file}.zst; add one, or import tables with \
         `agent data guess`"
    )]
    MissingFile {
        /// The dataset directory.
        dir: PathBuf,
        /// The name without packing suffix.
        file: &'static str,
    },
    /// A file exists in two packings.
    #[error("{dir} has both {first} and {second}; keep one")]
    AmbiguousFile {
        /// The dataset directory.
        dir: PathBuf,
        /// One name.
        first: String,
        /// Another name.
        second: String,
    },
    /// The input is not in a known format.
    #[error("{path}: {message}")]
    BadInput {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and the remedy.
        message: String,
    },
    /// `dataset.toml` or a mapping is wrong.
    #[error("{}: {message}", location_text(.path, *.line))]
    BadToml {
        /// The file.
        path: PathBuf,
        /// The line, 1-based; 0 for the whole file.
        line: u64,
        /// What is wrong, and the remedy.
        message: String,
    },
    /// A file of the STaRK benchmark, or its directory, is invalid.
    #[error("{path}: {message}")]
    BadStark {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong, and the remedy.
        message: String,
    },
    /// The nodes file has no nodes.
    #[error("{path} holds no nodes; write at least one")]
    NoNodes {
        /// The nodes file.
        path: PathBuf,
    },
    /// More node ids are missing than a lenient import may fill in.
    #[error("{path}: more than {limit} node ids are missing; number the nodes 0, 1, 2, ...")]
    TooManyMissingIds {
        /// The nodes file.
        path: PathBuf,
        /// Maximum number of nodes filled in.
        limit: u32,
    },
    /// A base name has invalid characters or is too long.
    #[error(
        "\"{name}\" is not a valid dataset name; use 1 to {limit} of a-z, 0-9, - and _, a letter or digit first"
    )]
    BadName {
        /// The name.
        name: String,
        /// Maximum length in characters.
        limit: usize,
    },
    /// No base with that name is installed.
    #[error("no dataset \"{name}\" is installed{}; {}", hint(.nearest), listed(.installed))]
    UnknownName {
        /// The name.
        name: String,
        /// All installed names, sorted.
        installed: Vec<String>,
        /// The nearest installed name, if it is similar.
        nearest: Option<String>,
    },
    /// A base with that name exists and must not be replaced.
    #[error("dataset \"{name}\" is already installed; remove or replace it")]
    AlreadyInstalled {
        /// The name.
        name: String,
    },
    /// A dataset argument is neither a base nor a directory.
    #[error("\"{dataset}\" is neither the name of an installed dataset nor a directory")]
    NotADataset {
        /// The argument.
        dataset: String,
    },
    /// An installed base has no such split.
    #[error("dataset \"{name}\" has no {split} split; it has: {known}")]
    NoSplit {
        /// The base.
        name: String,
        /// The requested split.
        split: String,
        /// The existing splits, comma-separated.
        known: String,
    },
    /// The test split was requested outside of an evaluation.
    #[error("the test split is closed here; only an evaluation may open it")]
    TestClosed,
    /// A stored file of a base differs from the imported one.
    #[error("{path} is damaged: {reason}; import the dataset again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The mismatch.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped; nothing was installed")]
    Stopped,
}

fn location_text(file: &Path, line: u64) -> String {
    match line {
        0 => file.display().to_string(),
        line => format!("{}:{line}", file.display()),
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(", did you mean \"{name}\"?")).unwrap_or_default()
}

fn listed(installed: &[String]) -> String {
    if installed.is_empty() {
        return "import one first".to_string();
    }
    let shown: Vec<&str> = installed.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect();
    let more = installed.len().saturating_sub(MAX_LISTED_NAMES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("installed: {}{rest}", shown.join(", "))
}

impl DatasetError {
    /// Wraps an I/O error with the attempted action and the path.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> DatasetError {
        let path = path.into();
        move |source| DatasetError::Io { action, path, source }
    }
}

/// Kinds of line problems, in report order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// A line longer than [`crate::MAX_LINE_BYTES`].
    LineTooLong,
    /// Not JSON, or not of the expected shape.
    BadJson,
    /// An unclosed quote.
    OpenQuote,
    /// A missing or repeated column.
    BadColumn,
    /// Not a triple.
    BadTriple,
    /// A key other than id, type, name and details.
    UnknownKey,
    /// A repeated id.
    DuplicateId,
    /// An id is missing between those of the previous node and this one.
    MissingId,
    /// A type, relation or field name that is empty or too long, or a type or relation name with
    /// control characters.
    BadLabel,
    /// The first line is not the header.
    WrongHeader,
    /// A row whose number of columns differs from the header's.
    RaggedRow,
    /// A missing or malformed id.
    BadId,
    /// An edge to a node that does not exist.
    UnknownNode,
    /// An answer list that cannot be read or is empty.
    BadAnswers,
    /// An answer that is not a node of the base.
    UnknownAnswer,
    /// A question without words.
    EmptyQuery,
    /// A repeated query id.
    DuplicateQuery,
    /// A split names a query that does not exist.
    UnknownQuery,
    /// A query in two splits.
    SplitOverlap,
}

impl ProblemKind {
    /// Label for reports.
    pub fn label(self) -> &'static str {
        match self {
            ProblemKind::NotUtf8 => "not UTF-8",
            ProblemKind::LineTooLong => "line too long",
            ProblemKind::BadJson => "bad JSON",
            ProblemKind::OpenQuote => "quote not closed",
            ProblemKind::BadColumn => "bad column",
            ProblemKind::BadTriple => "bad triple",
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
            ProblemKind::EmptyQuery => "empty question",
            ProblemKind::DuplicateQuery => "duplicate query id",
            ProblemKind::UnknownQuery => "unknown query in a split",
            ProblemKind::SplitOverlap => "query in two splits",
        }
    }
}

/// One problem of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file; of a database, the file and the table.
    pub file: PathBuf,
    /// The line (from 1) in the unpacked text; the number of the row in a database or Parquet file;
    /// 0 for the whole file.
    pub line: u64,
    /// The kind.
    pub kind: ProblemKind,
    /// What is wrong, in one line.
    pub message: String,
    /// The invalid part of the input; may be empty.
    pub excerpt: String,
    /// The remedy.
    pub hint: String,
}

impl Problem {
    /// `file:line`.
    pub fn location(&self) -> String {
        location_text(&self.file, self.line)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.location(), self.message, self.hint)
    }
}

/// Number of problems of one kind, with examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemCount {
    /// The kind.
    pub kind: ProblemKind,
    /// Occurrences.
    pub count: u64,
    /// The first five.
    pub examples: Vec<Problem>,
}

/// All problems of an input; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemReport {
    /// The first [`MAX_LISTED_PROBLEMS`], in the order found.
    pub first: Vec<Problem>,
    /// Counts by kind.
    pub counts: Vec<ProblemCount>,
}

impl ProblemReport {
    /// A one-line summary of the problems beyond the first; `None` if there are none.
    pub fn rest(&self) -> Option<String> {
        let listed = |kind| self.first.iter().filter(|problem| problem.kind == kind).count() as u64;
        let kinds = self.counts.iter();
        let kinds = kinds.map(|count| (count.kind.label(), count.count - listed(count.kind)));
        let kinds: Vec<(&str, u64)> = kinds.filter(|(_, more)| *more > 0).collect();
        let more: u64 = kinds.iter().map(|(_, more)| more).sum();
        let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        (more > 0).then(|| format!("and {more} more: {}", kinds.join(", ")))
    }
}

impl fmt::Display for ProblemReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.first.iter().map(Problem::to_string).chain(self.rest());
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// A problem without its location, which the caller adds.
pub(super) struct Fault {
    pub(super) kind: ProblemKind,
    message: String,
    excerpt: String,
    hint: String,
}

impl Fault {
    pub(super) fn new(
        kind: ProblemKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        Fault { kind, message: message.into(), excerpt: String::new(), hint: hint.into() }
    }

    /// Message and remedy, for tests.
    #[cfg(test)]
    pub(super) fn message_and_hint(&self) -> String {
        format!("{}; {}", self.message, self.hint)
    }

    /// Adds the beginning of the invalid text, on one line.
    pub(super) fn with_excerpt(mut self, text: &str) -> Fault {
        let plain = text.replace('\t', "  ");
        let mut chars = plain.chars().map(|c| if c.is_control() { ' ' } else { c });
        self.excerpt = chars.by_ref().take(MAX_EXCERPT_CHARS).collect();
        if chars.next().is_some() {
            self.excerpt.push('…');
        }
        self
    }
}

/// Collects problems: keeps the first [`MAX_LISTED_PROBLEMS`] and counts all. A strict import fails
/// with them at its end; a lenient import reports them.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) lenient: bool,
    first: Vec<Problem>,
    counts: BTreeMap<ProblemKind, (u64, Vec<Problem>)>,
    /// Likely consequences of other problems in a strict import, by file and kind.
    consequences: BTreeMap<(PathBuf, ProblemKind), u64>,
}

impl Problems {
    pub(super) fn new(lenient: bool) -> Problems {
        Problems { lenient, ..Problems::default() }
    }

    /// Adds a problem; the caller skips the line.
    pub(super) fn add(&mut self, file: &Path, line: u64, fault: Fault) {
        let Fault { kind, message, excerpt, mut hint } = fault;
        // A lenient import must not suggest `--lenient`.
        if let Some(at) = hint.find(", or import with --lenient").filter(|_| self.lenient) {
            hint.truncate(at);
        }
        let problem = Problem { file: file.to_path_buf(), line, kind, message, excerpt, hint };
        let (count, examples) = self.counts.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(problem.clone());
        }
        if self.first.len() < MAX_LISTED_PROBLEMS {
            self.first.push(problem);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.values().map(|(count, _)| count).sum()
    }

    /// Adds a likely consequence of another problem. A lenient import reports it like any other; a
    /// strict one summarises consequences in one line per file and kind.
    pub(super) fn add_consequence(&mut self, file: &Path, line: u64, fault: Fault) {
        match self.lenient {
            true => self.add(file, line, fault),
            false => *self.consequences.entry((file.to_path_buf(), fault.kind)).or_default() += 1,
        }
    }

    /// Adds a problem, as a consequence if `is_consequence`.
    pub(super) fn add_maybe_consequence(
        &mut self,
        is_consequence: bool,
        file: &Path,
        line: u64,
        fault: Fault,
    ) {
        match is_consequence {
            true => self.add_consequence(file, line, fault),
            false => self.add(file, line, fault),
        }
    }

    /// The counts of a lenient import.
    ///
    /// # Errors
    /// [`DatasetError::Problems`] if a strict import found any problem.
    pub(super) fn finish(mut self) -> Result<Vec<ProblemCount>, DatasetError> {
        for ((file, kind), n) in std::mem::take(&mut self.consequences) {
            let lines =
                if n == 1 { "1 line refers".to_owned() } else { format!("{n} lines refer") };
            let message =
                format!("{lines} to nodes or queries on invalid lines ({})", kind.label());
            let hint = "fix the lines listed above, then import again";
            self.add(&file, 0, Fault::new(kind, message, hint));
        }
        let counts = self.counts.into_iter();
        let counts: Vec<ProblemCount> = counts
            .map(|(kind, (count, examples))| ProblemCount { kind, count, examples })
            .collect();
        match self.lenient || counts.is_empty() {
            true => Ok(counts),
            false => {
                Err(DatasetError::Problems(Box::new(ProblemReport { first: self.first, counts })))
            }
        }
    }
}
