//! Detects the encoding of text files, and decodes them to UTF-8 while reading.
//!
//! A byte order mark determines the encoding. Without a mark, a file is UTF-16 if more than half of
//! the first bytes at even positions, or more than half of the first bytes at odd positions, are
//! zero. Otherwise the encoding depends on the lines with bytes outside ASCII: the file is UTF-8
//! unless most of these lines are invalid UTF-8. If most are invalid, the file is Latin-1 if an
//! invalid line has a byte that cp1252 leaves undefined, else cp1252. Memory use is limited to one
//! buffer.

use std::{
    fmt,
    io::{self, BufRead, Read},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, de::Error as _};

/// Number of bytes at the start of a file in which zero bytes are counted to detect UTF-16.
const INSPECTED_BYTES: usize = 1024;
/// Maximum number of bytes of a line that are checked at once; a longer line is checked, and
/// counted, in several pieces.
const MAX_PIECE_BYTES: u64 = 1 << 20;
/// Characters of cp1252 for bytes 0x80 to 0x9F; undefined bytes map to Latin-1 control characters.
const CP1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];
/// Bytes that cp1252 leaves undefined.
const UNDEFINED: [u8; 5] = [0x81, 0x8d, 0x8f, 0x90, 0x9d];

/// The encoding of a text file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    #[default]
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// Windows code page 1252.
    Cp1252,
    /// ISO 8859-1.
    Latin1,
}

impl Encoding {
    const NAMED: [(&'static str, Encoding); 5] = [
        ("utf-8", Encoding::Utf8),
        ("utf-16le", Encoding::Utf16Le),
        ("utf-16be", Encoding::Utf16Be),
        ("cp1252", Encoding::Cp1252),
        ("latin-1", Encoding::Latin1),
    ];

    /// Returns the canonical name, such as `utf-8`.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|named| named.1 == self).map_or("", |named| named.0)
    }

