//! `late`: late interaction over tokens.

use crate::{Need, SystemSpec};
use agent_index::Part;
use agent_retrieve::Late;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "late",
    arguments: "",
    summary: "late interaction (ColBERT): the best of hybrid, ranked token by token",
    needs: &[Need::Part(Part::Late)],
    open: |_, opener| Ok(Box::new(Late::open(opener.base.clone())?)),
};
