//! Splits a pickle into opcodes with their arguments, and counts how often each memo slot is
//! fetched.

use std::{collections::HashMap, io::Read, str};

use super::{Limits, PickleError};

/// Size of the read buffer, in bytes; texts that do not fit are collected separately.
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum length of a line that holds a number, a memo slot or a name, in bytes.
const MAX_LINE_BYTES: u64 = 4 << 10;
/// Memory charged for a memo slot and its number of fetches, in bytes.
pub(super) const SLOT_BYTES: u64 = 96;

/// Encoding of the text, bytes or number that follows an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Unicode,
    /// A string of Python 2: text if all its bytes are ASCII, otherwise bytes.
    Ascii,
    Bytes,
    Long,
    /// Text in Latin-1 with the escapes `\uXXXX` and `\UXXXXXXXX`.
    Escaped,
}

/// Kind of a container that an opcode opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    List,
    Dict,
    Set,
}

/// An opcode with its argument. The payload of `Sized` and `Line` follows in the input, and the
/// caller must then read or skip it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    Stop,
    Mark,
    Pop,
    PopMark,
    Dup,
    None,
    Bool(bool),
    Int(i64),
    /// An integer as text: more than 64 bits, or invalid digits.
    Digits(Box<str>),
    Float(f64),
    Sized(Payload, u64),
    Line(Payload),
    /// Pushes an empty container.
    Empty(Shape),
    /// Puts the values above the last mark into a new container.
    Collect(Shape),
    /// Makes a tuple of this number of top values or, without a number, of the values above the
    /// last mark.
    Tuple(Option<usize>),
    /// Adds the top values, chosen as for `Tuple`, to the container below.
    Add(Option<usize>),
    /// Adds the top values, chosen as for `Tuple`, to the dict below: alternating keys and values.
    AddPairs(Option<usize>),
    Put(u32),
    Get(u32),
    Memoize,
    Global(String),
    StackGlobal,
    Reduce,
    Build,
    Persistent,
    /// An opcode without effect on values.
    Nothing,
}

