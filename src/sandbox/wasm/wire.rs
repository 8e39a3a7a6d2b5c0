//! Binary encoding of values that are passed into or out of WebAssembly.
//!
//! All numbers are little endian. A value is one byte for its kind, followed by its content:
//!
//! | byte | value | content |
//! | --- | --- | --- |
//! | 0, 1, 2 | nothing, `false`, `true` | |
//! | 3 | integer | i64 |
//! | 4 | number | f64 |
//! | 5 | text | u32 bytes, UTF-8 |
//! | 6, 7, 8 | nodes, scores, vector | u32 handle, u32 length |
//! | 9 | list | u32 count, values |
//! | 10 | map | u32 count, pairs of text (u32 bytes, UTF-8) and value |
//! | 11 | list of node ids | u32 count, u32 each |
//! | 12 | description of a result that cannot be an answer | u32 bytes, UTF-8 |
//! | 13 | ranking, only as a result | u32 count, pairs of u32 id and f32 score |
//! | 14 | numbers of a vector, only from the Rhai engine | u32 count, f32 each |
//!
//! Does not depend on the meaning of handles. The Rhai engine inside WebAssembly is built from this
//! file too.

use std::collections::BTreeMap;

use crate::{sandbox::given::Given, tools::Value};

const UNIT: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const TEXT: u8 = 5;
/// Kind of a set of nodes that the host holds.
pub(super) const NODES: u8 = 6;
/// Kind of scores that the host holds.
pub(super) const SCORES: u8 = 7;
/// Kind of a vector that the host holds.
pub(super) const VECTOR: u8 = 8;
const LIST: u8 = 9;
const MAP: u8 = 10;
const IDS: u8 = 11;
const WORDS: u8 = 12;
const RANKING: u8 = 13;
/// Kind of a vector that is sent as its numbers.
pub(super) const NUMBERS: u8 = 14;

/// Maximum depth of nested lists and maps.
const MAX_DEPTH: usize = 16;

/// Writes and reads the values that may be passed as handles: sets, scores and vectors.
pub(super) trait Handles {
    /// Writes a set, scores or a vector, including the byte for its kind.
    ///
    /// # Errors
    /// If no more values can be held.
    fn write(&mut self, value: &Value, out: &mut Vec<u8>) -> Result<(), String>;

