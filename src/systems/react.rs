//! The system `react[:llm-tools][:k=K]`: a language model calls tools step by step and names the
//! answers.

use std::sync::Arc;

use crate::{CACHE_BYTES, Need, SystemSpec, rerank::split_k};
use agent_infer::React;
use agent_tools::ToolCache;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "react",
    arguments: "[:llm-tools][:k=K]",
    summary: "a language model calls tools step by step and names the answers; llm-tools allows tools \
              that ask a model; it starts from the first K nodes of hybrid, 1 to 100 [default: 20]",
    needs: &[Need::Model],
    open: |arguments, opener| {
        let (tools, k) = split_k(&SPEC, arguments)?;
        let llm_tools = match tools {
            "" | ":" => false,
            LLM_TOOLS => true,
            _ => return Err(SPEC.wrong(arguments, "has invalid arguments")),
        };
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        let (base, model) = (opener.base.clone(), opener.model("react")?);
        let react = React::new(base, model, Some(cache), llm_tools);
        Ok(Box::new(match k {
            None => react,
            Some(k) => react.showing(k),
        }))
    },
};

/// Argument that allows tools that ask a language model.
const LLM_TOOLS: &str = ":llm-tools";
