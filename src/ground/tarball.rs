//! Tarballs with digests, which prove that all files arrived unchanged.
//!
//! A tarball is a tar file (ustar) compressed by Zstandard, which `tar --zstd -tf` lists. Its first
//! entry, `manifest.json`, lists the path, length and BLAKE3 digest of the files that follow, in
//! their order. The header of each file must equal, byte for byte, the header that this program
//! would write for the entry in the manifest. Therefore a tarball holds no links or devices, no
//! path leads out of the directory, and no file is longer than declared. Equal files give equal
//! tarballs, byte for byte.
//!
//! Packing reads every file twice, once for its digest and once for its content, and fails if the
//! two reads differ.
//!
//! Does not depend on what the files contain.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{Deserialize, Serialize};
use tar::{EntryType, Header};
use zstd::{Decoder, Encoder};

use crate::files;

/// Maximum number of files in a tarball.
pub const MAX_FILES: usize = 100_000;
/// Name of the tarball format, in the manifest.
const FORMAT: &str = "agent-tarball-1";
/// Path of the manifest in a tarball.
const MANIFEST: &str = "manifest.json";
/// Maximum size of a manifest, in bytes.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;
/// Prefix of the name of the temporary file that becomes the tarball.
const STAGING_PREFIX: &str = ".tarball-";
/// Zstandard compression level; 3 is its default.
const LEVEL: i32 = 3;
/// Number of bytes read or written at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// Size of a block of the tar format, in bytes.
const BLOCK: usize = 512;
/// Number of blocks of zeros at the end of a tar file.
const END_BLOCKS: usize = 2;
/// Size, in bytes, of the field of a tar header for the file name; a longer name is refused.
const NAME_BYTES: usize = 100;
/// Size, in bytes, of the field of a tar header for the path of the directory that holds the file.
const PREFIX_BYTES: usize = 155;

/// Why files cannot be packed or unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TarballError {
    /// A file or directory could not be read or written, for example because the disk is full.
    #[error("cannot {action} {}: {source}{}", path.display(), files::remedy(source))]
    Io {
        /// What was attempted, as an infinitive such as `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A path is not permitted in a tarball.
    #[error(
        "{path:?} cannot be packed; use at most {NAME_BYTES} bytes for a name and {PREFIX_BYTES} for the \
         directories before it, no control characters, \\ or :, and no name that begins with a dot"
    )]
    BadPath {
        /// The path within the tarball.
        path: String,
    },
    /// There are more than [`MAX_FILES`] files, or the manifest that lists them exceeds 64 MiB.
    #[error("{n} files are too many for one tarball; pack fewer at a time")]
    TooMany {
        /// Number of files to pack.
        n: usize,
    },
    /// A file changed while it was packed.
    #[error("{} changed while it was packed; wait until nothing writes to it, and pack again", path.display())]
    Changed {
        /// The file that changed.
        path: PathBuf,
    },
    /// The file is not a tarball that this program wrote.
    #[error("{} cannot be unpacked: {reason}", path.display())]
    NotATarball {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file, and the remedy.
        reason: String,
    },
    /// The content of the tarball does not match its manifest.
    #[error("{} is damaged: {reason}; fetch or make it again", path.display())]
    Damaged {
        /// The tarball.
        path: PathBuf,
        /// What does not match.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("stopped; no files were written")]
    Stopped,
}

impl TarballError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// A file in a tarball.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Path of the file in the tarball, with `/` between directories.
    pub path: String,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// BLAKE3 digest of the file's bytes, in hexadecimal.
    pub blake3: String,
}

/// Content of the file [`MANIFEST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    /// The files, sorted by path in ascending order.
    files: Vec<Member>,
}

