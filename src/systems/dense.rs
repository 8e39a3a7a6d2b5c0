//! `dense` and `dense:ann`: nodes whose embedding is near to that of the query.

use crate::{
    index::Part,
    retrieve::{Ann, System},
    systems::{Need, SystemSpec, lexical::baseline},
};

pub(super) const EXACT: SystemSpec = SystemSpec {
    name: "dense",
    arguments: "",
    summary: "exact search over embeddings of documents",
    needs: &[],
    open: |_, opener| baseline(System::Dense, opener),
};

pub(super) const ANN: SystemSpec = SystemSpec {
    name: "dense:ann",
    arguments: "",
    summary: "approximate search over embeddings of documents",
    needs: &[Need::Part(Part::Ann)],
    open: |_, opener| Ok(Box::new(Ann::open(opener.base.clone())?)),
};
