//! Trained models on disk. A model is a directory with its weights and `record.json`, which states
//! what the model was trained on and the digests of its files. Checkpoints of training are
//! directories of the same form.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Result, TrainError, digest};
use agent_dataset::LabelledQuery;
use agent_ground::{files, record::own_digest};
use agent_kb::publish;

const RECORD: &str = "record.json";
/// Prefix of the names of directories in which a model is being written.
const STAGING_PREFIX: &str = ".training-";
/// Supported version of the record's format.
const FORMAT: u32 = 2;
/// Maximum size in bytes of a record.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// Validation result at one point of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationPoint {
    /// Number of finished epochs; in mFAR models, of finished gradient steps.
    pub step: usize,
    /// Mean loss on training queries, in nats, without the penalty on large weights.
    pub loss: f64,
    /// Mean reciprocal rank on validation queries, in `0..=1`.
    pub mrr: f64,
}

/// Returns the point of the curve with the highest mean reciprocal rank; of several such points,
/// the first.
pub(super) fn best_of(curve: &[ValidationPoint]) -> Option<&ValidationPoint> {
    curve.iter().reduce(|best, point| if point.mrr > best.mrr { point } else { best })
}

/// What a model was trained on: a dataset, with digests of its knowledge base and queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Name of the dataset when the model was trained.
    pub dataset: String,
    /// Fingerprint of the knowledge base.
    pub base: String,
    /// Digest of the training queries with their answers.
    pub train: String,
    /// Digest of the validation queries with their answers.
    pub val: String,
    /// Number of training queries, and number of validation queries.
    pub queries: [usize; 2],
}

impl Source {
    /// Returns the source of a model trained on these queries over a knowledge base.
    pub fn new(dataset: &str, base: &str, train: &[LabelledQuery], val: &[LabelledQuery]) -> Self {
        Self {
            dataset: dataset.to_owned(),
            base: base.to_owned(),
            train: digest(train),
            val: digest(val),
            queries: [train.len(), val.len()],
        }
    }
}

/// Record of a model: what it was trained on, its validation and its files. `M` describes the
/// settings and size of this kind of model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record<M> {
    format: u32,
    /// Retrieval system that uses the model, such as `mfar`.
    pub system: String,
    /// Dataset and queries that the model was trained on.
    pub source: Source,
    /// Settings and size of the model.
    pub model: M,
    /// Validation results during training. The model has the weights of the point with the highest
    /// mean reciprocal rank; of several such points, the first.
    pub curve: Vec<ValidationPoint>,
    /// BLAKE3 digest of each of the model's files, in hexadecimal digits, by file name.
    files: BTreeMap<String, String>,
    /// BLAKE3 digest of this object with an empty `checksum`, in hexadecimal digits.
    checksum: String,
}

impl<M: Clone + Serialize + DeserializeOwned> Record<M> {
    /// Returns the record of a model that is not yet written.
    pub(super) fn new(
        system: &str,
        source: &Source,
        model: M,
        curve: Vec<ValidationPoint>,
    ) -> Self {
        Self {
            format: FORMAT,
            system: system.to_owned(),
            source: source.clone(),
            model,
            curve,
            files: BTreeMap::new(),
            checksum: String::new(),
        }
    }

    /// Returns the point of the validation curve with the highest mean reciprocal rank; of several
    /// such points, the first. `None` if the curve is empty.
    pub fn best(&self) -> Option<&ValidationPoint> {
        best_of(&self.curve)
    }