/// Progress callback and stop flag of packing or unpacking.
pub struct Watch<'a> {
    /// Called with the number of bytes read since the last call.
    pub on_bytes: &'a mut dyn FnMut(u64),
    /// Stops the operation when set to true.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn advance(&mut self, n: usize) -> Result<(), TarballError> {
        (self.on_bytes)(n as u64);
        if self.stop.load(Ordering::Relaxed) { Err(TarballError::Stopped) } else { Ok(()) }
    }
}

/// Packs `files`, each a path in the tarball and a path on disk, into the tarball `to`, which
/// appears only when it is complete. An existing file at `to` is replaced if `replace` is true,
/// otherwise packing fails. Every byte is read, and reported to `watch`, twice. Returns the packed
/// files.
///
/// # Errors
/// [`TarballError::BadPath`], also if two files have the same path; [`TarballError::TooMany`],
/// [`TarballError::Changed`], [`TarballError::Stopped`], [`TarballError::Io`]. No tarball is then
/// written.
pub fn pack(
    to: &Path,
    replace: bool,
    mut files: Vec<(String, PathBuf)>,
    watch: &mut Watch<'_>,
) -> Result<Vec<Member>, TarballError> {
    files.sort_unstable();
    let n = files.len();
    if n > MAX_FILES {
        return Err(TarballError::TooMany { n });
    }
    let twice = files.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| &pair[0].0);
    if let Some(path) = twice.or(files.iter().map(|(path, _)| path).find(|path| is_bad(path))) {
        return Err(TarballError::BadPath { path: path.clone() });
    }
    let mut members = Vec::with_capacity(n);
    for (path, place) in &files {
        let file = files::open(place).map_err(TarballError::io("read", place))?;
        let (bytes, digest) = copy(file, place, None, watch)?;
        members.push(Member { path: path.clone(), bytes, blake3: hex(digest) });
    }
    let manifest = Manifest { format: FORMAT.to_owned(), files: members };
    let json =
        serde_json::to_vec(&manifest).map_err(|e| TarballError::io("write", to)(e.into()))?;
    let length = json.len() as u64;
    let head = header(MANIFEST, length).filter(|_| length <= MAX_MANIFEST_BYTES);
    let head = head.ok_or(TarballError::TooMany { n })?;

    let failed = || TarballError::io("write", to);
    let (staging, to) = files::begin_output(to, STAGING_PREFIX).map_err(failed())?;
    let to = &*to;
    let out = BufWriter::with_capacity(BUFFER_BYTES, staging.as_file());
    let mut out = Encoder::new(out, LEVEL).map_err(failed())?;
    out.include_checksum(true).map_err(failed())?;
    let zeros = [0; BLOCK];
    out.write_all(&head)
        .and_then(|()| out.write_all(&json))
        .and_then(|()| out.write_all(&zeros[..padding(length)]))
        .map_err(failed())?;
    for (member, (path, place)) in manifest.files.iter().zip(&files) {
        let head = header(path, member.bytes);
        let head = head.ok_or_else(|| TarballError::BadPath { path: path.clone() })?;
        out.write_all(&head).map_err(failed())?;
        let file = files::open(place).map_err(TarballError::io("read", place))?;
        // A file that keeps growing would never end.
        let file = file.take(member.bytes.saturating_add(1));
        let (bytes, digest) = copy(file, place, Some((&mut out, to)), watch)?;
        if (bytes, hex(digest)) != (member.bytes, member.blake3.clone()) {
            return Err(TarballError::Changed { path: place.clone() });
        }
        out.write_all(&zeros[..padding(bytes)]).map_err(failed())?;
    }
    out.write_all(&[0; END_BLOCKS * BLOCK])
        .and_then(|()| out.finish())
        .and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|file| file.sync_all())
        .map_err(failed())?;
    let named = if replace { staging.persist(to) } else { staging.persist_noclobber(to) };
    named.map_err(|error| failed()(error.error))?;
    Ok(manifest.files)
}

/// An open tarball whose manifest has been read.
pub struct Tarball {
    path: PathBuf,
    manifest: Manifest,
    /// Decompressed content after the manifest.
    rest: Decoder<'static, BufReader<File>>,
}

