//! Values of programs: handles of sets, scores and vectors, and conversions to and from
//! [`Value`](crate::tools::Value).
//!
//! A handle is a reference-counted pointer, so copies are cheap. Iterating over `nodes` gives ids
//! in ascending order; iterating over `scores` gives ids, best first.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use rhai::{Array, Dynamic, Engine, EvalAltResult, FnPtr, INT, ImmutableString, Map};

use crate::{
    kb::{NodeId, NodeSet, Scores},
    sandbox::{given::Given, rhai::meter},
    tools::Value,
};

/// Maximum depth of nested lists and maps in an argument of a tool.
const MAX_NESTING: usize = 8;
/// Maximum number of values in one argument of a tool, including nested ones.
const MAX_VALUES: usize = 100_000;
/// Maximum size of a text value shown in an error, in bytes.
const SHOWN_BYTES: usize = 1_000;

/// A tool result that a program holds; charged to the program until it is dropped.
struct Held<T: ?Sized> {
    value: Option<Arc<T>>,
    bytes: i64,
}

impl<T: ?Sized> Held<T> {
    fn new(value: Arc<T>, bytes: usize) -> Arc<Self> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        meter::hold(bytes);
        Arc::new(Self { value: Some(value), bytes })
    }
}

impl<T: ?Sized> Drop for Held<T> {
    fn drop(&mut self) {
        meter::hold(-self.bytes);
        // The host allocated this memory, so freeing it must not reduce the program's charge.
        meter::as_host(|| drop(self.value.take()));
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $empty:expr) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub(super) struct $name(Arc<Held<$inner>>);

        impl $name {
            /// Returns the value.
            pub(super) fn get(&self) -> Arc<$inner> {
                self.0.value.clone().unwrap_or_else(|| $empty)
            }

            fn view(&self) -> Option<&$inner> {
                self.0.value.as_deref()
            }
        }
    };
}

handle!(
    /// A set of nodes in a program.
    NodesHandle, NodeSet, Arc::default()
);
handle!(
    /// Scores in a program.
    ScoresHandle, Scores, Arc::default()
);
handle!(
    /// A vector in a program.
    VectorHandle, [f32], Arc::from([])
);

impl NodesHandle {
    fn new(nodes: Arc<NodeSet>) -> Self {
        let bytes = nodes.len() * size_of::<NodeId>();
        Self(Held::new(nodes, bytes))
    }

    fn ids(&self) -> &[NodeId] {
        self.view().map_or(&[], NodeSet::as_slice)
    }
}

impl ScoresHandle {
    fn new(scores: Arc<Scores>) -> Self {
        let bytes = scores.len() * size_of::<(NodeId, f32)>();
        Self(Held::new(scores, bytes))
    }

    fn len(&self) -> usize {
        self.view().map_or(0, Scores::len)
    }

    fn score(&self, node: INT) -> Option<f32> {
        self.view()?.get(NodeId::try_from(node).ok()?)
    }
}

impl VectorHandle {
    fn new(vector: Arc<[f32]>) -> Self {
        let bytes = vector.len() * size_of::<f32>();
        Self(Held::new(vector, bytes))
    }

    fn numbers(&self) -> &[f32] {
        self.view().unwrap_or(&[])
    }
}

/// Iterates over the ids in ascending order, without a copy of the set.
pub(super) struct NodeIter(NodesHandle, usize);

impl Iterator for NodeIter {
    type Item = INT;

    fn next(&mut self) -> Option<INT> {
        let id = self.0.ids().get(self.1).copied()?;
        self.1 += 1;
        Some(INT::from(id))
    }
}

impl IntoIterator for NodesHandle {
    type Item = INT;
    type IntoIter = NodeIter;

    fn into_iter(self) -> NodeIter {
        NodeIter(self, 0)
    }
}

impl IntoIterator for ScoresHandle {
    type Item = INT;
    type IntoIter = std::iter::Map<std::vec::IntoIter<(NodeId, f32)>, fn((NodeId, f32)) -> INT>;

    fn into_iter(self) -> Self::IntoIter {
        let ranking = self.view().map(Scores::ranking).unwrap_or_default();
        ranking.into_iter().map(|(id, _)| INT::from(id))
    }
}

impl IntoIterator for VectorHandle {
    type Item = f64;
    type IntoIter = std::iter::Map<std::vec::IntoIter<f32>, fn(f32) -> f64>;

    fn into_iter(self) -> Self::IntoIter {
        self.numbers().to_vec().into_iter().map(f64::from)
    }
}

fn position(index: INT, len: usize) -> Result<usize, Box<EvalAltResult>> {
    let counted = if index < 0 { index.saturating_add(len as INT) } else { index };
    usize::try_from(counted).ok().filter(|&at| at < len).ok_or_else(|| {
        format!("index {index} is out of bounds: there are {len}; test `len` first").into()
    })
}

