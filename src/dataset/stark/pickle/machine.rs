//! Runs the opcodes of a pickle on a stack of values.
//!
//! A container is open while it is on the stack. It is complete, and may then be shared, once it is
//! put into another value. So no value contains itself, and the nesting depth of each value is
//! known.

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, Read},
    ops::ControlFlow,
    sync::Arc,
};

use super::{
    Call, Limits, PickleError, Value,
    input::{Input, Op, Payload, SLOT_BYTES, Shape, count_fetches},
    numpy, printed,
};

/// Memory in bytes charged for a value in a container, not counting the value's text.
pub(super) const VALUE_BYTES: u64 = 56;
/// Memory in bytes charged for each memo slot that refers to an open container.
const PUT_BYTES: u64 = 8;
/// Memory charged for an entry of the stack, in bytes.
const STACK_BYTES: u64 = 160;
/// Classes and functions that are always supported, separated by spaces.
const NAMES: &str = "
    __builtin__.bytearray __builtin__.bytes __builtin__.complex __builtin__.dict __builtin__.float
    __builtin__.frozenset __builtin__.int __builtin__.list __builtin__.set __builtin__.str
    __builtin__.tuple __builtin__.xrange _codecs.encode
    builtins.bytearray builtins.bytes builtins.complex builtins.dict builtins.float
    builtins.frozenset builtins.int builtins.list builtins.range builtins.set builtins.str
    builtins.tuple collections.OrderedDict collections.defaultdict
    numpy._core.multiarray._reconstruct numpy._core.multiarray.scalar
    numpy._core.numeric._frombuffer numpy.core.multiarray._reconstruct
    numpy.core.multiarray.scalar numpy.core.numeric._frombuffer numpy.dtype numpy.ndarray
    pandas._libs.tslibs.timestamps.Timestamp pandas._libs.tslibs.timestamps._unpickle_timestamp";

/// Letters of the time units; the position is numpy's number of the unit.
const UNITS: [&str; 11] = ["Y", "M", "W", "", "D", "h", "m", "s", "ms", "us", "ns"];

/// A complete value with its nesting depth and the memory charged for it, in bytes.
#[derive(Clone, Debug)]
struct Part {
    value: Value,
    depth: u32,
    weight: u64,
}

/// A container on the stack, to which items may still be added.
struct OpenContainer {
    kind: Kind,
    /// Maximum nesting depth of the items.
    depth: u32,
    /// Memory charged for the container and its items, in bytes.
    weight: u64,
    /// Numbers of the memo slots that get the container once it is complete.
    slots: Vec<u32>,
}

enum Kind {
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Call(Box<Call>),
}

enum Item {
    Mark,
    Done(Part),
    OpenContainer(OpenContainer),
}

/// A memo slot with the number of fetches still to come.
struct Slot {
    fetches_left: u32,
    content: SlotContent,
}

/// Content of a memo slot.
enum SlotContent {
    Nothing,
    /// A container that is not yet complete.
    OpenContainer,
    Part(Box<Part>),
}

type ItemHandler<'a> = &'a mut dyn FnMut(Value, Value) -> ControlFlow<()>;

/// Reads one pickle.
pub(super) struct Machine<'a> {
    stack: Vec<Item>,
    memo: HashMap<u32, Slot>,
    /// Number of values put into memo slots so far; the slot number of the next `Memoize`.
    n_puts: u32,
    /// Memory charged for the stack and the memo, in bytes.
    weight_held: u64,
    offset: u64,
    limits: &'a Limits,
    /// Whether an additional class or function is supported; its calls are described instead of
    /// run.
    is_allowed: fn(&str) -> bool,
    /// Receives the items of the outermost dict; `None` to keep them in the dict.
    on_item: Option<ItemHandler<'a>>,
}

