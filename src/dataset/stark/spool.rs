//! Buffers nodes on disk that arrive out of order: the files of the benchmark hold them in any
//! order, but a base is written in order of ids.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
};

use crate::stark::node::Node;

/// Location of a node in the file.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    bytes: usize,
}

/// Nodes on disk, by id. Memory: 24 bytes per node.
pub(super) struct Spool {
    file: File,
    end: u64,
    places: Vec<Option<Place>>,
}

impl Spool {
    /// Creates a spool in `file` for ids below `n_nodes`.
    pub(super) fn new(file: File, n_nodes: u32) -> Spool {
        Spool { file, end: 0, places: vec![None; n_nodes as usize] }
    }

    /// Whether the node is stored.
    pub(super) fn has(&self, id: u32) -> bool {
        self.places.get(id as usize).is_some_and(Option::is_some)
    }

    /// Stores a node; ignores it if the id is too large.
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

    /// Removes and returns a node; `None` if it is not stored.
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
