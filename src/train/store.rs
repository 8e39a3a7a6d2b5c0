//! Trained models on disk: a directory with the weights, and `record.json` with their source and
//! digests. Checkpoints of training are directories of the same form.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{TrainError, digest};
use agent_dataset::LabelledQuery;
use agent_ground::files;
use agent_kb::publish;

const RECORD: &str = "record.json";
/// Name prefix of unfinished models.
const STAGING_PREFIX: &str = ".training-";
/// Version of the record.
const FORMAT: u32 = 2;
/// Maximum size of a record, bytes.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// Validation result at one point of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidationPoint {
    /// Number of finished steps or epochs.
    pub step: usize,
    /// Loss of training queries, nats, without the penalty.
    pub loss: f64,
    /// Mean reciprocal rank of validation queries, in `0..=1`.
    pub mrr: f64,
}

/// Returns the point with the highest mean reciprocal rank; of equal points, the first.
pub(super) fn best_of(curve: &[ValidationPoint]) -> Option<&ValidationPoint> {
    curve.iter().reduce(|best, point| if point.mrr > best.mrr { point } else { best })
}

/// Source of a model.
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
    /// Numbers of training and validation queries.
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

/// Record of a model: its source and validation; `M` is the description of its kind of model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record<M> {
    format: u32,
    /// System of the model.
    pub system: String,
    /// Source of the model.
    pub source: Source,
    /// Settings and size of the model.
    pub model: M,
    /// Validation curve; the weights are those of the best point, or the first of equal points.
    pub curve: Vec<ValidationPoint>,
    /// blake3 of the model's files, hex, by name.
    files: BTreeMap<String, String>,
    /// blake3 of this object with an empty `checksum`, hex.
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

    /// Returns the best point of the validation curve; of equal points, the first.
    pub fn best(&self) -> Option<&ValidationPoint> {
        best_of(&self.curve)
    }

    /// Writes a model: `write` creates its files, then the record with digests of the files `names`
    /// is added. Replaces an existing directory atomically.
    ///
    /// # Errors
    /// Errors of `write`; [`TrainError::Io`] with the path. The directory is then unchanged.
    pub(super) fn save(
        self,
        dir: &Path,
        names: &[&str],
        write: impl FnOnce(&Path) -> Result<(), TrainError>,
    ) -> Result<Self, TrainError> {
        self.save_all(dir, |staging| {
            write(staging)?;
            Ok(names.iter().map(|&name| name.to_owned()).collect())
        })
    }

    /// Writes a model as [`save`](Self::save) does; `write` returns the names of the files to
    /// digest.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub(super) fn save_all(
        mut self,
        dir: &Path,
        write: impl FnOnce(&Path) -> Result<Vec<String>, TrainError>,
    ) -> Result<Self, TrainError> {
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

    /// Reads the record of a model of a system, and checks the digests of its files.
    ///
    /// # Errors
    /// [`TrainError::Io`], [`TrainError::Damaged`], [`TrainError::OtherSystem`].
    pub(super) fn read(dir: &Path, system: &str) -> Result<Self, TrainError> {
        Self::read_as(dir, Some(system))
    }

    /// Reads a record as [`read`](Self::read) does; `None` accepts any system.
    fn read_as(dir: &Path, system: Option<&str>) -> Result<Self, TrainError> {
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
    pub(super) fn check_base(&self, base: &str, dir: &Path) -> Result<(), TrainError> {
        if self.source.base == base {
            return Ok(());
        }
        Err(TrainError::OtherBase { path: dir.display().to_string() })
    }

    /// Computes the value of `checksum`.
    fn own_digest(&self) -> serde_json::Result<String> {
        let unsigned = Self { checksum: String::new(), ..self.clone() };
        Ok(blake3::hash(&serde_json::to_vec(&unsigned)?).to_hex().to_string())
    }
}

impl Record<serde_json::Value> {
    /// Reads the record of a model of any system, and checks the digests of its files.
    ///
    /// # Errors
    /// [`TrainError::Io`], [`TrainError::Damaged`].
    pub fn open(dir: &Path) -> Result<Self, TrainError> {
        Self::read_as(dir, None)
    }
}

/// First fields of every record.
#[derive(Deserialize)]
struct Format {
    format: u32,
    #[serde(default)]
    system: String,
}

/// Returns the blake3 digest of a file, hex.
fn digest_of(path: &Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Writes a new file and syncs it.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    File::create_new(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|error| TrainError::io(path, error))
}
