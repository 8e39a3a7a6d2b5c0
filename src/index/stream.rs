//! Streams of arrays and words, which carry the analysed words of ranges of nodes to the builder of
//! an index. Numbers are little-endian; the length of an array precedes its numbers.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use bytemuck::Pod;

use crate::{IndexError, arrays::Strings};

/// Words in the order of the stream: word `i` is `bytes[bounds[i]..bounds[i + 1]]`.
pub(super) struct Words {
    bounds: Vec<u64>,
    bytes: Vec<u8>,
}

/// Writes a number as 8 bytes.
pub(super) fn write_number(out: &mut dyn Write, number: usize) -> io::Result<()> {
    out.write_all(&(number as u64).to_le_bytes())
}

/// Reads a number of 8 bytes.
pub(super) fn read_number(input: &mut dyn Read) -> io::Result<u64> {
    let mut number = [0; 8];
    input.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}

/// Writes the length of an array, then its numbers.
pub(super) fn write<T: Pod>(out: &mut dyn Write, array: &[T]) -> io::Result<()> {
    write_number(out, array.len())?;
    out.write_all(bytemuck::cast_slice(array))
}

/// Reads an array. Allocates only as much as the input holds, even if the declared length is wrong.
///
/// # Errors
/// `InvalidData` if the array ends early; errors of `input`.
pub(super) fn read<T: Pod>(input: &mut dyn Read) -> io::Result<Vec<T>> {
    let claimed = read_number(input)?.saturating_mul(size_of::<T>() as u64);
    let mut bytes = Vec::new();
    input.take(claimed).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == claimed {
        true => Ok(bytemuck::pod_collect_to_vec(&bytes)),
        false => Err(invalid_data("an array ends early")),
    }
}

/// Writes words as the arrays of their bounds and bytes, for [`read_words`].
pub(super) fn write_words<'a>(
    out: &mut dyn Write,
    words: impl Iterator<Item = &'a [u8]>,
) -> io::Result<()> {
    let (bounds, bytes) = Strings::layout(words);
    write(out, &bounds)?;
    write(out, &bytes)
}

/// Reads the words written by [`write_words`].
///
/// # Errors
/// As [`read`]; also `InvalidData` for inconsistent bounds or words that are not UTF-8.
pub(super) fn read_words(input: &mut dyn Read) -> io::Result<Words> {
    let words = Words { bounds: read(input)?, bytes: read(input)? };
    let ends = words.bounds.first() == Some(&0)
        && words.bounds.last() == Some(&(words.bytes.len() as u64))
        && words.bounds.is_sorted();
    match ends && words.iter().all(|word| str::from_utf8(word).is_ok()) {
        true => Ok(words),
        false => Err(invalid_data("words have wrong bounds or are not UTF-8")),
    }
}

/// Creates the error for malformed input: kind `InvalidData`, with `reason`.
pub(super) fn invalid_data(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Converts an error of a stream of words that [`read_words`](crate::read_words) analysed
/// elsewhere.
pub(super) fn failed(error: io::Error) -> IndexError {
    IndexError::io(Path::new("the words that another process analysed"))(error)
}

impl Words {
    pub(super) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bounds.windows(2).map(|ends| &self.bytes[ends[0] as usize..ends[1] as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_not_is_refused() {
        let mut bytes = Vec::new();
        write(&mut bytes, &[3u32, 5]).unwrap();
        write_words(&mut bytes, ["aé", "", "b"].into_iter().map(str::as_bytes)).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read::<u32>(&mut input).unwrap(), [3, 5]);
        let words = read_words(&mut input).unwrap();
        assert!(input.is_empty());
        assert_eq!(words.len(), 3);
        assert_eq!(words.iter().collect::<Vec<_>>(), ["aé".as_bytes(), b"", b"b"]);

        assert!(read::<u32>(&mut &bytes[..12]).is_err(), "cut short");
        assert!(read::<u64>(&mut [0xff; 24].as_slice()).is_err(), "far too long");
        let words = |bounds: &[u64], text: &[u8]| {
            let mut bytes = Vec::new();
            write(&mut bytes, bounds).unwrap();
            write(&mut bytes, text).unwrap();
            read_words(&mut bytes.as_slice()).map(|words| words.len())
        };
        assert_eq!(words(&[0, 1, 2], b"ab").unwrap(), 2);
        assert_eq!(words(&[0], b"").unwrap(), 0);
        for bounds in [&[][..], &[0, 2, 1, 2], &[0, 1], &[1, 2], &[0, 3]] {
            assert!(words(bounds, b"ab").is_err(), "{bounds:?}");
        }
        assert!(words(&[0, 1, 2], "é".as_bytes()).is_err(), "cut within a character");
    }
}
