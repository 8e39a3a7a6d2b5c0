//! Reads Python pickles, protocols 0 to 5, as plain values. Only the globals listed here are understood,
//! and nothing is ever run.
//!
//! The source is the list of opcodes of Python's `pickletools`. Files are read twice: the first
//! pass counts which memo slots are fetched, the second keeps only those, each until its last
//! fetch. So [`read_dict`] takes memory for one batch of items (Python writes 1,000 at a time) and
//! for what items share, whatever the length of the file.
//!
//! A container is complete when something takes it; one that is taken by its own contents is a
//! cycle, and an error. In text that is not UTF-8 each lone surrogate becomes a U+FFFD.

mod input;
mod machine;
mod numpy;
pub(super) mod printed;

pub use printed::Printed;

use std::{io, io::Read, ops::ControlFlow, sync::Arc};

/// A value of a pickle. Cloning shares; there are no cycles, and nesting is at most
/// [`Limits::depth`] deep.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `bool` and `numpy.bool_`.
    Bool(bool),
    /// `int` and numpy's integers.
    Int(i64),
    /// `float`, NaN included, and numpy's floats but one.
    Float(f64),
    /// `numpy.float32`, which prints fewer digits within a list.
    Single(f32),
    /// `str` and `numpy.str_`.
    Str(Arc<str>),
    /// `bytes` and `bytearray`.
    Bytes(Arc<[u8]>),
    /// `list`, and a numpy array as lists of lists.
    List(Arc<[Value]>),
    /// `tuple`.
    Tuple(Arc<[Value]>),
    /// `dict`, `OrderedDict` and `defaultdict`, in order of insertion. A key that a hostile file
    /// repeats is kept each time; [`Value::get`] gives the last.
    Dict(Arc<[(Value, Value)]>),
    /// `set` and `frozenset`, in the order of the file.
    Set(Arc<[Value]>),
    /// An integer beyond 64 bits, a complex number, a date or a range, as Python prints it.
    Printed(Arc<Printed>),
    /// A call that the caller of the reader allowed, not made; never in the files of a base.
    Call(Arc<Call>),
}

/// What would be called, with what. A global itself is a call without arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Module and name with a dot between; `persistent` for an object kept outside the pickle.
    pub name: Arc<str>,
    /// The arguments, a tuple; `None` for the global itself.
    pub arguments: Value,
    /// What the object's state was set to, `None` if it was not.
    pub state: Value,
}

impl Value {
    /// The value under a text key of a dict.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Dict(items) = self else { return None };
        let found = items.iter().rev().find(|(k, _)| matches!(k, Value::Str(k) if **k == *key));
        found.map(|(_, value)| value)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = self { Some(text) } else { None }
    }

    /// The number of an int.
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    /// The number of a float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            Value::Single(number) => Some((*number).into()),
            _ => None,
        }
    }

    /// How many [`Value::Printed`] are in it.
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

    /// The elements of a list, tuple or set.
    pub fn as_slice(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => Some(items),
            _ => None,
        }
    }
}

/// What a pickle may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of the file, unpacked.
    pub file_bytes: u64,
    /// Most bytes of one text or byte string.
    pub string_bytes: u64,
    /// Most bytes held at a time: one batch of [`read_dict`] or all of [`read`], and what the memo
    /// keeps. What is shared counts each time it is used, so that no value is larger written out.
    pub memory_bytes: u64,
    /// Deepest nesting of values.
    pub depth: u32,
}

impl Default for Limits {
    /// Enough for the official files.
    fn default() -> Limits {
        Limits { file_bytes: 64 << 30, string_bytes: 16 << 20, memory_bytes: 128 << 20, depth: 64 }
    }
}

/// Why a pickle cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// The bytes could not be read.
    #[error("cannot read the pickle: {0}")]
    Io(#[from] io::Error),
    /// The bytes end before the pickle does.
    #[error("the pickle ends at byte {offset}, in the middle; fetch the file again")]
    Truncated {
        /// Where it ends.
        offset: u64,
    },
    /// What is no pickle, or a damaged one.
    #[error("byte {offset}: {reason}; the file is damaged or not a pickle; fetch it again")]
    Malformed {
        /// After which byte it was noticed.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// An opcode that plain values do not need.
    #[error(
        "byte {offset}: opcode {opcode:#04x} is not read; write the file as plain dicts, lists, texts and numbers"
    )]
    Opcode {
        /// After which byte it was noticed.
        offset: u64,
        /// The opcode.
        opcode: u8,
    },
    /// A class or function that is not in the list.
    #[error(
        "byte {offset}: the pickle names {name}, which is not read; write the file as plain dicts, lists, texts and numbers"
    )]
    Global {
        /// After which byte it was noticed.
        offset: u64,
        /// Module and name.
        name: String,
    },
    /// An integer of more digits than Python prints.
    #[error("byte {offset}: an integer has more than 4300 digits or is none; write it as text")]
    Integer {
        /// After which byte it was noticed.
        offset: u64,
    },
    /// Elements of numpy that are not read.
    #[error("byte {offset}: numpy's element type {code:?} is not read; write such values as text")]
    Element {
        /// After which byte it was noticed.
        offset: u64,
        /// Numpy's letter and number, with the unit of a date.
        code: String,
    },
    /// A value that contains itself.
    #[error("byte {offset}: a value contains itself; write the file without cycles")]
    Cycle {
        /// After which byte it was noticed.
        offset: u64,
    },
    /// A limit was met.
    #[error("byte {offset}: more than {limit} {unit}; raise the limit if the file can be trusted")]
    TooMuch {
        /// After which byte it was noticed.
        offset: u64,
        /// The limit.
        limit: u64,
        /// Its unit.
        unit: &'static str,
    },
    /// The pickle of [`read_dict`] holds something else.
    #[error("the pickle is not a dict; use the file that holds the items")]
    NoDict,
}

/// Reads one pickle whole. Bytes after its end are not looked at. Linear in the length.
///
/// # Errors
/// Any [`PickleError`] but [`PickleError::NoDict`].
pub fn read(bytes: &[u8], limits: &Limits) -> Result<Value, PickleError> {
    read_with(bytes, limits, &[])
}

/// As [`read`]; `names` come as [`Value::Call`].
pub(super) fn read_with(
    bytes: &[u8],
    limits: &Limits,
    names: &[&str],
) -> Result<Value, PickleError> {
    machine::read(|| Ok(bytes), limits, names)
}

/// Hands out the items of a pickled dict in file order. `open` is called twice and
/// must give the same bytes each time; it may count them for progress, or fail to stop. Breaking
/// ends the reading well. What was handed out before an error is not to be trusted.
///
/// # Errors
/// Any [`PickleError`].
pub fn read_dict<R: Read>(
    open: impl FnMut() -> io::Result<R>,
    limits: &Limits,
    on_item: &mut dyn FnMut(Value, Value) -> ControlFlow<()>,
) -> Result<(), PickleError> {
    read_dict_with(open, limits, &[], on_item)
}

/// As [`read_dict`]; `names` come as [`Value::Call`].
pub(super) fn read_dict_with<R: Read>(
    open: impl FnMut() -> io::Result<R>,
    limits: &Limits,
    names: &[&str],
    on_item: &mut dyn FnMut(Value, Value) -> ControlFlow<()>,
) -> Result<(), PickleError> {
    machine::read_dict(open, limits, names, on_item)
}

#[cfg(test)]
mod tests;
