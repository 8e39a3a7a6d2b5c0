//! The systems `graph:FILE` and `qagnn:FILE`: rank nodes with a neural network over the query's
//! subgraph, trained by `agent train`.

use crate::{SystemSpec, file_of};
use agent_retrieve::Graph;
use agent_train::graph::Variant;

pub(super) const SPEC: SystemSpec = SystemSpec::of_file(
    "graph",
    "the first nodes of bm25+names and neighbours of linked entities, ordered by a trained \
     network over the edges between them; FILE is a model's directory or name",
    |arguments, opener| Ok(Box::new(Graph::open(opener.base, file_of(arguments), Variant::Graph)?)),
);

pub(super) const QAGNN: SystemSpec = SystemSpec::of_file(
    "qagnn",
    "the first nodes of dense and neighbours of linked entities, ordered by a trained network \
     over the edges between them and the similarities of names to the query (QA-GNN); FILE \
     is a model's directory or name",
    |arguments, opener| Ok(Box::new(Graph::open(opener.base, file_of(arguments), Variant::Qagnn)?)),
);