impl<'a> Machine<'a> {
    /// Reads a pickle and returns its value; `None` if `on_item` ended the reading.
    pub(super) fn run<R: Read>(
        mut open: impl FnMut() -> io::Result<R>,
        limits: &'a Limits,
        is_allowed: fn(&str) -> bool,
        on_item: Option<ItemHandler<'a>>,
    ) -> Result<Option<Value>, PickleError> {
        let fetches = count_fetches(Input::new(open()?, limits))?;
        let weight_held = fetches.len() as u64 * SLOT_BYTES;
        let slot =
            |(slot, fetches_left)| (slot, Slot { fetches_left, content: SlotContent::Nothing });
        let mut machine = Machine {
            stack: Vec::new(),
            memo: fetches.into_iter().map(slot).collect(),
            n_puts: 0,
            weight_held,
            offset: 0,
            limits,
            is_allowed,
            on_item,
        };
        let mut input = Input::new(open()?, limits);
        loop {
            let op = input.op()?;
            machine.offset = input.offset;
            if op == Op::Stop {
                return machine.stop().map(Some);
            }
            if machine.step(op, &mut input)?.is_break() {
                return Ok(None);
            }
        }
    }

    fn step<R: Read>(
        &mut self,
        op: Op,
        input: &mut Input<R>,
    ) -> Result<ControlFlow<()>, PickleError> {
        match op {
            Op::Stop | Op::Nothing => {}
            Op::Mark => self.push(Item::Mark)?,
            Op::Pop => drop(self.pop()?),
            Op::PopMark => drop(self.pop_parts(None)?),
            Op::Dup => match self.stack.last() {
                Some(Item::Done(part)) => self.push(Item::Done(part.clone()))?,
                _ => return Err(self.malformed("cannot duplicate an incomplete value")),
            },
            Op::Plain(value) => self.push_plain(value)?,
            Op::Digits(digits) => {
                let value = printed::decimal(&digits);
                self.push_plain(value.ok_or(PickleError::Integer { offset: self.offset })?)?;
            }
            Op::Sized(payload, n) => {
                let value = decode(payload, input.bytes(n)?);
                self.push_plain(value.ok_or(PickleError::Integer { offset: self.offset })?)?;
            }
            Op::Line(payload) => {
                let value = decode(payload, input.line()?);
                self.push_plain(value.ok_or_else(|| self.malformed("a bad escape in a text"))?)?;
            }
            Op::Empty(shape) => self.push_open(shape)?,
            Op::Collect(shape) => {
                let parts = self.pop_parts(None)?;
                self.push_open(shape)?;
                return self.put_in(parts, shape == Shape::Dict);
            }
            Op::Tuple(n) => {
                let parts = self.pop_parts(n)?;
                let (depth, weight) = sum(&parts);
                let value = Value::Tuple(parts.into_iter().map(|part| part.value).collect());
                let part = self.nested(value, depth, weight + VALUE_BYTES)?;
                self.push(Item::Done(part))?;
            }
            Op::Add(n) => return self.pop_parts(n).and_then(|parts| self.put_in(parts, false)),
            Op::AddPairs(n) => return self.pop_parts(n).and_then(|parts| self.put_in(parts, true)),
            Op::Put(slot) => self.put(slot)?,
            Op::Memoize => self.put(self.n_puts)?,
            Op::Get(slot) => self.get(slot)?,
            Op::Global(name) => self.push_global(name)?,
            Op::StackGlobal => {
                let (name, module) = (self.pop_done()?.value, self.pop_done()?.value);
                let (Some(module), Some(name)) = (module.as_str(), name.as_str()) else {
                    return Err(self.malformed("the name of a class is not a string"));
                };
                self.push_global(format!("{module}.{name}"))?;
            }
            Op::Reduce => {
                let arguments = self.pop_done()?;
                let function = self.pop_done()?;
                self.reduce(function, arguments)?;
            }
            Op::Persistent => {
                let id = self.pop_done()?;
                self.check_name("persistent")?;
                self.push_call("persistent", id)?;
            }
            Op::Build => {
                let state = self.pop_done()?;
                self.build(state)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the error for an unsupported numpy element type; `None` for a supported type.
    fn unread(&self, dtype: &Call) -> Option<PickleError> {
        let code = numpy::unread(dtype)?;
        Some(PickleError::Element { offset: self.offset, code })
    }

    fn malformed(&self, reason: &'static str) -> PickleError {
        PickleError::Malformed { offset: self.offset, reason }
    }

    fn too_much(&self, limit: u64, unit: &'static str) -> PickleError {
        PickleError::TooMuch { offset: self.offset, limit, unit }
    }

    fn hold(&mut self, weight: u64) -> Result<(), PickleError> {
        self.weight_held = self.weight_held.saturating_add(weight);
        let limit = self.limits.memory_bytes;
        if self.weight_held > limit {
            return Err(self.too_much(limit, "bytes held"));
        }
        Ok(())
    }

    fn release(&mut self, weight: u64) {
        self.weight_held = self.weight_held.saturating_sub(weight);
    }

    fn push(&mut self, item: Item) -> Result<(), PickleError> {
        self.hold(item.weight() + STACK_BYTES)?;
        self.stack.push(item);
        Ok(())
    }

    fn push_open(&mut self, shape: Shape) -> Result<(), PickleError> {
        let kind = match shape {
            Shape::List => Kind::List(Vec::new()),
            Shape::Dict => Kind::Dict(Vec::new()),
            Shape::Set => Kind::Set(Vec::new()),
        };
        self.push_container(kind, 0, 0)
    }

    /// Pushes a call of `name`, which stays open so that its state can be set.
    fn push_call(&mut self, name: &str, arguments: Part) -> Result<(), PickleError> {
        let kind = Kind::Call(Box::new(call_of(name, arguments.value)));
        self.push_container(kind, arguments.depth, arguments.weight)
    }

    fn push_container(&mut self, kind: Kind, depth: u32, weight: u64) -> Result<(), PickleError> {
        let (weight, slots) = (weight + VALUE_BYTES, Vec::new());
        self.push(Item::OpenContainer(OpenContainer { kind, depth, weight, slots }))
    }

    /// Pushes a value that is not a container onto the stack.
    fn push_plain(&mut self, value: Value) -> Result<(), PickleError> {
        let text = match &value {
            Value::Str(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Printed(printed) => printed.text.len() + printed.repr.len(),
            _ => 0,
        };
        self.push(Item::Done(Part { value, depth: 0, weight: VALUE_BYTES + text as u64 }))
    }

    /// Returns a container as a complete value; `depth` is the maximum nesting depth of its items.
    fn nested(&self, value: Value, depth: u32, weight: u64) -> Result<Part, PickleError> {
        let limit = self.limits.depth;
        if depth >= limit {
            return Err(self.too_much(limit.into(), "levels of nesting"));
        }
        Ok(Part { value, depth: depth + 1, weight })
    }

    fn pop(&mut self) -> Result<Item, PickleError> {
        let item = self.stack.pop().ok_or_else(|| self.malformed("the stack is empty"))?;
        self.release(item.weight() + STACK_BYTES);
        Ok(item)
    }

    fn pop_done(&mut self) -> Result<Part, PickleError> {
        match self.pop()? {
            Item::Done(part) => Ok(part),
            Item::OpenContainer(open) => self.complete(open),
            Item::Mark => Err(self.malformed("there is a mark where a value is expected")),
        }
    }

    /// Pops the top `n` values from the stack; if `n` is `None`, pops the values above the last
    /// mark, and the mark. Returns the values in the order in which they were pushed.
    fn pop_parts(&mut self, n: Option<usize>) -> Result<Vec<Part>, PickleError> {
        let to_mark = || self.stack.iter().rev().position(|item| matches!(item, Item::Mark));
        let n_parts = n.or_else(to_mark).ok_or_else(|| self.malformed("the mark is missing"))?;
        let mut parts = Vec::with_capacity(n_parts);
        for _ in 0..n_parts {
            parts.push(self.pop_done()?);
        }
        if n.is_none() {
            self.pop()?;
        }
        parts.reverse();
        Ok(parts)
    }

    /// Converts an open container to a complete value, and stores the value in the memo slots of
    /// the container.
    fn complete(&mut self, open: OpenContainer) -> Result<Part, PickleError> {
        let (value, depth, weight) = match open.kind {
            Kind::List(items) => (Value::List(items.into()), open.depth, open.weight),
            Kind::Dict(items) => (Value::Dict(items.into()), open.depth, open.weight),
            Kind::Set(items) => (Value::Set(items.into()), open.depth, open.weight),
            Kind::Call(call) => {
                let (value, depth, weight) = self.finish(*call, open.weight)?;
                (value, depth.max(open.depth), weight)
            }
        };
        let part = self.nested(value, depth, weight)?;
        for slot in &open.slots {
            if let Some(Slot { content: content @ SlotContent::OpenContainer, .. }) =
                self.memo.get_mut(slot)
            {
                *content = SlotContent::Part(Box::new(part.clone()));
                self.hold(part.weight)?;
            }
        }
        Ok(part)
    }

    /// Adds complete values to the open container on top of the stack; if `pairs`, as alternating
    /// keys and values of a dict.
    fn put_in(&mut self, parts: Vec<Part>, pairs: bool) -> Result<ControlFlow<()>, PickleError> {
        let (depth, weight) = sum(&parts);
        let outermost = self.stack.len() == 1;
        let error = self.malformed("cannot add to this value");
        let Some(Item::OpenContainer(open)) = self.stack.last_mut() else { return Err(error) };
        let mut values = parts.into_iter().map(|part| part.value);
        match (&mut open.kind, pairs) {
            (Kind::List(items) | Kind::Set(items), false) => items.extend(values),
            (Kind::Dict(items), true) => {
                while let Some(key) = values.next() {
                    let Some(value) = values.next() else { return Err(error) };
                    match &mut self.on_item {
                        Some(on_item) if outermost => {
                            if on_item(key, value).is_break() {
                                return Ok(ControlFlow::Break(()));
                            }
                        }
                        _ => items.push((key, value)),
                    }
                }
                if outermost && self.on_item.is_some() {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            _ => return Err(error),
        }
        open.depth = open.depth.max(depth);
        open.weight = open.weight.saturating_add(weight);
        self.hold(weight)?;
        Ok(ControlFlow::Continue(()))
    }

    fn stop(mut self) -> Result<Value, PickleError> {
        let value = self.pop_done()?.value;
        let left = || self.malformed("values are left on the stack");
        self.stack.is_empty().then_some(value).ok_or_else(left)
    }

    fn put(&mut self, slot: u32) -> Result<(), PickleError> {
        self.n_puts = self.n_puts.checked_add(1).ok_or_else(|| self.malformed("2^32 puts"))?;
        let error = self.malformed("nothing to memoize");
        let item = self.stack.last_mut().ok_or(error)?;
        let Some(Slot { content, .. }) = self.memo.get_mut(&slot) else { return Ok(()) };
        let before = if let SlotContent::Part(part) = &*content { part.weight } else { 0 };
        let weight = match item {
            Item::Mark => return Err(self.malformed("cannot memoize a mark")),
            Item::Done(part) => {
                *content = SlotContent::Part(Box::new(part.clone()));
                part.weight
            }
            Item::OpenContainer(open) => {
                *content = SlotContent::OpenContainer;
                open.slots.push(slot);
                // The container also holds the number of the slot.
                open.weight = open.weight.saturating_add(PUT_BYTES);
                PUT_BYTES
            }
        };
        self.release(before);
        self.hold(weight)
    }

    fn get(&mut self, slot: u32) -> Result<(), PickleError> {
        let offset = self.offset;
        let never_put = self.malformed("a memo slot is fetched before it is filled");
        let Entry::Occupied(mut entry) = self.memo.entry(slot) else { return Err(never_put) };
        let slot = entry.get_mut();
        let part = match &slot.content {
            SlotContent::Nothing => return Err(never_put),
            SlotContent::OpenContainer => return Err(PickleError::Cycle { offset }),
            SlotContent::Part(part) => Part::clone(part),
        };
        // A saturated count is not decremented, because the real count is unknown.
        if slot.fetches_left != u32::MAX {
            slot.fetches_left = slot.fetches_left.saturating_sub(1);
            if slot.fetches_left == 0 {
                entry.remove();
                self.release(part.weight + SLOT_BYTES);
            }
        }
        self.push(Item::Done(part))
    }

    fn check_name(&self, name: &str) -> Result<(), PickleError> {
        if NAMES.split_whitespace().any(|known| known == name) || (self.is_allowed)(name) {
            return Ok(());
        }
        let name = name.chars().take(200).collect();
        Err(PickleError::Global { offset: self.offset, name })
    }

    fn push_global(&mut self, name: String) -> Result<(), PickleError> {
        self.check_name(&name)?;
        let weight = VALUE_BYTES + name.len() as u64;
        let value = Value::Call(Arc::new(call_of(&name, Value::None)));
        self.push(Item::Done(Part { value, depth: 0, weight }))
    }

    /// Applies a function to its arguments: pushes the resulting plain value, or a description of
    /// the call.
    fn reduce(&mut self, function: Part, arguments: Part) -> Result<(), PickleError> {
        let bad = self.malformed("a call has unexpected arguments");
        let (Value::Call(function), Value::Tuple(values)) = (&function.value, &arguments.value)
        else {
            return Err(bad);
        };
        if function.arguments != Value::None {
            return Err(bad);
        }
        let name = &*function.name;
        if (self.is_allowed)(name) {
            return self.push_call(name, arguments);
        }
        let short = name.rsplit('.').next().unwrap_or_default();
        match (short, &**values) {
            ("OrderedDict" | "dict", []) | ("defaultdict", [] | [Value::Call(_) | Value::None]) => {
                self.push_open(Shape::Dict)
            }
            ("list", []) => self.push_open(Shape::List),
            ("set" | "frozenset", []) => self.push_open(Shape::Set),
            ("set" | "frozenset", [Value::List(items) | Value::Tuple(items)]) => {
                let part = Part { value: Value::Set(items.clone()), ..arguments };
                self.push(Item::Done(part))
            }
            ("bytes" | "bytearray", []) => self.push_plain(Value::Bytes([].into())),
            ("bytes" | "bytearray", [Value::Bytes(bytes)]) => {
                self.push_plain(Value::Bytes(bytes.clone()))
            }
            ("encode" | "bytearray", [Value::Str(text), Value::Str(_)]) => {
                let latin = text.chars().map(|c| u8::try_from(u32::from(c)));
                let bytes: Result<Vec<u8>, _> = latin.collect();
                self.push_plain(Value::Bytes(bytes.map_err(|_| bad)?.into()))
            }
            ("scalar", [Value::Call(dtype), Value::Bytes(bytes)]) => {
                let value = numpy::scalar(dtype, bytes);
                self.push_plain(value.ok_or_else(|| self.unread(dtype).unwrap_or(bad))?)
            }
            ("complex", [real, imaginary]) => {
                let part = |value: &Value| value.as_float().map(printed::float);
                let value = part(real).zip(part(imaginary));
                let (real, imaginary) = value.ok_or(bad)?;
                self.push_plain(printed::same(printed::complex(&real, &imaginary)))
            }
            ("range" | "xrange", [Value::Int(start), Value::Int(stop), Value::Int(step)]) => {
                self.push_plain(printed::range(*start, *stop, *step))
            }
            ("Timestamp", [Value::Int(count), _, Value::None]) => {
                self.push_plain(printed::timestamp(*count, "ns").ok_or(bad)?)
            }
            ("_unpickle_timestamp", [Value::Int(count), _, Value::None, Value::Int(unit)]) => {
                let unit = usize::try_from(*unit).ok().and_then(|at| UNITS.get(at));
                let value = unit.and_then(|unit| printed::timestamp(*count, unit));
                self.push_plain(value.ok_or(bad)?)
            }
            ("Timestamp" | "_unpickle_timestamp", _) => {
                let code = "Timestamp with a time zone".to_owned();
                Err(PickleError::Element { offset: self.offset, code })
            }
            ("dtype" | "_reconstruct" | "_frombuffer", _) => self.push_call(name, arguments),
            _ => Err(bad),
        }
    }

    /// Sets the state of the object on top of the stack.
    fn build(&mut self, state: Part) -> Result<(), PickleError> {
        let error = self.malformed("this value takes no state");
        let Some(Item::OpenContainer(open)) = self.stack.last_mut() else { return Err(error) };
        match &mut open.kind {
            // Attributes of an ordered dict are not items.
            Kind::Dict(_) => Ok(()),
            Kind::Call(call) if call.state == Value::None => {
                call.state = state.value;
                open.depth = open.depth.max(state.depth);
                open.weight = open.weight.saturating_add(state.weight);
                self.hold(state.weight)
            }
            _ => Err(error),
        }
    }

    /// Returns the value of a call whose state has been set, with the nesting depth of its items
    /// and the memory charged for the value in bytes. A numpy array becomes lists.
    fn finish(&self, call: Call, weight: u64) -> Result<(Value, u32, u64), PickleError> {
        let Some(array) = numpy::Array::of(&call) else {
            return Ok((Value::Call(Arc::new(call)), 0, weight));
        };
        let unread = || numpy::dtype_of(&call).and_then(|dtype| self.unread(dtype));
        let bad = || unread().unwrap_or_else(|| self.malformed("an array has unexpected parts"));
        let array = array.ok_or_else(bad)?;
        let limit = self.limits.memory_bytes;
        let (n, depth) = (array.n_values(), array.depth());
        let values = n.saturating_mul(VALUE_BYTES).saturating_add(weight);
        if self.weight_held.saturating_add(values) > limit {
            return Err(self.too_much(limit, "bytes held"));
        }
        Ok((array.to_lists().ok_or_else(bad)?, depth, values))
    }
}

impl Item {
    fn weight(&self) -> u64 {
        match self {
            Item::Mark => 0,
            Item::Done(part) => part.weight,
            Item::OpenContainer(open) => open.weight,
        }
    }
}

fn call_of(name: &str, arguments: Value) -> Call {
    Call { name: name.into(), arguments, state: Value::None }
}

/// Returns the maximum nesting depth of values, and the total memory charged for them in bytes.
fn sum(parts: &[Part]) -> (u32, u64) {
    let add = |(depth, weight): (u32, u64), part: &Part| {
        (depth.max(part.depth), weight.saturating_add(part.weight))
    };
    parts.iter().fold((0, 0), add)
}

/// Decodes the payload of an opcode; `None` if the payload is invalid.
fn decode(payload: Payload, bytes: &[u8]) -> Option<Value> {
    match payload {
        Payload::Unicode => Some(Value::Str(unicode(bytes))),
        Payload::Ascii => match std::str::from_utf8(bytes) {
            Ok(text) if text.is_ascii() => Some(Value::Str(text.into())),
            _ => Some(Value::Bytes(bytes.into())),
        },
        Payload::Bytes => Some(Value::Bytes(bytes.into())),
        Payload::Long => long(bytes).map(Value::Int).or_else(|| printed::integer(bytes)),
        Payload::Escaped => unescape(bytes).map(|text| Value::Str(text.into())),
    }
}

/// Decodes UTF-8; each lone surrogate becomes one U+FFFD.
fn unicode(bytes: &[u8]) -> Arc<str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut replaced = bytes.to_vec();
    for at in 0..replaced.len().saturating_sub(2) {
        let is_surrogate =
            matches!(replaced.get(at..at + 3), Some([0xed, 0xa0..=0xbf, 0x80..=0xbf]));
        if is_surrogate && let Some(three) = replaced.get_mut(at..at + 3) {
            three.copy_from_slice("\u{fffd}".as_bytes());
        }
    }
    String::from_utf8_lossy(&replaced).into()
}

/// Decodes a little-endian two's complement integer of any length; `None` if it exceeds 64 bits.
fn long(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    let mut number = [fill; 8];
    for (at, byte) in bytes.iter().enumerate() {
        match number.get_mut(at) {
            Some(place) => *place = *byte,
            None if *byte == fill => {}
            None => return None,
        }
    }
    let number = i64::from_le_bytes(number);
    ((number < 0) == negative).then_some(number)
}

/// Decodes Latin-1 with the escapes `\uXXXX` and `\UXXXXXXXX`; `None` if an escape is invalid.
fn unescape(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let n_digits = match (first, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(char::from(*first));
                rest = after;
                continue;
            }
        };
        let digits = after.get(1..1 + n_digits)?;
        let mut code = 0u32;
        for digit in digits {
            code = (code << 4) | char::from(*digit).to_digit(16)?;
        }
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = after.get(1 + n_digits..)?;
    }
    Some(text)
}
