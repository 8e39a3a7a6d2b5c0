//! Handles that stand for values in a module: sets of nodes, scores and vectors stay in the host,
//! and the module refers to them by number. The number combines the index of a slot in a table with
//! the number of values that the slot has held so far. So a released handle never refers to a later
//! value.

use crate::wasm::wire::{Handles, NODES, NUMBERS, Reader, SCORES, VECTOR};
use agent_kb::{NodeId, NodeSet, Scores};
use agent_tools::Value;

/// Maximum number of values held at the same time.
const MAX_HANDLES: usize = 1 << 16;
/// Number of low bits of a handle that hold the index of its slot; the higher bits hold
/// [`Slot::turn`].
const SLOT_BITS: u32 = 16;
/// Memory in bytes charged for a held value in addition to its content.
const HANDLE_BYTES: u64 = 64;

/// One place in the table, which holds at most one value at a time.
struct Slot {
    /// Number of values that this slot has held so far, the current one included. A slot that has
    /// reached the maximum is not used again.
    turn: u16,
    value: Option<Value>,
}

/// Table of the values that the host holds for one call.
pub(super) struct HandleTable {
    slots: Vec<Slot>,
    free: Vec<u16>,
    bytes: u64,
    /// Maximum memory of all held values together, in bytes.
    pub(super) max_bytes: u64,
    /// Whether the module may send vectors as numbers instead of a handle.
    pub(super) takes_numbers: bool,
    /// Whether a value was refused because there were too many values, or they were too large.
    pub(super) refused: bool,
}

impl HandleTable {
    /// Creates an empty table for values of at most `max_bytes` together.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            max_bytes,
            takes_numbers: false,
            refused: false,
        }
    }

    /// Returns the memory charged for all held values, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a value to the table and returns its handle.
    ///
    /// # Errors
    /// If the table would hold too many values, or more than `max_bytes`.
    pub(super) fn hold(&mut self, value: Value) -> Result<u32, String> {
        let bytes = size(&value);
        if self.bytes.saturating_add(bytes) > self.max_bytes {
            self.refused = true;
            let mib = self.max_bytes >> 20;
            return Err(format!("the program holds more than {mib} MiB of tool results"));
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < MAX_HANDLES => {
                self.slots.push(Slot { turn: 0, value: None });
                (self.slots.len() - 1) as u16
            }
            None => {
                self.refused = true;
                return Err(format!("more than {MAX_HANDLES} tool results are held"));
            }
        };
        let Some(entry) = self.slots.get_mut(usize::from(slot)) else {
            return Err("a slot is missing".to_owned());
        };
        entry.turn += 1;
        entry.value = Some(value);
        self.bytes += bytes;
        Ok(u32::from(entry.turn) << SLOT_BITS | u32::from(slot))
    }

    /// Returns the value behind a handle; `None` for an unknown or released handle.
    pub(super) fn get(&self, handle: u32) -> Option<&Value> {
        let slot = self.slots.get((handle & 0xffff) as usize)?;
        (u32::from(slot.turn) == handle >> SLOT_BITS).then_some(slot.value.as_ref()).flatten()
    }

    /// Releases the value behind a handle; false for an unknown or released handle.
    pub(super) fn release(&mut self, handle: u32) -> bool {
        if self.get(handle).is_none() {
            return false;
        }
        let index = (handle & 0xffff) as u16;
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return false };
        if let Some(value) = slot.value.take() {
            self.bytes -= size(&value);
        }
        if slot.turn < u16::MAX {
            self.free.push(index);
        }
        true
    }

    /// Returns the number of nodes, scores or numbers behind a handle; `None` for an unknown one.
    pub(super) fn len(&self, handle: u32) -> Option<usize> {
        self.get(handle).map(length)
    }

    /// Copies as many whole items of the value behind a handle into `into` as fit: ids as u32,
    /// scores as pairs of u32 id and f32 by ascending id, numbers as f32, all little endian.
    /// Returns the number of bytes copied; `None` for an unknown handle.
    pub(super) fn read(&self, handle: u32, into: &mut [u8]) -> Option<usize> {
        fn fill<const N: usize>(into: &mut [u8], items: impl Iterator<Item = [u8; N]>) -> usize {
            let (chunks, _) = into.as_chunks_mut::<N>();
            let mut copied = 0;
            for (chunk, item) in chunks.iter_mut().zip(items) {
                *chunk = item;
                copied += N;
            }
            copied
        }
        let pair = |&(id, score): &(NodeId, f32)| {
            let ([a, b, c, d], [e, f, g, h]) = (id.to_le_bytes(), score.to_le_bytes());
            [a, b, c, d, e, f, g, h]
        };
        Some(match self.get(handle)? {
            Value::Nodes(nodes) => fill(into, nodes.as_slice().iter().map(|id| id.to_le_bytes())),
            Value::Scores(scores) => fill(into, scores.as_slice().iter().map(pair)),
            Value::Vector(vector) => fill(into, vector.iter().map(|number| number.to_le_bytes())),
            _ => 0,
        })
    }
}

fn length(value: &Value) -> usize {
    match value {
        Value::Nodes(nodes) => NodeSet::len(nodes),
        Value::Scores(scores) => Scores::len(scores),
        Value::Vector(vector) => vector.len(),
        _ => 0,
    }
}

/// Returns the memory charged for a value, in bytes.
fn size(value: &Value) -> u64 {
    let each = match value {
        Value::Scores(_) => size_of::<(NodeId, f32)>(),
        _ => size_of::<u32>(),
    };
    (length(value) * each) as u64 + HANDLE_BYTES
}

