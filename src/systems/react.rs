//! `react`: a language model calls tools step by step.

use std::sync::Arc;

use crate::{CACHE_BYTES, Need, SystemSpec};
use agent_infer::React;
use agent_tools::ToolCache;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "react",
    arguments: "[:llm-tools]",
    summary: "a language model calls tools step by step and names the answers; llm-tools allows tools \
              that ask a model",
    needs: &[Need::Model],
    open: |arguments, opener| {
        let llm_tools = match arguments {
            "" | ":" => false,
            LLM_TOOLS => true,
            _ => return Err(SPEC.wrong(arguments, "has invalid arguments")),
        };
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        let (base, model) = (opener.base.clone(), opener.model("react")?);
        Ok(Box::new(React::new(base, model, Some(cache), llm_tools)))
    },
};

/// Allows tools that ask a language model.
const LLM_TOOLS: &str = ":llm-tools";
