//! Labelled queries: validates and imports them, stores them in the directory of the base, and
//! loads them by split.
//!
//! The answers of the test split are for evaluation only. [`load_split`] returns an error for that
//! split; only [`load_test`], [`load_test_tenth`] and [`load_test_values`] load it, so that every
//! use is visible in the source code.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, fs,
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    Base, DatasetError, Phase, ProblemKind, Result,
    error::{Fault, Problems},
    ids::{AnswerIds, items},
    install::Watch,
    lines::Lines,
};
use agent_ground::files;
use agent_kb::{FileRecord, Kb, NodeId, answer::AnswerValue, sync_dir};

/// Maximum size of a query file, in bytes; queries are held in memory.
pub const MAX_QUERY_FILE_BYTES: u64 = 1 << 30;
/// Maximum length in bytes of a question, without surrounding white space.
pub const MAX_QUERY_BYTES: usize = 16 << 10;
/// Name of the file of all queries, except human queries, which have ids of their own.
pub(super) const QUERIES_FILE: &str = "qa.csv";
/// Name of the file of human queries; their ids are independent of the ids in `qa.csv`.
const HUMAN_FILE: &str = "human.csv";
/// Required columns of a query file.
const COLUMNS: [&str; 3] = ["id", "query", "answer_ids"];
/// Name of the optional column for an answer that is a value or a table instead of nodes.
const VALUE_COLUMN: &str = "answer_value";
/// Names of the splits of a base; no query is in two of these splits.
const SPLIT_NAMES: [&str; 4] = ["train", "val", "test", "human"];
/// Minimum number of queries for splits to be drawn if there are no split files.
const MIN_DRAWN: usize = 4;
/// Names of the files that define the test split: the questions with answers, and the query ids of
/// the split.
pub(super) const TEST_FILES: [&str; 2] = [QUERIES_FILE, "test.index"];
/// Reason for [`DatasetError::Damaged`] if a query file was changed.
pub(super) const DIGEST_DIFFERS: &str = "its digest does not match base.json";
/// Name of the split that holds a tenth of the test split.
const TENTH_NAME: &str = "test-0.1";

/// A question whose answers are nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledQuery {
    /// Query id, unique in the file of the query.
    pub id: i64,
    /// The question as a user asks it.
    pub text: String,
    /// Node numbers of the answers, ascending and distinct. [`load_split`] and the other public
    /// loaders return at least one answer per query.
    pub answers: Vec<NodeId>,
    /// Cells of the columns other than `id`, `query` and `answer_ids`, by column name. For analysis
    /// only: no retriever may read them.
    pub metadata: BTreeMap<String, String>,
}

/// A question whose answer is a single value or a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ValuedQuery {
    /// Query id, unique in the file of the query.
    pub id: i64,
    /// The question as a user asks it.
    pub text: String,
    /// The answer, a value or a table; never [`AnswerValue::Nodes`].
    pub value: AnswerValue,
    /// Cells of the columns other than `id`, `query` and `answer_ids`, by column name. For analysis
    /// only: no retriever may read them.
    pub metadata: BTreeMap<String, String>,
}

/// A set of labelled queries of a base, or of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Training split.
    Train,
    /// Validation split, for choosing between systems.
    Val,
    /// Test split, for a single measurement of a bundle that no longer changes. Only [`load_test`]
    /// and [`load_test_values`] load this split.
    Test,
    /// A tenth of the test split, for systems that are expensive to measure. Only
    /// [`load_test_tenth`] and [`load_test_values`] load this split.
    TestTenth,
    /// Queries written by people, for measurements.
    Human,
    /// The queries of this file, which has the format of `qa.csv`.
    File(PathBuf),
}

impl Split {
    const NAMED: [(&str, Split); 5] = [
        ("train", Split::Train),
        ("val", Split::Val),
        ("test", Split::Test),
        (TENTH_NAME, Split::TestTenth),
        ("human", Split::Human),
    ];
}

impl std::str::FromStr for Split {
    type Err = std::convert::Infallible;

