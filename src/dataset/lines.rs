//! Reads text files line by line in bounded memory; unpacks files named `.gz` (gzip) and `.zst`
//! (zstd).

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use crate::{
    DatasetError, Phase, ProblemKind, Result,
    encoding::{Decoder, Encoding},
    error::Fault,
    install::Watch,
};
use agent_ground::files;

/// Maximum length of an unpacked line, in bytes; one line is held in memory.
pub const MAX_LINE_BYTES: usize = 64 << 20;
/// Maximum size of an unpacked file, in bytes; a small packed file can unpack to any size.
pub const MAX_FILE_BYTES: u64 = 256 << 30;
/// Number of bytes read at a time from the disk and from the unpacker.
const READ_BUFFER: usize = 256 << 10;

/// Number of lines between two progress reports and checks of the stop flag.
const LINES_PER_REPORT: u64 = 4096;

/// One line without its line end, or a marker for a line that is too long.
pub(super) enum Line<'a> {
    Bytes(&'a [u8]),
    TooLong,
}

impl<'a> Line<'a> {
    /// Returns the text of the line, or the fault of a line that is too long or not UTF-8.
    pub(super) fn text(self) -> Result<&'a str, Fault> {
        let Line::Bytes(bytes) = self else {
            let message = format!("line of more than {MAX_LINE_BYTES} bytes");
            return Err(Fault::new(ProblemKind::LineTooLong, message, "shorten its texts"));
        };
        std::str::from_utf8(bytes).map_err(|error| {
            let message = format!("byte {} is not UTF-8", error.valid_up_to() + 1);
            let fault = Fault::new(ProblemKind::NotUtf8, message, "convert the file to UTF-8");
            fault.with_excerpt(&String::from_utf8_lossy(bytes))
        })
    }
}

/// Reads the lines of one file in order.
pub(super) struct Lines {
    pub(super) path: PathBuf,
    reader: Box<dyn BufRead>,
    /// The file as stored; shares its position with the reader.
    file: File,
    stored_bytes: u64,
    unpacked: u64,
    number: u64,
    pub(super) max_line: usize,
    buffer: Vec<u8>,
}

impl Lines {
    /// Opens `dir/file`, `dir/file.gz` or `dir/file.zst`, whichever exists; `None` if there is no
    /// such file.
    ///
    /// # Errors
    /// [`DatasetError::BadInput`] if several exist; [`DatasetError::Io`].
    pub(super) fn find(dir: &Path, file: &str) -> Result<Option<Lines>> {
        let names = ["", ".gz", ".zst"].map(|suffix| format!("{file}{suffix}"));
        let mut found = names.iter().filter(|name| dir.join(name).exists());
        let Some(first) = found.next() else { return Ok(None) };
        if let Some(second) = found.next() {
            let dir = dir.display();
            let message = format!("{dir} has both {first} and {second}; keep one");
            return Err(DatasetError::BadInput(message));
        }
        Lines::open(&dir.join(first)).map(Some)
    }

    /// Opens a UTF-8 file, which may be packed; a line of more than [`MAX_LINE_BYTES`] is returned
    /// as [`Line::TooLong`].
    pub(super) fn open(path: &Path) -> Result<Lines> {
        Lines::open_as(path, Encoding::Utf8)
    }

    /// Like [`Lines::open`], for a file in `encoding`; its lines are decoded to UTF-8.
    pub(super) fn open_as(path: &Path, encoding: Encoding) -> Result<Lines> {
        let file = files::open(path).map_err(DatasetError::io("open", path))?;
        let stored_bytes = file.metadata().map_err(DatasetError::io("open", path))?.len();
        let own = file.try_clone().map_err(DatasetError::io("open", path))?;
        let stored = BufReader::with_capacity(READ_BUFFER, own);
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
        let (path, buffer, max_line) = (path.to_path_buf(), Vec::new(), MAX_LINE_BYTES);
        Ok(Lines { path, reader, file, stored_bytes, unpacked: 0, number: 0, max_line, buffer })
    }

    /// Detects the encoding of a file from its content.
    ///
    /// # Errors
    /// [`DatasetError::Io`], [`DatasetError::Unreadable`].
    pub(super) fn encoding_of(path: &Path) -> Result<Encoding> {
        let mut lines = Lines::open(path)?;
        let detected = Encoding::detect(&mut (&mut *lines.reader).take(MAX_FILE_BYTES));
        let (path, line) = (path.to_path_buf(), 1);
        detected.map_err(|source| DatasetError::Unreadable { path, line, source })
    }

    /// Like [`Lines::next`]; also reports the progress of the phase, in bytes of the file as
    /// stored.
    ///
    /// # Errors
    /// [`DatasetError::Stopped`]; otherwise as [`Lines::next`].
    pub(super) fn next_of(
        &mut self,
        phase: Phase,
        watch: &mut Watch<'_>,
    ) -> Result<Option<(u64, Line<'_>)>> {
        let total = self.stored_bytes;
        if self.number.is_multiple_of(LINES_PER_REPORT) {
            let done = self.file.stream_position();
            watch.report(phase, done.map_err(DatasetError::io("read", &self.path))?, total)?;
        }
        match self.next()? {
            None => watch.report(phase, total, total).map(|()| None),
            line => Ok(line),
        }
    }

    /// Returns the number of the next line (from 1) and the line, without byte order mark, line
    /// feed and final CR; `None` at the end of the file.
    ///
    /// # Errors
    /// [`DatasetError::Unreadable`], or [`DatasetError::BadInput`] for a file that is too long.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Line<'_>)>> {
        self.number += 1;
        let number = self.number;
        let unreadable =
            |source| DatasetError::Unreadable { path: self.path.clone(), line: number, source };
        // Releases the memory of the previous long line.
        self.buffer.clear();
        self.buffer.shrink_to(READ_BUFFER);
        let limit = self.max_line as u64 + 2;
        let mut start = (&mut self.reader).take(limit);
        let mut n = start.read_until(b'\n', &mut self.buffer).map_err(unreadable)? as u64;
        if n == 0 {
            return Ok(None);
        }
        let is_cut = n == limit && self.buffer.last() != Some(&b'\n');
        if is_cut {
            let mut rest = (&mut self.reader).take(MAX_FILE_BYTES);
            n += rest.skip_until(b'\n').map_err(unreadable)? as u64;
        }
        self.unpacked += n;
        if self.unpacked > MAX_FILE_BYTES {
            return Err(DatasetError::too_long(&self.path, MAX_FILE_BYTES));
        }
        let mut line = self.buffer.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);
        if number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        let is_long = is_cut || line.len() > self.max_line;
        Ok(Some((number, if is_long { Line::TooLong } else { Line::Bytes(line) })))
    }
}
