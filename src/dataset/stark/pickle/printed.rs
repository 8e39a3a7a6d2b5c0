//! Formats numbers, dates and ranges as Python 3.11 and numpy before version 2 do.

use std::{
    fmt::{Debug, LowerExp},
    sync::Arc,
};

use super::Value;

/// Maximum number of digits of an integer that Python prints by default.
const MAX_DIGITS: usize = 4_300;
/// Maximum size of an integer with [`MAX_DIGITS`] digits, in bytes.
const MAX_INTEGER_BYTES: usize = 1_786;
/// Number of decimal digits that each step of the long division yields.
const STEP_DIGITS: usize = 9;
const STEP: u64 = 1_000_000_000;

/// A value stored as the text that Python prints for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Output of `str(value)`.
    pub text: Box<str>,
    /// Output of `repr(value)`, which Python prints within a list or dict.
    pub repr: Box<str>,
}

/// Returns a value with `text` as both its `str` and its `repr`.
pub(super) fn same(text: String) -> Value {
    either(text.clone(), text)
}

/// Returns a value with the `str` `text` and the `repr` `repr`.
pub(super) fn either(text: String, repr: String) -> Value {
    Value::Printed(Arc::new(Printed { text: text.into(), repr: repr.into() }))
}

/// Returns a value with the `str` `text`, whose `repr` is a call of `name` with that text.
fn called(name: &str, text: String) -> Value {
    let repr = format!("{name}('{text}')");
    either(text, repr)
}

/// Formats a number like `repr(float)`: the shortest digits that read back as the same number.
pub(in crate::stark) fn float(number: f64) -> String {
    shortest(number, &number)
}

/// Formats a number like `repr(numpy.float32)`: the shortest digits that read back as the same
/// number.
pub(in crate::stark) fn single(number: f32) -> String {
    shortest(number.into(), &number)
}

/// Formats `narrow`, whose value is `number`; uses scientific notation for magnitudes below 1e-4
/// and from 1e16 on.
fn shortest(number: f64, narrow: &(impl Debug + LowerExp)) -> String {
    match number {
        n if n.is_nan() => return "nan".to_owned(),
        f64::INFINITY => return "inf".to_owned(),
        f64::NEG_INFINITY => return "-inf".to_owned(),
        _ => {}
    }
    let scientific = format!("{narrow:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    match exponent {
        -4..16 => format!("{narrow:?}"),
        16.. => format!("{digits}e+{exponent:02}"),
        _ => format!("{digits}e-{:02}", -exponent),
    }
}

/// Formats a complex number from the texts of its real and imaginary parts.
pub(super) fn complex(real: &str, imaginary: &str) -> String {
    let [real, imaginary] = [real, imaginary].map(|part| part.strip_suffix(".0").unwrap_or(part));
    match (real, imaginary.starts_with('-')) {
        ("0", _) => format!("{imaginary}j"),
        (_, true) => format!("({real}{imaginary}j)"),
        (_, false) => format!("({real}+{imaginary}j)"),
    }
}

/// Returns the text of `range(start, stop, step)` as a value.
pub(super) fn range(start: i64, stop: i64, step: i64) -> Value {
    let step = if step == 1 { String::new() } else { format!(", {step}") };
    same(format!("range({start}, {stop}{step})"))
}

/// Formats an integer beyond 64 bits from the bytes of its little-endian two's complement; `None`
/// if Python would not print the integer. Time: quadratic in the number of bytes, which is at most
/// [`MAX_INTEGER_BYTES`].
pub(super) fn integer(bytes: &[u8]) -> Option<Value> {
    if bytes.len() > MAX_INTEGER_BYTES {
        return None;
    }
    let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    let mut carry = negative;
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if negative {
        for byte in &mut magnitude {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
        // The magnitude of the lowest number needs one more bit.
        magnitude.push(u8::from(carry));
    }
    let mut steps = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut rest = 0;
        for byte in magnitude.iter_mut().rev() {
            let part = rest << 8 | u64::from(*byte);
            // Below 256, because the remainder is below the divisor.
            *byte = (part / STEP) as u8;
            rest = part % STEP;
        }
        steps.push(rest);
    }
    let mut digits = steps.pop().unwrap_or_default().to_string();
    for step in steps.iter().rev() {
        digits += &format!("{step:0STEP_DIGITS$}");
    }
    let sign = if negative { "-" } else { "" };
    (digits.len() <= MAX_DIGITS).then(|| same(format!("{sign}{digits}")))
}

