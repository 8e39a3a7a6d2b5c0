//! Retrieval programs in Rust, as WebAssembly modules, without the standard library.
//!
//! ```ignore
//! retrieval::program!(params, retrieve);
//! retrieval::tools!(search, top);
//!
//! fn params(declare: &mut Declare) {
//!     declare.int("k", 20, 1, 100);
//! }
//! fn retrieve(input: &Input) -> Value {
//!     let found = search(&[input.query().into(), "product".into(), input.int("k").into()]);
//!     top(&[(&found).into(), 10.into()])
//! }
//! ```
//!
//! A failed tool call or a panic ends the program. Memory is freed only at the end of the call. The
//! interface is described in `sandboxes/wasm/wit/retrieval.wit`.
#![no_std]

extern crate alloc;

use alloc::{string::String, vec, vec::Vec};
use core::alloc::{GlobalAlloc, Layout};

/// Functions of the host.
mod host {
    #[link(wasm_import_module = "agent")]
    unsafe extern "C" {
        pub(crate) fn take(into: *mut u8);
        pub(crate) fn give(from: *const u8, length: usize);
        pub(crate) fn read(handle: u32, into: *mut u8, bytes: usize) -> usize;
        pub(crate) fn release(handle: u32);
        pub(crate) fn print(from: *const u8, length: usize);
        pub(crate) fn fail(from: *const u8, length: usize);
    }
}

/// A bump allocator that never frees: a call is short, and its memory is dropped with it.
struct Forward;

#[global_allocator]
static FORWARD: Forward = Forward;

static mut NEXT: usize = 0;
static mut END: usize = 0;
const PAGE: usize = 64 << 10;

// SAFETY: modules have one thread; blocks never overlap, as `NEXT` only grows.
unsafe impl GlobalAlloc for Forward {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: one thread.
        unsafe {
            let start = (NEXT + layout.align() - 1) & !(layout.align() - 1);
            let Some(end) = start.checked_add(layout.size()) else { return core::ptr::null_mut() };
            if end > END || NEXT == 0 {
                let pages = layout.size().div_ceil(PAGE) + 1;
                let old = core::arch::wasm32::memory_grow(0, pages);
                if old == usize::MAX {
                    return core::ptr::null_mut();
                }
                if old * PAGE != END || NEXT == 0 {
                    NEXT = old * PAGE;
                }
                END = (old + pages) * PAGE;
                return self.alloc(layout);
            }
            NEXT = end;
            start as *mut u8
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    match info.message().as_str() {
        Some(words) => fail(words),
        None => fail("the program panicked"),
    }
}

/// Ends the program with this message.
pub fn fail(words: &str) -> ! {
    // SAFETY: the host reads these bytes only, and does not return.
    unsafe { host::fail(words.as_ptr(), words.len()) };
    core::arch::wasm32::unreachable()
}

/// Prints text for the author of the program.
pub fn print(text: &str) {
    // SAFETY: the host reads these bytes only.
    unsafe { host::print(text.as_ptr(), text.len()) }
}

/// A set of nodes, scores or a vector that the host holds; released when dropped.
pub struct Handle {
    kind: u8,
    handle: u32,
    length: u32,
}

impl Handle {
    /// Returns the number of nodes, scores or numbers.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether the value has no nodes, scores or numbers.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Reads the node ids of a set or of scores, ascending.
    pub fn ids(&self) -> Vec<u32> {
        let step = if self.kind == 7 { 8 } else { 4 };
        self.bytes(step).chunks_exact(step).map(|item| number(item, 0)).collect()
    }

    /// Reads pairs of node id and score, ascending by id; only for scores.
    pub fn pairs(&self) -> Vec<(u32, f32)> {
        let bytes = self.bytes(8);
        bytes
            .chunks_exact(8)
            .map(|item| (number(item, 0), f32::from_bits(number(item, 4))))
            .collect()
    }

    /// Reads the numbers of a vector.
    pub fn numbers(&self) -> Vec<f32> {
        self.bytes(4).chunks_exact(4).map(|item| f32::from_bits(number(item, 0))).collect()
    }

    fn bytes(&self, each: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.len() * each];
        // SAFETY: the host writes at most this many bytes.
        let read = unsafe { host::read(self.handle, bytes.as_mut_ptr(), bytes.len()) };
        bytes.truncate(read);
        bytes
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: no memory is touched.
        unsafe { host::release(self.handle) }
    }
}