impl Tarball {
    /// Opens a tarball and reads its manifest.
    ///
    /// # Errors
    /// [`TarballError::Io`], [`TarballError::NotATarball`], [`TarballError::Damaged`].
    pub fn open(path: &Path) -> Result<Self, TarballError> {
        let not_a_tarball =
            |reason: String| TarballError::NotATarball { path: path.to_owned(), reason };
        let foreign = |reason: String| {
            not_a_tarball(format!(
                "{reason}; give a file that `agent home export` of this version wrote"
            ))
        };
        let file = files::open(path).map_err(TarballError::io("read", path))?;
        let mut rest = Decoder::new(file).map_err(TarballError::io("read", path))?;
        let mut head = [0; BLOCK];
        rest.read_exact(&mut head).map_err(|error| foreign(error.to_string()))?;
        let length = Header::from_byte_slice(&head).entry_size().ok();
        let length = length.filter(|&length| header(MANIFEST, length) == Some(head));
        let length = length.ok_or_else(|| foreign(format!("it does not begin with {MANIFEST}")))?;
        if length > MAX_MANIFEST_BYTES {
            return Err(foreign(format!("its manifest has {length} bytes")));
        }
        let damaged = |reason: String| TarballError::Damaged { path: path.to_owned(), reason };
        let mut json = Vec::new();
        let read = rest.by_ref().take(length).read_to_end(&mut json);
        read.map_err(|error| damaged(error.to_string()))?;
        let manifest: Manifest = serde_json::from_slice(&json)
            .map_err(|error| damaged(format!("its manifest cannot be read: {error}")))?;
        if manifest.format != FORMAT {
            return Err(foreign(format!("it has format {:?}", manifest.format)));
        }
        let members = &manifest.files;
        if members.len() > MAX_FILES {
            return Err(foreign(format!("it holds {} files", members.len())));
        }
        if let Some(bad) = members.iter().find(|member| is_bad(&member.path)) {
            return Err(not_a_tarball(format!(
                "its path {:?} may lead out of the target directory; `agent home export` did \
                 not write it",
                bad.path
            )));
        }
        if !members.windows(2).all(|pair| pair[0].path < pair[1].path) {
            return Err(damaged("its files are not in order".to_owned()));
        }
        let mut tarball = Self { path: path.to_owned(), manifest, rest };
        tarball.zeros(padding(length))?;
        Ok(tarball)
    }

    /// Returns the files listed in the manifest, in ascending order of paths.
    pub fn members(&self) -> &[Member] {
        &self.manifest.files
    }