/// Formats an integer beyond 64 bits from its digits; `None` if the digits are invalid or Python
/// would not print the integer.
pub(super) fn decimal(digits: &str) -> Option<Value> {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let is_number = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
    let trimmed = plain.trim_start_matches('0');
    let sign = if plain.len() < digits.len() { "-" } else { "" };
    (is_number && trimmed.len() <= MAX_DIGITS).then(|| same(format!("{sign}{trimmed}")))
}

/// Returns the number of units per second, and the number of printed decimal places of a second.
fn parts_of_second(unit: &str) -> Option<(i64, usize)> {
    Some(match unit {
        "s" => (1, 0),
        "ms" => (1_000, 3),
        "us" => (1_000_000, 6),
        "ns" => (1_000_000_000, 9),
        _ => return None,
    })
}

/// Formats a `numpy.datetime64` of `count` units since 1970; `None` for a unit smaller than a
/// nanosecond or a year outside of 0 to 9999.
pub(super) fn datetime(count: i64, unit: &str) -> Option<Value> {
    if count == i64::MIN {
        return Some(called("numpy.datetime64", "NaT".to_owned()));
    }
    let text = match unit {
        "Y" => year(count.checked_add(1970)?)?,
        "M" => {
            let year = year(count.div_euclid(12).checked_add(1970)?)?;
            format!("{year}-{:02}", count.rem_euclid(12) + 1)
        }
        "W" => date(count.checked_mul(7)?)?,
        "D" => date(count)?,
        "h" => format!("{}T{:02}", date(count.div_euclid(24))?, count.rem_euclid(24)),
        "m" => {
            let (day, minute) = (count.div_euclid(1_440), count.rem_euclid(1_440));
            format!("{}T{:02}:{:02}", date(day)?, minute / 60, minute % 60)
        }
        unit => {
            let (parts, digits) = parts_of_second(unit)?;
            let (day, time, part) = split(count, parts)?;
            let fraction = format!(".{part:0digits$}");
            format!("{day}T{time}{}", if digits > 0 { &fraction } else { "" })
        }
    };
    Some(called("numpy.datetime64", text))
}

/// Formats a `pandas.Timestamp` without a time zone, `count` units after 1970; `None` for a unit
/// other than s, ms, us and ns, or a year outside of 0 to 9999.
pub(super) fn timestamp(count: i64, unit: &str) -> Option<Value> {
    let (parts, _) = parts_of_second(unit)?;
    let (day, time, part) = split(count, parts)?;
    let nanoseconds = part * (1_000_000_000 / parts);
    let fraction = match nanoseconds {
        0 => String::new(),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    };
    Some(called("Timestamp", format!("{day} {time}{fraction}")))
}

/// Splits a count of time units since 1970 into the date, the time of day to the second, and the
/// remaining units; `parts` is the number of units per second.
fn split(count: i64, parts: i64) -> Option<(String, String, i64)> {
    let (seconds, part) = (count.div_euclid(parts), count.rem_euclid(parts));
    let (day, second) = (date(seconds.div_euclid(86_400))?, seconds.rem_euclid(86_400));
    let time = format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60);
    Some((day, time, part))
}

fn year(year: i64) -> Option<String> {
    (0..=9_999).contains(&year).then(|| format!("{year:04}"))
}

