//! What can go wrong with dataset files and installed bases. What is wrong with the input carries
//! file, line and remedy, so that the same type serves the strict import, which fails of all of it
//! at its end, and the lenient one, which leaves such lines out and counts them.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
};

use agent_ground::files;
use agent_kb::KbError;

/// Examples kept of each kind of problem.
const EXAMPLES: usize = 5;
/// Problems that an error tells one by one; the others are counted.
pub const MAX_TOLD: usize = 50;
/// Characters of wrong input that are shown.
const MAX_HERE: usize = 100;
/// Installed names that an unknown-name error lists at most.
pub(super) const MAX_LISTED: usize = 20;

/// Why a dataset could not be imported, found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// Lines of the input are wrong.
    #[error("{0}")]
    Wrong(Box<Wrong>),
    /// The store could not be written or opened.
    #[error(transparent)]
    Kb(#[from] KbError),
    /// A file or directory could not be read or written; a full disk ends here too.
    #[error("cannot {action} {path}: {source}{}", files::remedy(source))]
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
    /// The base is another one than when the work began.
    #[error("\"{name}\" was replaced or removed meanwhile; run the command again")]
    Changed {
        /// The base.
        name: String,
    },
    /// A new version has so little of the one before that it may be other data.
    #[error(
        "\"{name}\" would lose {loss}; look at what changes with --dry-run, and give --force if it \
         is meant"
    )]
    Loses {
        /// The base.
        name: String,
        /// What would be gone.
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
    /// The input is in no form that can be read.
    #[error("{path}: {message}")]
    BadInput {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong and what to do about it.
        message: String,
    },
    /// `dataset.toml` or a mapping is wrong.
    #[error("{}: {message}", placed(.path, *.line))]
    BadToml {
        /// The file.
        path: PathBuf,
        /// The line, 1-based; 0 where it is about the whole file.
        line: u64,
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
    /// A base of that name is there and is not to be replaced.
    #[error("a dataset \"{name}\" is installed already; remove it, or have it replaced")]
    Installed {
        /// The name.
        name: String,
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

fn placed(file: &Path, line: u64) -> String {
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
    /// A line above [`crate::MAX_LINE_BYTES`].
    LineTooLong,
    /// Not JSON, or not of the expected shape.
    BadJson,
    /// A quote that is not closed.
    OpenQuote,
    /// A column that is not there, or is there twice.
    BadColumn,
    /// No triple.
    BadTriple,
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
    /// No id where one is expected.
    BadId,
    /// An edge to a node that does not exist.
    UnknownNode,
    /// An answer list that cannot be read or is empty.
    BadAnswers,
    /// An answer that is not a node of the base.
    UnknownAnswer,
    /// A question without a word.
    EmptyQuery,
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
            ProblemKind::OpenQuote => "quote not closed",
            ProblemKind::BadColumn => "bad column",
            ProblemKind::BadTriple => "no triple",
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

/// One thing that is wrong in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file; of a database, the file and the table.
    pub file: PathBuf,
    /// The line, 1-based, in the unpacked text; of a table of a database, the number of the row; 0
    /// where it is about the whole file.
    pub line: u64,
    /// The kind.
    pub kind: ProblemKind,
    /// What is wrong, in a line.
    pub message: String,
    /// The part of the input that is wrong; empty where the message says it all.
    pub here: String,
    /// What to do about it.
    pub hint: String,
}

impl Problem {
    /// Where it is: `file:line`.
    pub fn place(&self) -> String {
        placed(&self.file, self.line)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place(), self.message, self.hint)
    }
}

/// How often a kind of problem was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemCount {
    /// The kind.
    pub kind: ProblemKind,
    /// Occurrences.
    pub count: u64,
    /// The first five.
    pub examples: Vec<Problem>,
}

/// All that is wrong with an input, at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The first [`MAX_TOLD`], in the order in which they were met.
    pub first: Vec<Problem>,
    /// How often each kind was met.
    pub counts: Vec<ProblemCount>,
}