/// Registers the types `nodes`, `scores` and `vector`, and their built-in functions and operators.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<NodesHandle>("nodes");
    engine.register_type_with_name::<ScoresHandle>("scores");
    engine.register_type_with_name::<VectorHandle>("vector");
    engine.register_iterator::<NodesHandle>();
    engine.register_iterator::<ScoresHandle>();
    engine.register_iterator::<VectorHandle>();

    engine.register_fn("len", |nodes: &mut NodesHandle| nodes.ids().len() as INT);
    engine.register_fn("len", |scores: &mut ScoresHandle| scores.len() as INT);
    engine.register_fn("len", |vector: &mut VectorHandle| vector.numbers().len() as INT);
    engine.register_get("len", |nodes: &mut NodesHandle| nodes.ids().len() as INT);
    engine.register_get("len", |scores: &mut ScoresHandle| scores.len() as INT);
    engine.register_get("len", |vector: &mut VectorHandle| vector.numbers().len() as INT);
    engine.register_fn("is_empty", |nodes: &mut NodesHandle| nodes.ids().is_empty());
    engine.register_fn("is_empty", |scores: &mut ScoresHandle| scores.len() == 0);
    engine.register_get("is_empty", |nodes: &mut NodesHandle| nodes.ids().is_empty());
    engine.register_get("is_empty", |scores: &mut ScoresHandle| scores.len() == 0);

    engine.register_indexer_get(|nodes: &mut NodesHandle, index: INT| {
        position(index, nodes.ids().len()).map(|at| INT::from(nodes.ids()[at]))
    });
    engine.register_indexer_get(|scores: &mut ScoresHandle, node: INT| {
        scores.score(node).map_or(0.0, f64::from)
    });
    engine.register_indexer_get(|scores: &mut ScoresHandle, node: ImmutableString| {
        node.parse().ok().and_then(|node| scores.score(node)).map_or(0.0, f64::from)
    });
    engine.register_indexer_get(|vector: &mut VectorHandle, index: INT| {
        position(index, vector.numbers().len()).map(|at| f64::from(vector.numbers()[at]))
    });

    // The operator `in` calls `contains`.
    engine.register_fn("contains", |nodes: &mut NodesHandle, node: INT| {
        NodeId::try_from(node).is_ok_and(|id| nodes.ids().binary_search(&id).is_ok())
    });
    engine.register_fn("contains", |scores: &mut ScoresHandle, node: INT| {
        scores.score(node).is_some()
    });

    engine.register_fn("==", |a: NodesHandle, b: NodesHandle| a.ids() == b.ids());
    engine.register_fn("!=", |a: NodesHandle, b: NodesHandle| a.ids() != b.ids());
    engine.register_fn("==", |a: ScoresHandle, b: ScoresHandle| a.get() == b.get());
    engine.register_fn("!=", |a: ScoresHandle, b: ScoresHandle| a.get() != b.get());
    engine.register_fn("==", |a: VectorHandle, b: VectorHandle| a.numbers() == b.numbers());
    engine.register_fn("!=", |a: VectorHandle, b: VectorHandle| a.numbers() != b.numbers());

    for name in ["to_string", "to_debug", "print", "debug"] {
        engine.register_fn(name, |nodes: &mut NodesHandle| format!("nodes({})", nodes.ids().len()));
        engine.register_fn(name, |scores: &mut ScoresHandle| format!("scores({})", scores.len()));
        engine.register_fn(name, |vector: &mut VectorHandle| {
            format!("vector({})", vector.numbers().len())
        });
    }
}

/// Converts a value of a program for a tool.
///
/// # Errors
/// A description of what cannot be passed to a tool.
pub(super) fn to_value(value: &Dynamic) -> Result<Value, String> {
    let mut left = MAX_VALUES;
    convert(value, MAX_NESTING, &mut left)
}

