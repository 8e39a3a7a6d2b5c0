//! Keeps nodes on disk that arrive out of order: the files of the benchmark hold nodes in any
//! order, but a base is written in the order of the ids.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
};

use crate::stark::node::Node;

/// Location of a node in the file, bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    bytes: usize,
}

/// Nodes kept in a temporary file, by id. Memory: 24 bytes per node.
pub(super) struct Spool {
    file: File,
    end: u64,
    places: Vec<Option<Place>>,
}

impl Spool {
    /// Creates an empty spool that keeps nodes with ids below `n_nodes` in `file`.
    pub(super) fn new(file: File, n_nodes: u32) -> Spool {
        Spool { file, end: 0, places: vec![None; n_nodes as usize] }
    }

    /// Whether the spool holds the node with an id.
    pub(super) fn has(&self, id: u32) -> bool {
        self.places.get(id as usize).is_some_and(Option::is_some)
    }

    /// Stores a node; an id that is not below `n_nodes` is ignored.
    pub(super) fn put(&mut self, id: u32, node: &Node) -> io::Result<()> {
        let json = serde_json::to_vec(node)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&json)?;
        if let Some(place) = self.places.get_mut(id as usize) {
            *place = Some(Place { offset: self.end, bytes: json.len() });
        }
        self.end += json.len() as u64;
        Ok(())
    }

    /// Removes and returns the node with an id; `None` if the spool does not hold it.
    pub(super) fn take(&mut self, id: u32) -> io::Result<Option<Node>> {
        let Some(place) = self.places.get_mut(id as usize).and_then(Option::take) else {
            return Ok(None);
        };
        let mut json = vec![0; place.bytes];
        self.file.seek(SeekFrom::Start(place.offset))?;
        self.file.read_exact(&mut json)?;
        Ok(Some(serde_json::from_slice(&json)?))
    }
}