    /// Parses the name of a split: `train`, `val`, `test`, `test-0.1` or `human`. Any other text is
    /// the path of a file.
    fn from_str(text: &str) -> Result<Split, Self::Err> {
        let named = Split::NAMED.into_iter().find(|(name, _)| *name == text);
        Ok(named.map_or_else(|| Split::File(text.into()), |(_, split)| split))
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Split::File(path) => path.display().fmt(f),
            named => {
                f.write_str(Split::NAMED.iter().find(|of| of.1 == *named).map_or("", |of| of.0))
            }
        }
    }
}

/// Loads the queries of a split whose answers are nodes, in file order. Returns an error for the
/// test split.
///
/// # Errors
/// [`DatasetError::TestClosed`] for [`Split::Test`] and [`Split::TestTenth`],
/// [`DatasetError::NoSplit`], [`DatasetError::Damaged`], [`DatasetError::Io`],
/// [`DatasetError::Kb`], or [`DatasetError::Problems`] if a query file has invalid rows.
pub fn load_split(base: &Base, split: &Split) -> Result<Vec<LabelledQuery>> {
    Ok(with_nodes(load_all(base, split)?))
}

/// Loads the queries of a split whose answers are values or tables, in file order. Returns an error
/// for the test split.
///
/// # Errors
/// As [`load_split`].
pub fn load_values(base: &Base, split: &Split) -> Result<Vec<ValuedQuery>> {
    Ok(with_values(load_all(base, split)?))
}

/// Returns the queries whose answers are nodes.
fn with_nodes(mut queries: Vec<LabelledQuery>) -> Vec<LabelledQuery> {
    queries.retain(|query| !query.answers.is_empty());
    queries
}

/// Returns the queries whose answers are values or tables. An import has already rejected invalid
/// values.
fn with_values(queries: Vec<LabelledQuery>) -> Vec<ValuedQuery> {
    let valued = |query: LabelledQuery| {
        let LabelledQuery { id, text, mut metadata, .. } = query;
        let value = parse_value(&metadata.remove(VALUE_COLUMN)?).ok()??;
        Some(ValuedQuery { id, text, value, metadata })
    };
    queries.into_iter().filter_map(valued).collect()
}

/// Loads all queries of a split other than the test split. The answer to a query without answer
/// nodes is a value or a table.
fn load_all(base: &Base, split: &Split) -> Result<Vec<LabelledQuery>> {
    match split {
        Split::Test | Split::TestTenth => Err(DatasetError::TestClosed),
        // A path without extension that is not a file is a misspelled split.
        Split::File(path) if path.extension().is_none() && (path.is_dir() || !path.exists()) => {
            Err(no_split(base, &path.display().to_string()))
        }
        Split::File(path) => {
            let bytes = read_bounded(path)?;
            let kb = Kb::open(&base.kb_dir())?;
            parse_strictly(path, &bytes, AnswerIds::for_base(&kb))
        }
        Split::Human if base.record.query_files.contains_key(HUMAN_FILE) => {
            stored_queries(base, HUMAN_FILE)
        }
        Split::Train | Split::Val | Split::Human => load_named(base, &split.to_string()),
    }
}

/// Loads the queries of the test split whose answers are nodes, in file order. For evaluation only.
///
/// # Errors
/// As [`load_split`].
pub fn load_test(base: &Base) -> Result<Vec<LabelledQuery>> {
    Ok(with_nodes(load_named(base, "test")?))
}

/// Loads the queries of [`Split::TestTenth`] whose answers are nodes, in file order. For evaluation
/// only.
///
/// # Errors
/// As [`load_split`].
pub fn load_test_tenth(base: &Base) -> Result<Vec<LabelledQuery>> {
    Ok(with_nodes(load_named(base, TENTH_NAME)?))
}

/// Loads the queries of the test split, or of [`Split::TestTenth`] if `tenth`, whose answers are
/// values or tables, in file order. For evaluation only.
///
/// # Errors
/// As [`load_split`].
pub fn load_test_values(base: &Base, tenth: bool) -> Result<Vec<ValuedQuery>> {
    Ok(with_values(load_named(base, if tenth { TENTH_NAME } else { "test" })?))
}

