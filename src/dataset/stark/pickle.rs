//! Reads Python pickles of protocols 0 to 5 as plain values. Only a fixed list of classes and
//! functions (globals) is supported, and no code is ever run.
//!
//! Python's `pickletools` documents the opcodes. A pickle may store values in numbered memo slots
//! and fetch them again. A file is read twice: the first pass counts the fetches of each memo slot,
//! and the second pass keeps a slot until its last fetch. So [`read_dict`] needs memory for one
//! batch of items (Python writes 1,000 at a time) and for shared values, but not for the whole
//! file.
//!
//! A container is complete once it is put into another value. Putting a container into itself would
//! be a cycle, and is an error. In text that is not UTF-8, each lone surrogate becomes U+FFFD.

mod input;
mod machine;
mod numpy;
pub(super) mod printed;

pub use printed::Printed;

use std::{io, io::Read, ops::ControlFlow, sync::Arc};

use machine::Machine;

/// A value of a pickle. Clones share their contents. A value never contains itself, and values are
/// nested at most [`Limits::depth`] deep.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `bool` and `numpy.bool_`.
    Bool(bool),
    /// `int` and numpy's integers.
    Int(i64),
    /// `float`, NaN included, and numpy's floats except `numpy.float32`.
    Float(f64),
    /// `numpy.float32`, which Python prints with fewer digits within a list.
    Single(f32),
    /// `str` and `numpy.str_`.
    Str(Arc<str>),
    /// `bytes` and `bytearray`.
    Bytes(Arc<[u8]>),
    /// `list`; also a numpy array, as lists of lists.
    List(Arc<[Value]>),
    /// `tuple`.
    Tuple(Arc<[Value]>),
    /// `dict`, `OrderedDict` and `defaultdict`, in order of insertion. Repeated keys, as in a
    /// malicious file, are all kept; [`Value::get`] returns the value of the last one.
    Dict(Arc<[(Value, Value)]>),
    /// `set` and `frozenset`, in the order of the pickle.
    Set(Arc<[Value]>),
    /// An integer beyond 64 bits, a complex number, a date or a range: the text that Python prints
    /// for the value.
    Printed(Arc<Printed>),
    /// A supported class, function or call, described instead of run. The files of a base hold no
    /// such values.
    Call(Arc<Call>),
}

/// A class or function with the arguments of a call. A class or function that is not called has no
/// arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Module and name, joined by a dot, such as `numpy.dtype`; `persistent` for an object that is
    /// stored outside of the pickle.
    pub name: Arc<str>,
    /// Arguments of the call, a tuple; [`Value::None`] if the class or function is not called.
    pub arguments: Value,
    /// State that the pickle sets on the resulting object; [`Value::None`] if it sets none.
    pub state: Value,
}

impl Value {
    /// Returns the value of a text key of a dict; `None` without the key, or for a value that is
    /// not a dict.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Dict(items) = self else { return None };
        let found = items.iter().rev().find(|(k, _)| matches!(k, Value::Str(k) if **k == *key));
        found.map(|(_, value)| value)
    }

    /// Returns the text of a `Str`; `None` for other values.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = self { Some(text) } else { None }
    }

    /// Returns the number of an `Int`; `None` for other values.
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    /// Returns the number of a `Float` or `Single`; `None` for other values.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            Value::Single(number) => Some((*number).into()),
            _ => None,
        }
    }

    /// Returns how many [`Value::Printed`] a value contains, itself included.
    pub(super) fn n_printed(&self) -> u64 {
        let all = |items: &[Value]| items.iter().map(Value::n_printed).sum();
        match self {
            Value::Printed(_) => 1,
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => all(items),
            Value::Dict(items) => {
                items.iter().map(|(key, value)| key.n_printed() + value.n_printed()).sum()
            }
            _ => 0,
        }
    }

    /// Returns the elements of a list, tuple or set; `None` for other values.
    pub fn as_slice(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => Some(items),
            _ => None,
        }
    }
}

/// Limits for reading a pickle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum unpacked size of the file, in bytes.
    pub file_bytes: u64,
    /// Maximum size of one text or one byte string, in bytes.
    pub string_bytes: u64,
    /// Maximum memory for values, in bytes: for the memo and one batch of [`read_dict`], or for the
    /// memo and the whole value of [`read`]. A shared value counts at each use, which also bounds
    /// the size of a value when it is written out.
    pub memory_bytes: u64,
    /// Maximum nesting of values.
    pub depth: u32,
}

impl Default for Limits {
    /// Returns limits that the official files of the STaRK benchmark do not exceed.
    fn default() -> Limits {
        Limits { file_bytes: 64 << 30, string_bytes: 16 << 20, memory_bytes: 128 << 20, depth: 64 }
    }
}

