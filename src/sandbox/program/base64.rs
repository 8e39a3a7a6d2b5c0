//! Base64 by RFC 4648, section 4, with padding.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = 0u32;
        for index in 0..3 {
            group = group << 8 | u32::from(chunk.get(index).copied().unwrap_or(0));
        }
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) & 63;
            match digit <= chunk.len() {
                true => text.push(char::from(DIGITS[value as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

/// Decodes canonical output of [`encode`]; `None` for any other text.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        let mut value = 0u32;
        for byte in group.iter().take(group.len() - padding) {
            let digit = DIGITS.iter().position(|digit| digit == byte)?;
            value = value << 6 | digit as u32;
        }
        value <<= 6 * padding;
        let [_, whole @ ..] = value.to_be_bytes();
        bytes.extend(whole.get(..3usize.checked_sub(padding)?)?);
    }
    // Text of another length, or with padding elsewhere, does not round-trip.
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn bytes_come_back_and_other_text_is_refused() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\0", "//4A"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zg==Zg==", "Z===", "====", "Zm9v\n", "Zm-v", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
