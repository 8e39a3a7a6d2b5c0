//! Lists and reads the files of a folder, or the members of a zip file.
//!
//! The name of a member is never used as a path for writing. Only members that are stored or
//! deflated are supported. Opening a zip file fails if a name is not a plain relative path, a
//! member is a link or encrypted, members overlap or have the same name, or a size is implausible.
//! Reading a member fails if its length or checksum differs from its entry in the list of members.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use flate2::{CrcReader, read::DeflateDecoder};
use zip::{CompressionMethod, read::Config, result::ZipError, unstable::read::ZipIterable};

use agent_ground::files;

/// Maximum depth of nested folders; files in deeper folders are not listed.
const MAX_FOLDER_DEPTH: usize = 8;
/// Maximum length of a member's name, in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// Size in bytes of a local header without name and extra field.
const LOCAL_HEADER_BYTES: u64 = 30;
/// Minimum unpacked size in bytes of a member to which the limit on the compression ratio applies.
const MIN_BOMB_BYTES: u64 = 1 << 20;

/// Limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Maximum number of members.
    pub members: u64,
    /// Maximum unpacked size of a member, in bytes.
    pub member_bytes: u64,
    /// Maximum unpacked size of all members, in bytes.
    pub total_bytes: u64,
    /// Maximum ratio of unpacked to packed size; applies to members of more than 1 MiB unpacked.
    pub ratio: u64,
}

impl Default for ArchiveLimits {
    /// Returns limits that the official files of the STaRK benchmark do not exceed.
    fn default() -> ArchiveLimits {
        ArchiveLimits {
            members: 4_000_000,
            member_bytes: 64 << 30,
            total_bytes: 256 << 30,
            ratio: 200,
        }
    }
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A file or folder could not be read or written, for example because the disk is full.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The list of members in the zip file could not be read.
    #[error("the zip file is truncated or damaged: {message}; download it again")]
    Directory {
        /// What is wrong with the list.
        message: String,
    },
    /// A member of the zip file is malicious, unsupported or damaged.
    #[error("member {name:?} {problem}")]
    Member {
        /// Name of the member, shortened.
        name: String,
        /// What is wrong with the member, and the remedy.
        problem: String,
    },
    /// The archive exceeds one of the [`ArchiveLimits`].
    #[error(
        "the archive has more than {limit} {unit}; raise the limit if the archive can be trusted"
    )]
    TooMuch {
        /// The exceeded limit, in `unit`.
        limit: u64,
        /// What is counted, such as `bytes in one member`.
        unit: &'static str,
    },
    /// The archive has no file with the requested name.
    #[error("it has no {name:?}; check that this is the right archive")]
    Missing {
        /// The requested name, shortened.
        name: String,
    },
}

impl ArchiveError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
        let path = path.to_path_buf();
        move |source| ArchiveError::Io { path, source }
    }

    fn refused(name: &str, reason: &str) -> ArchiveError {
        let problem = format!("{reason}; pack the files again without it");
        ArchiveError::Member { name: shortened(name), problem }
    }
}

/// Returns an error for a number above its limit.
fn check(n: u64, limit: u64, unit: &'static str) -> Result<(), ArchiveError> {
    if n > limit { Err(ArchiveError::TooMuch { limit, unit }) } else { Ok(()) }
}

fn shortened(name: &str) -> String {
    name.chars().take(200).collect()
}

/// A folder or a zip file, opened for reading.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    /// Name and size in bytes of each file of a folder, sorted by name; empty for a zip file.
    files: Vec<(String, u64)>,
    /// Members of the zip file; `None` for a folder.
    zip: Option<Members>,
}

impl Archive {
    /// Lists the files of a folder and its subfolders, or the members of a zip file.
    ///
    /// # Errors
    /// [`ArchiveError::Io`] or [`ArchiveError::TooMuch`]; for a zip file, also
    /// [`ArchiveError::Directory`] or [`ArchiveError::Member`].
    pub fn open(path: &Path, limits: &ArchiveLimits) -> Result<Archive, ArchiveError> {
        let mut archive = Archive { path: path.to_path_buf(), files: Vec::new(), zip: None };
        if path.is_dir() {
            archive.files = list(path, limits)?;
        } else {
            let file = files::open(path).map_err(ArchiveError::io(path))?;
            archive.zip = Some(Members::read(&mut BufReader::new(file), limits)?);
        }
        Ok(archive)
    }