    /// Detects the encoding of a text. Reads the whole text, or only its first bytes if a byte
    /// order mark or zero bytes in them show the encoding.
    ///
    /// # Errors
    /// Any error of reading `text`.
    pub(crate) fn detect(text: &mut dyn BufRead) -> io::Result<Encoding> {
        let head = text.fill_buf()?;
        let head = head.get(..head.len().min(INSPECTED_BYTES)).unwrap_or(head);
        match head {
            [0xff, 0xfe, ..] => return Ok(Encoding::Utf16Le),
            [0xfe, 0xff, ..] => return Ok(Encoding::Utf16Be),
            [0xef, 0xbb, 0xbf, ..] => return Ok(Encoding::Utf8),
            _ => {}
        }
        let zeros =
            |parity: usize| head.iter().skip(parity).step_by(2).filter(|b| **b == 0).count();
        let is_most = |n: usize| n * 4 > head.len();
        match (is_most(zeros(1)), is_most(zeros(0))) {
            (true, false) => return Ok(Encoding::Utf16Le),
            (false, true) => return Ok(Encoding::Utf16Be),
            _ => {}
        }
        let (mut wrong, mut beyond_ascii, mut has_undefined) = (0u64, 0u64, false);
        let mut line = Vec::new();
        while {
            line.clear();
            // A line of more than `MAX_PIECE_BYTES` counts as several lines. If a character is cut
            // between two pieces, the second piece is invalid.
            (&mut *text).take(MAX_PIECE_BYTES).read_until(b'\n', &mut line)? > 0
        } {
            if line.is_ascii() {
                continue;
            }
            match std::str::from_utf8(&line) {
                Err(error) if error.error_len().is_some() => {
                    wrong += 1;
                    has_undefined |= line.iter().any(|byte| UNDEFINED.contains(byte));
                }
                _ => beyond_ascii += 1,
            }
        }
        Ok(match (wrong > beyond_ascii, has_undefined) {
            (false, _) => Encoding::Utf8,
            (true, false) => Encoding::Cp1252,
            (true, true) => Encoding::Latin1,
        })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Encoding, String> {
        let name = text.to_lowercase().replace('_', "-");
        let name = match name.as_str() {
            "utf8" => "utf-8",
            "utf-16" | "utf16" => "utf-16le",
            "windows-1252" | "cp-1252" | "ansi" => "cp1252",
            "latin1" | "iso-8859-1" => "latin-1",
            other => other,
        };
        let found = Self::NAMED.iter().find(|named| named.0 == name);
        found.map(|named| named.1).ok_or_else(|| {
            let names = Self::NAMED.map(|named| named.0).join(", ");
            format!("{text:?} is not a supported encoding; use one of: {names}")
        })
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Encoding, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Reader that decodes a text to UTF-8; invalid UTF-16 becomes U+FFFD.
pub(crate) struct Decoder<R> {
    text: R,
    encoding: Encoding,
    /// Decoded bytes; the caller has read the bytes before the index `at`.
    decoded: Vec<u8>,
    at: usize,
    /// First byte of a UTF-16 code unit whose second byte has not been read yet.
    odd: Option<u8>,
    /// High surrogate whose low surrogate has not been read yet.
    high: Option<u16>,
}

impl<R: BufRead> Decoder<R> {
    pub(crate) fn new(text: R, encoding: Encoding) -> Self {
        Decoder { text, encoding, decoded: Vec::new(), at: 0, odd: None, high: None }
    }

    /// Decodes the next buffer of the text; returns false at the end of the text.
    fn fill(&mut self) -> io::Result<bool> {
        self.decoded.clear();
        self.at = 0;
        let bytes = self.text.fill_buf()?;
        let (n, mut decoded) = (bytes.len(), String::with_capacity(bytes.len()));
        match self.encoding {
            Encoding::Utf8 => {
                self.decoded.extend_from_slice(bytes);
                self.text.consume(n);
                return Ok(n > 0);
            }
            Encoding::Latin1 => decoded.extend(bytes.iter().map(|&byte| char::from(byte))),
            Encoding::Cp1252 => decoded.extend(bytes.iter().map(|&byte| match byte {
                0x80..=0x9f => CP1252[usize::from(byte - 0x80)],
                byte => char::from(byte),
            })),
            Encoding::Utf16Le | Encoding::Utf16Be => {
                for &byte in bytes {
                    let Some(first) = self.odd.take() else {
                        self.odd = Some(byte);
                        continue;
                    };
                    let unit = match self.encoding {
                        Encoding::Utf16Le => u16::from_le_bytes([first, byte]),
                        _ => u16::from_be_bytes([first, byte]),
                    };
                    let units = [self.high.take(), Some(unit)];
                    if units[0].is_none() && (0xd800..0xdc00).contains(&unit) {
                        self.high = Some(unit);
                        continue;
                    }
                    let chars = char::decode_utf16(units.into_iter().flatten());
                    decoded.extend(chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
                }
            }
        }
        self.text.consume(n);
        if n == 0 && (self.odd.take().is_some() | self.high.take().is_some()) {
            decoded.push(char::REPLACEMENT_CHARACTER);
        }
        self.decoded = decoded.into_bytes();
        Ok(n > 0 || !self.decoded.is_empty())
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.decoded.len() {
            if !self.fill()? {
                return Ok(0);
            }
        }
        let left = self.decoded.get(self.at..).unwrap_or_default();
        let n = left.len().min(buffer.len());
        buffer[..n].copy_from_slice(&left[..n]);
        self.at += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn decoded(bytes: &[u8], encoding: Encoding) -> String {
        let mut text = String::new();
        // Small buffers cut units and pairs.
        let reader = BufReader::with_capacity(3, bytes);
        Decoder::new(reader, encoding).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn each_encoding_is_detected_and_read_as_it_was_written() {
        let text = "id;name\r\n1;Müller – €5\r\n";
        let utf16 = |swap: bool| -> Vec<u8> {
            let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
            units
                .flat_map(|unit| if swap { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect()
        };
        let cp1252: Vec<u8> = text
            .chars()
            .map(|c| match CP1252.iter().position(|known| *known == c) {
                Some(at) => 0x80 + at as u8,
                None => c as u8,
            })
            .collect();
        for (bytes, expected) in [
            (text.as_bytes().to_vec(), Encoding::Utf8),
            ([b"\xef\xbb\xbf", text.as_bytes()].concat(), Encoding::Utf8),
            (utf16(false), Encoding::Utf16Le),
            (utf16(true), Encoding::Utf16Be),
            (utf16(false).split_off(2), Encoding::Utf16Le),
            (cp1252, Encoding::Cp1252),
        ] {
            let detected = Encoding::detect(&mut BufReader::new(&bytes[..])).unwrap();
            assert_eq!(detected, expected);
            assert_eq!(
                decoded(&bytes, detected).trim_start_matches('\u{feff}'),
                text,
                "{expected}"
            );
        }
        assert_eq!(Encoding::detect(&mut &b"caf\xe9 \x81"[..]).unwrap(), Encoding::Latin1);
        // One wrong line among good ones is a mistake in UTF-8.
        let mixed = "ü\né\nö\n".as_bytes().iter().chain(b"\xfc\n").copied().collect::<Vec<u8>>();
        assert_eq!(Encoding::detect(&mut &mixed[..]).unwrap(), Encoding::Utf8);
    }

    #[test]
    fn pairs_and_halves_of_utf16_are_read() {
        let bytes: Vec<u8> = "a😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decoded(&bytes, Encoding::Utf16Le), "a😀");
        assert_eq!(decoded(&bytes[..5], Encoding::Utf16Le), "a\u{fffd}");
        assert!("ebcdic".parse::<Encoding>().unwrap_err().contains("utf-8, utf-16le"));
    }
}
