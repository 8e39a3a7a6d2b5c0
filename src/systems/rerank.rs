//! The system `rerank[:SYSTEM][:k=K]`: a language model scores the first nodes of another system.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_infer::{Depth, Rerank};
use agent_retrieve::{Retriever, System};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "rerank",
    arguments: "[:SYSTEM][:k=K]",
    summary: "a language model scores the first 10 nodes of another system, and up to 50 if none of them \
              scores high; with k, the first K, 1 to 100 (rerank:dense:k=20 is the setting of STaRK's rerankers) \
              [default: hybrid]",
    needs: &[Need::Model],
    open,
};

/// Text in the last argument before the number of nodes that the language model sees.
const K: &str = "k=";
/// Maximum K in the arguments: number of nodes that the language model sees.
const MAX_K: usize = 100;

/// Splits arguments into everything before a final `:k=K`, and K; K is `None` if there is no such
/// ending.
///
/// # Errors
/// [`SystemError::Arguments`] if K is not a number from 1 to 100.
pub(super) fn split_k<'a>(
    spec: &SystemSpec,
    arguments: &'a str,
) -> Result<(&'a str, Option<usize>), SystemError> {
    let last = arguments.rsplit_once(':');
    let Some((rest, k)) = last.and_then(|(rest, last)| Some((rest, last.strip_prefix(K)?))) else {
        return Ok((arguments, None));
    };
    let k = k.parse().ok().filter(|k| (1..=MAX_K).contains(k));
    let wrong = || spec.wrong(arguments, "needs a number k from 1 to 100, such as :k=20");
    Ok((rest, Some(k.ok_or_else(wrong)?)))
}

/// Splits the arguments of [`SPEC`] into the name of the inner system and the number of its first
/// nodes that the model scores.
///
/// # Errors
/// As [`split_k`].
pub(super) fn parts(arguments: &str) -> Result<(&str, Depth), SystemError> {
    let (inner, k) = split_k(&SPEC, arguments)?;
    let inner = inner.strip_prefix(':').unwrap_or(System::Hybrid.name());
    Ok((inner, k.map_or_else(Depth::default, Depth::exactly)))
}

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (inner, depth) = parts(arguments)?;
    let assistant = opener.model(&format!("{}{arguments}", SPEC.name))?;
    let shortlist = opener.inner(inner)?;
    Ok(Box::new(Rerank::new(opener.base.clone(), shortlist, assistant).to_depth(depth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_belongs_to_the_outermost_reranker() {
        let exactly = Depth::exactly;
        for (arguments, expected) in [
            ("", ("hybrid", Depth::default())),
            (":dense", ("dense", Depth::default())),
            (":k=1", ("hybrid", exactly(1))),
            (":dense:k=20", ("dense", exactly(20))),
            (":rerank:dense:k=100", ("rerank:dense", exactly(100))),
        ] {
            assert_eq!(parts(arguments).unwrap(), expected, "{arguments}");
        }
        for wrong in [":dense:k=0", ":dense:k=101", ":dense:k=", ":k=many"] {
            let error = parts(wrong).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(":k=20"), "{error}");
        }
    }
}
