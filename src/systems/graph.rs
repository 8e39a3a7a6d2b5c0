//! The system `graph:FILE`: ranks nodes with a neural network over the query's subgraph, trained by
//! `agent train`.

use crate::{Need, SystemSpec, file_of};
use agent_retrieve::Graph;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "graph",
    arguments: ":FILE",
    summary: "the first nodes of bm25+names and neighbours of linked entities, ordered by a trained \
              network over the edges between them (QAGNN); FILE is a model's directory or name",
    needs: &[Need::File],
    open: |arguments, opener| Ok(Box::new(Graph::open(opener.base, file_of(arguments))?)),
};
