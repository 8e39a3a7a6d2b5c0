//! Reads tensors from files that `torch.save` wrote. Since torch 1.6, such a file is a zip file of
//! a pickle and one member per storage. The pickle may name only storages and the function that
//! rebuilds a tensor from a storage; their calls are read as descriptions, never run.
//!
//! The default [`Limits`] apply to the pickle, and the default [`ArchiveLimits`] to the zip file.
//! Memory: for the current tensor, which is never larger than the file, and for the pickle, which
//! describes all tensors.

use std::{
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::ControlFlow,
    sync::Arc,
};

use half::{bf16, f16};

use super::{
    archive::{ArchiveError, ArchiveLimits, Members},
    pickle::{self, Limits, PickleError, Value},
};

/// Name of the torch function that rebuilds a tensor from a storage.
const REBUILD: &str = "torch._utils._rebuild_tensor_v2";

/// Maximum number of dimensions of a tensor.
const MAX_DIMENSIONS: usize = 16;
/// Number of bytes read at a time from a tensor that is not held in memory.
const CHUNK_BYTES: usize = 64 << 10;

/// Why a file of tensors cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TorchError {
    /// The zip file is invalid.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The pickle is invalid.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// Reading the bytes of a storage failed.
    #[error("cannot read a tensor: {0}")]
    Io(#[from] io::Error),
    /// The file was not written by `torch.save`.
    #[error("not a file of torch 1.6 or newer: {reason}; save it again with torch.save")]
    NotTorch {
        /// What is missing or wrong in the file.
        reason: &'static str,
    },
    /// A tensor reaches beyond its storage, does not fit into memory, or is of an unsupported kind.
    #[error("tensor {tensor} {reason}; save it again with torch.save")]
    Tensor {
        /// Index of the tensor in file order (from 0).
        tensor: u64,
        /// What is wrong with the tensor.
        reason: &'static str,
    },
}

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// Boolean, 8 bits.
    Bool,
    /// Unsigned integer, 8 bits.
    U8,
    /// Signed integer, 8 bits.
    I8,
    /// Signed integer, 16 bits.
    I16,
    /// Signed integer, 32 bits.
    I32,
    /// Signed integer, 64 bits.
    I64,
    /// Float in half precision, 16 bits.
    F16,
    /// Float in the format bfloat16: 16 bits with the range of single precision.
    Bf16,
    /// Float in single precision, 32 bits.
    F32,
    /// Float in double precision, 64 bits.
    F64,
}

impl Dtype {
    fn of(storage: &str) -> Option<Dtype> {
        Some(match storage {
            "torch.BFloat16Storage" => Dtype::Bf16,
            "torch.BoolStorage" => Dtype::Bool,
            "torch.ByteStorage" => Dtype::U8,
            "torch.CharStorage" => Dtype::I8,
            "torch.DoubleStorage" => Dtype::F64,
            "torch.FloatStorage" => Dtype::F32,
            "torch.HalfStorage" => Dtype::F16,
            "torch.IntStorage" => Dtype::I32,
            "torch.LongStorage" => Dtype::I64,
            "torch.ShortStorage" => Dtype::I16,
            _ => return None,
        })
    }

