//! `rerank[:SYSTEM]`: a language model scores the first answers of another system.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_infer::Rerank;
use agent_retrieve::{Retriever, System};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "rerank",
    arguments: "[:SYSTEM]",
    summary: "a language model scores the first 20 nodes of another system, or 50 if none of them scores \
              high [default: hybrid]",
    needs: &[Need::Model],
    open,
};

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let assistant = opener.model(&format!("{}{arguments}", SPEC.name))?;
    let shortlist = arguments.strip_prefix(':').unwrap_or(System::Hybrid.name());
    Ok(Box::new(Rerank::new(opener.base.clone(), opener.inner(shortlist)?, assistant)))
}
