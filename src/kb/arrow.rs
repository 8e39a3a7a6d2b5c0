//! Arrow IPC files: written by streaming, read in place.
//!
//! The reader passes the footer and the batch headers through the flatbuffers verifier and then
//! addresses buffers itself. The reader of the `arrow` crates would either check every string when
//! the file is opened, which costs seconds, or trust all offsets, which is unsafe on damaged files.
//! Here each string is checked when it is read. The format is described in
//! <https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format>.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, builder::StringBuilder};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use memmap2::Mmap;

use crate::{FileRecord, KbError, Result};

/// Size in bytes of the texts at which a batch of rows is written. With input lines of at most 64
/// MiB, a batch stays far below the 2 GiB that its 32-bit offsets can address.
const BATCH_BYTES: usize = 16 << 20;
/// Number of rows at which a batch is written.
const BATCH_ROWS: usize = 65_536;
/// Size in bytes of the buffer between caller and digest: large enough for BLAKE3's SIMD
/// instructions.
const WRITE_BUFFER: usize = 256 << 10;
/// `ARROW1`, the first and the last bytes of a file.
const MAGIC: &[u8] = b"ARROW1";
/// Size of the end of a file, in bytes: the footer's length (4 bytes) and [`MAGIC`].
const TAIL_BYTES: usize = 10;
/// Number of buffers of the first column, of type `uint32`: validity and values.
const ID_BUFFERS: usize = 2;
/// Number of buffers of a column of type `utf8`: validity, offsets and data.
const STRING_BUFFERS: usize = 3;

/// A file that is being written, with the digest of the bytes so far. Bytes are buffered before
/// they are hashed, so small writes are cheap.
pub(super) type HashingFile = BufWriter<HashingWriter>;

/// The file behind the buffer of a [`HashingFile`], with the digest of the bytes written so far.
pub(super) struct HashingWriter {
    pub(super) path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // At most `WRITE_BUFFER` bytes at a time, so that they are still in the processor's cache
        // when they are hashed.
        let bytes = bytes.get(..WRITE_BUFFER).unwrap_or(bytes);
        let n = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..n).unwrap_or(bytes));
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl HashingWriter {
    pub(super) fn create(path: PathBuf) -> Result<HashingFile> {
        let file = File::create_new(&path).map_err(KbError::io("create", &path))?;
        let writer = HashingWriter { path, file, hasher: blake3::Hasher::new() };
        Ok(BufWriter::with_capacity(WRITE_BUFFER, writer))
    }

    /// Number of bytes written to a file so far.
    pub(super) fn bytes(file: &HashingFile) -> u64 {
        file.get_ref().hasher.count() + file.buffer().len() as u64
    }

    /// Writes all buffered bytes, syncs the file to the disk, and returns its size and digest.
    pub(super) fn finish(mut file: HashingFile) -> Result<FileRecord> {
        let written = file.flush().and_then(|()| file.get_ref().file.sync_all());
        let HashingWriter { path, hasher, .. } = file.get_ref();
        written.map_err(KbError::io("write", path))?;
        let blake3 = hasher.finalize().to_hex().to_string();
        Ok(FileRecord { bytes: hasher.count(), blake3 })
    }
}

/// Writes a table with one `uint32` column followed by `utf8` columns, batch by batch.
pub(super) struct TableWriter {
    path: PathBuf,
    schema: Arc<Schema>,
    writer: FileWriter<HashingFile>,
    ids: Vec<u32>,
    columns: Vec<StringBuilder>,
    pending_bytes: usize,
}

impl TableWriter {
    pub(super) fn create(path: PathBuf, id: &str, columns: &[&str]) -> Result<TableWriter> {
        let mut fields = vec![Field::new(id, DataType::UInt32, false)];
        fields.extend(columns.iter().map(|name| Field::new(*name, DataType::Utf8, false)));
        let schema = Arc::new(Schema::new(fields));
        let file = HashingWriter::create(path.clone())?;
        let writer = FileWriter::try_new(file, &schema).map_err(|e| arrow_error(&path, e))?;
        let columns = columns.iter().map(|_| StringBuilder::new()).collect();
        Ok(TableWriter { path, schema, writer, ids: Vec::new(), columns, pending_bytes: 0 })
    }

    /// Appends a row; `values` has one string for each `utf8` column, in order.
    pub(super) fn push(&mut self, id: u32, values: &[&str]) -> Result<()> {
        self.ids.push(id);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.append_value(value);
            self.pending_bytes += value.len();
        }
        if self.pending_bytes >= BATCH_BYTES || self.ids.len() >= BATCH_ROWS {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let ids: ArrayRef = Arc::new(UInt32Array::from(std::mem::take(&mut self.ids)));
        let mut arrays = vec![ids];
        arrays.extend(self.columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        self.pending_bytes = 0;
        RecordBatch::try_new(self.schema.clone(), arrays)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|e| arrow_error(&self.path, e))
    }

    pub(super) fn finish(mut self) -> Result<FileRecord> {
        self.write_batch()?;
        let failed = |error| arrow_error(&self.path, error);
        self.writer.finish().map_err(failed)?;
        HashingWriter::finish(self.writer.into_inner().map_err(failed)?)
    }
}

