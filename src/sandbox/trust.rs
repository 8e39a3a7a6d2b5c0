//! Chooses where a program runs by default, from its origin.
//!
//! A program runs in this process only if the search actor wrote it on this machine: in a run that
//! was started here without another author, or in a bundle that such a run froze here. All other
//! programs run inside WebAssembly. Claims in a file about its origin prove nothing. So runs and
//! bundles made here are noted in a [`PrivateDir`], by digests under its key. A copied home
//! contains neither the key nor the notes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use crate::{Place, private::PrivateDir};

/// Maximum number of notes kept; the oldest are removed first.
const MAX_NOTES: usize = 20_000;
/// File extension of a note.
const SUFFIX: &str = "made";
/// Kind of a note on a run; all kinds have the same length.
const RUN: &[u8] = b"run\0\0\0";
const BUNDLE: &[u8] = b"bundle";

/// Where a program comes from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// A run, identified by its journal file.
    Run(&'a Path),
    /// A bundle, identified by the digest of its content.
    Bundle(&'a str),
    /// Any other origin, such as a program file or a language model.
    Elsewhere,
}

/// The notes on runs and bundles that this user made on this machine.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    dir: Option<PathBuf>,
}

impl Trust {
    /// Opens the notes in the directory `dir`, which need not exist; without a directory, nothing
    /// is trusted.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// Returns where a program of this origin runs by default: in this process if its origin is
    /// noted, otherwise inside WebAssembly.
    pub fn place(&self, origin: Origin<'_>) -> Place {
        let noted = || {
            let dir = PrivateDir::find(self.dir.as_deref()?)?;
            Some(dir.path().join(note(&dir, origin)?).is_file())
        };
        if noted() == Some(true) { Place::Process } else { Place::Wasm }
    }

    /// Records that a run, or the bundle that it froze, is the work of the search actor alone. If
    /// the note cannot be written, programs of this origin stay untrusted.
    pub fn keep(&self, made: Origin<'_>) {
        let Some(dir) = self.dir.as_deref().and_then(PrivateDir::open) else { return };
        if let Some(name) = note(&dir, made)
            && dir.publish(&name, &[]).is_ok()
        {
            dir.keep_newest(SUFFIX, MAX_NOTES);
        }
    }

    /// Removes the note on a run, because other authors write programs in the run from now on.
    pub fn forget(&self, made: Origin<'_>) {
        let Some(dir) = self.dir.as_deref().and_then(PrivateDir::find) else { return };
        if let Some(name) = note(&dir, made) {
            // There may be no note.
            let _ = fs::remove_file(dir.path().join(name));
        }
    }
}

/// Returns the file name of the note on `made`; `None` for an origin that cannot be trusted.
fn note(dir: &PrivateDir, made: Origin<'_>) -> Option<String> {
    let (kind, id) = match made {
        Origin::Run(journal) => (RUN, identity(journal)?.into_bytes()),
        Origin::Bundle(digest) => (BUNDLE, digest.as_bytes().to_vec()),
        Origin::Elsewhere => return None,
    };
    Some(format!("{}.{SUFFIX}", dir.seal(&[kind, &id]).to_hex()))
}

/// Returns a text that identifies a file even if its content changes: its path, device, inode and
/// creation time. A copy of the file, or another file at the same path, has another identity.
/// `None` if these properties cannot be read.
#[cfg(unix)]
fn identity(file: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let path = fs::canonicalize(file).ok()?;
    let found = fs::metadata(&path).ok()?;
    let made = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(format!("{}\0{}\0{}\0{made}", path.display(), found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(file: &Path) -> Option<String> {
    let path = fs::canonicalize(file).ok()?;
    let made = fs::metadata(&path).ok()?.created().ok()?;
    let made = made.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(format!("{}\0{made}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Origin, Trust};
    use crate::Place;

    #[test]
    fn what_was_made_here_is_trusted_and_nothing_else() {
        let world = tempfile::tempdir().expect("a directory");
        let trust = Trust::new(Some(world.path().join("state")));
        let (mine, other) = (Origin::Bundle("abcd"), Origin::Bundle("abce"));
        assert_eq!(trust.place(mine), Place::Wasm);
        assert!(!world.path().join("state").exists(), "a query creates no directory");
        trust.keep(mine);
        assert_eq!([mine, other].map(|of| trust.place(of)), [Place::Process, Place::Wasm]);
        trust.keep(Origin::Elsewhere);
        assert_eq!(trust.place(Origin::Elsewhere), Place::Wasm);
        // A bundle is not a run of that name.
        assert_eq!(trust.place(Origin::Run("abcd".as_ref())), Place::Wasm);
        assert_eq!(Trust::new(None).place(mine), Place::Wasm);
    }

    #[test]
    fn notes_of_another_key_say_nothing() {
        let world = tempfile::tempdir().expect("a directory");
        let (here, there) = (world.path().join("here"), world.path().join("there"));
        let (mine, strangers) = (Trust::new(Some(here.clone())), Trust::new(Some(there.clone())));
        mine.keep(Origin::Bundle("mine"));
        strangers.keep(Origin::Bundle("theirs"));
        for entry in fs::read_dir(&there).expect("listed") {
            let from = entry.expect("an entry").path();
            if from.extension().is_some() {
                fs::copy(&from, here.join(from.file_name().expect("a name"))).expect("copied");
            }
        }
        assert_eq!(mine.place(Origin::Bundle("theirs")), Place::Wasm);
        assert_eq!(mine.place(Origin::Bundle("mine")), Place::Process);
    }

    #[test]
    fn a_run_is_trusted_in_its_place_until_it_is_forgotten_or_replaced() {
        let world = tempfile::tempdir().expect("a directory");
        let trust = Trust::new(Some(world.path().join("state")));
        let run = world.path().join("run.sqlite");
        fs::write(&run, "one").expect("written");
        if fs::metadata(&run).and_then(|found| found.created()).is_err() {
            eprintln!("skipped: this file system does not record when a file was created");
            return;
        }
        trust.keep(Origin::Run(&run));
        assert_eq!(trust.place(Origin::Run(&run)), Place::Process);
        fs::write(&run, "one and more").expect("written");
        assert_eq!(trust.place(Origin::Run(&run)), Place::Process, "a run grows");
        let copy = world.path().join("copy.sqlite");
        fs::copy(&run, &copy).expect("copied");
        assert_eq!(trust.place(Origin::Run(&copy)), Place::Wasm);
        // Another file at the same path, even if the system gives it the same inode number.
        fs::remove_file(&run).expect("removed");
        fs::copy(&copy, &run).expect("copied");
        assert_eq!(trust.place(Origin::Run(&run)), Place::Wasm);
        trust.keep(Origin::Run(&run));
        trust.forget(Origin::Run(&run));
        assert_eq!(trust.place(Origin::Run(&run)), Place::Wasm);
    }
}