impl Handles for HandleTable {
    fn write(&mut self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        let kind = match value {
            Value::Nodes(_) => NODES,
            Value::Scores(_) => SCORES,
            Value::Vector(_) => VECTOR,
            other => return Err(format!("a {} has no handle", other.describe())),
        };
        let handle = self.hold(value.clone())?;
        out.push(kind);
        out.extend_from_slice(&handle.to_le_bytes());
        out.extend_from_slice(&(length(value) as u32).to_le_bytes());
        Ok(())
    }

    fn read(&mut self, kind: u8, from: &mut Reader<'_>) -> Result<Value, String> {
        if kind == NUMBERS {
            return match self.takes_numbers {
                true => from.numbers().map(|numbers| Value::Vector(numbers.into())),
                false => Err("a vector must be a handle".to_owned()),
            };
        }
        let (handle, _) = (from.u32()?, from.u32()?);
        match (kind, self.get(handle)) {
            (NODES, Some(value @ Value::Nodes(_)))
            | (SCORES, Some(value @ Value::Scores(_)))
            | (VECTOR, Some(value @ Value::Vector(_))) => Ok(value.clone()),
            (_, Some(value)) => Err(format!("handle {handle} is {}", value.describe())),
            (_, None) => Err(format!("handle {handle} is unknown or was released")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HandleTable, MAX_HANDLES};
    use crate::wasm::wire::{Reader, write};
    use agent_kb::{NodeSet, Scores};
    use agent_tools::Value;

    fn nodes(ids: &[u32]) -> Value {
        Value::nodes(ids.iter().copied().collect::<NodeSet>())
    }

    #[test]
    fn a_released_handle_never_names_what_came_later() {
        let mut table = HandleTable::new(1 << 20);
        let first = table.hold(nodes(&[1])).expect("held");
        assert!(table.release(first) && !table.release(first));
        let second = table.hold(nodes(&[2])).expect("held");
        assert_ne!(first, second);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&nodes(&[2]))));
        for unknown in [0, 1, u32::MAX, second + 1, second + (1 << 16)] {
            assert_eq!(table.get(unknown), None, "{unknown}");
        }
        // A slot is used a bounded number of times, then never again.
        let mut last = second;
        for _ in 0..70_000 {
            assert!(table.release(last));
            last = table.hold(nodes(&[3])).expect("held");
            assert_ne!(last, first);
        }
    }

    #[test]
    fn what_is_held_is_bounded_by_number_and_bytes() {
        let mut table = HandleTable::new(u64::MAX);
        for _ in 0..MAX_HANDLES {
            table.hold(nodes(&[])).expect("held");
        }
        assert!(table.hold(nodes(&[])).is_err() && table.refused);
        let mut table = HandleTable::new(1_000);
        let held = table.hold(nodes(&[0; 1])).expect("held");
        assert!(table.hold(Value::scores(Scores::new(vec![(1, 0.5); 1]))).is_ok());
        assert!(table.hold(nodes(&(0..300).collect::<Vec<_>>())).is_err() && table.refused);
        assert!(table.release(held));
    }

    #[test]
    fn content_is_read_as_bytes_up_to_what_fits() {
        let mut table = HandleTable::new(1 << 20);
        let scores = table.hold(Value::scores(Scores::new(vec![(7, 0.5), (2, 1.0)])));
        let scores = scores.expect("held");
        let mut bytes = [9; 20];
        assert_eq!((table.len(scores), table.read(scores, &mut bytes)), (Some(2), Some(16)));
        assert_eq!(bytes[..4], 2u32.to_le_bytes());
        assert_eq!(bytes[4..8], 1f32.to_le_bytes());
        assert_eq!(bytes[16..], [9; 4]);
        assert_eq!(table.read(scores, &mut bytes[..7]), Some(0));
        assert_eq!(table.read(0, &mut bytes), None);
    }

    #[test]
    fn values_cross_as_bytes_and_back() {
        let mut table = HandleTable::new(1 << 20);
        let map = [("a".to_owned(), Value::Float(0.5)), ("b".to_owned(), nodes(&[4, 2]))];
        let value = Value::List(vec![
            Value::Unit,
            Value::Bool(true),
            Value::Int(-3),
            Value::text("hé"),
            Value::Map(map.into()),
            Value::scores(Scores::new(vec![(1, 2.0)])),
            Value::Vector(vec![0.5, -1.0].into()),
        ]);
        let mut bytes = Vec::new();
        write(&mut bytes, &value, &mut table).expect("written");
        let mut reader = Reader::new(&bytes, 100);
        assert_eq!(reader.value(&mut table), Ok(value));
        assert_eq!(reader.end(), Ok(()));
        // A truncated value is an error, never a panic.
        for end in 0..bytes.len() {
            assert!(Reader::new(&bytes[..end], 100).value(&mut table).is_err());
        }
        assert!(Reader::new(&bytes, 5).value(&mut table).is_err_and(|why| why.contains("more")));
        let deep = [[9u8, 1, 0, 0, 0].repeat(20), vec![0]].concat();
        assert!(Reader::new(&deep, 100).value(&mut table).is_err_and(|why| why.contains("deeper")));
        // An impossible count allocates nothing.
        assert!(Reader::new(&[9, 255, 255, 255, 255], usize::MAX).value(&mut table).is_err());
    }
}