    /// Returns the name of each file, with `/` between folders, and its unpacked size in bytes;
    /// sorted by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        let of_folder = self.files.iter().map(|(name, size)| (name.as_str(), *size));
        let of_zip = self.zip.iter().flat_map(Members::iter);
        of_folder.chain(of_zip.map(|member| (&*member.name, member.size)))
    }

    /// Returns the unpacked size of a file in bytes; `None` if there is no file with that name.
    /// Time: linear in the number of files.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.files().find(|(file, _)| *file == name).map(|(_, size)| size)
    }

    /// Opens a file for reading from its beginning. Several readers may be used at the same time.
    ///
    /// # Errors
    /// [`ArchiveError::Missing`], [`ArchiveError::Io`] or [`ArchiveError::Member`].
    pub fn read(&self, name: &str) -> Result<Box<dyn Read>, ArchiveError> {
        match &self.zip {
            None => Ok(Box::new(self.open_file(name)?)),
            Some(members) => {
                let file = files::open(&self.path).map_err(ArchiveError::io(&self.path))?;
                Ok(Box::new(members.get(name)?.open(BufReader::new(file))?))
            }
        }
    }

    /// Opens a file for seeking: a file of a folder itself, or a member of a zip file as an
    /// unpacked temporary copy in the directory `scratch`. The copy is removed when the returned
    /// file is closed.
    ///
    /// # Errors
    /// As [`Archive::read`].
    pub fn seekable(&self, name: &str, scratch: &Path) -> Result<File, ArchiveError> {
        if self.zip.is_none() {
            return self.open_file(name);
        }
        let mut copy = tempfile::tempfile_in(scratch).map_err(ArchiveError::io(scratch))?;
        io::copy(&mut self.read(name)?, &mut copy).map_err(ArchiveError::io(&self.path))?;
        copy.rewind().map_err(ArchiveError::io(scratch))?;
        Ok(copy)
    }

    /// Opens a file of a folder, if the file was listed when the folder was opened.
    fn open_file(&self, name: &str) -> Result<File, ArchiveError> {
        let missing = || ArchiveError::Missing { name: shortened(name) };
        self.size(name).ok_or_else(missing)?;
        let path = self.path.join(name);
        files::open(&path).map_err(ArchiveError::io(&path))
    }
}

/// Returns the name and size in bytes of each file of a folder, sorted by name.
fn list(root: &Path, limits: &ArchiveLimits) -> Result<Vec<(String, u64)>, ArchiveError> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_path_buf(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(ArchiveError::io(&folder))? {
            let entry = entry.map_err(ArchiveError::io(&folder))?;
            let path = entry.path();
            let metadata = fs::metadata(&path).map_err(ArchiveError::io(&path))?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if metadata.is_dir() && depth < MAX_FOLDER_DEPTH {
                folders.push((path, format!("{name}/"), depth + 1));
            } else if metadata.is_file() {
                files.push((name, metadata.len()));
            }
            check((files.len() + folders.len()) as u64, limits.members, "files")?;
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Members of a zip file, sorted by name; entries for folders are left out.
#[derive(Debug)]
pub(super) struct Members(Vec<Member>);

/// Location and sizes of a member in a zip file.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Box<str>,
    /// Length in bytes of the name as written in the zip file.
    stored_bytes: u64,
    /// Unpacked size of the member, in bytes.
    pub(super) size: u64,
    pub(super) deflated: bool,
    stored: u64,
    header: u64,
    crc: u32,
}

impl Members {
    /// Reads and checks the list of members of a zip file, without reading the members.
    pub(super) fn read<R: Read + Seek>(
        reader: &mut R,
        limits: &ArchiveLimits,
    ) -> Result<Members, ArchiveError> {
        let directory = |error: ZipError| ArchiveError::Directory { message: error.to_string() };
        let cut = |error: io::Error| ArchiveError::Directory { message: error.to_string() };
        let file_bytes = reader.seek(SeekFrom::End(0)).map_err(cut)?;
        let mut zip = ZipIterable::try_new(reader, Config::default()).map_err(directory)?;
        check(zip.len() as u64, limits.members, "members")?;
        let (mut members, mut total) = (Vec::new(), 0u64);
        for entry in zip.files().map_err(directory)? {
            let entry = entry.map_err(directory)?;
            let name = entry.name().map_err(directory)?;
            let refuse = |reason| Err(ArchiveError::refused(&name, reason));
            // Some packers prefix every name with `./`.
            let stored_bytes = name.len() as u64;
            let name = match name.strip_prefix("./") {
                Some("") => continue,
                below => below.unwrap_or(&name),
            };
            if !is_plain(name.strip_suffix('/').unwrap_or(name)) {
                return refuse("has a name that is not a plain relative path");
            }
            if entry.is_symlink() {
                return refuse("is a link");
            }
            if entry.is_dir() {
                continue;
            }
            if entry.encrypted() {
                return refuse("is encrypted");
            }
            let deflated = match entry.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                _ => return refuse("is neither stored nor deflated"),
            };
            let (size, stored) = (entry.size(), entry.compressed_size());
            check(size, limits.member_bytes, "bytes in one member")?;
            if size > MIN_BOMB_BYTES && size / limits.ratio.max(1) > stored {
                return refuse("unpacks to far more bytes than its packed size suggests");
            }
            if !deflated && size != stored {
                return refuse("is stored uncompressed, but its packed and unpacked sizes differ");
            }
            total = total.saturating_add(size);
            check(total, limits.total_bytes, "bytes in all members")?;
            members.push(Member {
                name: name.into(),
                stored_bytes,
                size,
                deflated,
                stored,
                header: entry.header_start(),
                crc: entry.crc32(),
            });
        }
        // With overlapping members, a small file could unpack to any size.
        members.sort_unstable_by_key(|member| member.header);
        let ends = members.iter().map(|member| member.header).skip(1).chain([file_bytes]);
        for (member, end) in members.iter().zip(ends) {
            let least = member.header.saturating_add(LOCAL_HEADER_BYTES + member.stored_bytes);
            if least.saturating_add(member.stored) > end {
                return Err(ArchiveError::refused(&member.name, "overlaps with another member"));
            }
        }
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(ArchiveError::refused(&pair[0].name, "occurs twice"));
        }
        Ok(Members(members))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.0.iter()
    }

    pub(super) fn get(&self, name: &str) -> Result<&Member, ArchiveError> {
        let missing = || ArchiveError::Missing { name: shortened(name) };
        let found = self.0.binary_search_by(|member| (*member.name).cmp(name));
        found.ok().and_then(|at| self.0.get(at)).ok_or_else(missing)
    }
}