/// Formats the date `days` days after 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date
/// algorithms": years begin in March, and 400 years have 146,097 days).
fn date(days: i64) -> Option<String> {
    let days = days.checked_add(719_468)?;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * of_era + of_era / 4 - of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    Some(format!("{}-{month:02}-{of_month:02}", year(of_era + era * 400 + next)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Option<Value>) -> (String, String) {
        let Some(Value::Printed(printed)) = &value else { panic!("{value:?}") };
        (printed.text.to_string(), printed.repr.to_string())
    }

    #[test]
    fn integers_of_any_length_are_printed() {
        let number = |bytes: &[u8]| text(integer(bytes)).0;
        assert_eq!(number(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), "18446744073709551616");
        assert_eq!(number(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff]), "-9223372036854775808");
        assert_eq!(number(&[0xff; 9]), "-1");
        // int.from_bytes(bytes(range(1, 21)), "little")
        let bytes: Vec<u8> = (1..21).collect();
        assert_eq!(number(&bytes), "114605103402541699037609980192546360895434064385");
        let most = [&[0; 16][..], &[0x80]].concat();
        assert_eq!(number(&most), "-43556142965880123323311949751266331066368");
        assert_eq!(integer(&[1; MAX_INTEGER_BYTES + 1]), None);
        assert_eq!(text(decimal("-0018446744073709551616")).0, "-18446744073709551616");
        assert_eq!(decimal("12x"), None);
    }

    /// The expected texts are those of numpy 1.26.4 and pandas 2.2.
    #[test]
    fn dates_are_printed_in_their_unit() {
        for (count, unit, expected) in [
            (0, "D", "1970-01-01"),
            (18_263, "D", "2020-01-02"),
            (-1, "D", "1969-12-31"),
            (11_016, "D", "2000-02-29"),
            (-719_528, "D", "0000-01-01"),
            (601, "M", "2020-02"),
            (-1, "Y", "1969"),
            (438_315, "h", "2020-01-02T03"),
            (1_577_934_245, "s", "2020-01-02T03:04:05"),
            (1_577_934_245_123, "ms", "2020-01-02T03:04:05.123"),
            (-1, "ns", "1969-12-31T23:59:59.999999999"),
        ] {
            let (found, repr) = text(datetime(count, unit));
            assert_eq!(found, expected);
            assert_eq!(repr, format!("numpy.datetime64('{expected}')"));
        }
        assert_eq!(text(datetime(i64::MIN, "D")).0, "NaT");
        assert_eq!(datetime(0, "as"), None);
        assert_eq!(datetime(i64::MAX, "D"), None);
        for (count, unit, expected) in [
            (1_577_934_245_000_000, "us", "2020-01-02 03:04:05"),
            (1_577_934_245_123_000, "us", "2020-01-02 03:04:05.123000"),
            (1_577_934_245_000_000_007, "ns", "2020-01-02 03:04:05.000000007"),
        ] {
            let expected = (expected.to_owned(), format!("Timestamp('{expected}')"));
            assert_eq!(text(timestamp(count, unit)), expected);
        }
    }

    #[test]
    fn complex_numbers_ranges_and_narrow_floats_are_printed() {
        let number = |real, imaginary| complex(&float(real), &float(imaginary));
        assert_eq!(number(1.0, 2.0), "(1+2j)");
        assert_eq!(number(0.0, -0.5), "-0.5j");
        assert_eq!(number(-0.0, 1.0), "(-0+1j)");
        assert_eq!(number(1e16, f64::NAN), "(1e+16+nanj)");
        assert_eq!(text(Some(range(0, 3, 1))).0, "range(0, 3)");
        assert_eq!(text(Some(range(5, 0, -2))).1, "range(5, 0, -2)");
        assert_eq!(single(0.1), "0.1");
        assert_eq!(single(1e-5), "1e-05");
        assert_eq!(single(1e20), "1e+20");
        assert_eq!(single(16_777_216.0), "16777216.0");
    }
}
