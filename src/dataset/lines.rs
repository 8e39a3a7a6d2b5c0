//! Reads text files line by line in bounded memory; unpacks files named `.gz` (gzip) and `.zst`
//! (zstd).

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    DatasetError,
    encoding::{Decoder, Encoding},
};
use agent_ground::files;

/// Maximum length of an unpacked line, in bytes; one line is held in memory.
pub const MAX_LINE_BYTES: usize = 64 << 20;
/// Maximum size of an unpacked file, in bytes; a small packed file can unpack to any size.
pub const MAX_FILE_BYTES: u64 = 256 << 30;
/// Number of bytes read at a time from the disk and from the unpacker.
const READ_BUFFER: usize = 256 << 10;

/// File that counts the bytes read from it before unpacking, for progress.
struct CountingReader {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// One line without its line end, or a marker for a line that is too long.
pub(super) enum Line<'a> {
    Bytes(&'a [u8]),
    TooLong,
}

/// Reads the lines of one file in order.
pub(super) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    stored_bytes: u64,
    bytes_read: Arc<AtomicU64>,
    unpacked: u64,
    number: u64,
    max_line: usize,
    /// Length of the last line in bytes with its line end, if the line is still in the reader's
    /// buffer; otherwise 0.
    in_place_bytes: usize,
    /// The last line, if it did not fit into the reader's buffer.
    buffer: Vec<u8>,
}

impl Lines {
    /// Opens whichever of `dir/file`, `dir/file.gz` and `dir/file.zst` exists; `None` if none
    /// exists.
    ///
    /// # Errors
    /// [`DatasetError::AmbiguousFile`] if several exist; [`DatasetError::Io`].
    pub(super) fn find(dir: &Path, file: &'static str) -> Result<Option<Lines>, DatasetError> {
        let mut found: Vec<String> = Vec::new();
        for suffix in ["", ".gz", ".zst"] {
            let name = format!("{file}{suffix}");
            if dir.join(&name).exists() {
                found.push(name);
            }
        }
        match found.as_slice() {
            [] => Ok(None),
            [name] => Lines::open(&dir.join(name), MAX_LINE_BYTES).map(Some),
            [first, second, ..] => Err(DatasetError::AmbiguousFile {
                dir: dir.to_path_buf(),
                first: first.clone(),
                second: second.clone(),
            }),
        }
    }

    /// Opens a UTF-8 file, or a packed one; a line of more than `max_line` bytes is returned as
    /// [`Line::TooLong`].
    pub(super) fn open(path: &Path, max_line: usize) -> Result<Lines, DatasetError> {
        Lines::open_as(path, max_line, Encoding::Utf8)
    }

    /// Like [`Lines::open`], for a file in `encoding`; its lines are decoded to UTF-8.
    pub(super) fn open_as(
        path: &Path,
        max_line: usize,
        encoding: Encoding,
    ) -> Result<Lines, DatasetError> {
        let file = files::open(path).map_err(DatasetError::io("open", path))?;
        let stored_bytes = file.metadata().map_err(DatasetError::io("open", path))?.len();
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = CountingReader { file, bytes: bytes_read.clone() };
        let stored = BufReader::with_capacity(READ_BUFFER, counted);
        let reader: Box<dyn BufRead> = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Box::new(BufReader::with_capacity(
                READ_BUFFER,
                flate2::bufread::MultiGzDecoder::new(stored),
            )),
            Some("zst") => {
                let decoder = zstd::Decoder::with_buffer(stored);
                let decoder = decoder.map_err(DatasetError::io("unpack", path))?;
                Box::new(BufReader::with_capacity(READ_BUFFER, decoder))
            }
            _ => Box::new(stored),
        };
        let reader: Box<dyn BufRead> = match encoding {
            Encoding::Utf8 => reader,
            other => Box::new(BufReader::with_capacity(READ_BUFFER, Decoder::new(reader, other))),
        };
        Ok(Lines {
            path: path.to_path_buf(),
            reader,
            stored_bytes,
            bytes_read,
            unpacked: 0,
            number: 0,
            max_line,
            in_place_bytes: 0,
            buffer: Vec::new(),
        })
    }

    /// Detects the encoding of a file from its content.
    ///
    /// # Errors
    /// [`DatasetError::Io`], [`DatasetError::Unreadable`].
    pub(super) fn encoding_of(path: &Path) -> Result<Encoding, DatasetError> {
        let mut lines = Lines::open(path, MAX_LINE_BYTES)?;
        let detected = Encoding::detect(&mut (&mut *lines.reader).take(MAX_FILE_BYTES));
        detected.map_err(|source| DatasetError::Unreadable {
            path: path.to_path_buf(),
            line: 1,
            source,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file as stored, in bytes.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Returns the counter of the bytes read so far from the file as stored.
    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        self.bytes_read.clone()
    }

    /// Returns the number of the next line (from 1) and the line, without byte order mark, line
    /// feed and final CR; `None` at the end of the file.
    ///
    /// # Errors
    /// [`DatasetError::Unreadable`] or [`DatasetError::FileTooLong`].
    pub(super) fn next(&mut self) -> Result<Option<(u64, Line<'_>)>, DatasetError> {
        self.number += 1;
        let number = self.number;
        let path = &self.path;
        let unreadable =
            |source| DatasetError::Unreadable { path: path.clone(), line: number, source };
        self.reader.consume(std::mem::take(&mut self.in_place_bytes));
        let mut ahead = self.reader.fill_buf().map_err(unreadable)?;
        let n_ahead = ahead.len();
        let mut n = ahead.skip_until(b'\n').map_err(unreadable)?;
        let in_place = n < n_ahead;
        let mut too_long = false;
        if in_place {
            self.in_place_bytes = n;
        } else {
            // Releases the memory of the previous long line.
            self.buffer.clear();
            self.buffer.shrink_to(READ_BUFFER);
            let limit = self.max_line as u64 + 2;
            n = (&mut self.reader)
                .take(limit)
                .read_until(b'\n', &mut self.buffer)
                .map_err(unreadable)?;
            if n == 0 {
                return Ok(None);
            }
            if self.buffer.last() != Some(&b'\n') && n as u64 == limit {
                too_long = true;
                let mut rest = (&mut self.reader).take(MAX_FILE_BYTES);
                self.unpacked += rest.skip_until(b'\n').map_err(unreadable)? as u64;
            }
        }
        self.unpacked += n as u64;
        if self.unpacked > MAX_FILE_BYTES {
            return Err(DatasetError::FileTooLong { path: path.clone(), limit: MAX_FILE_BYTES });
        }
        let mut line = if in_place {
            self.reader.fill_buf().map_err(unreadable)?.get(..n).unwrap_or_default()
        } else {
            self.buffer.as_slice()
        };
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if too_long || line.len() > self.max_line {
            return Ok(Some((number, Line::TooLong)));
        }
        Ok(Some((number, Line::Bytes(line))))
    }
}
