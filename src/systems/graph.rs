//! `graph:FILE`: ranks with a network over the subgraph of the query, trained by `agent train`.

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