/// Buffered reader of a pickle's bytes.
pub(super) struct Input<R> {
    reader: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The last line, or the last text that did not fit into the buffer.
    long: Vec<u8>,
    offset: u64,
    limits: Limits,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R, limits: &Limits) -> Input<R> {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Input { reader, buffer, start: 0, end: 0, long: Vec::new(), offset: 0, limits: *limits }
    }

    /// Returns the number of bytes consumed so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn malformed(&self, reason: &'static str) -> PickleError {
        PickleError::Malformed { offset: self.offset, reason }
    }

    /// Fills the buffer with at least one byte, if it is empty.
    fn fill(&mut self) -> Result<(), PickleError> {
        if self.start == self.end {
            self.start = 0;
            self.end = loop {
                match self.reader.read(&mut self.buffer) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            if self.end == 0 {
                return Err(PickleError::Truncated { offset: self.offset });
            }
        }
        Ok(())
    }

    fn take(&mut self, n: usize) -> Result<(), PickleError> {
        self.start += n;
        self.offset += n as u64;
        let limit = self.limits.file_bytes;
        if self.offset > limit {
            return Err(PickleError::TooMuch { offset: self.offset, limit, unit: "bytes" });
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        self.fill()?;
        let byte = self.buffer.get(self.start).copied().unwrap_or_default();
        self.take(1)?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut array = [0; N];
        for byte in &mut array {
            *byte = self.byte()?;
        }
        Ok(array)
    }

    /// Reads the next `n` bytes. Memory grows with the bytes that exist, not with `n`.
    pub(super) fn bytes(&mut self, n: u64) -> Result<&[u8], PickleError> {
        let limit = self.limits.string_bytes;
        let offset = self.offset;
        let too_much = PickleError::TooMuch { offset, limit, unit: "bytes in one text" };
        let n = usize::try_from(n).ok().filter(|n| *n as u64 <= limit).ok_or(too_much)?;
        if n <= self.end - self.start {
            let start = self.start;
            self.take(n)?;
            return Ok(self.buffer.get(start..start + n).unwrap_or_default());
        }
        self.long.clear();
        if self.long.capacity() > 16 * BUFFER_BYTES {
            self.long.shrink_to(BUFFER_BYTES);
        }
        while self.long.len() < n {
            self.fill()?;
            let left = n - self.long.len();
            let here = left.min(self.end - self.start);
            // Doubles the capacity, but never beyond `n`.
            if self.long.capacity() - self.long.len() < here {
                self.long.reserve_exact(left.min(self.long.len().max(here)));
            }
            let part = self.buffer.get(self.start..self.start + here).unwrap_or_default();
            self.long.extend_from_slice(part);
            self.take(here)?;
        }
        Ok(&self.long)
    }

    /// Skips `n` bytes.
    fn skip(&mut self, mut n: u64) -> Result<(), PickleError> {
        while n > 0 {
            self.fill()?;
            let here = (self.end - self.start).min(usize::try_from(n).unwrap_or(usize::MAX));
            self.take(here)?;
            n -= here as u64;
        }
        Ok(())
    }

    /// Reads the bytes up to the next line feed, which is consumed but not returned.
    pub(super) fn line(&mut self) -> Result<&[u8], PickleError> {
        self.line_of(self.limits.string_bytes)
    }

    fn line_of(&mut self, limit: u64) -> Result<&[u8], PickleError> {
        self.long.clear();
        loop {
            self.fill()?;
            let here = self.buffer.get(self.start..self.end).unwrap_or_default();
            let found = here.iter().position(|byte| *byte == b'\n');
            let part = here.get(..found.unwrap_or(here.len())).unwrap_or_default();
            if (self.long.len() + part.len()) as u64 > limit {
                let unit = "bytes in one line";
                return Err(PickleError::TooMuch { offset: self.offset, limit, unit });
            }
            self.long.extend_from_slice(part);
            let n = part.len();
            self.take(n + usize::from(found.is_some()))?;
            if found.is_some() {
                return Ok(&self.long);
            }
        }
    }

    /// Reads a line of at most [`MAX_LINE_BYTES`] as text, without surrounding spaces.
    fn word(&mut self) -> Result<&str, PickleError> {
        let malformed = self.malformed("a name or number is not UTF-8");
        let line = self.line_of(MAX_LINE_BYTES)?;
        str::from_utf8(line).map(str::trim).map_err(|_| malformed)
    }

    fn number<T: str::FromStr>(&mut self, error: PickleError) -> Result<T, PickleError> {
        self.word()?.parse().map_err(|_| error)
    }

    fn slot(&mut self) -> Result<u32, PickleError> {
        let error = self.malformed("a memo slot is not a number below 2^32");
        self.number(error)
    }

    /// Reads the next opcode with its argument.
    pub(super) fn op(&mut self) -> Result<Op, PickleError> {
        let opcode = self.byte()?;
        let sized = |payload, n: u64| Ok(Op::Sized(payload, n));
        match opcode {
            b'.' => Ok(Op::Stop),
            b'(' => Ok(Op::Mark),
            b'0' => Ok(Op::Pop),
            b'1' => Ok(Op::PopMark),
            b'2' => Ok(Op::Dup),
            b'N' => Ok(Op::None),
            0x88 => Ok(Op::Bool(true)),
            0x89 => Ok(Op::Bool(false)),
            b'I' => match self.word()? {
                "00" => Ok(Op::Bool(false)),
                "01" => Ok(Op::Bool(true)),
                digits => Ok(integer(digits)),
            },
            b'L' => {
                let digits = self.word()?;
                Ok(integer(digits.strip_suffix('L').unwrap_or(digits)))
            }
            b'J' => Ok(Op::Int(i32::from_le_bytes(self.array()?).into())),
            b'K' => Ok(Op::Int(self.byte()?.into())),
            b'M' => Ok(Op::Int(u16::from_le_bytes(self.array()?).into())),
            0x8a => {
                let n = self.byte()?;
                sized(Payload::Long, n.into())
            }
            0x8b => {
                let n = u32::from_le_bytes(self.array()?);
                sized(Payload::Long, n.into())
            }
            b'F' => {
                let error = self.malformed("a float cannot be read");
                Ok(Op::Float(self.number(error)?))
            }
            b'G' => Ok(Op::Float(f64::from_be_bytes(self.array()?))),
            b'V' => Ok(Op::Line(Payload::Escaped)),
            b'X' => sized(Payload::Unicode, u32::from_le_bytes(self.array()?).into()),
            0x8c => sized(Payload::Unicode, self.byte()?.into()),
            0x8d => sized(Payload::Unicode, u64::from_le_bytes(self.array()?)),
            b'T' => sized(Payload::Ascii, u32::from_le_bytes(self.array()?).into()),
            b'U' => sized(Payload::Ascii, self.byte()?.into()),
            b'B' => sized(Payload::Bytes, u32::from_le_bytes(self.array()?).into()),
            b'C' => sized(Payload::Bytes, self.byte()?.into()),
            0x8e | 0x96 => sized(Payload::Bytes, u64::from_le_bytes(self.array()?)),
            b']' => Ok(Op::Empty(Shape::List)),
            b'}' => Ok(Op::Empty(Shape::Dict)),
            0x8f => Ok(Op::Empty(Shape::Set)),
            b'l' => Ok(Op::Collect(Shape::List)),
            b'd' => Ok(Op::Collect(Shape::Dict)),
            0x91 => Ok(Op::Collect(Shape::Set)),
            b't' => Ok(Op::Tuple(None)),
            b')' => Ok(Op::Tuple(Some(0))),
            0x85..=0x87 => Ok(Op::Tuple(Some(usize::from(opcode - 0x84)))),
            b'a' => Ok(Op::Add(Some(1))),
            b'e' | 0x90 => Ok(Op::Add(None)),
            b's' => Ok(Op::AddPairs(Some(2))),
            b'u' => Ok(Op::AddPairs(None)),
            b'p' => Ok(Op::Put(self.slot()?)),
            b'q' => Ok(Op::Put(self.byte()?.into())),
            b'r' => Ok(Op::Put(u32::from_le_bytes(self.array()?))),
            b'g' => Ok(Op::Get(self.slot()?)),
            b'h' => Ok(Op::Get(self.byte()?.into())),
            b'j' => Ok(Op::Get(u32::from_le_bytes(self.array()?))),
            0x94 => Ok(Op::Memoize),
            b'c' => {
                let mut name = self.word()?.to_owned();
                name.push('.');
                name.push_str(self.word()?);
                Ok(Op::Global(name))
            }
            0x93 => Ok(Op::StackGlobal),
            b'R' => Ok(Op::Reduce),
            b'b' => Ok(Op::Build),
            b'Q' => Ok(Op::Persistent),
            0x80 => match self.byte()? {
                0..=5 => Ok(Op::Nothing),
                _ => Err(self.malformed("the protocol is above 5")),
            },
            // The length of a frame is only a hint for reading ahead; ignored.
            0x95 => self.array::<8>().map(|_| Op::Nothing),
            opcode => Err(PickleError::Opcode { offset: self.offset, opcode }),
        }
    }
}

/// Counts the fetches of each memo slot, up to the end of the pickle; returns the counts by slot
/// number.
pub(super) fn count_fetches<R: Read>(
    mut input: Input<R>,
) -> Result<HashMap<u32, u32>, PickleError> {
    let mut fetches: HashMap<u32, u32> = HashMap::new();
    loop {
        match input.op()? {
            Op::Stop => return Ok(fetches),
            Op::Sized(_, n) => input.skip(n)?,
            Op::Line(_) => drop(input.line()?),
            Op::Get(slot) => {
                let count = fetches.entry(slot).or_default();
                *count = count.saturating_add(1);
                let limit = input.limits.memory_bytes;
                if fetches.len() as u64 * SLOT_BYTES > limit {
                    let (offset, unit) = (input.offset, "bytes of memo");
                    return Err(PickleError::TooMuch { offset, limit, unit });
                }
            }
            _ => {}
        }
    }
}

/// Parses an integer; returns the text as [`Op::Digits`] if it is invalid or exceeds 64 bits.
fn integer(digits: &str) -> Op {
    digits.parse().map_or_else(|_| Op::Digits(digits.into()), Op::Int)
}