    /// Returns the size of an element, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Bool | Dtype::U8 | Dtype::I8 => 1,
            Dtype::I16 | Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::I32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::F64 => 8,
        }
    }

    /// Decodes an integer or boolean from the low bytes of `bits`; `None` for a float type.
    fn integer(self, bits: u64) -> Option<i64> {
        match self {
            Dtype::Bool => Some(i64::from(bits != 0)),
            Dtype::U8 | Dtype::I64 => Some(bits as i64),
            Dtype::I8 => Some((bits as i8).into()),
            Dtype::I16 => Some((bits as i16).into()),
            Dtype::I32 => Some((bits as i32).into()),
            _ => None,
        }
    }

    /// Decodes a float from the low bytes of `bits`; a double is rounded to single precision.
    /// `None` for other types.
    fn float(self, bits: u64) -> Option<f32> {
        match self {
            Dtype::F16 => Some(f16::from_bits(bits as u16).to_f32()),
            Dtype::Bf16 => Some(bf16::from_bits(bits as u16).to_f32()),
            Dtype::F32 => Some(f32::from_bits(bits as u32)),
            Dtype::F64 => Some(f64::from_bits(bits) as f32),
            _ => None,
        }
    }
}

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Length of each dimension; empty for a tensor that is a single number.
    pub shape: Vec<usize>,
    /// Bytes of the elements in row-major order; each element is little-endian.
    pub data: Vec<u8>,
}

impl Tensor {
    /// Returns the elements in row-major order; `None` for a float type.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        self.bits().map(|bits| self.dtype.integer(bits)).collect()
    }

    /// Returns the elements in row-major order, doubles rounded to single precision; `None` for an
    /// integer or boolean type.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        self.bits().map(|bits| self.dtype.float(bits)).collect()
    }

    fn bits(&self) -> impl Iterator<Item = u64> {
        self.data.chunks_exact(self.dtype.bytes()).map(bits)
    }
}

/// Combines up to eight bytes, little-endian, into a number.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// Whether the pickle in a file of tensors may name the class or function `name`.
fn is_allowed(name: &str) -> bool {
    [REBUILD, "persistent"].contains(&name) || Dtype::of(name).is_some()
}

/// Reads a file that holds one tensor of integers or booleans: passes the elements to `on_element`
/// in row-major order, and returns the length of each dimension. A tensor stored in row-major order
/// is not held in memory.
///
/// # Errors
/// Any [`TorchError`].
pub fn read_integers<R: Read + Seek>(
    reader: R,
    on_element: &mut dyn FnMut(i64),
) -> Result<Vec<usize>, TorchError> {
    let mut file = TorchFile::open(reader)?;
    let view = file.view(&pickle::read_with(&file.pickle, &Limits::default(), is_allowed)?, 0)?;
    let no_integers = TorchError::Tensor { tensor: 0, reason: "does not hold integers" };
    if view.dtype.integer(0).is_none() {
        return Err(no_integers);
    }
    if !view.in_row_order() {
        let integers = file.tensor(&view)?.to_i64().ok_or(no_integers)?;
        integers.into_iter().for_each(on_element);
        return Ok(view.shape);
    }
    let mut left = view.n_bytes();
    let mut chunk = vec![0; CHUNK_BYTES];
    file.seek(&view)?;
    while left > 0 {
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let part = chunk.get_mut(..here).unwrap_or_default();
        file.read_elements(part, view.dtype)?;
        for element in part.chunks_exact(view.dtype.bytes()) {
            on_element(view.dtype.integer(bits(element)).unwrap_or_default());
        }
        left -= here as u64;
    }
    Ok(view.shape)
}