/// Returns the error for a split that the base lacks; the error lists the existing splits.
fn no_split(base: &Base, split: &str) -> DatasetError {
    let known: Vec<&str> = base.record.splits.keys().map(String::as_str).collect();
    let known = match known.is_empty() {
        true => "none; create split/train.index, split/val.index and split/test.index beside \
                 qa.csv, with one question id per line"
            .to_owned(),
        false => known.join(", "),
    };
    DatasetError::NoSplit { name: base.name.clone(), split: split.to_string(), known }
}

fn load_named(base: &Base, split: &str) -> Result<Vec<LabelledQuery>> {
    let file = format!("{split}.index");
    if !base.record.query_files.contains_key(&file) {
        return Err(no_split(base, split));
    }
    let path = base.queries_dir().join(&file);
    let damaged = |reason| DatasetError::damaged(&path, reason);
    let index = String::from_utf8(read_stored(base, &file)?).map_err(|_| damaged("not UTF-8"))?;
    let queries = stored_queries(base, QUERIES_FILE)?;
    let mut by_id: HashMap<i64, LabelledQuery> =
        queries.into_iter().map(|query| (query.id, query)).collect();
    let mut query = |line: &str| by_id.remove(&line.parse().ok()?);
    let queries = index
        .lines()
        .map(|line| query(line).ok_or_else(|| damaged("a line is not a query id, or repeats one")));
    queries.collect()
}

pub(super) fn stored_queries(base: &Base, file: &str) -> Result<Vec<LabelledQuery>> {
    let bytes = read_stored(base, file)?;
    let path = base.queries_dir().join(file);
    parse_strictly(&path, &bytes, AnswerIds::Numbers(base.record.n_nodes))
}

fn parse_strictly(path: &Path, bytes: &[u8], ids: AnswerIds<'_>) -> Result<Vec<LabelledQuery>> {
    let mut problems = Problems::new(false);
    // No limit on length here: a question that is too long fails alone, when it is searched.
    let parsed = parse_queries(path, bytes, (ids, false), usize::MAX, &mut problems)?;
    problems.finish()?;
    Ok(parsed.queries)
}

/// Loads all queries of a base, including the test split, for summaries and to check whether the
/// base has labels of its own.
pub(super) fn all_queries(base: &Base) -> Result<Vec<LabelledQuery>> {
    let mut queries = Vec::new();
    for file in [QUERIES_FILE, HUMAN_FILE] {
        if base.record.query_files.contains_key(file) {
            queries.extend(stored_queries(base, file)?);
        }
    }
    Ok(queries)
}

/// Reads a stored query file and verifies its digest against `base.json`.
fn read_stored(base: &Base, file: &str) -> Result<Vec<u8>> {
    let path = base.queries_dir().join(file);
    let bytes = read_bounded(&path)?;
    let digest = blake3::hash(&bytes).to_hex();
    if base.record.query_files.get(file).is_none_or(|record| record.blake3 != digest.as_str()) {
        return Err(DatasetError::damaged(path, DIGEST_DIFFERS));
    }
    Ok(bytes)
}

fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    files::read(path, MAX_QUERY_FILE_BYTES).map_err(DatasetError::io("read", path))
}

/// The valid queries of a query file.
#[derive(Default)]
struct QueryFile {
    queries: Vec<LabelledQuery>,
    /// Names of the columns other than `id`, `query` and `answer_ids`, in file order.
    extra: Vec<String>,
    /// Query ids of all rows, including invalid rows.
    seen_ids: HashSet<i64>,
    /// Whether the query ids of some rows could not be read.
    lost: bool,
}

