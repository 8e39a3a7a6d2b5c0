//! A model with the built-in prompts, for the tests of this crate.

use std::sync::Arc;

use agent_llm::{Llm, prompts::Prompts};

use crate::Assistant;

pub(crate) fn assistant(llm: Arc<Llm>) -> Arc<Assistant> {
    Arc::new(Assistant::new(llm, Arc::new(Prompts::built_in().unwrap())))
}