    /// Reads a set, scores or a vector, after the byte for its kind.
    ///
    /// # Errors
    /// If there is no such value.
    fn read(&mut self, kind: u8, from: &mut Reader<'_>) -> Result<Value, String>;
}

fn push_count(out: &mut Vec<u8>, count: usize) -> Result<(), String> {
    let count = u32::try_from(count).map_err(|_| "a value is too long".to_owned())?;
    out.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

/// Writes a text without the byte for its kind.
fn push_text(out: &mut Vec<u8>, text: &str) -> Result<(), String> {
    push_count(out, text.len())?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes the beginning of a list; its values must follow.
///
/// # Errors
/// If the list is too long.
pub(super) fn write_list(out: &mut Vec<u8>, count: usize) -> Result<(), String> {
    out.push(LIST);
    push_count(out, count)
}

/// Writes a list of node ids.
///
/// # Errors
/// If there are too many.
pub(super) fn write_ids(out: &mut Vec<u8>, ids: &[u32]) -> Result<(), String> {
    out.push(IDS);
    push_count(out, ids.len())?;
    out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    Ok(())
}

/// Writes the numbers of a vector; only the Rhai engine does this.
///
/// # Errors
/// If there are too many.
#[allow(dead_code, reason = "the engine inside WebAssembly writes them")]
pub(super) fn write_numbers(out: &mut Vec<u8>, numbers: &[f32]) -> Result<(), String> {
    out.push(NUMBERS);
    push_count(out, numbers.len())?;
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    Ok(())
}

/// Writes a text.
///
/// # Errors
/// If the text is too long.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) -> Result<(), String> {
    out.push(TEXT);
    push_text(out, text)
}

/// Writes a value.
///
/// # Errors
/// If the value is too long, or no more values can be held.
pub(super) fn write(
    out: &mut Vec<u8>,
    value: &Value,
    handles: &mut dyn Handles,
) -> Result<(), String> {
    match value {
        Value::Unit => out.push(UNIT),
        Value::Bool(truth) => out.push(if *truth { TRUE } else { FALSE }),
        Value::Int(number) => {
            out.push(INT);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Float(number) => {
            out.push(FLOAT);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Text(text) => write_text(out, text)?,
        Value::Nodes(_) | Value::Scores(_) | Value::Vector(_) => handles.write(value, out)?,
        Value::List(items) => {
            write_list(out, items.len())?;
            for item in items {
                write(out, item, handles)?;
            }
        }
        Value::Map(entries) => {
            out.push(MAP);
            push_count(out, entries.len())?;
            for (name, entry) in entries {
                push_text(out, name)?;
                write(out, entry, handles)?;
            }
        }
    }
    Ok(())
}

/// Writes a result.
///
/// # Errors
/// Errors of [`write()`].
#[allow(dead_code, reason = "the engine inside WebAssembly writes them")]
pub(super) fn write_given(
    out: &mut Vec<u8>,
    given: &Given,
    handles: &mut dyn Handles,
) -> Result<(), String> {
    match given {
        Given::Int(number) => write(out, &Value::Int(*number), handles),
        Given::Float(number) => write(out, &Value::Float(*number), handles),
        Given::Scores(scores) => write(out, &Value::Scores(scores.clone()), handles),
        Given::Map(entries) => {
            out.push(MAP);
            push_count(out, entries.len())?;
            for (name, entry) in entries {
                push_text(out, name)?;
                write_given(out, entry, handles)?;
            }
            Ok(())
        }
        Given::Ranking(pairs) => {
            out.push(RANKING);
            push_count(out, pairs.len())?;
            for (id, score) in pairs {
                out.extend_from_slice(&id.to_le_bytes());
                out.extend_from_slice(&score.to_le_bytes());
            }
            Ok(())
        }
        Given::Other(words) => {
            out.push(WORDS);
            push_text(out, words)
        }
    }
}

/// Reads values from bytes, up to a maximum number of values.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    values: usize,
    most_values: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader that fails after this number of values in lists and maps.
    pub(super) fn new(bytes: &'a [u8], most_values: usize) -> Self {
        Self { rest: bytes, values: 0, most_values }
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// If bytes are left.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(format!("{more} bytes follow a value")),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (now, rest) = self.rest.split_at_checked(count).ok_or("a value is cut short")?;
        self.rest = rest;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (now, rest) = self.rest.split_first_chunk::<N>().ok_or("a value is cut short")?;
        self.rest = rest;
        Ok(*now)
    }

    /// Reads a number of four bytes.
    ///
    /// # Errors
    /// If there are fewer bytes.
    pub(super) fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn float(&mut self) -> Result<f32, String> {
        self.array().map(f32::from_le_bytes)
    }

    /// Reads a count of items that take at least `bytes_each` bytes each. An impossible count is an
    /// error before any memory is allocated.
    fn count(&mut self, bytes_each: usize) -> Result<usize, String> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / bytes_each {
            return Err("a value is cut short".to_owned());
        }
        self.values = self.values.saturating_add(count);
        if self.values > self.most_values {
            return Err(format!("more than {} values", self.most_values));
        }
        Ok(count)
    }

    fn text(&mut self) -> Result<&'a str, String> {
        let count = self.u32()? as usize;
        let bytes = self.bytes(count)?;
        std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn kind(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[kind]| kind)
    }

    /// Reads the numbers of a vector, after the byte for its kind.
    ///
    /// # Errors
    /// If they are truncated or not finite.
    pub(super) fn numbers(&mut self) -> Result<Vec<f32>, String> {
        let count = self.count(4)?;
        let numbers = (0..count).map(|_| self.float()).collect::<Result<Vec<_>, _>>()?;
        match numbers.iter().all(|number| number.is_finite()) {
            true => Ok(numbers),
            false => Err("a vector has a number that is not finite".to_owned()),
        }
    }

    /// Reads one value.
    ///
    /// # Errors
    /// If the bytes are not a valid value.
    pub(super) fn value(&mut self, handles: &mut dyn Handles) -> Result<Value, String> {
        self.value_within(handles, MAX_DEPTH)
    }

    fn value_within(&mut self, handles: &mut dyn Handles, depth: usize) -> Result<Value, String> {
        let deeper =
            || depth.checked_sub(1).ok_or_else(|| format!("lists deeper than {MAX_DEPTH}"));
        Ok(match self.kind()? {
            UNIT => Value::Unit,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => Value::Int(i64::from_le_bytes(self.array()?)),
            FLOAT => Value::Float(f64::from_le_bytes(self.array()?)),
            TEXT => Value::text(self.text()?),
            LIST => {
                let (depth, count) = (deeper()?, self.count(1)?);
                let items = (0..count).map(|_| self.value_within(handles, depth));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            MAP => {
                let (depth, count) = (deeper()?, self.count(5)?);
                let mut entries = BTreeMap::new();
                for _ in 0..count {
                    let name = self.text()?.to_owned();
                    entries.insert(name, self.value_within(handles, depth)?);
                }
                Value::Map(entries)
            }
            IDS => {
                let count = self.count(4)?;
                let ids = (0..count).map(|_| self.u32().map(|id| Value::Int(i64::from(id))));
                Value::List(ids.collect::<Result<_, _>>()?)
            }
            kind @ (NODES | SCORES | VECTOR | NUMBERS) => handles.read(kind, self)?,
            kind => return Err(format!("there is no kind of value {kind}")),
        })
    }

    /// Reads a result; a value that cannot be an answer is described in words.
    ///
    /// # Errors
    /// If the bytes are not a valid result.
    pub(super) fn given(&mut self, handles: &mut dyn Handles) -> Result<Given, String> {
        self.given_within(handles, 2)
    }

    fn given_within(&mut self, handles: &mut dyn Handles, maps: usize) -> Result<Given, String> {
        let kind = self.rest.first().copied();
        match kind {
            Some(MAP) if maps > 0 => {
                self.kind()?;
                let count = self.count(5)?;
                let mut entries = Vec::with_capacity(count);
                for _ in 0..count {
                    let name = self.text()?.to_owned();
                    entries.push((name, self.given_within(handles, maps - 1)?));
                }
                Ok(Given::Map(entries))
            }
            Some(WORDS) => {
                self.kind()?;
                self.text().map(|words| Given::Other(words.to_owned()))
            }
            Some(RANKING) => {
                self.kind()?;
                let count = self.count(8)?;
                let pairs = (0..count).map(|_| Ok((self.u32()?, self.float()?)));
                pairs.collect::<Result<_, String>>().map(Given::Ranking)
            }
            _ => Ok(match self.value(handles)? {
                Value::Int(number) => Given::Int(number),
                Value::Float(number) => Given::Float(number),
                Value::Scores(scores) => Given::Scores(scores),
                Value::Unit => Given::Other("nothing".to_owned()),
                other => Given::Other(format!("a {}", other.describe())),
            }),
        }
    }
}
