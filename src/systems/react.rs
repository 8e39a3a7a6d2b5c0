//! `react`: a language model calls tools step by step.

use std::sync::Arc;

use crate::{
    infer::React,
    systems::{CACHE_BYTES, Need, SystemSpec},
    tools::ToolCache,
};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "react",
    arguments: "",
    summary: "a language model calls tools step by step and names the answers",
    needs: &[Need::Model],
    open: |_, opener| {
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        Ok(Box::new(React::new(opener.base.clone(), opener.model("react")?, Some(cache))))
    },
};