fn convert(value: &Dynamic, depth: usize, left: &mut usize) -> Result<Value, String> {
    *left = left.checked_sub(1).ok_or_else(|| format!("more than {MAX_VALUES} values"))?;
    if value.is_shared() {
        // The engine has already refused shared values that are being changed, as a data race.
        return convert(&value.flatten_clone(), depth, left);
    }
    if value.is_unit() {
        return Ok(Value::Unit);
    }
    if let Ok(truth) = value.as_bool() {
        return Ok(Value::Bool(truth));
    }
    if let Ok(number) = value.as_int() {
        return Ok(Value::Int(number));
    }
    if let Ok(number) = value.as_float() {
        return Ok(Value::Float(number));
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        return Ok(Value::text(&text));
    }
    if let Ok(character) = value.as_char() {
        return Ok(Value::text(character.encode_utf8(&mut [0; 4])));
    }
    if let Some(nodes) = value.read_lock::<NodesHandle>() {
        return Ok(Value::Nodes(nodes.get()));
    }
    if let Some(scores) = value.read_lock::<ScoresHandle>() {
        return Ok(Value::Scores(scores.get()));
    }
    if let Some(vector) = value.read_lock::<VectorHandle>() {
        return Ok(Value::Vector(vector.get()));
    }
    let deeper = || depth.checked_sub(1).ok_or_else(|| format!("lists deeper than {MAX_NESTING}"));
    if let Ok(items) = value.as_array_ref() {
        let depth = deeper()?;
        return items
            .iter()
            .map(|item| convert(item, depth, left))
            .collect::<Result<_, _>>()
            .map(Value::List);
    }
    if let Ok(entries) = value.as_map_ref() {
        let depth = deeper()?;
        return entries
            .iter()
            .map(|(name, item)| Ok((name.to_string(), convert(item, depth, left)?)))
            .collect::<Result<BTreeMap<_, _>, String>>()
            .map(Value::Map);
    }
    if let Some(range) = value.read_lock::<std::ops::Range<INT>>() {
        return numbers(range.start, range.end, left);
    }
    if let Some(range) = value.read_lock::<std::ops::RangeInclusive<INT>>() {
        return numbers(*range.start(), range.end().saturating_add(1), left);
    }
    let kind = if value.is::<FnPtr>() { "function" } else { "value of this type" };
    Err(format!("a {kind} cannot be given to a tool"))
}

fn numbers(start: INT, end: INT, left: &mut usize) -> Result<Value, String> {
    let count = usize::try_from(end.saturating_sub(start).max(0)).unwrap_or(usize::MAX);
    *left = left.checked_sub(count).ok_or_else(|| format!("more than {MAX_VALUES} values"))?;
    Ok(Value::List((start..end).map(Value::Int).collect()))
}

/// Converts a value for a program. The engine checks the sizes of lists and text afterwards.
pub(super) fn to_dynamic(value: &Value) -> Dynamic {
    match value {
        Value::Unit => Dynamic::UNIT,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => Dynamic::from(ImmutableString::from(&**text)),
        Value::Nodes(nodes) => Dynamic::from(NodesHandle::new(nodes.clone())),
        Value::Scores(scores) => Dynamic::from(ScoresHandle::new(scores.clone())),
        Value::Vector(vector) => Dynamic::from(VectorHandle::new(vector.clone())),
        Value::List(items) => items.iter().map(to_dynamic).collect::<Array>().into(),
        Value::Map(entries) => entries
            .iter()
            .map(|(name, item)| (name.as_str().into(), to_dynamic(item)))
            .collect::<Map>()
            .into(),
    }
}

/// Converts a result of a program; a map may contain maps, but these contain no maps.
pub(super) fn given(value: &Dynamic) -> Given {
    given_within(value, 2)
}

fn given_within(value: &Dynamic, maps: usize) -> Given {
    if let Ok(number) = value.as_int() {
        return Given::Int(number);
    }
    if let Ok(number) = value.as_float() {
        return Given::Float(number);
    }
    if let Some(scores) = value.read_lock::<ScoresHandle>() {
        return Given::Scores(scores.get());
    }
    match value.as_map_ref() {
        Ok(entries) if maps > 0 => Given::Map(
            entries
                .iter()
                .map(|(name, entry)| (name.to_string(), given_within(entry, maps - 1)))
                .collect(),
        ),
        _ => Given::Other(describe(value)),
    }
}

/// Describes a value in a few words, for errors; the length is limited for any value.
pub(super) fn describe(value: &Dynamic) -> String {
    let mut text = String::new();
    if value.is_unit() {
        text.push_str("nothing");
    } else if let Ok(words) = value.as_immutable_string_ref() {
        let mut end = words.len().min(SHOWN_BYTES);
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        text.push_str(&words[..end]);
        if end < words.len() {
            text.push_str(" ...");
        }
    } else if let Ok(truth) = value.as_bool() {
        let _ = write!(text, "{truth}");
    } else if let Ok(number) = value.as_int() {
        let _ = write!(text, "{number}");
    } else if let Ok(number) = value.as_float() {
        let _ = write!(text, "{number}");
    } else if let Ok(items) = value.as_array_ref() {
        let _ = write!(text, "a list of {}", items.len());
    } else if let Ok(entries) = value.as_map_ref() {
        let _ = write!(text, "a map of {}", entries.len());
    } else if let Some(nodes) = value.read_lock::<NodesHandle>() {
        let _ = write!(text, "nodes({})", nodes.ids().len());
    } else if let Some(scores) = value.read_lock::<ScoresHandle>() {
        let _ = write!(text, "scores({})", scores.len());
    } else if let Some(vector) = value.read_lock::<VectorHandle>() {
        let _ = write!(text, "vector({})", vector.numbers().len());
    } else if value.is::<FnPtr>() {
        text.push_str("a function");
    } else {
        text.push_str("a value");
    }
    text
}