/// Why a pickle cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// Reading the bytes failed.
    #[error("cannot read the pickle: {0}")]
    Io(#[from] io::Error),
    /// The bytes end before the end of the pickle.
    #[error("the pickle is truncated at byte {offset}; download the file again")]
    Truncated {
        /// Offset of the end of the bytes.
        offset: u64,
    },
    /// The bytes are not a pickle, or the pickle is damaged. The offset is in bytes.
    #[error("byte {offset}: {reason}; the file is damaged or not a pickle; download it again")]
    Malformed {
        /// Byte offset at which the error was detected.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// The pickle has an opcode that plain values do not need.
    #[error(
        "byte {offset}: opcode {opcode:#04x} is not supported; write the file as plain dicts, lists, texts and numbers"
    )]
    Opcode {
        /// Byte offset at which the error was detected.
        offset: u64,
        /// Number of the opcode.
        opcode: u8,
    },
    /// The pickle refers to a class or function that is not supported.
    #[error(
        "byte {offset}: the pickle names {name}, which is not supported; write the file as plain dicts, lists, texts and numbers"
    )]
    Global {
        /// Byte offset at which the error was detected.
        offset: u64,
        /// Module and name of the class or function, joined by a dot.
        name: String,
    },
    /// An integer is invalid or has more digits than Python prints.
    #[error("byte {offset}: an integer has more than 4300 digits or is invalid; write it as text")]
    Integer {
        /// Byte offset at which the error was detected.
        offset: u64,
    },
    /// The pickle has a numpy element type that is not supported, or a time with a time zone.
    #[error(
        "byte {offset}: numpy's element type {code:?} is not supported; write such values as text"
    )]
    Element {
        /// Byte offset at which the error was detected.
        offset: u64,
        /// Numpy's code of the element type, such as `f16`.
        code: String,
    },
    /// A value contains itself.
    #[error("byte {offset}: a value contains itself; write the file without cycles")]
    Cycle {
        /// Byte offset at which the error was detected.
        offset: u64,
    },
    /// The pickle exceeds one of the [`Limits`].
    #[error("byte {offset}: more than {limit} {unit}; raise the limit if the file can be trusted")]
    TooMuch {
        /// Byte offset at which the error was detected.
        offset: u64,
        /// The exceeded limit, in `unit`.
        limit: u64,
        /// What is counted, such as `bytes held`.
        unit: &'static str,
    },
    /// The value passed to [`read_dict`] is not a dict.
    #[error("the pickle is not a dict; use the file that holds the items")]
    NoDict,
}

/// Reads a whole pickle. Bytes after the end of the pickle are ignored. Time: linear in the length.
///
/// # Errors
/// Any [`PickleError`] except [`PickleError::NoDict`].
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Value, PickleError> {
    read_with(bytes, limits, |_| false)
}

/// Like [`read`], but also supports the classes and functions for which `is_allowed` holds, and
/// returns them as [`Value::Call`].
pub(super) fn read_with(
    bytes: &[u8],
    limits: &Limits,
    is_allowed: fn(&str) -> bool,
) -> Result<Value, PickleError> {
    let read = Machine::run(|| Ok(bytes), limits, is_allowed, None)?;
    read.ok_or(PickleError::Malformed { offset: 0, reason: "nothing was read" })
}

/// Passes the items of a pickled dict to `on_item` in file order. `open` is called twice and must
/// return the same bytes each time; its reader may count bytes for progress, or return an error to
/// stop the reading. If `on_item` breaks, reading ends without an error. If reading fails later,
/// the items already passed must not be trusted.
///
/// # Errors
/// Any [`PickleError`].
pub fn read_dict<R: Read>(
    open: impl FnMut() -> io::Result<R>,
    limits: &Limits,
    on_item: &mut dyn FnMut(Value, Value) -> ControlFlow<()>,
) -> Result<(), PickleError> {
    read_dict_with(open, limits, |_| false, on_item)
}

/// Like [`read_dict`], but also supports the classes and functions for which `is_allowed` holds,
/// and returns them as [`Value::Call`].
pub(super) fn read_dict_with<R: Read>(
    open: impl FnMut() -> io::Result<R>,
    limits: &Limits,
    is_allowed: fn(&str) -> bool,
    on_item: &mut dyn FnMut(Value, Value) -> ControlFlow<()>,
) -> Result<(), PickleError> {
    match Machine::run(open, limits, is_allowed, Some(on_item))? {
        // The items were passed on, so the dict itself is empty.
        None => Ok(()),
        Some(Value::Dict(items)) if items.is_empty() => Ok(()),
        Some(_) => Err(PickleError::NoDict),
    }
}

#[cfg(test)]
mod tests;