    /// Checks the length and digest of every file. If `into`, an empty directory, is given, also
    /// writes the files into it and syncs them to disk.
    ///
    /// # Errors
    /// [`TarballError::Damaged`], which names the first file that differs;
    /// [`TarballError::Stopped`], [`TarballError::Io`]. The caller must then remove the directory.
    pub fn unpack(
        mut self,
        into: Option<&Path>,
        watch: &mut Watch<'_>,
    ) -> Result<(), TarballError> {
        let mut folders = BTreeSet::new();
        for member in std::mem::take(&mut self.manifest.files) {
            let mut head = [0; BLOCK];
            self.rest.read_exact(&mut head).map_err(|error| self.damaged(error.to_string()))?;
            if header(&member.path, member.bytes) != Some(head) {
                let reason = format!("{} does not match the manifest", member.path);
                return Err(self.damaged(reason));
            }
            let place = into.map(|into| into.join(&member.path));
            let mut created = None;
            if let Some(place) = &place {
                let folder = place.parent().unwrap_or(place);
                fs::create_dir_all(folder).map_err(TarballError::io("create", folder))?;
                folders.extend(folder.ancestors().map(Path::to_owned));
                created = Some(File::create_new(place).map_err(TarballError::io("create", place))?);
            }
            let to = created.as_mut().zip(place.as_deref());
            let to = to.map(|(file, place)| (file as &mut dyn Write, place));
            let (path, from) = (self.path.clone(), self.rest.by_ref().take(member.bytes));
            let (bytes, digest) = match copy(from, &path, to, watch) {
                Err(TarballError::Io { action: READ, source, .. }) => {
                    return Err(self.damaged(format!("{}: {source}", member.path)));
                }
                copied => copied?,
            };
            if (bytes, hex(digest)) != (member.bytes, member.blake3) {
                return Err(self.damaged(format!(
                    "the digest of {} does not match the manifest",
                    member.path
                )));
            }
            if let (Some(file), Some(place)) = (created, place) {
                file.sync_all().map_err(TarballError::io("write", place))?;
            }
            self.zeros(padding(bytes))?;
        }
        self.zeros(END_BLOCKS * BLOCK)?;
        match self.rest.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(self.damaged("it holds more than its manifest lists".to_owned())),
            Err(error) => return Err(self.damaged(error.to_string())),
        }
        for folder in
            folders.iter().filter(|folder| into.is_some_and(|into| folder.starts_with(into)))
        {
            sync_folder(folder).map_err(TarballError::io("write", folder))?;
        }
        Ok(())
    }

    fn damaged(&self, reason: String) -> TarballError {
        TarballError::Damaged { path: self.path.clone(), reason }
    }

    /// Reads `n` bytes (at most [`END_BLOCKS`] blocks), which must be zeros.
    fn zeros(&mut self, n: usize) -> Result<(), TarballError> {
        let mut read = [0; END_BLOCKS * BLOCK];
        self.rest.read_exact(&mut read[..n]).map_err(|error| self.damaged(error.to_string()))?;
        match read.iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(self.damaged("it holds data between its files".to_owned())),
        }
    }
}

/// Value of [`TarballError::Io::action`] if the source of a copy cannot be read.
const READ: &str = "read";

/// Reads a source to its end, and copies it to a target if one is given. Returns its length in
/// bytes and its BLAKE3 digest.
fn copy(
    mut from: impl Read,
    from_path: &Path,
    mut to: Option<(&mut dyn Write, &Path)>,
    watch: &mut Watch<'_>,
) -> Result<(u64, blake3::Hash), TarballError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0u64;
    loop {
        let n = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(TarballError::io(READ, from_path))?,
        };
        if n == 0 {
            return Ok((bytes, hasher.finalize()));
        }
        hasher.update(&buffer[..n]);
        if let Some((to, path)) = &mut to {
            to.write_all(&buffer[..n]).map_err(TarballError::io("write", *path))?;
        }
        bytes = bytes.saturating_add(n as u64);
        watch.advance(n)?;
    }
}

fn hex(digest: blake3::Hash) -> String {
    digest.to_hex().to_string()
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns the number of zeros that follow a file of this length, to fill its last block.
fn padding(bytes: u64) -> usize {
    let over = (bytes % BLOCK as u64) as usize;
    if over == 0 { 0 } else { BLOCK - over }
}

/// Whether a path is not permitted in a tarball, for example because it is empty, too long or leads
/// out of the directory.
fn is_bad(path: &str) -> bool {
    let plain = |c: char| !c.is_control() && c != '\\' && c != ':';
    let bad = |name: &str| name.is_empty() || name.starts_with('.') || !name.chars().all(plain);
    path.split('/').any(bad) || path == MANIFEST || header(path, 0).is_none()
}

/// Returns the tar header of a file, with mode 644, no owner and time 0. `None` if the path is too
/// long.
fn header(path: &str, bytes: u64) -> Option<[u8; BLOCK]> {
    let mut header = Header::new_ustar();
    header.set_path(path).ok()?;
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    Some(*header.as_bytes())
}

#[cfg(test)]
mod tests;
