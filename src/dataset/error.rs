//! Errors of dataset files and installed bases. A problem of the input names a file, a line and a
//! remedy. A strict import reads the input to its end and then fails with all problems; a lenient
//! import skips invalid lines and counts them.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use agent_ground::{
    files,
    words::{cut, listed},
};
use agent_kb::KbError;

/// Maximum number of problems that an error lists one by one; further problems are only counted.
pub const MAX_LISTED_PROBLEMS: usize = 50;
/// Maximum number of problems of one kind that are listed one by one.
const MAX_LISTED_OF_KIND: u64 = 10;
/// Maximum length of an excerpt of invalid input, in characters.
const MAX_EXCERPT_CHARS: usize = 100;
/// Maximum length of a parser's message about a file, in characters; the message may repeat a long
/// value.
const MAX_REASON_CHARS: usize = 400;
/// Maximum number of installed bases listed in the error for an unknown base name.
pub(super) const MAX_LISTED_NAMES: usize = 20;

/// Result of reading, importing or opening a dataset.
pub type Result<T, E = DatasetError> = std::result::Result<T, E>;

/// Why a dataset could not be imported, found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The input has invalid lines.
    #[error("{0}")]
    Problems(Box<ProblemReport>),
    /// The knowledge base could not be written or opened.
    #[error(transparent)]
    Kb(#[from] KbError),
    /// A file or directory could not be read or written, for example because the disk is full.
    #[error("cannot {action} {path}: {source}{}", files::remedy(source))]
    Io {
        /// What was attempted, as an infinitive such as `open`.
        action: &'static str,
        /// The file or directory that could not be read or written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An input file is truncated or cannot be unpacked.
    #[error(
        "{path}:{line}: cannot be read: {source}; the file is truncated or damaged, download or \
         copy it again"
    )]
    Unreadable {
        /// The truncated or packed file.
        path: PathBuf,
        /// The line (1-based) that could not be read.
        line: u64,
        /// The error of reading or unpacking.
        source: io::Error,
    },
    /// The labelled questions cannot be replaced by synthetic questions, because the base has the
    /// user's own labels.
    #[error(
        "\"{name}\" has {n} labelled questions, which are never replaced; write the \
         synthetic questions elsewhere with --to DIR"
    )]
    HasOwnLabels {
        /// Name of the base.
        name: String,
        /// Number of labelled questions of the base.
        n: u64,
    },
    /// The base was replaced or removed since it was opened.
    #[error("\"{name}\" was replaced or removed in the meantime; run the command again")]
    BaseChanged {
        /// Name of the base.
        name: String,
    },
    /// An update would lose more than half of the nodes, or all questions.
    #[error(
        "the update of \"{name}\" would remove {loss}; review the changes with --dry-run, then \
         accept them with --force"
    )]
    WouldLoseData {
        /// Name of the base.
        name: String,
        /// The loss, such as `7 of 10 nodes`.
        loss: String,
    },
    /// The data cannot be imported: the format is unknown, a file is missing, too large or invalid,
    /// or the base refuses the data. Holds a message with place, fault and remedy.
    #[error("{0}")]
    BadInput(String),
    /// A base name has invalid characters or is too long.
    #[error(
        "\"{name}\" is not a valid dataset name; use 1 to {limit} of a-z, 0-9, - and _, a letter or digit first"
    )]
    BadName {
        /// The invalid name.
        name: String,
        /// Maximum length of a name, in characters.
        limit: usize,
    },
    /// No base with that name is installed.
    #[error("no dataset \"{name}\" is installed{}; {}", hint(.nearest), remedy(.installed))]
    UnknownName {
        /// The requested name.
        name: String,
        /// Names of all installed bases, sorted.
        installed: Vec<String>,
        /// The installed name most similar to the requested one, if it is similar enough to
        /// suggest.
        nearest: Option<String>,
    },
    /// A base with that name is installed, and the caller did not ask to replace it.
    #[error("dataset \"{name}\" is already installed; remove or replace it")]
    AlreadyInstalled {
        /// Name of the installed base.
        name: String,
    },
    /// A dataset argument is neither the name of an installed base nor a directory.
    #[error("\"{dataset}\" is neither the name of an installed dataset nor a directory")]
    NotADataset {
        /// The argument as given.
        dataset: String,
    },
    /// The base has no queries in the requested split.
    #[error("dataset \"{name}\" has no {split} split; it has: {known}")]
    NoSplit {
        /// Name of the base.
        name: String,
        /// Name of the requested split.
        split: String,
        /// Names of the splits that the base has, comma-separated.
        known: String,
    },
    /// The test split was requested outside of an evaluation.
    #[error("the test split cannot be used here; use train or val")]
    TestClosed,
    /// A stored file of a base is missing, invalid or differs from the file that was imported.
    #[error("{path} is damaged: {reason}; import the dataset again")]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// What differs, or what is invalid.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped; nothing was installed")]
    Stopped,
}

