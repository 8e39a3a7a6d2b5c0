//! The systems `multi`, `multi:mean` and `multi:top3`, each with `[:candidates=SYSTEM:K]`: rank
//! documents by the similarities between the query and their chunks, pooled by maximum or mean.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_index::Part;
use agent_retrieve::{Candidates, Multi, Pooling, Retriever};

pub(super) const MAX: SystemSpec = SystemSpec {
    name: "multi",
    arguments: "[:candidates=SYSTEM:K]",
    summary: "search over embeddings of chunks; the best chunk of a document counts; with \
              candidates, only chunks of the first K nodes of SYSTEM are searched [default: chunks \
              of all documents]",
    needs: &[Need::Part(Part::Multi)],
    open: |arguments, opener| pooled(&MAX, Pooling::Max, arguments, opener),
};

pub(super) const MEAN: SystemSpec = SystemSpec {
    name: "multi:mean",
    summary: "as multi; the mean of all chunks of a document counts",
    open: |arguments, opener| pooled(&MEAN, Pooling::Mean, arguments, opener),
    ..MAX
};

pub(super) const TOP3: SystemSpec = SystemSpec {
    name: "multi:top3",
    summary: "as multi; the mean of the best three chunks of a document counts \
              (:candidates=dense:50 is the setting of STaRK's multi-vector baseline)",
    open: |arguments, opener| pooled(&TOP3, Pooling::Top3, arguments, opener),
    ..MAX
};

/// Text in the arguments before the name of the system whose first nodes are the candidates.
pub(super) const CANDIDATES: &str = ":candidates=";
/// Maximum number of nodes that can be candidates.
const MAX_CANDIDATES: usize = 10_000;

/// Parses arguments into the name of the system whose first nodes are the candidates, and the
/// number of these nodes; `None` if the arguments are empty.
///
/// # Errors
/// [`SystemError::Arguments`] if the arguments are invalid.
pub(super) fn candidates_of<'a>(
    spec: &SystemSpec,
    arguments: &'a str,
) -> Result<Option<(&'a str, usize)>, SystemError> {
    if arguments.is_empty() {
        return Ok(None);
    }
    let parse = || {
        let (system, k) = arguments.strip_prefix(CANDIDATES)?.rsplit_once(':')?;
        let k = k.parse().ok().filter(|k| (1..=MAX_CANDIDATES).contains(k))?;
        (!system.is_empty()).then_some((system, k))
    };
    let why = "takes a system and the number of its first nodes, from 1 to 10000, such as \
               :candidates=dense:50";
    parse().map(Some).ok_or_else(|| spec.wrong(arguments, why))
}

/// Whether `spec` is one of the three systems that search chunks.
pub(super) fn is_one(spec: &SystemSpec) -> bool {
    [MAX.name, MEAN.name, TOP3.name].contains(&spec.name)
}

fn pooled(
    spec: &SystemSpec,
    pooling: Pooling,
    arguments: &str,
    opener: &Opener<'_>,
) -> Result<Box<dyn Retriever>, SystemError> {
    let candidates = match candidates_of(spec, arguments)? {
        None => Candidates::Chunks,
        Some((system, k)) => Candidates::First(opener.inner(system)?, k),
    };
    Ok(Box::new(Multi::open(opener.base.clone(), pooling, candidates)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_a_system_and_a_number() {
        let read = |arguments| candidates_of(&MAX, arguments).ok();
        assert_eq!(read(""), Some(None));
        assert_eq!(read(":candidates=dense:50"), Some(Some(("dense", 50))));
        assert_eq!(read(":candidates=rerank:bm25:k=9:20"), Some(Some(("rerank:bm25:k=9", 20))));
        for wrong in [":", ":dense:50", ":candidates=dense", ":candidates=:5", "=dense:50"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        for wrong in ["0", "10001", "-1", "x", ""] {
            let error = candidates_of(&TOP3, &format!(":candidates=dense:{wrong}")).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("write multi:top3[:candidates=SYSTEM:K]"), "{text}");
        }
    }
}