/// A value that a tool returned, or the result of a program.
pub enum Value {
    /// No value.
    Unit,
    /// A truth value.
    Bool(bool),
    /// An integer; also a node id.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
    /// Nodes, scores or a vector, held by the host.
    Held(Handle),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name.
    Map(Vec<(String, Value)>),
    /// Pairs of node id and score, in any order; only as the result of a program.
    Ranking(Vec<(u32, f32)>),
}

/// An argument of a tool.
pub enum Arg<'a> {
    /// A truth value.
    Bool(bool),
    /// An integer; also a node id.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(&'a str),
    /// A value that a tool returned.
    Value(&'a Value),
    /// Node ids.
    Ids(&'a [u32]),
    /// Several texts.
    Texts(&'a [&'a str]),
}

macro_rules! arg_from {
    ($($from:ty => $arg:ident),*) => {
        $(impl<'a> From<$from> for Arg<'a> {
            fn from(value: $from) -> Self {
                Arg::$arg(value)
            }
        })*
    };
}
arg_from!(bool => Bool, i64 => Int, f64 => Float, &'a str => Text, &'a Value => Value,
    &'a [u32] => Ids, &'a [&'a str] => Texts);

fn push(out: &mut Vec<u8>, kind: u8, number: u32) {
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn push_arg(out: &mut Vec<u8>, arg: &Arg<'_>) {
    match arg {
        Arg::Bool(truth) => out.push(if *truth { 2 } else { 1 }),
        Arg::Int(number) => {
            out.push(3);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Arg::Float(number) => {
            out.push(4);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Arg::Text(text) => {
            out.push(5);
            push_text(out, text);
        }
        Arg::Value(value) => push_value(out, value),
        Arg::Ids(ids) => {
            push(out, 11, ids.len() as u32);
            ids.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        }
        Arg::Texts(texts) => {
            push(out, 9, texts.len() as u32);
            texts.iter().for_each(|text| push_arg(out, &Arg::Text(text)));
        }
    }
}

fn push_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Unit => out.push(0),
        Value::Bool(truth) => push_arg(out, &Arg::Bool(*truth)),
        Value::Int(number) => push_arg(out, &Arg::Int(*number)),
        Value::Float(number) => push_arg(out, &Arg::Float(*number)),
        Value::Text(text) => push_arg(out, &Arg::Text(text)),
        Value::Held(held) => {
            push(out, held.kind, held.handle);
            out.extend_from_slice(&held.length.to_le_bytes());
        }
        Value::List(items) => {
            push(out, 9, items.len() as u32);
            items.iter().for_each(|item| push_value(out, item));
        }
        Value::Map(entries) => {
            push(out, 10, entries.len() as u32);
            for (name, entry) in entries {
                push_text(out, name);
                push_value(out, entry);
            }
        }
        Value::Ranking(pairs) => {
            push(out, 13, pairs.len() as u32);
            for (id, score) in pairs {
                out.extend_from_slice(&id.to_le_bytes());
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |four| four.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Decodes values from bytes of the host.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let Some((now, rest)) = self.0.split_at_checked(count) else { fail("a message is short") };
        self.0 = rest;
        now
    }

    fn u32(&mut self) -> u32 {
        number(self.bytes(4), 0)
    }

    fn u64(&mut self) -> u64 {
        let low = u64::from(self.u32());
        low | u64::from(self.u32()) << 32
    }

    fn text(&mut self) -> String {
        let count = self.u32() as usize;
        String::from_utf8_lossy(self.bytes(count)).into_owned()
    }

    fn value(&mut self) -> Value {
        match self.bytes(1) {
            [0] => Value::Unit,
            [1] => Value::Bool(false),
            [2] => Value::Bool(true),
            [3] => Value::Int(self.u64() as i64),
            [4] => Value::Float(f64::from_bits(self.u64())),
            [5] => Value::Text(self.text()),
            [kind @ 6..=8] => {
                Value::Held(Handle { kind: *kind, handle: self.u32(), length: self.u32() })
            }
            [9] => Value::List((0..self.u32()).map(|_| self.value()).collect()),
            [10] => Value::Map((0..self.u32()).map(|_| (self.text(), self.value())).collect()),
            [11] => {
                Value::List((0..self.u32()).map(|_| Value::Int(i64::from(self.u32()))).collect())
            }
            _ => fail("a message has an unknown value"),
        }
    }
}

fn take(length: usize) -> Value {
    let mut bytes = vec![0; length];
    // SAFETY: the host writes exactly the bytes that it announced.
    unsafe { host::take(bytes.as_mut_ptr()) };
    Reader(&bytes).value()
}

/// Calls a tool; the functions that [`tools!`] declares call this.
pub fn call(tool: unsafe extern "C" fn(*const u8, usize) -> usize, args: &[Arg<'_>]) -> Value {
    let mut message = Vec::new();
    push(&mut message, 9, args.len() as u32);
    args.iter().for_each(|arg| push_arg(&mut message, arg));
    // SAFETY: the host reads these bytes only.
    let length = unsafe { tool(message.as_ptr(), message.len()) };
    take(length)
}

/// Input of one call of the program.
pub struct Input {
    query: String,
    candidates: Vec<u32>,
    params: Vec<(String, Value)>,
}

impl Input {
    /// Returns the query.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Returns the default shortlist, best first.
    pub fn candidates(&self) -> &[u32] {
        &self.candidates
    }

    /// Returns a declared parameter as an integer, rounded toward zero; an unknown name fails.
    pub fn int(&self, name: &str) -> i64 {
        match self.param(name) {
            Value::Int(number) => *number,
            Value::Float(number) => *number as i64,
            _ => 0,
        }
    }

    /// Returns a declared parameter; an unknown name ends the program.
    pub fn float(&self, name: &str) -> f64 {
        match self.param(name) {
            Value::Int(number) => *number as f64,
            Value::Float(number) => *number,
            _ => 0.0,
        }
    }

    fn param(&self, name: &str) -> &Value {
        match self.params.iter().find(|param| param.0 == name) {
            Some((_, value)) => value,
            None => fail("a parameter is not declared"),
        }
    }

    #[doc(hidden)]
    pub fn take(length: usize) -> Self {
        let Value::List(parts) = take(length) else { fail("the input is no list") };
        let mut input = Self { query: String::new(), candidates: Vec::new(), params: Vec::new() };
        for part in parts {
            match part {
                Value::Text(query) => input.query = query,
                Value::List(ids) => {
                    let id = |value: Value| if let Value::Int(id) = value { id as u32 } else { 0 };
                    input.candidates = ids.into_iter().map(id).collect();
                }
                Value::Map(params) => input.params = params,
                _ => {}
            }
        }
        input
    }
}

/// The parameters that a program declares, for a tuner to set.
#[derive(Default)]
pub struct Declare(Vec<(String, Value)>);

impl Declare {
    /// Declares an integer with its default and its bounds, both inclusive.
    pub fn int(&mut self, name: &str, value: i64, min: i64, max: i64) {
        self.push(name, Value::Int(value), Value::Int(min), Value::Int(max));
    }

    /// Declares a number with its default and its bounds, both inclusive.
    pub fn float(&mut self, name: &str, value: f64, min: f64, max: f64) {
        self.push(name, Value::Float(value), Value::Float(min), Value::Float(max));
    }

    fn push(&mut self, name: &str, value: Value, min: Value, max: Value) {
        let parts = [("value", value), ("min", min), ("max", max)];
        let parts = parts.into_iter().map(|(name, value)| (name.into(), value)).collect();
        self.0.push((name.into(), Value::Map(parts)));
    }

    #[doc(hidden)]
    pub fn into_value(self) -> Value {
        Value::Map(self.0)
    }
}

#[doc(hidden)]
pub fn give(value: Value) {
    let mut message = Vec::new();
    push_value(&mut message, &value);
    // SAFETY: the host reads these bytes only.
    unsafe { host::give(message.as_ptr(), message.len()) };
    // The host reads held values after this, so they must not be released.
    core::mem::forget(value);
}

/// Declares the tools that the program uses, as functions that take a slice of arguments. Operators
/// are named `op_and`, `op_or`, `op_sub`, `op_add`, `op_mul`, `op_div`.
#[macro_export]
macro_rules! tools {
    ($($name:ident),* $(,)?) => {
        $(
            fn $name(args: &[$crate::Arg<'_>]) -> $crate::Value {
                #[link(wasm_import_module = "tools")]
                unsafe extern "C" {
                    fn $name(from: *const u8, length: usize) -> usize;
                }
                $crate::call($name, args)
            }
        )*
    };
}

/// Exports a program: the function that declares its parameters, and the one that ranks.
#[macro_export]
macro_rules! program {
    ($params:path, $retrieve:path) => {
        #[unsafe(export_name = "params")]
        extern "C" fn exported_params() {
            let mut declare = $crate::Declare::default();
            $params(&mut declare);
            $crate::give(declare.into_value());
        }

        #[unsafe(export_name = "retrieve")]
        extern "C" fn exported_retrieve(length: usize) {
            let answer: $crate::Value = $retrieve(&$crate::Input::take(length));
            $crate::give(answer);
        }
    };
}
