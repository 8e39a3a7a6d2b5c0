//! Named arrays of numbers in one memory-mapped file.
//!
//! The file is in safetensors format: a JSON header with names, types and offsets, then the arrays.
//! Numbers are little-endian. Opening reads only the header; slices point into the mapped file.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::Path,
    sync::Arc,
};

use memmap2::Mmap;
use safetensors::{
    Dtype, SafeTensors,
    tensor::{Metadata, TensorInfo, TensorView},
};

use crate::{IndexError, Result};
use agent_ground::files;

/// Name of the array that holds the checksum of a sealed file.
const SEAL: &str = "seal";

/// A number type that arrays may hold.
pub trait Number: bytemuck::Pod {
    /// The safetensors type of the number.
    const DTYPE: Dtype;
}

impl Number for u8 {
    const DTYPE: Dtype = Dtype::U8;
}
impl Number for u16 {
    const DTYPE: Dtype = Dtype::U16;
}
impl Number for u32 {
    const DTYPE: Dtype = Dtype::U32;
}
impl Number for u64 {
    const DTYPE: Dtype = Dtype::U64;
}
impl Number for f32 {
    const DTYPE: Dtype = Dtype::F32;
}

/// An array inside a mapped file.
#[derive(Clone)]
pub struct Array<T> {
    map: Arc<Mmap>,
    start: usize,
    len: usize,
    number: std::marker::PhantomData<T>,
}

impl<T: Number> Array<T> {
    /// All numbers of the array, in order. [`Arrays::get`] has checked their bounds and alignment.
    pub fn as_slice(&self) -> &[T] {
        let bytes = self.map.get(self.start..self.start + self.len * size_of::<T>());
        bytes.and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or(&[])
    }

    /// The numbers of part `index`, counted from 0; empty if there is no such part. `bounds` holds
    /// a zero, then the end of each part.
    pub fn part<'a, B: Number + TryInto<usize>>(
        &'a self,
        bounds: &Array<B>,
        index: usize,
    ) -> &'a [T] {
        let bounds = bounds.as_slice();
        let bound = |at: usize| bounds.get(at).and_then(|&bound| bound.try_into().ok());
        match (bound(index), bound(index + 1)) {
            (Some(start), Some(end)) => self.as_slice().get(start..end).unwrap_or(&[]),
            _ => &[],
        }
    }
}

/// An array to write: its name, the type of its numbers, and its bytes.
pub type Named<'a> = (&'a str, Dtype, &'a [u8]);

/// Pairs an array with its name and number type, for writing.
pub fn named<'a, T: Number>(name: &'a str, numbers: &'a [T]) -> Named<'a> {
    (name, T::DTYPE, bytemuck::cast_slice(numbers))
}

/// An opened file of named arrays.
pub struct Arrays {
    map: Arc<Mmap>,
    path: String,
}