fn arrow_error(path: &Path, error: ArrowError) -> KbError {
    let source = match error {
        ArrowError::IoError(_, source) => source,
        other => io::Error::other(other.to_string()),
    };
    KbError::io("write", path)(source)
}

/// A memory-mapped table that [`TableWriter`] wrote.
#[derive(Debug)]
pub(super) struct Table {
    map: Mmap,
    batches: Vec<Batch>,
    pub(super) n_rows: u64,
}

#[derive(Debug)]
struct Batch {
    first_row: u64,
    n_rows: u64,
    /// Byte ranges of the batch's buffers within the file.
    buffers: Vec<Range<usize>>,
}

impl Table {
    /// Opens a mapped table: reads its footer and the headers of its batches. `columns` are the
    /// expected names of all columns, in order; `path` is for messages.
    pub(super) fn open(path: &Path, map: Mmap, columns: &[&str]) -> Result<Table> {
        parse(&map, columns)
            .map(|(batches, n_rows)| Table { map, batches, n_rows })
            .map_err(|what| KbError::damaged(path, what))
    }

    /// Returns the string in a row and column; column 0 is the first `utf8` column. `None` if the
    /// row does not exist or its bytes are invalid.
    pub(super) fn get(&self, row: u64, column: usize) -> Option<&str> {
        let index = self.batches.partition_point(|batch| batch.first_row <= row).checked_sub(1)?;
        let batch = self.batches.get(index)?;
        let row = usize::try_from(row - batch.first_row).ok()?;
        if row as u64 >= batch.n_rows {
            return None;
        }
        let first_buffer = ID_BUFFERS + column * STRING_BUFFERS;
        let offsets = self.map.get(batch.buffers.get(first_buffer + 1)?.clone())?;
        let data = self.map.get(batch.buffers.get(first_buffer + 2)?.clone())?;
        let pair = offsets.get(row.checked_mul(4)?..)?.first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *pair;
        let start = usize::try_from(i32::from_le_bytes([a, b, c, d])).ok()?;
        let end = usize::try_from(i32::from_le_bytes([e, f, g, h])).ok()?;
        std::str::from_utf8(data.get(start..end)?).ok()
    }
}

fn parse(bytes: &[u8], columns: &[&str]) -> Result<(Vec<Batch>, u64), String> {
    let (body, tail) = bytes.split_last_chunk::<TAIL_BYTES>().ok_or("it is too short")?;
    if !bytes.starts_with(MAGIC) || !tail.ends_with(MAGIC) {
        return Err("it is not an Arrow file".into());
    }
    let footer_length = tail.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b)) as usize;
    let start = body.len().checked_sub(footer_length);
    let footer = start.and_then(|start| body.get(start..)).ok_or("its footer is too long")?;
    let footer =
        arrow_ipc::root_as_footer(footer).map_err(|e| format!("its footer is invalid: {e}"))?;

    let fields = footer.schema().and_then(|s| s.fields()).ok_or("its footer has no schema")?;
    let names = fields.iter().map(|field| field.name().unwrap_or_default());
    let utf8 = fields.iter().skip(1).all(|field| field.type_type() == arrow_ipc::Type::Utf8);
    if !names.eq(columns.iter().copied()) || !utf8 {
        return Err(format!("its columns are not {}", columns.join(", ")));
    }
    let n_buffers = ID_BUFFERS + (columns.len().saturating_sub(1)) * STRING_BUFFERS;
    let mut batches = Vec::new();
    let mut n_rows = 0u64;
    for block in footer.recordBatches().iter().flatten() {
        let batch =
            parse_batch(bytes, block, n_rows, n_buffers).ok_or("a batch header is invalid")?;
        n_rows = n_rows.checked_add(batch.n_rows).ok_or("its row count is too large")?;
        batches.push(batch);
    }
    Ok((batches, n_rows))
}

fn parse_batch(
    bytes: &[u8],
    block: &arrow_ipc::Block,
    first_row: u64,
    n_buffers: usize,
) -> Option<Batch> {
    let start = usize::try_from(block.offset()).ok()?;
    let body = start.checked_add(usize::try_from(block.metaDataLength()).ok()?)?;
    // A message starts with a continuation marker and its length, 4 bytes each.
    let message = bytes.get(start.checked_add(8)?..body)?;
    let message = arrow_ipc::root_as_message(message).ok()?;
    let batch = message.header_as_record_batch()?;
    if batch.compression().is_some() {
        return None;
    }
    let mut buffers = Vec::with_capacity(n_buffers);
    for buffer in batch.buffers()?.iter() {
        let from = body.checked_add(usize::try_from(buffer.offset()).ok()?)?;
        let to = from.checked_add(usize::try_from(buffer.length()).ok()?)?;
        bytes.get(from..to)?;
        buffers.push(from..to);
    }
    let n_rows = u64::try_from(batch.length()).ok()?;
    (buffers.len() == n_buffers).then_some(Batch { first_row, n_rows, buffers })
}