/// Parses a query file and adds a problem for each invalid row, such as a row with a question of
/// more than `max_bytes` bytes. `lost`: whether some lines of the imported data yielded no node.
fn parse_queries(
    path: &Path,
    bytes: &[u8],
    (ids, lost): (AnswerIds<'_>, bool),
    max_bytes: usize,
    problems: &mut Problems,
) -> Result<QueryFile> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
    let mut record = csv::ByteRecord::new();
    let mut read = |record: &mut csv::ByteRecord| {
        reader.read_byte_record(record).map_err(|error| DatasetError::Unreadable {
            path: path.to_path_buf(),
            line: error.position().map_or(1, csv::Position::line),
            source: std::io::Error::other(error.to_string()),
        })
    };
    read(&mut record)?;
    let header: Vec<String> =
        record.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let place = |name: &str| header.iter().position(|column| column == name);
    let (Some(id_at), Some(text_at), Some(answers_at)) =
        (place(COLUMNS[0]), place(COLUMNS[1]), place(COLUMNS[2]))
    else {
        let found: String = header.join(",").chars().take(100).collect();
        let message = format!("the header is {found:?}");
        let hint =
            "the required columns are id,query,answer_ids, as in 1,who sells ink?,\"[3, 17]\"";
        if problems.lenient {
            return Err(DatasetError::bad_line(path, 1, format!("{message}; {hint}")));
        }
        problems.add(path, 1, Fault::new(ProblemKind::WrongHeader, message, hint));
        return Ok(QueryFile { lost: true, ..QueryFile::default() });
    };
    let value_at = place(VALUE_COLUMN);
    let is_extra = |name: &&String| !COLUMNS.contains(&name.as_str());
    let extra = header.iter().filter(is_extra).cloned().collect();

    let mut file = QueryFile { extra, ..QueryFile::default() };
    let mut seen = HashSet::new();
    let mut lines = LineNumbers { bytes, position: 0, line: 1 };
    while read(&mut record)? {
        let line = lines.line_at(record.position().map_or(0, csv::Position::byte));
        let id = record.get(id_at).and_then(|id| query_id(std::str::from_utf8(id).ok()?));
        match id {
            Some(id) => drop(file.seen_ids.insert(id)),
            None => file.lost = true,
        }
        let fault = |kind, message: &str, hint: &str| {
            let cells: Vec<_> = record.iter().map(String::from_utf8_lossy).collect();
            Fault::new(kind, message, hint).with_excerpt(&cells.join(","))
        };
        let mut unknown = None;
        let mut parse = || {
            if record.len() != header.len() {
                let message = format!("{} columns, not {}", record.len(), header.len());
                let hint = "quote texts that hold commas";
                return Err(fault(ProblemKind::RaggedRow, &message, hint));
            }
            let columns: Result<Vec<&str>, _> = record.iter().map(std::str::from_utf8).collect();
            let columns = columns.map_err(|_| {
                let hint = "convert the file to UTF-8";
                fault(ProblemKind::NotUtf8, "the row is not UTF-8", hint)
            })?;
            let column = |at: usize| columns.get(at).copied().unwrap_or_default();
            let id = id.ok_or_else(|| {
                let message = format!("id {:?} is not an integer", column(id_at));
                fault(ProblemKind::BadId, &message, "number the queries")
            })?;
            let answers;
            (answers, unknown) =
                parse_answers(column(answers_at), value_at.map_or("", column), ids)?;
            let text = column(text_at);
            let n_bytes = text.trim().len();
            if n_bytes == 0 {
                let hint = "write the question, or leave the row out";
                return Err(fault(ProblemKind::EmptyQuery, "the question is empty", hint));
            }
            if n_bytes > max_bytes {
                let message = format!("the question has {n_bytes} bytes, more than {max_bytes}");
                let hint = "shorten it, or leave the row out";
                return Err(fault(ProblemKind::LongQuery, &message, hint));
            }
            if !seen.insert(id) {
                let message = format!("query id {id} occurs twice");
                return Err(fault(ProblemKind::DuplicateQuery, &message, "use distinct ids"));
            }
            let cells = header.iter().zip(&columns).filter(|(name, _)| is_extra(name));
            let metadata = cells.map(|(name, value)| (name.clone(), value.to_string())).collect();
            Ok(LabelledQuery { id, text: text.to_string(), answers, metadata })
        };
        let wrong = parse().map(|query| file.queries.push(query)).err();
        for fault in unknown.into_iter().chain(wrong) {
            let follows = lost && fault.kind == ProblemKind::UnknownAnswer;
            problems.add(path, line, fault.following(follows));
        }
    }
    Ok(file)
}