/// Whether a name is a relative path without empty parts, `.` and `..`.
fn is_plain(name: &str) -> bool {
    let plain = |part: &str| !["", ".", ".."].contains(&part);
    name.len() <= MAX_NAME_BYTES && !name.contains(['\\', ':', '\0']) && name.split('/').all(plain)
}

impl Member {
    fn damaged(&self, reason: &str) -> ArchiveError {
        let problem = format!("is damaged: {reason}; download the file again");
        ArchiveError::Member { name: shortened(&self.name), problem }
    }

    /// Reads the member's local header; returns the offset of the member's data in the zip file,
    /// in bytes.
    pub(super) fn start<R: Read + Seek>(&self, reader: &mut R) -> Result<u64, ArchiveError> {
        let cut = |_| self.damaged("its header is cut off");
        let mut header = [0u8; LOCAL_HEADER_BYTES as usize];
        reader.seek(SeekFrom::Start(self.header)).map_err(cut)?;
        reader.read_exact(&mut header).map_err(cut)?;
        let [b'P', b'K', 3, 4, .., name_low, name_high, extra_low, extra_high] = header else {
            return Err(self.damaged("it has no header"));
        };
        let name = u16::from_le_bytes([name_low, name_high]);
        let extra = u16::from_le_bytes([extra_low, extra_high]);
        Ok(self.header + LOCAL_HEADER_BYTES + u64::from(name) + u64::from(extra))
    }

    /// Returns a reader of the member's unpacked data. The reader checks size and checksum while
    /// reading.
    pub(super) fn open<'a, R: Read + Seek + 'a>(
        &self,
        mut reader: R,
    ) -> Result<MemberReader<'a>, ArchiveError> {
        let start = self.start(&mut reader)?;
        let cut = |_| self.damaged("it is cut off");
        reader.seek(SeekFrom::Start(start)).map_err(cut)?;
        let stored = reader.take(self.stored);
        let bytes: Box<dyn Read + 'a> = match self.deflated {
            true => Box::new(DeflateDecoder::new(stored)),
            false => Box::new(stored),
        };
        let (name, crc) = (self.name.clone(), self.crc);
        Ok(MemberReader { bytes: CrcReader::new(bytes), left: self.size, crc, name })
    }
}

/// Reader of a member's unpacked bytes.
pub(super) struct MemberReader<'a> {
    bytes: CrcReader<Box<dyn Read + 'a>>,
    /// Number of unpacked bytes that have not been read yet.
    left: u64,
    crc: u32,
    name: Box<str>,
}

impl Read for MemberReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let n = self.bytes.read(buffer);
        let damaged = |reason: &str| {
            let name = shortened(&self.name);
            io::Error::new(io::ErrorKind::InvalidData, format!("{name:?} is damaged: {reason}"))
        };
        let n = n.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                damaged("it is not deflate data")
            }
            _ => error,
        })?;
        let left = self.left.checked_sub(n as u64);
        self.left = left.ok_or_else(|| damaged("it unpacks to more bytes than declared"))?;
        if n == 0 && self.left > 0 {
            return Err(damaged("it unpacks to fewer bytes than declared"));
        }
        if n == 0 && self.bytes.crc().sum() != self.crc {
            return Err(damaged("its checksum does not match"));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
