//! The system `late`: reranks the first nodes of `hybrid` by late interaction over token vectors
//! (MaxSim).

use crate::{Need, SystemSpec};
use agent_index::Part;
use agent_retrieve::Late;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "late",
    arguments: "",
    summary: "late interaction: the best of hybrid, each token matched with the token vectors of the \
              index's embedder (MaxSim; no trained ColBERT)",
    needs: &[Need::Part(Part::Late)],
    open: |_, opener| Ok(Box::new(Late::open(opener.base.clone())?)),
};
