//! `answer[=check][:SYSTEM]`: a language model writes an answer from the first nodes of another
//! system, and the nodes that it cites are the ranking.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_infer::rag::CitedRetriever;
use agent_retrieve::Retriever;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "answer",
    arguments: "[=check][:SYSTEM]",
    summary: "the nodes that a language model cites in a short answer from the first 10 of another \
              system, bm25+names by default; with check, in what a second request confirms",
    needs: &[Need::Model],
    open,
};

/// Whether the answer is checked, and the system that it is written from.
///
/// # Errors
/// That something else is written.
pub(super) fn parts(arguments: &str) -> Result<(bool, &str), SystemError> {
    let (own, inner) = arguments.split_once(':').unwrap_or((arguments, "bm25+names"));
    match own {
        "" => Ok((false, inner)),
        "=check" => Ok((true, inner)),
        _ => Err(SPEC.wrong(arguments, "is none of its forms")),
    }
}

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (check, inner) = parts(arguments)?;
    let assistant = opener.model(&format!("{}{arguments}", SPEC.name))?;
    Ok(Box::new(CitedRetriever::new(opener.base.clone(), opener.inner(inner)?, assistant, check)))
}
