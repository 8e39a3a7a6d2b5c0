//! `late`: late interaction over tokens.

use crate::{
    index::Part,
    retrieve::Late,
    systems::{Need, SystemSpec},
};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "late",
    arguments: "",
    summary: "late interaction (ColBERT): the best of hybrid, ranked token by token",
    needs: &[Need::Part(Part::Late)],
    open: |_, opener| Ok(Box::new(Late::open(opener.base.clone())?)),
};