/// Reads a file that holds a dict of tensors: passes each key with its tensor to `on_item`, in file
/// order. If `on_item` breaks, reading ends without an error. If reading fails later, the items
/// already passed must not be trusted.
///
/// # Errors
/// Any [`TorchError`].
pub fn read_tensors<R: Read + Seek>(
    reader: R,
    on_item: &mut dyn FnMut(Value, Tensor) -> ControlFlow<()>,
) -> Result<(), TorchError> {
    let mut file = TorchFile::open(reader)?;
    let described = Arc::clone(&file.pickle);
    let (mut tensor, mut failed) = (0, None);
    let open = || Ok(&described[..]);
    pickle::read_dict_with(open, &Limits::default(), is_allowed, &mut |key, value| {
        let read = file.view(&value, tensor).and_then(|view| file.tensor(&view));
        tensor += 1;
        match read {
            Ok(tensor) => on_item(key, tensor),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// The part of a storage that a tensor uses; the bounds have been checked.
struct View {
    dtype: Dtype,
    /// Offset of the storage's data in the file, in bytes.
    start: u64,
    /// Index of the tensor's first element in the storage.
    offset: u64,
    shape: Vec<usize>,
    strides: Vec<u64>,
}

impl View {
    fn n_elements(&self) -> u64 {
        self.shape.iter().fold(1, |n, length| n.saturating_mul(*length as u64))
    }

    fn n_bytes(&self) -> u64 {
        self.n_elements() * self.dtype.bytes() as u64
    }

    fn in_row_order(&self) -> bool {
        let mut expected = 1;
        let dimensions = self.shape.iter().zip(&self.strides).rev();
        for (length, stride) in dimensions.filter(|(length, _)| **length != 1) {
            if *stride != expected {
                return false;
            }
            expected = expected.saturating_mul(*length as u64);
        }
        true
    }
}

struct TorchFile<R> {
    reader: BufReader<R>,
    members: Members,
    /// Name of the top-level folder in the zip file.
    root: String,
    pickle: Arc<[u8]>,
    big_endian: bool,
}

impl<R: Read + Seek> TorchFile<R> {
    fn open(reader: R) -> Result<TorchFile<R>, TorchError> {
        let mut reader = BufReader::new(reader);
        let mut magic = [0; 2];
        reader.read_exact(&mut magic)?;
        if magic != *b"PK" {
            return Err(TorchError::NotTorch { reason: "it is not a zip file" });
        }
        let members = Members::read(&mut reader, &ArchiveLimits::default())?;
        let root = members.iter().find_map(|member| {
            let root = member.name.strip_suffix("/data.pkl")?;
            (!root.contains('/')).then(|| root.to_owned())
        });
        let root = root.ok_or(TorchError::NotTorch { reason: "it has no data.pkl" })?;
        let pickle = members.get(&format!("{root}/data.pkl"))?;
        if pickle.deflated {
            return Err(TorchError::NotTorch { reason: "data.pkl is compressed" });
        }
        let mut bytes = Vec::new();
        pickle.open(&mut reader)?.read_to_end(&mut bytes)?;
        let mut order = Vec::new();
        if let Ok(member) = members.get(&format!("{root}/byteorder")) {
            member.open(&mut reader)?.take(16).read_to_end(&mut order)?;
        } else {
            order.extend(b"little");
        }
        let big_endian = match order.as_slice() {
            b"little" => false,
            b"big" => true,
            _ => return Err(TorchError::NotTorch { reason: "its byte order is unknown" }),
        };
        Ok(TorchFile { reader, members, root, pickle: bytes.into(), big_endian })
    }

    /// Returns the part of a storage that the described tensor uses; `tensor` is the index of the
    /// tensor, for errors.
    fn view(&mut self, value: &Value, tensor: u64) -> Result<View, TorchError> {
        let wrong = |reason| TorchError::Tensor { tensor, reason };
        let described = describe(value).ok_or(wrong("is not a plain tensor on the CPU or GPU"))?;
        let (mut view, key, n_stored) = described;
        let member = self.members.get(&format!("{}/data/{key}", self.root))?;
        let bytes = view.dtype.bytes() as u64;
        if member.deflated || n_stored.checked_mul(bytes) != Some(member.size) {
            return Err(wrong("does not match the size of its storage"));
        }
        view.start = member.start(&mut self.reader)?;
        let n = view.n_elements();
        let mut dimensions = view.shape.iter().zip(&view.strides);
        let last = dimensions.try_fold(view.offset, |last, (length, stride)| {
            last.checked_add(stride.checked_mul((*length as u64).saturating_sub(1))?)
        });
        // With strides of 0, a tensor could be larger than its storage.
        if n > n_stored
            || view.offset > n_stored
            || n > 0 && last.is_none_or(|last| last >= n_stored)
        {
            return Err(wrong("reaches beyond its storage"));
        }
        Ok(view)
    }

    fn tensor(&mut self, view: &View) -> Result<Tensor, TorchError> {
        let mut data = vec![0; in_memory(view.n_bytes())?];
        if view.in_row_order() {
            self.seek(view)?;
            self.read_elements(&mut data, view.dtype)?;
        } else {
            self.gather(view, &mut data)?;
        }
        Ok(Tensor { dtype: view.dtype, shape: view.shape.clone(), data })
    }

    fn seek(&mut self, view: &View) -> Result<(), TorchError> {
        let start = view.start + view.offset * view.dtype.bytes() as u64;
        self.reader.seek(SeekFrom::Start(start))?;
        Ok(())
    }

    fn read_elements(&mut self, data: &mut [u8], dtype: Dtype) -> Result<(), TorchError> {
        self.reader.read_exact(data)?;
        if self.big_endian {
            data.chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    /// Reads a tensor that is not stored in row-major order into `data`: reads the span of the
    /// storage that the tensor uses, and copies the elements in row-major order.
    fn gather(&mut self, view: &View, data: &mut [u8]) -> Result<(), TorchError> {
        if data.is_empty() {
            return Ok(());
        }
        let bytes = view.dtype.bytes();
        let dimensions = view.shape.iter().zip(&view.strides);
        let last: u64 = dimensions.map(|(length, stride)| stride * (*length as u64 - 1)).sum();
        let mut span = vec![0; in_memory((last + 1) * bytes as u64)?];
        self.seek(view)?;
        self.read_elements(&mut span, view.dtype)?;
        let mut index = vec![0usize; view.shape.len()];
        let mut at = 0u64;
        for element in data.chunks_exact_mut(bytes) {
            let from = in_memory(at)? * bytes;
            element.copy_from_slice(span.get(from..from + bytes).unwrap_or_default());
            let dimensions = view.shape.iter().zip(&view.strides);
            for (place, (length, stride)) in index.iter_mut().zip(dimensions).rev() {
                *place += 1;
                at += stride;
                if *place < *length {
                    break;
                }
                at -= stride * (*length as u64);
                *place = 0;
            }
        }
        Ok(())
    }
}

/// Reads the description of a tensor, a call in the pickle: returns the view, whose `start` is not
/// yet set, the key of the storage, and the number of elements stored there.
fn describe(value: &Value) -> Option<(View, &str, u64)> {
    let [storage, offset, shape, strides, ..] = arguments(value, REBUILD)? else { return None };
    let [kind, dtype, key, _place, n_stored] = arguments(storage, "persistent")? else {
        return None;
    };
    let Value::Call(dtype) = dtype else { return None };
    let unsigned = |value: &Value| u64::try_from(value.as_int()?).ok();
    let length = |value: &Value| usize::try_from(value.as_int()?).ok();
    let shape: Vec<usize> = shape.as_slice()?.iter().map(length).collect::<Option<_>>()?;
    let strides: Vec<u64> = strides.as_slice()?.iter().map(unsigned).collect::<Option<_>>()?;
    let fits = kind.as_str() == Some("storage")
        && shape.len() == strides.len()
        && shape.len() <= MAX_DIMENSIONS;
    let (dtype, offset) = (Dtype::of(&dtype.name)?, unsigned(offset)?);
    let view = View { dtype, start: 0, offset, shape, strides };
    fits.then_some((view, key.as_str()?, unsigned(n_stored)?))
}

fn in_memory(n: u64) -> Result<usize, TorchError> {
    let too_large = |_| TorchError::Tensor { tensor: 0, reason: "does not fit in memory" };
    usize::try_from(n).map_err(too_large)
}

fn arguments<'a>(value: &'a Value, name: &str) -> Option<&'a [Value]> {
    match value {
        Value::Call(call) if &*call.name == name => call.arguments.as_slice(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