/// Returns the ids in the answers of each query of a file, as written; empty if the file cannot be
/// read. The import of the queries reports their faults.
pub(super) fn answer_ids_in(path: &Path) -> Vec<Vec<String>> {
    let bytes = read_bounded(path).unwrap_or_default();
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes.as_slice());
    let names = reader.headers().cloned().unwrap_or_default();
    let place = names.iter().position(|name| name == COLUMNS[2]);
    let ids = |row: csv::StringRecord| {
        let cell = place.and_then(|at| row.get(at)).unwrap_or_default();
        items(cell).into_iter().flatten().map(str::to_owned).collect()
    };
    reader.records().filter_map(|row| Some(ids(row.ok()?))).collect()
}

/// Parses a query id: an integer, alone or after a word, such as `Q31` or `query-31`.
pub fn query_id(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.trim_start_matches(|c: char| c.is_alphabetic() || "-_# ".contains(c));
    let is_word = text.starts_with(char::is_alphabetic);
    (if is_word { digits } else { text }).parse().ok()
}

/// Parses the answers of a row: returns the answers that are nodes of the base, and the fault of
/// the first answer that is not. The list of nodes may be empty for a query whose answer is a
/// value.
///
/// # Errors
/// The fault of a row without a valid answer.
fn parse_answers(
    text: &str,
    value: &str,
    ids: AnswerIds<'_>,
) -> Result<(Vec<NodeId>, Option<Fault>), Fault> {
    match parse_value(value)? {
        Some(_) if ["", "[]"].contains(&text.trim()) => Ok((Vec::new(), None)),
        _ => ids.parse(text),
    }
}

/// Computes the line numbers of CSV records. The CSV reader counts the line feed of `\r\n`, and
/// empty lines, as part of the following record, so its own line numbers are too low.
struct LineNumbers<'a> {
    bytes: &'a [u8],
    /// Byte offset up to which line ends have been counted.
    position: usize,
    line: u64,
}

impl LineNumbers<'_> {
    /// Returns the line number (from 1) of the record that the reader starts at the offset `byte`.
    /// Calls must be in ascending order of offsets.
    fn line_at(&mut self, byte: u64) -> u64 {
        let start = usize::try_from(byte).unwrap_or(usize::MAX).min(self.bytes.len());
        let rest = self.bytes.get(start..).unwrap_or_default();
        let ends = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = self.bytes.get(self.position..start + ends).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.position = self.position.max(start + ends);
        self.line
    }
}

/// Parses a cell of the column `answer_value`; `None` if the cell is empty.
fn parse_value(text: &str) -> Result<Option<AnswerValue>, Fault> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let bad = |why: String| {
        let message = format!("{VALUE_COLUMN}: {why}");
        Fault::new(ProblemKind::BadAnswers, message, "write a value or a table").with_excerpt(text)
    };
    match AnswerValue::read(text) {
        Ok(AnswerValue::Nodes { .. }) => Err(bad("list nodes in answer_ids".to_owned())),
        read => read.map(Some).map_err(|error| bad(error.to_string())),
    }
}

/// The query files that an import has stored, with their counts.
#[derive(Default)]
pub(super) struct StoredQueries {
    pub(super) n_queries: u64,
    pub(super) splits: BTreeMap<String, u64>,
    pub(super) files: BTreeMap<String, FileRecord>,
    /// Whether the split `test-0.1` is the first tenth of the test split, because it has no file of
    /// its own.
    pub(super) derived_tenth: bool,
    /// Whether the splits were drawn, because there are no split files.
    pub(super) drawn_splits: bool,
    /// The queries of all query files.
    pub(super) labelled: Vec<LabelledQuery>,
}

