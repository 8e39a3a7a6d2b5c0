//! Splits a pickle into opcodes with their arguments, and counts how often each memo slot is
//! fetched.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, ErrorKind, Read},
    str,
};

use super::{Limits, PickleError, Value};

/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum length in bytes of a line that holds a number, a memo slot or a name.
const MAX_LINE_BYTES: u64 = 4 << 10;
/// Memory in bytes charged for a memo slot and its fetch count.
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
    Plain(Value),
    /// An integer as text: more than 64 bits, or invalid digits.
    Digits(Box<str>),
    Sized(Payload, u64),
    Line(Payload),
    /// Pushes an empty container.
    Empty(Shape),
    /// Puts the values above the last mark into a new container.
    Collect(Shape),
    /// Makes a tuple of this number of top values or, without a number, of the values above the
    /// last mark.
    Tuple(Option<usize>),
    /// Adds the top values, chosen as for `Tuple`, to the list or set below.
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
    reader: BufReader<R>,
    /// The last line or text.
    text: Vec<u8>,
    /// Number of bytes consumed so far.
    pub(super) offset: u64,
    limits: Limits,
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R, limits: &Limits) -> Input<R> {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Input { reader, text: Vec::new(), offset: 0, limits: *limits }
    }

    fn malformed(&self, reason: &'static str) -> PickleError {
        PickleError::Malformed { offset: self.offset, reason }
    }

    fn too_much(&self, limit: u64, unit: &'static str) -> PickleError {
        PickleError::TooMuch { offset: self.offset, limit, unit }
    }

    /// Fills the buffer if it is empty; returns its bytes, at least one.
    fn fill(&mut self) -> Result<&[u8], PickleError> {
        while let Err(error) = self.reader.fill_buf() {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error.into());
            }
        }
        match self.reader.buffer() {
            [] => Err(PickleError::Truncated { offset: self.offset }),
            bytes => Ok(bytes),
        }
    }

    fn take(&mut self, n: usize) -> Result<(), PickleError> {
        self.reader.consume(n);
        self.offset += n as u64;
        let limit = self.limits.file_bytes;
        if self.offset > limit {
            return Err(self.too_much(limit, "bytes"));
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        let byte = self.fill()?.first().copied().unwrap_or_default();
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
        let too_much = self.too_much(limit, "bytes in one text");
        let n = usize::try_from(n).ok().filter(|n| *n as u64 <= limit).ok_or(too_much)?;
        self.text.clear();
        if self.text.capacity() > 16 * BUFFER_BYTES {
            self.text.shrink_to(BUFFER_BYTES);
        }
        while self.text.len() < n {
            let left = n - self.text.len();
            let here = self.fill()?.len().min(left);
            // Doubles the capacity, but never beyond `n`.
            if self.text.capacity() - self.text.len() < here {
                self.text.reserve_exact(left.min(self.text.len().max(here)));
            }
            self.text.extend_from_slice(self.reader.buffer().get(..here).unwrap_or_default());
            self.take(here)?;
        }
        Ok(&self.text)
    }

    /// Skips `n` bytes.
    fn skip(&mut self, mut n: u64) -> Result<(), PickleError> {
        while n > 0 {
            let here = self.fill()?.len().min(usize::try_from(n).unwrap_or(usize::MAX));
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
        self.text.clear();
        loop {
            self.fill()?;
            let here = self.reader.buffer();
            let found = here.iter().position(|byte| *byte == b'\n');
            let part = here.get(..found.unwrap_or(here.len())).unwrap_or_default();
            if (self.text.len() + part.len()) as u64 > limit {
                return Err(self.too_much(limit, "bytes in one line"));
            }
            self.text.extend_from_slice(part);
            let n = part.len();
            self.take(n + usize::from(found.is_some()))?;
            if found.is_some() {
                return Ok(&self.text);
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
        Ok(match opcode {
            b'.' => Op::Stop,
            b'(' => Op::Mark,
            b'0' => Op::Pop,
            b'1' => Op::PopMark,
            b'2' => Op::Dup,
            b'N' => Op::Plain(Value::None),
            0x88 => Op::Plain(Value::Bool(true)),
            0x89 => Op::Plain(Value::Bool(false)),
            b'I' => match self.word()? {
                "00" => Op::Plain(Value::Bool(false)),
                "01" => Op::Plain(Value::Bool(true)),
                digits => integer(digits),
            },
            b'L' => {
                let digits = self.word()?;
                integer(digits.strip_suffix('L').unwrap_or(digits))
            }
            b'J' => Op::Plain(Value::Int(i32::from_le_bytes(self.array()?).into())),
            b'K' => Op::Plain(Value::Int(self.byte()?.into())),
            b'M' => Op::Plain(Value::Int(u16::from_le_bytes(self.array()?).into())),
            0x8a => Op::Sized(Payload::Long, self.byte()?.into()),
            0x8b => Op::Sized(Payload::Long, u32::from_le_bytes(self.array()?).into()),
            b'F' => {
                let error = self.malformed("a float cannot be read");
                Op::Plain(Value::Float(self.number(error)?))
            }
            b'G' => Op::Plain(Value::Float(f64::from_be_bytes(self.array()?))),
            b'V' => Op::Line(Payload::Escaped),
            b'X' => Op::Sized(Payload::Unicode, u32::from_le_bytes(self.array()?).into()),
            0x8c => Op::Sized(Payload::Unicode, self.byte()?.into()),
            0x8d => Op::Sized(Payload::Unicode, u64::from_le_bytes(self.array()?)),
            b'T' => Op::Sized(Payload::Ascii, u32::from_le_bytes(self.array()?).into()),
            b'U' => Op::Sized(Payload::Ascii, self.byte()?.into()),
            b'B' => Op::Sized(Payload::Bytes, u32::from_le_bytes(self.array()?).into()),
            b'C' => Op::Sized(Payload::Bytes, self.byte()?.into()),
            0x8e | 0x96 => Op::Sized(Payload::Bytes, u64::from_le_bytes(self.array()?)),
            b']' => Op::Empty(Shape::List),
            b'}' => Op::Empty(Shape::Dict),
            0x8f => Op::Empty(Shape::Set),
            b'l' => Op::Collect(Shape::List),
            b'd' => Op::Collect(Shape::Dict),
            0x91 => Op::Collect(Shape::Set),
            b't' => Op::Tuple(None),
            b')' => Op::Tuple(Some(0)),
            0x85..=0x87 => Op::Tuple(Some(usize::from(opcode - 0x84))),
            b'a' => Op::Add(Some(1)),
            b'e' | 0x90 => Op::Add(None),
            b's' => Op::AddPairs(Some(2)),
            b'u' => Op::AddPairs(None),
            b'p' => Op::Put(self.slot()?),
            b'q' => Op::Put(self.byte()?.into()),
            b'r' => Op::Put(u32::from_le_bytes(self.array()?)),
            b'g' => Op::Get(self.slot()?),
            b'h' => Op::Get(self.byte()?.into()),
            b'j' => Op::Get(u32::from_le_bytes(self.array()?)),
            0x94 => Op::Memoize,
            b'c' => {
                let module = self.word()?.to_owned();
                Op::Global(format!("{module}.{}", self.word()?))
            }
            0x93 => Op::StackGlobal,
            b'R' => Op::Reduce,
            b'b' => Op::Build,
            b'Q' => Op::Persistent,
            0x80 => match self.byte()? {
                0..=5 => Op::Nothing,
                _ => return Err(self.malformed("the protocol is above 5")),
            },
            // The length of a frame is only a hint for reading ahead; ignored.
            0x95 => self.array::<8>().map(|_| Op::Nothing)?,
            opcode => return Err(PickleError::Opcode { offset: self.offset, opcode }),
        })
    }
}

/// Counts the fetches of each memo slot, up to the end of the pickle; returns the counts by slot
/// number.
pub(super) fn count_fetches(mut input: Input<impl Read>) -> Result<HashMap<u32, u32>, PickleError> {
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
                    return Err(input.too_much(limit, "bytes of memo"));
                }
            }
            _ => {}
        }
    }
}

/// Parses an integer; returns the text as [`Op::Digits`] if it is invalid or exceeds 64 bits.
fn integer(digits: &str) -> Op {
    digits.parse().map_or_else(|_| Op::Digits(digits.into()), |n| Op::Plain(Value::Int(n)))
}
