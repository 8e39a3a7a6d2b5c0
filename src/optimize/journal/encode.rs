//! Encodes values as JSON, with limits on size and nesting, and decodes them. Numbers are exact.

use std::io::{self, Write};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::ser::{CompactFormatter, Formatter};

use crate::journal::{BODY_DEPTH, JournalError, Result};

/// Encodes a value as JSON. Fails as soon as the text has more than `limit` bytes. Error messages
/// name the step by `kind` and `key`.
pub(super) fn encode<T: Serialize + ?Sized>(
    kind: &str,
    key: &str,
    value: &T,
    limit: usize,
) -> Result<String> {
    let mut text = LimitedBuffer { bytes: Vec::new(), limit, full: false };
    let mut depth = Depth { depth: 0, too_deep: false };
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, &mut depth);
    let written = value.serialize(&mut serializer);
    let what = || format!("the result of step {kind} {key:?}");
    if text.full {
        return Err(JournalError::TooLarge { what: what(), limit, unit: "bytes" });
    }
    if depth.too_deep {
        return Err(JournalError::TooLarge { what: what(), limit: BODY_DEPTH, unit: "levels" });
    }
    let failed =
        |source| JournalError::Encode { kind: kind.to_owned(), key: key.to_owned(), source };
    written.map_err(failed)?;
    String::from_utf8(text.bytes).map_err(|error| failed(serde::ser::Error::custom(error)))
}

/// Decodes a value from JSON. Error messages name the step by `kind` and `key`.
pub(super) fn decode<T: DeserializeOwned>(kind: &str, key: &str, body: &str) -> Result<T> {
    serde_json::from_str(body).map_err(|source| JournalError::Decode {
        kind: kind.to_owned(),
        key: key.to_owned(),
        source,
    })
}

/// Buffer whose writes fail once it would have more than `limit` bytes.
struct LimitedBuffer {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl Write for LimitedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.full = true;
            return Err(io::Error::other("too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formatter of compact JSON that fails if lists and maps are nested more than [`BODY_DEPTH`]
/// levels deep.
struct Depth {
    depth: usize,
    too_deep: bool,
}

impl Depth {
    fn enter(&mut self) -> io::Result<()> {
        self.depth += 1;
        self.too_deep |= self.depth > BODY_DEPTH;
        if self.too_deep { Err(io::Error::other("too deep")) } else { Ok(()) }
    }
}

impl Formatter for &mut Depth {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        CompactFormatter.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        CompactFormatter.end_array(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter()?;
        CompactFormatter.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        CompactFormatter.end_object(writer)
    }
}