impl StoredQueries {
    fn add_split(&mut self, split: &str, members: &[i64], target: &Path) -> Result<()> {
        let file = format!("{split}.index");
        let text: String = members.iter().map(|id| format!("{id}\n")).collect();
        let record = write_file(&target.join(&file), text.as_bytes())?;
        self.files.insert(file, record);
        self.splits.insert(split.to_string(), members.len() as u64);
        Ok(())
    }
}

/// Paths of the query files to import; each may be missing.
pub(super) struct QuerySources {
    pub(super) queries: PathBuf,
    pub(super) human: PathBuf,
    /// Directory with the split files, such as `train.index`.
    pub(super) splits: PathBuf,
    /// Whether to use the first tenth of the test split as `test-0.1` if `test-0.1.index` is
    /// missing.
    pub(super) derive_tenth: bool,
}

impl QuerySources {
    /// Returns the paths of the query files in a directory in neutral format.
    pub(super) fn in_dir(dir: &Path) -> QuerySources {
        QuerySources {
            queries: dir.join(QUERIES_FILE),
            human: dir.join(HUMAN_FILE),
            splits: dir.join("split"),
            derive_tenth: false,
        }
    }
}

/// Checks the query files that exist and writes normalised copies to the directory `target`. `ids`
/// states how answers identify nodes, and whether some lines of the imported data yielded no node.
pub(super) fn import_queries(
    sources: &QuerySources,
    target: &Path,
    ids: (AnswerIds<'_>, bool),
    problems: &mut Problems,
    watch: &mut Watch<'_>,
) -> Result<StoredQueries> {
    let mut stored = StoredQueries::default();
    fs::create_dir_all(target).map_err(DatasetError::io("create", target))?;
    let total = (SPLIT_NAMES.len() + 3) as u64;
    watch.report(Phase::Queries, 0, total)?;
    let mut scope = SplitScope { within: "qa.csv", ..SplitScope::default() };
    for (file, path) in [(QUERIES_FILE, &sources.queries), (HUMAN_FILE, &sources.human)] {
        if !path.exists() {
            let packed = ["gz", "zst"].map(|packing| path.with_extension(format!("csv.{packing}")));
            if let Some(packed) = packed.into_iter().find(|packed| packed.exists()) {
                let message = "compressed question files are not supported; unpack the file with \
                               `gunzip` or `unzstd`";
                return Err(DatasetError::bad_input(packed, message));
            }
            continue;
        }
        let parsed = parse_queries(path, &read_bounded(path)?, ids, MAX_QUERY_BYTES, problems)?;
        let csv = to_csv(&parsed).map_err(DatasetError::io("write", target.join(file)))?;
        stored.files.insert(file.to_string(), write_file(&target.join(file), &csv)?);
        stored.n_queries += parsed.queries.len() as u64;
        if file == QUERIES_FILE {
            scope.ids.extend(parsed.queries.iter().map(|query| query.id));
            (scope.seen_ids, scope.lost) = (parsed.seen_ids, parsed.lost);
        } else {
            stored.splits.insert("human".to_string(), parsed.queries.len() as u64);
        }
        stored.labelled.extend(parsed.queries);
    }
    let mut split_of: HashMap<i64, &str> = HashMap::new();
    let mut test = Vec::new();
    for (done, split) in (2u64..).zip(SPLIT_NAMES) {
        watch.report(Phase::Queries, done, total)?;
        let path = sources.splits.join(format!("{split}.index"));
        if !path.exists() || stored.splits.contains_key(split) {
            continue;
        }
        let members = read_split(&path, split, &scope, &mut split_of, problems)?;
        stored.add_split(split, &members, target)?;
        if split == "test" {
            test = members;
        }
    }
    if !sources.splits.exists() && scope.ids.len() >= MIN_DRAWN {
        for (split, members) in SPLIT_NAMES.into_iter().zip(drawn(&scope.ids)) {
            stored.add_split(split, &members, target)?;
        }
        stored.drawn_splits = true;
    }
    let path = sources.splits.join(format!("{TENTH_NAME}.index"));
    if path.exists() {
        let ids = test.into_iter().collect();
        let scope = SplitScope { ids, within: "test.index", ..scope };
        let members = read_split(&path, TENTH_NAME, &scope, &mut HashMap::new(), problems)?;
        stored.add_split(TENTH_NAME, &members, target)?;
    } else if sources.derive_tenth && !test.is_empty() {
        stored.add_split(TENTH_NAME, test.get(..test.len() / 10).unwrap_or_default(), target)?;
        stored.derived_tenth = true;
    }
    sync_dir(target)?;
    watch.report(Phase::Queries, total, total)?;
    Ok(stored)
}

/// Draws half of the queries for training, a quarter for validation and the rest for testing, in
/// the order of the hashes of their ids, so the splits are the same on every machine.
fn drawn(ids: &HashSet<i64>) -> [Vec<i64>; 3] {
    let mut order: Vec<i64> = ids.iter().copied().collect();
    order.sort_by_cached_key(|id| (*blake3::hash(&id.to_le_bytes()).as_bytes(), *id));
    let n_train = order.len().div_ceil(2);
    let test = order.split_off(n_train + (order.len() - n_train).div_ceil(2));
    let validation = order.split_off(n_train);
    [order, validation, test].map(|mut ids| {
        ids.sort_unstable();
        ids
    })
}

/// Queries that a split file may refer to.
#[derive(Default)]
struct SplitScope {
    ids: HashSet<i64>,
    /// Name of the file that defines these queries, for messages.
    within: &'static str,
    /// Query ids of all rows of that file, including invalid rows.
    seen_ids: HashSet<i64>,
    /// Whether the query ids of some rows could not be read.
    lost: bool,
}

fn read_split<'a>(
    path: &Path,
    split: &'a str,
    scope: &SplitScope,
    split_of: &mut HashMap<i64, &'a str>,
    problems: &mut Problems,
) -> Result<Vec<i64>> {
    let mut lines = Lines::open(path)?;
    let mut members = Vec::new();
    let within = scope.within;
    while let Some((number, line)) = lines.next()? {
        let Some(text) = problems.ok(path, number, line.text())? else { continue };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let mut read = || {
            let Some(id) = query_id(text) else {
                let shown: String = text.chars().take(60).collect();
                let message = format!("{shown:?} is not a query id");
                let hint = format!("write one id from {within} per line");
                return Err(Fault::new(ProblemKind::BadId, message, hint).with_excerpt(text));
            };
            if !scope.ids.contains(&id) {
                let message = format!("query {id} is not in {within}");
                let hint = "add it there or drop this line";
                let follows = scope.lost || scope.seen_ids.contains(&id);
                return Err(Fault::new(ProblemKind::UnknownQuery, message, hint).following(follows));
            }
            if let Some(other) = split_of.insert(id, split) {
                split_of.insert(id, other);
                let message = format!("query {id} is already in split {other}");
                return Err(Fault::new(ProblemKind::SplitOverlap, message, "keep it in one split"));
            }
            Ok(id)
        };
        members.extend(problems.ok(path, number, read())?);
    }
    Ok(members)
}

fn to_csv(file: &QueryFile) -> std::io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let extra: Vec<&str> = file.extra.iter().map(String::as_str).collect();
    writer.write_record(COLUMNS.iter().chain(&extra))?;
    for query in &file.queries {
        let answers: Vec<String> = query.answers.iter().map(NodeId::to_string).collect();
        let answers = format!("[{}]", answers.join(", "));
        let id = query.id.to_string();
        let first = [id.as_str(), query.text.as_str(), answers.as_str()];
        let values = extra.iter().map(|name| query.metadata.get(*name).map_or("", String::as_str));
        writer.write_record(first.into_iter().chain(values))?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<FileRecord> {
    let written = fs::File::create_new(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(DatasetError::io("write", path))?;
    let blake3 = blake3::hash(bytes).to_hex().to_string();
    Ok(FileRecord { bytes: bytes.len() as u64, blake3 })
}