    /// Writes a model into the directory `dir`. First, `write` creates the files in a temporary
    /// directory and returns their names. Then this record, with the digests of these files, is
    /// added. Replaces an existing `dir` atomically.
    ///
    /// # Errors
    /// Errors of `write`; [`TrainError::Io`] with the path; [`TrainError::Publish`]. `dir` is then
    /// unchanged.
    pub(super) fn save(
        mut self,
        dir: &Path,
        write: impl FnOnce(&Path) -> Result<Vec<String>>,
    ) -> Result<Self> {
        let parent = dir.parent().unwrap_or(Path::new("."));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| TrainError::io(&path, error)
        };
        fs::create_dir_all(parent).map_err(failed(parent))?;
        let staging = files::temporary_dir(parent, STAGING_PREFIX).map_err(failed(parent))?;
        for name in write(staging.path())? {
            let path = staging.path().join(&name);
            let digest = digest_of(&path).map_err(failed(&path))?;
            self.files.insert(name, digest);
        }
        let json = |error: serde_json::Error| TrainError::io(dir, error.into());
        self.checksum = self.own_digest().map_err(json)?;
        let record = serde_json::to_vec_pretty(&self).map_err(json)?;
        write_file(&staging.path().join(RECORD), &record)?;
        publish(&staging.keep(), dir)?;
        Ok(self)
    }

    /// Reads the record of the model in `dir`, and compares the model's files with their digests.
    ///
    /// # Errors
    /// [`TrainError::Io`]; [`TrainError::Damaged`] if a digest does not match;
    /// [`TrainError::OtherSystem`] if the model does not belong to `system`.
    pub(super) fn read(dir: &Path, system: &str) -> Result<Self> {
        Self::read_as(dir, Some(system))
    }

    /// Reads a record as [`read`](Self::read) does; `None` accepts any system.
    fn read_as(dir: &Path, system: Option<&str>) -> Result<Self> {
        let path = dir.join(RECORD);
        let bytes =
            files::read(&path, MAX_RECORD_BYTES).map_err(|error| TrainError::io(&path, error))?;
        let damaged = |error: serde_json::Error| TrainError::damaged(&path, error.to_string());
        let header: Format = serde_json::from_slice(&bytes).map_err(damaged)?;
        if header.format != FORMAT {
            return Err(TrainError::damaged(&path, format!("format {}", header.format)));
        }
        if let Some(wanted) = system.filter(|&wanted| header.system != wanted) {
            let (path, found) = (dir.display().to_string(), header.system);
            return Err(TrainError::OtherSystem { path, found, wanted: wanted.to_owned() });
        }
        let record: Self = serde_json::from_slice(&bytes).map_err(damaged)?;
        if record.own_digest().map_err(damaged)? != record.checksum {
            return Err(TrainError::damaged(&path, "its digest does not match"));
        }
        for (name, digest) in &record.files {
            let path = dir.join(name);
            if digest_of(&path).map_err(|error| TrainError::io(&path, error))? != *digest {
                return Err(TrainError::damaged(&path, "its digest does not match"));
            }
        }
        Ok(record)
    }

    /// Checks that the model was trained over the knowledge base with the fingerprint `base`.
    ///
    /// # Errors
    /// [`TrainError::OtherBase`] if it was not.
    pub(super) fn check_base(&self, base: &str, dir: &Path) -> Result<()> {
        if self.source.base == base {
            return Ok(());
        }
        Err(TrainError::OtherBase(dir.display().to_string()))
    }

    /// Returns the digest that `checksum` must hold: BLAKE3 of this record with an empty
    /// `checksum`, in hexadecimal digits.
    fn own_digest(&self) -> serde_json::Result<String> {
        own_digest(self, |record| record.checksum.clear())
    }
}

impl Record<serde_json::Value> {
    /// Reads the record of the model in `dir`, of any system, and compares the model's files with
    /// their digests.
    ///
    /// # Errors
    /// [`TrainError::Io`]; [`TrainError::Damaged`] if a digest does not match.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::read_as(dir, None)
    }
}

/// The fields of a record that are read before the others: format and system.
#[derive(Deserialize)]
struct Format {
    format: u32,
    system: String,
}

/// Returns the BLAKE3 digest of a file, in hexadecimal digits.
fn digest_of(path: &Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(files::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Creates a file with the content `bytes` and syncs it to the disk.
///
/// # Errors
/// [`TrainError::Io`], also if the file already exists.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    File::create_new(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|error| TrainError::io(path, error))
}