/// Returns the number (from 1) of the line that holds the byte at `offset`.
pub(super) fn line_at(text: &str, offset: usize) -> u64 {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count() as u64
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

fn remedy(installed: &[String]) -> String {
    if installed.is_empty() {
        return "import one first".to_string();
    }
    format!("installed: {}", listed(installed, MAX_LISTED_NAMES))
}

impl DatasetError {
    /// Returns a function that wraps an I/O error with the attempted action and the path.
    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> DatasetError {
        let path = path.into();
        move |source| DatasetError::Io { action, path, source }
    }

    /// Returns the error for an invalid file or directory; the message must include the remedy.
    pub(super) fn bad_input(path: impl AsRef<Path>, message: impl fmt::Display) -> DatasetError {
        DatasetError::bad_line(path.as_ref(), 0, message)
    }

    /// Returns the error for a line (from 1) of an invalid file, or for the whole file if it is 0.
    pub(super) fn bad_line(path: &Path, line: u64, message: impl fmt::Display) -> DatasetError {
        DatasetError::BadInput(format!("{}: {message}", location_text(path, line)))
    }

    /// Returns the error for data without nodes.
    pub(super) fn no_nodes(path: &Path) -> DatasetError {
        DatasetError::BadInput(format!("{} contains no nodes; add at least one", path.display()))
    }

    /// Returns the error for a file with more than `limit` bytes after unpacking.
    pub(super) fn too_long(path: &Path, limit: u64) -> DatasetError {
        DatasetError::BadInput(format!(
            "{} is larger than {limit} bytes; split it, or raise the limit in the source code",
            path.display()
        ))
    }

    /// Returns the error for a stored file that differs from the file that was imported.
    pub(super) fn damaged(path: impl Into<PathBuf>, reason: impl fmt::Display) -> DatasetError {
        DatasetError::Damaged { path: path.into(), reason: reason.to_string() }
    }

    /// Returns the error for an invalid TOML file, with the line, the parser's message and the
    /// remedy.
    pub(super) fn bad_toml(
        path: &Path,
        text: &str,
        error: &toml::de::Error,
        remedy: &str,
    ) -> DatasetError {
        let start = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().next().unwrap_or_default();
        let message = format!("{}; {remedy}", without_middle(message));
        DatasetError::bad_line(path, line_at(text, start), message)
    }
}

/// Returns a parser's message. The middle of a message of more than [`MAX_REASON_CHARS`] characters
/// is cut out; the end stays, because it may list the allowed values.
fn without_middle(reason: &str) -> String {
    let (n, half) = (reason.chars().count(), MAX_REASON_CHARS / 2);
    if n <= MAX_REASON_CHARS {
        return reason.to_owned();
    }
    let begin: String = reason.chars().take(half).collect();
    let end: String = reason.chars().skip(n - half).collect();
    format!("{begin}…{end}")
}

/// Kinds of problems of input lines, in the order in which reports list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A line has bytes that are not UTF-8.
    NotUtf8,
    /// A line is longer than [`crate::MAX_LINE_BYTES`].
    LineTooLong,
    /// A line is not JSON, or its JSON does not have the expected shape.
    BadJson,
    /// A quote is opened but never closed.
    OpenQuote,
    /// A column is missing, or its name is repeated.
    BadColumn,
    /// A line is not a triple of subject, predicate and object.
    BadTriple,
    /// A node has a JSON key other than `id`, `type`, `name` and `details`.
    UnknownKey,
    /// A node id is repeated.
    DuplicateId,
    /// Node ids are numbers, and at least one number is skipped between the previous node and this
    /// node.
    MissingId,
    /// The name of a type, relation or field is empty or too long, or the name of a type or
    /// relation has control characters.
    BadLabel,
    /// The first line is not the expected header.
    WrongHeader,
    /// The number of columns of a row differs from that of the header.
    RaggedRow,
    /// An id is missing or malformed.
    BadId,
    /// An edge refers to a node that does not exist.
    UnknownNode,
    /// The list of answers cannot be read or is empty.
    BadAnswers,
    /// An answer is not a node of the base.
    UnknownAnswer,
    /// A question has no words.
    EmptyQuery,
    /// A question is longer than [`crate::MAX_QUERY_BYTES`].
    LongQuery,
    /// A query id is repeated.
    DuplicateQuery,
    /// A split names a query that does not exist.
    UnknownQuery,
    /// A query is in two splits.
    SplitOverlap,
}

