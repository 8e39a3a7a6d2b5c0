//! The system `answer[=check][:SYSTEM]`: a language model writes a short answer from the first
//! nodes of another system; the ranking consists of the nodes that the answer cites.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_infer::rag::CitedRetriever;
use agent_retrieve::Retriever;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "answer",
    arguments: "[=check][:SYSTEM]",
    summary: "the nodes that a language model cites in a short answer from the first 10 nodes of another \
              system [default: bm25+names]; with check, only what a second request confirms",
    needs: &[Need::Model],
    open,
};

/// Parses the arguments of [`SPEC`]. Returns whether a second request checks the answer (`=check`),
/// and the name of the inner system.
///
/// # Errors
/// [`SystemError::Arguments`] if the arguments are invalid.
pub(super) fn parts(arguments: &str) -> Result<(bool, &str), SystemError> {
    let (own, inner) = arguments.split_once(':').unwrap_or((arguments, "bm25+names"));
    match own {
        "" => Ok((false, inner)),
        "=check" => Ok((true, inner)),
        _ => Err(SPEC.wrong(arguments, "has invalid arguments")),
    }
}

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (check, inner) = parts(arguments)?;
    let assistant = opener.model(&format!("{}{arguments}", SPEC.name))?;
    Ok(Box::new(CitedRetriever::new(opener.base.clone(), opener.inner(inner)?, assistant, check)))
}