impl Arrays {
    /// Writes named arrays to a new file and syncs the file to the disk.
    ///
    /// # Errors
    /// [`IndexError::Io`] with the path of the file.
    pub fn write(path: &Path, arrays: &[Named<'_>]) -> Result<()> {
        let views: Result<Vec<_>, _> = arrays
            .iter()
            .map(|&(name, dtype, bytes)| {
                let shape = vec![bytes.len() * 8 / dtype.bitsize()];
                TensorView::new(dtype, shape, bytes).map(|view| (name, view))
            })
            .collect();
        // `safetensors` creates a private file; it gets the permissions of a usual new file.
        let mode = File::create(path).and_then(|file| file.metadata()).map(|new| new.permissions());
        let mode = mode.map_err(IndexError::io(path))?;
        views
            .and_then(|views| safetensors::serialize_to_file(views, None, path))
            .map_err(|error| IndexError::io(path)(io::Error::other(error)))?;
        File::open(path)
            .and_then(|file| file.set_permissions(mode).and_then(|()| file.sync_all()))
            .map_err(IndexError::io(path))
    }

    /// As [`Arrays::write`], and also stores a checksum (BLAKE3) of all arrays for
    /// [`Arrays::verify`].
    ///
    /// # Errors
    /// [`IndexError::Io`] with the path of the file.
    pub fn write_sealed(path: &Path, arrays: &[Named<'_>]) -> Result<()> {
        let seal = seal(arrays.iter().map(|&(name, _, bytes)| (name, bytes)));
        let mut arrays = arrays.to_vec();
        arrays.push(named(SEAL, seal.as_bytes()));
        Self::write(path, &arrays)
    }

    /// Reads a file written by [`Arrays::write_sealed`] and compares its arrays with the stored
    /// checksum.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if they differ or the file has no checksum.
    pub fn verify(&self) -> Result<()> {
        let damaged = |reason: String| IndexError::Damaged { path: self.path.clone(), reason };
        let tensors = SafeTensors::deserialize(&self.map).map_err(|e| damaged(e.to_string()))?;
        let tensors = tensors.tensors();
        let parts = tensors.iter().map(|(name, view)| (name.as_str(), view.data()));
        let found = seal(parts.filter(|(name, _)| *name != SEAL));
        if self.get::<u8>(SEAL)?.as_slice() == found.as_bytes() {
            return Ok(());
        }
        Err(damaged("its checksum does not match".to_owned()))
    }

    /// As [`Self::write`], with one more array that may be too large for memory: `streamed` is its
    /// name, type and number of bytes, and `stream` must write exactly that many bytes. In the file
    /// this array lies between the arrays `before` and `after`. For alignment, sort all arrays by
    /// the size of one number, largest first.
    ///
    /// # Errors
    /// The error of the operating system or of `stream`; `UnexpectedEof` if `stream` writes a
    /// different number of bytes.
    pub fn write_with(
        path: &Path,
        before: &[Named<'_>],
        streamed: (&str, Dtype, u64),
        after: &[Named<'_>],
        stream: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut end = 0;
        let size = |&(name, dtype, bytes): &(_, _, &[u8])| (name, dtype, bytes.len());
        let sizes = before.iter().map(size).chain([(streamed.0, streamed.1, streamed.2 as usize)]);
        let header = sizes.chain(after.iter().map(size)).map(|(name, dtype, size)| {
            let data_offsets = (end, end + size);
            end += size;
            let shape = vec![size * 8 / dtype.bitsize()];
            (name.to_owned(), TensorInfo { dtype, shape, data_offsets })
        });
        let header = Metadata::new(None, header.collect()).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        before.iter().try_for_each(|(_, _, bytes)| file.write_all(bytes))?;
        let start = file.stream_position()?;
        stream(&mut file)?;
        if file.stream_position()? - start != streamed.2 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        after.iter().try_for_each(|(_, _, bytes)| file.write_all(bytes))?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    /// Opens a file: reads its header and maps its arrays.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the file cannot be read, [`IndexError::Damaged`] if it is not a file
    /// of arrays.
    pub fn open(path: &Path) -> Result<Self> {
        let file = files::open(path).map_err(IndexError::io(path))?;
        // SAFETY: index files are written once and published by rename; nothing writes to them
        // while they are mapped.
        #[expect(unsafe_code, reason = "memory mapping has no safe form")]
        let map = unsafe { Mmap::map(&file) }.map_err(IndexError::io(path))?;
        SafeTensors::read_metadata(&map).map_err(|e| IndexError::damaged(path, e.to_string()))?;
        Ok(Self { map: Arc::new(map), path: path.display().to_string() })
    }

    /// Finds the array with this name.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if the array is missing, has numbers of another type or lies out of
    /// bounds.
    pub fn get<T: Number>(&self, name: &str) -> Result<Array<T>> {
        let damaged = |reason: String| IndexError::Damaged { path: self.path.clone(), reason };
        let tensors = SafeTensors::deserialize(&self.map).map_err(|e| damaged(e.to_string()))?;
        let view = tensors.tensor(name).map_err(|error| damaged(error.to_string()))?;
        let bytes = view.data();
        if view.dtype() != T::DTYPE || bytemuck::try_cast_slice::<u8, T>(bytes).is_err() {
            return Err(damaged(format!("array {name:?} has another type or alignment")));
        }
        let start = bytes.as_ptr() as usize - self.map.as_ptr() as usize;
        let (map, len) = (self.map.clone(), bytes.len() / size_of::<T>());
        Ok(Array { map, start, len, number: std::marker::PhantomData })
    }

    /// Reads the first number of the array with this name; 0 for an empty array.
    ///
    /// # Errors
    /// As [`Arrays::get`].
    pub fn number<T: Number>(&self, name: &str) -> Result<T> {
        Ok(self.get(name)?.as_slice().first().copied().unwrap_or(T::zeroed()))
    }
}

/// Returns the checksum (BLAKE3) of named arrays; it does not depend on their order.
fn seal<'a>(arrays: impl Iterator<Item = (&'a str, &'a [u8])>) -> blake3::Hash {
    let mut arrays: Vec<(&str, &[u8])> = arrays.collect();
    arrays.sort_unstable_by_key(|array| array.0);
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in arrays {
        hasher.update(format!("{name} {} ", bytes.len()).as_bytes());
        hasher.update(bytes);
    }
    hasher.finalize()
}

/// Distinct strings, ascending, found by binary search; part `i` of `bytes` is string `i`.
pub struct Strings {
    bounds: Array<u64>,
    bytes: Array<u8>,
}

impl Strings {
    /// Encodes strings as (bounds, bytes), in the given order: string `i` is
    /// `bytes[bounds[i]..bounds[i + 1]]`.
    pub fn layout<'a, S: AsRef<[u8]> + ?Sized + 'a>(
        strings: impl Iterator<Item = &'a S>,
    ) -> (Vec<u64>, Vec<u8>) {
        let (mut bounds, mut bytes) = (vec![0], Vec::new());
        for string in strings {
            bytes.extend_from_slice(string.as_ref());
            bounds.push(bytes.len() as u64);
        }
        (bounds, bytes)
    }

    /// Combines two arrays that [`Strings::layout`] made. The strings must ascend for
    /// [`Strings::find`].
    pub fn new(bounds: Array<u64>, bytes: Array<u8>) -> Self {
        Self { bounds, bytes }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.bounds.as_slice().len().saturating_sub(1)
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`, from 0, as bytes; empty if there is no such string.
    pub fn get(&self, index: usize) -> &[u8] {
        self.bytes.part(&self.bounds, index)
    }

    /// Finds the index of a string; `None` if it is not among the strings. O(log n).
    pub fn find(&self, string: &str) -> Option<usize> {
        let at = self.find_from(string);
        (at < self.len() && self.get(at) == string.as_bytes()).then_some(at)
    }

    /// Finds the index of the first string that is not less than `string`; the number of strings
    /// if there is none. O(log n).
    pub fn find_from(&self, string: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle) < string.as_bytes() {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_what_helps() {
        let full = Path::new("/dev/full");
        let arrays = [("numbers", Dtype::U8, &[7u8; 8][..])];
        let written = Arrays::write_with(full, &arrays, ("more", Dtype::U8, 3), &[], |file| {
            file.write_all(b"abc")
        });
        let error = IndexError::io(full)(written.unwrap_err()).to_string();
        assert!(error.starts_with("cannot use /dev/full: No space left"), "{error}");
        assert!(error.ends_with("; free space there and run the command again"), "{error}");
    }

    #[test]
    fn a_streamed_array_must_have_the_stated_length() {
        let dir = tempfile::tempdir().unwrap();
        let streamed = ("more", Dtype::U8, 4);
        let short = Arrays::write_with(&dir.path().join("file"), &[], streamed, &[], |file| {
            file.write_all(b"abc")
        });
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