impl ProblemKind {
    /// Returns the name of the kind for reports, such as `duplicate node id`.
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
            ProblemKind::LongQuery => "question too long",
            ProblemKind::DuplicateQuery => "duplicate query id",
            ProblemKind::UnknownQuery => "unknown query in a split",
            ProblemKind::SplitOverlap => "query in two splits",
        }
    }
}

/// One problem of the input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}; {hint}", location_text(.file, *.line))]
pub struct Problem {
    /// The file with the problem; for a database, the path of the file followed by the name of the
    /// table.
    pub file: PathBuf,
    /// Line number (from 1) in the unpacked text, or row number in a database or Parquet file; 0 if
    /// the problem concerns the whole file.
    pub line: u64,
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// What is wrong, in one line.
    pub message: String,
    /// The invalid part of the input; may be empty.
    pub excerpt: String,
    /// What the user can do about the problem.
    pub hint: String,
}

impl Problem {
    /// Returns the place as `file:line`, or only the file if `line` is 0.
    pub fn location(&self) -> String {
        location_text(&self.file, self.line)
    }
}

/// Number of problems of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemCount {
    /// The kind that is counted.
    pub kind: ProblemKind,
    /// Number of problems of this kind.
    pub count: u64,
    /// The first problem of this kind.
    pub first: Problem,
}

/// All problems of an input. A report has at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemReport {
    /// The first problems, at most [`MAX_LISTED_PROBLEMS`], in the order in which they were found.
    pub first: Vec<Problem>,
    /// Number of problems of each kind.
    pub counts: Vec<ProblemCount>,
}

impl ProblemReport {
    /// Summarises in one line the problems that `first` does not list, such as `and 7 more: bad id
    /// 7`; `None` if `first` lists all.
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

/// A problem whose file and line are not yet known; the caller adds them.
pub(super) struct Fault {
    pub(super) kind: ProblemKind,
    pub(super) message: String,
    excerpt: String,
    pub(super) hint: String,
    /// Whether another problem probably caused this one. An example is an edge to a node whose own
    /// line is invalid.
    is_consequence: bool,
}

impl Fault {
    pub(super) fn new(
        kind: ProblemKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        let (message, hint) = (message.into(), hint.into());
        Fault { kind, message, excerpt: String::new(), hint, is_consequence: false }
    }

    /// Returns the fault of an edge to a node that does not exist. `range` describes the ids in
    /// `file`, and `what` is the node that may be added.
    pub(super) fn unknown_node(message: String, file: &str, range: &str, what: &str) -> Fault {
        let hint = format!(
            "{file} has {range}; add the {what}, or import with --lenient to leave such edges out \
             and count them"
        );
        Fault::new(ProblemKind::UnknownNode, message, hint)
    }

    /// Sets the excerpt: the first characters of the invalid text, on one line.
    pub(super) fn with_excerpt(mut self, text: &str) -> Fault {
        let plain = text.replace('\t', "  ").replace(char::is_control, " ");
        self.excerpt = cut(&plain, MAX_EXCERPT_CHARS, "…");
        self
    }