impl Wrong {
    /// Those beyond the first, in a line for people; none if there are no more.
    pub fn rest(&self) -> Option<String> {
        let told = |kind| self.first.iter().filter(|one| one.kind == kind).count() as u64;
        let kinds = self.counts.iter().map(|of| (of.kind.label(), of.count - told(of.kind)));
        let kinds: Vec<(&str, u64)> = kinds.filter(|(_, more)| *more > 0).collect();
        let more: u64 = kinds.iter().map(|(_, more)| more).sum();
        let kinds: Vec<String> = kinds.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        (more > 0).then(|| format!("and {more} more: {}", kinds.join(", ")))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.first.iter().map(Problem::to_string).chain(self.rest());
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// What is wrong with a line and how it is mended; the place is for the caller to add.
pub(super) struct Fault {
    pub(super) kind: ProblemKind,
    message: String,
    here: String,
    hint: String,
}

impl Fault {
    pub(super) fn new(
        kind: ProblemKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        Fault { kind, message: message.into(), here: String::new(), hint: hint.into() }
    }

    /// Message and remedy, for tests.
    #[cfg(test)]
    pub(super) fn told(&self) -> String {
        format!("{}; {}", self.message, self.hint)
    }

    /// The same with the text that is wrong, of which the beginning is shown on one line.
    pub(super) fn here(mut self, text: &str) -> Fault {
        let plain = text.replace('\t', "  ");
        let mut chars = plain.chars().map(|c| if c.is_control() { ' ' } else { c });
        self.here = chars.by_ref().take(MAX_HERE).collect();
        if chars.next().is_some() {
            self.here.push('…');
        }
        self
    }
}

/// Takes problems as they come: the first few are kept, all are counted. A strict import fails of
/// them at its end, a lenient one tells of them.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) lenient: bool,
    first: Vec<Problem>,
    counts: BTreeMap<ProblemKind, (u64, Vec<Problem>)>,
    /// What likely follows from other problems, by file and kind; of a strict import.
    follow: BTreeMap<(PathBuf, ProblemKind), u64>,
}

impl Problems {
    pub(super) fn new(lenient: bool) -> Problems {
        Problems { lenient, ..Problems::default() }
    }

    /// The caller leaves the line out and goes on.
    pub(super) fn add(&mut self, file: &Path, line: u64, fault: Fault) {
        let Fault { kind, message, here, hint } = fault;
        let problem = Problem { file: file.to_path_buf(), line, kind, message, here, hint };
        let (count, examples) = self.counts.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(problem.clone());
        }
        if self.first.len() < MAX_TOLD {
            self.first.push(problem);
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.counts.values().map(|(count, _)| count).sum()
    }

    /// The same of what likely follows from a problem that was added: a lenient import tells of it
    /// as of any other, a strict one in a line for each file and kind.
    pub(super) fn follow(&mut self, file: &Path, line: u64, fault: Fault) {
        match self.lenient {
            true => self.add(file, line, fault),
            false => *self.follow.entry((file.to_path_buf(), fault.kind)).or_default() += 1,
        }
    }

    /// Adds it as one that follows, or as one of its own.
    pub(super) fn add_or_follow(&mut self, follows: bool, file: &Path, line: u64, fault: Fault) {
        match follows {
            true => self.follow(file, line, fault),
            false => self.add(file, line, fault),
        }
    }

    /// The counts of a lenient import.
    ///
    /// # Errors
    /// [`DatasetError::Wrong`] if a strict one met anything.
    pub(super) fn finish(mut self) -> Result<Vec<ProblemCount>, DatasetError> {
        for ((file, kind), n) in std::mem::take(&mut self.follow) {
            let lines = if n == 1 { "1 line names".to_owned() } else { format!("{n} lines name") };
            let message = format!("{lines} what may be in lines that are wrong ({})", kind.label());
            let hint = "mend the lines that are told, then import again";
            self.add(&file, 0, Fault::new(kind, message, hint));
        }
        let counts = self.counts.into_iter();
        let counts: Vec<ProblemCount> = counts
            .map(|(kind, (count, examples))| ProblemCount { kind, count, examples })
            .collect();
        match self.lenient || counts.is_empty() {
            true => Ok(counts),
            false => Err(DatasetError::Wrong(Box::new(Wrong { first: self.first, counts }))),
        }
    }
}
