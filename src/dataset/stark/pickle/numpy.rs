//! Converts pickled numpy scalars and arrays to plain values.
//!
//! Numpy pickles scalars as `scalar(dtype, bytes)`. It pickles arrays as `_reconstruct(...)` with
//! the state `(version, shape, dtype, column order, bytes or list)`, or as `_frombuffer(bytes,
//! dtype, shape, order)`.

use std::sync::Arc;

use half::f16;

use super::{Call, Value, printed};

/// Maximum number of dimensions of an array; numpy has the same limit.
const MAX_DIMENSIONS: usize = 64;

/// Kinds of elements that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Unsigned,
    Float,
    /// UTF-32 text, padded with zeros.
    Text,
    /// Byte string, padded with zeros.
    Bytes,
    Object,
    /// Two floats: real and imaginary part.
    Complex,
    /// Date or time: a number of units since 1970.
    Date(Unit),
}

/// Letters of a time unit, such as `ms`, padded with zeros.
type Unit = [u8; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dtype {
    kind: Kind,
    bytes: usize,
    big_endian: bool,
}

impl Dtype {
    /// Reads an element type from a call such as `numpy.dtype("i8", False, True)` with its state;
    /// `None` if the type is unsupported.
    fn of(call: &Call) -> Option<Dtype> {
        let code = call.arguments.as_slice()?.first()?.as_str()?;
        if &*call.name != "numpy.dtype" {
            return None;
        }
        let state = call.state.as_slice().unwrap_or_default();
        let order = state.get(1).and_then(Value::as_str).unwrap_or("|");
        let (kind, bytes) = code.split_at_checked(1)?;
        let bytes: usize = bytes.parse().ok()?;
        let (kind, bytes) = match (kind, bytes) {
            ("b", 1) => (Kind::Bool, 1),
            ("i", 1 | 2 | 4 | 8) => (Kind::Int, bytes),
            ("u", 1 | 2 | 4 | 8) => (Kind::Unsigned, bytes),
            ("f", 2 | 4 | 8) => (Kind::Float, bytes),
            ("U", characters) => (Kind::Text, characters.checked_mul(4)?),
            ("S", _) => (Kind::Bytes, bytes),
            ("O", _) => (Kind::Object, 0),
            ("c", 8 | 16) => (Kind::Complex, bytes),
            ("M", 8) => (Kind::Date(unit(state)?), bytes),
            _ => return None,
        };
        Some(Dtype { kind, bytes, big_endian: order == ">" })
    }

    /// Decodes one element; `bytes` must have the length `self.bytes`.
    fn value(self, bytes: &[u8]) -> Option<Value> {
        let mut number = [0u8; 8];
        let is_number = matches!(self.kind, Kind::Bool | Kind::Int | Kind::Unsigned | Kind::Float);
        if is_number || matches!(self.kind, Kind::Date(_)) {
            number.get_mut(..self.bytes)?.copy_from_slice(bytes);
            if self.big_endian {
                number.get_mut(..self.bytes)?.reverse();
            }
        }
        let unsigned = u64::from_le_bytes(number);
        match self.kind {
            Kind::Bool => Some(Value::Bool(unsigned != 0)),
            Kind::Int => {
                let unused = 64 - 8 * self.bytes as u32;
                Some(Value::Int(((unsigned << unused) as i64) >> unused))
            }
            Kind::Unsigned => {
                let number = i64::try_from(unsigned).map(Value::Int);
                Some(number.unwrap_or_else(|_| printed::same(unsigned.to_string())))
            }
            Kind::Float => Some(match self.bytes {
                2 => Value::Float(f16::from_bits(unsigned as u16).to_f64()),
                4 => Value::Single(f32::from_bits(unsigned as u32)),
                _ => Value::Float(f64::from_bits(unsigned)),
            }),
            Kind::Complex => {
                let half = self.bytes / 2;
                let part = Dtype { kind: Kind::Float, bytes: half, ..self };
                let (real, imaginary) = bytes.split_at_checked(half)?;
                let (real, imaginary) = (part.value(real)?, part.value(imaginary)?);
                let wide = |part: &Value| part.as_float().map(printed::float);
                let narrow = |part: &Value| match part {
                    Value::Single(number) => Some(printed::single(*number)),
                    part => wide(part),
                };
                let text = printed::complex(&wide(&real)?, &wide(&imaginary)?);
                let repr = printed::complex(&narrow(&real)?, &narrow(&imaginary)?);
                Some(printed::either(text, repr))
            }
            Kind::Date(unit) => {
                let unit = std::str::from_utf8(&unit).ok()?.trim_end_matches('\0');
                printed::datetime(unsigned as i64, unit)
            }
            Kind::Text => {
                let code = |four: &[u8]| {
                    let mut four = <[u8; 4]>::try_from(four).unwrap_or_default();
                    if self.big_endian {
                        four.reverse();
                    }
                    u32::from_le_bytes(four)
                };
                let codes: Vec<u32> = bytes.chunks_exact(4).map(code).collect();
                let end = codes.iter().rposition(|code| *code != 0).map_or(0, |last| last + 1);
                let char = |code: &u32| char::from_u32(*code).unwrap_or('\u{fffd}');
                let text: String = codes.iter().take(end).map(char).collect();
                Some(Value::Str(text.into()))
            }
            Kind::Bytes => {
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                Some(Value::Bytes(bytes.get(..end)?.into()))
            }
            Kind::Object => None,
        }
    }
}

/// Reads the time unit from the state of a date type; `None` for a multiple of a unit, such as ten
/// seconds.
fn unit(state: &[Value]) -> Option<Unit> {
    let [_, unit] = state.get(8)?.as_slice()? else { return None };
    let [Value::Bytes(letters), Value::Int(1), ..] = unit.as_slice()? else { return None };
    let mut unit = Unit::default();
    unit.get_mut(..letters.len())?.copy_from_slice(letters);
    Some(unit)
}

/// Returns the code of an unsupported element type, such as `f16`; `None` for a supported type or
/// another call.
pub(super) fn unread(dtype: &Call) -> Option<String> {
    let code = dtype.arguments.as_slice()?.first()?.as_str()?;
    let is_code = &*dtype.name == "numpy.dtype" && code.len() < 16;
    (is_code && Dtype::of(dtype).is_none()).then(|| code.to_owned())
}

/// Returns the element type named in a call that makes an array.
pub(super) fn dtype_of(call: &Call) -> Option<&Call> {
    let types = call.state.as_slice().unwrap_or_default().iter();
    let mut types = types.chain(call.arguments.as_slice().unwrap_or_default());
    types.find_map(|value| match value {
        Value::Call(dtype) if &*dtype.name == "numpy.dtype" => Some(&**dtype),
        _ => None,
    })
}

/// Decodes a scalar; `None` if its type is unsupported or the number of bytes is wrong.
pub(super) fn scalar(dtype: &Call, bytes: &[u8]) -> Option<Value> {
    let dtype = Dtype::of(dtype)?;
    if bytes.len() == dtype.bytes { dtype.value(bytes) } else { None }
}

/// An array whose shape, element type and data have been checked against each other.
pub(super) struct Array {
    shape: Vec<usize>,
    dtype: Dtype,
    column_order: bool,
    data: Data,
}

enum Data {
    Bytes(Arc<[u8]>),
    Objects(Arc<[Value]>),
}

impl Array {
    /// Reads the array that a call makes: `None` if the call makes no array, `Some(None)` if the
    /// array is invalid.
    pub(super) fn of(call: &Call) -> Option<Option<Array>> {
        let short = call.name.strip_prefix("numpy.")?.rsplit('.').next()?;
        let (state, arguments) = (call.state.as_slice(), call.arguments.as_slice());
        Some(match (short, state.unwrap_or_default(), arguments.unwrap_or_default()) {
            (
                "_reconstruct",
                [Value::Int(_), shape, Value::Call(dtype), Value::Bool(in_columns), data],
                _,
            ) => Array::new(shape, dtype, *in_columns, data),
            ("_frombuffer", _, [data, Value::Call(dtype), shape, Value::Str(order)]) => {
                Array::new(shape, dtype, &**order == "F", data)
            }
            ("_reconstruct" | "_frombuffer", _, _) => None,
            _ => return None,
        })
    }

    fn new(shape: &Value, dtype: &Call, column_order: bool, data: &Value) -> Option<Array> {
        let length = |length: &Value| usize::try_from(length.as_int()?).ok();
        let shape = shape.as_slice().filter(|shape| shape.len() <= MAX_DIMENSIONS)?;
        let shape: Vec<usize> = shape.iter().map(length).collect::<Option<_>>()?;
        let n = shape.iter().try_fold(1usize, |n, length| n.checked_mul(*length))?;
        let dtype = Dtype::of(dtype)?;
        let data = match data {
            Value::Bytes(bytes) if dtype.kind != Kind::Object => Data::Bytes(bytes.clone()),
            Value::List(objects) if dtype.kind == Kind::Object => Data::Objects(objects.clone()),
            _ => return None,
        };
        let fits = match &data {
            Data::Bytes(bytes) => {
                dtype.bytes > 0 && Some(bytes.len()) == n.checked_mul(dtype.bytes)
            }
            Data::Objects(objects) => objects.len() == n,
        };
        let array = Array { shape, dtype, column_order, data };
        fits.then_some(array)
    }

    /// Returns the number of values in the nested lists: the elements and the lists around them.
    pub(super) fn n_values(&self) -> u64 {
        let lists = self.shape.iter().scan(1u64, |n, length| {
            *n = n.saturating_mul(*length as u64);
            Some(*n)
        });
        lists.fold(1, u64::saturating_add)
    }

    /// Returns the nesting depth of the lists.
    pub(super) fn depth(&self) -> u32 {
        self.shape.len() as u32
    }

    fn element(&self, at: usize) -> Option<Value> {
        match &self.data {
            Data::Objects(objects) => objects.get(at).cloned(),
            Data::Bytes(bytes) => {
                let start = at.checked_mul(self.dtype.bytes)?;
                self.dtype.value(bytes.get(start..start.checked_add(self.dtype.bytes)?)?)
            }
        }
    }

    /// Converts the array to nested lists in row-major order. An array without dimensions becomes
    /// its only element; an array without elements becomes one empty list.
    pub(super) fn to_lists(&self) -> Option<Value> {
        // From the innermost dimension outwards, without recursion.
        let n: usize = self.shape.iter().product();
        if n == 0 {
            return Some(Value::List([].into()));
        }
        let mut values: Vec<Value> =
            (0..n).map(|at| self.element(self.stored(at))).collect::<Option<_>>()?;
        for length in self.shape.iter().rev() {
            values = values.chunks(*length).map(|row| Value::List(row.into())).collect();
        }
        values.pop()
    }

    /// Returns the index in the stored data of the element with the row-major index `at`.
    fn stored(&self, mut at: usize) -> usize {
        if !self.column_order {
            return at;
        }
        let n: usize = self.shape.iter().product();
        let (mut place, mut stride) = (0, n);
        for length in self.shape.iter().rev() {
            stride /= length;
            place += (at % length) * stride;
            at /= length;
        }
        place
    }
}
