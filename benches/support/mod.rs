//! The base that benches run on: an installed base, or a generated sample.
//!
//! `AGENT_BENCH_BASE=N` names an installed and indexed base of `AGENT_HOME`. Without it a `mag`
//! sample is generated, imported and indexed in a temporary directory; `AGENT_BENCH_SCALE` sets its
//! size relative to the benchmark.
#![allow(dead_code, reason = "each bench uses a part")]

use std::{
    env,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use agent::{
    dataset::{
        Base, Home, ImportOptions, LabelledQuery, Split, import_neutral, load_split,
        sample::{SampleKind, SampleOptions, generate},
    },
    index::{self, IndexedBase},
    kb::Kb,
};
use criterion::Criterion;
use tempfile::TempDir;

/// Default size of the sample: some thousand nodes, built in seconds.
const DEFAULT_SCALE: f64 = 0.003;

/// Configures few samples: enough for orders of magnitude and for comparing two builds.
pub(crate) fn quick() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
}

/// A base with its index; a generated one is removed when this is dropped.
pub(crate) struct World {
    pub(crate) base: Base,
    _temporary: Option<TempDir>,
}

/// Finds the installed base, or generates and indexes a sample.
pub(crate) fn world() -> World {
    if let Ok(name) = env::var("AGENT_BENCH_BASE") {
        let home = env::var("AGENT_HOME").unwrap();
        return World { base: Home::new(home).get(&name).unwrap(), _temporary: None };
    }
    let (temporary, base) = sample();
    let kb = Kb::open(&base.kb_dir()).unwrap();
    let dir = base.index_dir();
    index::build(&kb, &dir, &|_| {}, &AtomicBool::new(false)).unwrap();
    World { base, _temporary: Some(temporary) }
}

/// Generates and imports a sample, without an index.
pub(crate) fn sample() -> (TempDir, Base) {
    let temporary = tempfile::tempdir().unwrap();
    let files = temporary.path().join("files");
    sample_files(&files);
    let base = import(&files, &Home::new(temporary.path().join("home")));
    (temporary, base)
}

/// Generates the files of a sample, in neutral format.
pub(crate) fn sample_files(files: &Path) {
    let scale = env::var("AGENT_BENCH_SCALE").ok().map(|scale| scale.parse().unwrap());
    let options = SampleOptions { seed: 7, scale: scale.or(Some(DEFAULT_SCALE)) };
    generate(SampleKind::Mag, options, files, &mut |_| {}).unwrap();
}

/// Imports files in neutral format.
pub(crate) fn import(files: &Path, home: &Home) -> Base {
    let (options, stop) = (ImportOptions::default(), AtomicBool::new(false));
    import_neutral(files, home, "bench", &options, &mut |_| {}, &stop).unwrap().base
}

impl World {
    /// Opens the base with its index.
    pub(crate) fn open(&self) -> IndexedBase {
        let dir = self.base.index_dir();
        IndexedBase::open(&self.base.kb_dir(), &dir, &self.base.name).unwrap()
    }

    /// Opens the base with its index, for sharing between threads.
    pub(crate) fn shared(&self) -> Arc<IndexedBase> {
        Arc::new(self.open())
    }

    /// Loads the first 50 training queries, or all if there are fewer.
    pub(crate) fn queries(&self) -> Vec<LabelledQuery> {
        let mut queries = load_split(&self.base, &Split::Train).unwrap();
        queries.truncate(50);
        queries
    }
}
