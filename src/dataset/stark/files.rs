//! Finds the files of one base of the benchmark, and reads names and tensors from these files.

use std::{
    collections::BTreeMap,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{
    DatasetError, Result,
    queries::QuerySources,
    stark::{
        Kind,
        archive::{Archive, ArchiveLimits},
        pickle::{self, Limits, Value},
        torch,
    },
};
use agent_ground::words::is_control;

/// Maximum size in bytes of a pickle with the names of types or relations.
const MAX_NAMES_BYTES: u64 = 1 << 20;
/// Maximum number of characters of an invalid name that a message shows.
const SHOWN_CHARS: usize = 60;
/// Maximum ratio of unpacked to packed size of a zip member. Type and relation numbers are so
/// repetitive that deflate reaches its maximum of 1032 to 1.
const MAX_RATIO: u64 = 1100;
/// Name of the file with the nodes; every base has this file.
pub(super) const NODES_FILE: &str = "node_info.pkl";
/// Folder of the Amazon base within the archive, named after its node types other than products.
const AMAZON_FOLDER: &str = "cache/brand-category-color/";

/// Directories of a base and of its queries.
#[derive(Debug, PartialEq)]
pub(super) struct Places {
    base: PathBuf,
    /// Directory that holds the folders `stark_qa` and `split`.
    pub(super) queries: PathBuf,
}

/// Finds the directories of the base in `dir`. If `dir` has several bases, returns the one called
/// `name`.
pub(super) fn find(dir: &Path, name: &str) -> Result<Places> {
    let has_base =
        |dir: &Path| dir.join("processed.zip").is_file() || dir.join("processed").is_dir();
    if has_base(dir) {
        // In the benchmark's repository, the queries are in the directory `qa` beside `skb`.
        let beside = dir.join("../../qa").join(dir.file_name().unwrap_or_default());
        let has_own = dir.join("stark_qa").is_dir() || !beside.is_dir();
        let queries = if has_own { dir.to_path_buf() } else { beside };
        return Ok(Places { base: dir.to_path_buf(), queries });
    }
    let mut found = Vec::new();
    for kind in Kind::ALL.map(Kind::name) {
        let (base, queries) = (dir.join("skb").join(kind), dir.join("qa").join(kind));
        if has_base(&base) {
            found.push((kind, Places { base, queries }));
        } else if has_base(&dir.join(kind)) {
            let base = dir.join(kind);
            found.push((kind, Places { queries: base.clone(), base }));
        }
    }
    let kinds: Vec<&str> = found.iter().map(|(kind, _)| *kind).collect();
    let kinds = kinds.join(", ");
    if found.len() > 1 {
        found.retain(|(kind, _)| *kind == name);
    }
    found.pop().map(|(_, places)| places).ok_or_else(|| {
        let none = "found neither processed.zip nor a folder \"processed\" here or in skb/amazon, \
                    skb/mag or skb/prime; give the folder that holds one";
        let hint = "use one of these as the name, or give its folder";
        let several = format!("it holds several bases: {kinds}; {hint}");
        DatasetError::bad_input(dir, if kinds.is_empty() { none } else { &several })
    })
}

/// Returns the paths of the query files, in the layout of the benchmark, in the directory `dir`.
pub(super) fn query_sources(dir: &Path) -> QuerySources {
    let queries = dir.join("stark_qa");
    QuerySources {
        human: queries.join("stark_qa_human_generated_eval.csv"),
        queries: queries.join("stark_qa.csv"),
        splits: dir.join("split"),
        derive_tenth: true,
    }
}

impl Places {
    /// Opens the folder `processed` or, if that holds no base, `processed.zip`. Some files are
    /// unpacked temporarily in the directory `scratch`.
    pub(super) fn open(&self, scratch: &Path) -> Result<Files> {
        let folder = self.base.join("processed");
        let packed = self.base.join("processed.zip");
        if folder.is_dir() {
            let files = Files::open(folder, scratch)?;
            if files.is_some() || !packed.is_file() {
                return files.ok_or_else(|| incomplete(&self.base.join("processed")));
            }
        }
        Files::open(packed.clone(), scratch)?.ok_or_else(|| incomplete(&packed))
    }
}

fn incomplete(path: &Path) -> DatasetError {
    let message = format!(
        "it does not hold a base: Amazon has {AMAZON_FOLDER}{NODES_FILE}, Prime {NODES_FILE} \
         and node_type_dict.pkl, MAG {NODES_FILE} and node_types.pt; download processed.zip again"
    );
    DatasetError::bad_input(path, message)
}

/// The files of one base, in a folder or a zip file.
pub(super) struct Files {
    pub(super) kind: Kind,
    archive: Archive,
    path: PathBuf,
    /// Directory for files that are unpacked temporarily.
    scratch: PathBuf,
    /// Folder within the archive, with a trailing slash unless it is empty.
    folder: String,
}

impl Files {
    /// Opens the zip file or folder `path`; `None` if it holds no base.
    fn open(path: PathBuf, scratch: &Path) -> Result<Option<Files>> {
        let limits = ArchiveLimits { ratio: MAX_RATIO, ..ArchiveLimits::default() };
        let archive = Archive::open(&path, &limits)
            .map_err(|error| DatasetError::bad_input(&path, error.to_string()))?;
        let has = |folder: &str, file: &str| archive.size(&format!("{folder}{file}")).is_some();
        let mut found = None;
        // A zip file holds the files in the folder `processed`; an unpacked archive is that folder.
        for folder in ["processed/", ""] {
            let amazon = format!("{folder}{AMAZON_FOLDER}");
            if has(&amazon, NODES_FILE) {
                found = Some((Kind::Amazon, amazon));
            } else if has(folder, NODES_FILE) && has(folder, "node_type_dict.pkl") {
                found = Some((Kind::Prime, folder.to_string()));
            } else if has(folder, NODES_FILE) && has(folder, "node_types.pt") {
                found = Some((Kind::Mag, folder.to_string()));
            }
        }
        Ok(found.map(|(kind, folder)| {
            let scratch = scratch.to_path_buf();
            Files { kind, archive, path, scratch, folder }
        }))
    }

    /// Returns the path of a file of the base, for messages.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.path.join(&self.folder).join(file)
    }

    /// Returns the full name of a file of the base within the archive.
    fn name(&self, file: &str) -> String {
        format!("{}{file}", self.folder)
    }

    /// Returns the unpacked size of a file of the base, in bytes; 0 if the file is missing.
    pub(super) fn size(&self, file: &str) -> u64 {
        self.archive.size(&self.name(file)).unwrap_or_default()
    }

    /// Opens a file of the base for reading from its beginning.
    pub(super) fn read(&self, file: &str) -> io::Result<impl Read> {
        self.archive.read(&self.name(file)).map_err(io::Error::other)
    }

    /// Reads a pickled dict that maps numbers to names.
    pub(super) fn names(&self, file: &str) -> Result<BTreeMap<i64, String>> {
        let mut bytes = Vec::new();
        let read =
            self.read(file).and_then(|r| r.take(MAX_NAMES_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(DatasetError::io("read", self.path(file)))?;
        let bad = |message: String| DatasetError::bad_input(self.path(file), message);
        let limits = Limits { file_bytes: MAX_NAMES_BYTES, ..Limits::default() };
        let Value::Dict(items) = pickle::read(&bytes, &limits).map_err(|e| bad(e.to_string()))?
        else {
            return Err(bad("it is not a dict; download it again".to_string()));
        };
        let name =
            |(number, name): &(Value, Value)| Some((number.as_int()?, name.as_str()?.into()));
        let names: Option<BTreeMap<i64, String>> = items.iter().map(name).collect();
        let names = names.ok_or_else(|| {
            bad("it does not map numbers to names; download it again".to_string())
        })?;
        if let Some((number, name)) = names.iter().find(|(_, name)| name.contains(is_control)) {
            let shown: String = name.chars().take(SHOWN_CHARS).collect();
            let fault = "contains a control character; download it again";
            return Err(bad(format!("entry {number}, {shown:?}, {fault}")));
        }
        Ok(names)
    }

    /// Reads a tensor of integers with `n_rows` rows; returns its elements row by row. The tensor
    /// must have fewer than `limit` elements. An element that `convert` rejects is an error, whose
    /// message names the `expected` kind of element, such as `node`.
    pub(super) fn numbers<T>(
        &self,
        file: &str,
        n_rows: usize,
        limit: u64,
        (expected, convert): (&str, impl Fn(i64) -> Option<T>),
    ) -> Result<Vec<T>> {
        let bad = |message: String| DatasetError::bad_input(self.path(file), message);
        let reader = self.archive.seekable(&self.name(file), &self.scratch);
        let reader = reader.map_err(|error| bad(error.to_string()))?;
        let (mut numbers, mut left, mut refused) = (Vec::new(), limit, None);
        let mut on_element = |element| {
            left = left.saturating_sub(1);
            match convert(element) {
                Some(number) if left > 0 && refused.is_none() => numbers.push(number),
                Some(_) => {}
                None => {
                    refused.get_or_insert(element);
                }
            }
        };
        let reader = BufReader::new(reader);
        let shape = torch::read_integers(reader, &mut on_element);
        let shape = shape.map_err(|error| bad(error.to_string()))?;
        if left == 0 {
            return Err(bad(format!("it contains at least {limit} numbers; use a smaller base")));
        }
        if let Some(element) = refused {
            let fault = format!("it holds {element}, which is not a {expected}");
            return Err(bad(format!("{fault}; download it again")));
        }
        let has_rows = match shape.as_slice() {
            [_] => n_rows == 1,
            [rows, _] => n_rows > 1 && *rows == n_rows,
            _ => false,
        };
        if has_rows {
            return Ok(numbers);
        }
        Err(bad(format!("its shape is {shape:?}, not {n_rows} rows; download it again")))
    }
}