    /// Sets whether another problem probably caused this one.
    pub(super) fn following(self, is_consequence: bool) -> Fault {
        Fault { is_consequence, ..self }
    }
}

/// Why a line or a row is not used.
pub(super) enum LineError {
    /// The line has a fault, which becomes a problem; the import goes on.
    Fault(Fault),
    /// The import ends.
    Fatal(DatasetError),
}

impl LineError {
    /// Changes the fault; a fatal error stays as it is.
    pub(super) fn map(self, change: impl FnOnce(Fault) -> Fault) -> LineError {
        match self {
            LineError::Fault(fault) => LineError::Fault(change(fault)),
            fatal => fatal,
        }
    }
}

impl From<Fault> for LineError {
    fn from(fault: Fault) -> LineError {
        LineError::Fault(fault)
    }
}

impl From<DatasetError> for LineError {
    fn from(error: DatasetError) -> LineError {
        LineError::Fatal(error)
    }
}

impl From<KbError> for LineError {
    /// An invalid key, or an invalid name of a type, relation or field, is a fault of the line.
    fn from(error: KbError) -> LineError {
        match error {
            KbError::BadLabel { .. }
            | KbError::ControlInLabel { .. }
            | KbError::TooMany { what: "types" | "relations" | "fields", .. } => {
                let text = error.to_string();
                let (message, hint) =
                    text.split_once("; ").unwrap_or((&text, "rename it in the data"));
                Fault::new(ProblemKind::BadLabel, message, hint).into()
            }
            error => DatasetError::from(error).into(),
        }
    }
}

/// Collects problems: keeps the first [`MAX_LISTED_PROBLEMS`], at most [`MAX_LISTED_OF_KIND`] of a
/// kind, and counts all. A strict import fails
/// with the collected problems after reading the whole input; a lenient import reports them.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) lenient: bool,
    first: Vec<Problem>,
    counts: BTreeMap<ProblemKind, ProblemCount>,
    /// In a strict import: the number of problems that are probably consequences of other problems,
    /// by file and kind.
    consequences: BTreeMap<(PathBuf, ProblemKind), u64>,
}

impl Problems {
    pub(super) fn new(lenient: bool) -> Problems {
        Problems { lenient, ..Problems::default() }
    }

    /// Adds a problem. The caller skips the invalid line. A lenient import reports consequences of
    /// other problems like any other problem; a strict import summarises them in one line per file
    /// and kind.
    pub(super) fn add(&mut self, file: &Path, line: u64, fault: Fault) {
        let Fault { kind, message, excerpt, mut hint, is_consequence } = fault;
        if is_consequence && !self.lenient {
            *self.consequences.entry((file.to_path_buf(), kind)).or_default() += 1;
            return;
        }
        // A lenient import must not suggest `--lenient`.
        if let Some(at) = hint.find(", or import with --lenient").filter(|_| self.lenient) {
            hint.truncate(at);
        }
        let problem = Problem { file: file.to_path_buf(), line, kind, message, excerpt, hint };
        let none = || ProblemCount { kind, count: 0, first: problem.clone() };
        let known = self.counts.entry(kind).or_insert_with(none);
        known.count += 1;
        if known.count <= MAX_LISTED_OF_KIND && self.first.len() < MAX_LISTED_PROBLEMS {
            self.first.push(problem);
        }
    }

    /// Returns the value read from a line; adds a problem and returns `None` if the line has a
    /// fault.
    pub(super) fn ok<T>(
        &mut self,
        file: &Path,
        line: u64,
        read: Result<T, impl Into<LineError>>,
    ) -> Result<Option<T>> {
        match read.map_err(Into::into) {
            Ok(value) => Ok(Some(value)),
            Err(LineError::Fault(fault)) => {
                self.add(file, line, fault);
                Ok(None)
            }
            Err(LineError::Fatal(error)) => Err(error),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.values().map(|known| known.count).sum()
    }

    /// Ends the collection: returns, for a lenient import, the number of problems of each kind.
    ///
    /// # Errors
    /// [`DatasetError::Problems`] if a strict import found any problem.
    pub(super) fn finish(mut self) -> Result<Vec<ProblemCount>> {
        for ((file, kind), n) in std::mem::take(&mut self.consequences) {
            let lines =
                if n == 1 { "1 line refers".to_owned() } else { format!("{n} lines refer") };
            let message =
                format!("{lines} to nodes or queries on invalid lines ({})", kind.label());
            let hint = "fix the lines listed above, then import again";
            self.add(&file, 0, Fault::new(kind, message, hint));
        }
        let counts: Vec<ProblemCount> = self.counts.into_values().collect();
        if self.lenient || counts.is_empty() {
            return Ok(counts);
        }
        Err(DatasetError::Problems(Box::new(ProblemReport { first: self.first, counts })))
    }
}
