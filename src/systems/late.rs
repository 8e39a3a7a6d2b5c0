//! The systems `late` and `late:candle:DIR`: late interaction, by token vectors of the index's
//! embedder (MaxSim) or of a ColBERT checkpoint.

use std::path::Path;

use crate::{
    Need, Opener, SystemError, SystemSpec,
    multi::{CANDIDATES, candidates_of},
};
use agent_index::Part;
use agent_retrieve::{Colbert, ColbertCandidates, Late, Retriever};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "late",
    arguments: "",
    summary: "late interaction: the first nodes of hybrid, reordered by matching query tokens with the \
              token vectors of the index's embedder (MaxSim; not a trained ColBERT)",
    needs: &[Need::Part(Part::Late)],
    open: |_, opener| Ok(Box::new(Late::open(opener.base.clone())?)),
};

pub(super) const COLBERT: SystemSpec = SystemSpec {
    name: "late:candle",
    arguments: ":DIR[:nprobe=N][:candidates=SYSTEM:K]",
    summary: "late interaction by the ColBERT checkpoint in DIR, over documents with a token in one of the \
              N centroids nearest to a query token [default: 4]; with candidates, over the first K \
              nodes of SYSTEM",
    needs: &[Need::Part(Part::Colbert), Need::File],
    open,
};

/// Text in the arguments before the number of probed centroids.
const PROBES: &str = ":nprobe=";
/// Maximum number of probed centroids.
const MAX_PROBES: usize = 65_536;

/// Arguments of [`COLBERT`].
#[derive(Debug, PartialEq)]
pub(super) struct ColbertArguments<'a> {
    dir: &'a Path,
    probes: Option<usize>,
    /// Name of the system whose first nodes are ranked, and the number of these nodes.
    pub(super) candidates: Option<(&'a str, usize)>,
}

/// Parses the arguments of [`COLBERT`].
///
/// # Errors
/// [`SystemError::Arguments`] if the arguments are invalid.
pub(super) fn parts(arguments: &str) -> Result<ColbertArguments<'_>, SystemError> {
    let at = arguments.find(CANDIDATES).unwrap_or(arguments.len());
    let (own, candidates) = arguments.split_at(at);
    let candidates = candidates_of(&COLBERT, candidates)?;
    let (dir, probes) = match own.split_once(PROBES) {
        None => (own, None),
        Some((dir, n)) => {
            let n = n.parse().ok().filter(|n| (1..=MAX_PROBES).contains(n));
            let why = "needs a number of centroids from 1 to 65536, such as :nprobe=4";
            (dir, Some(n.ok_or_else(|| COLBERT.wrong(arguments, why))?))
        }
    };
    let dir = dir.strip_prefix(':').filter(|dir| !dir.is_empty());
    let dir = dir.ok_or_else(|| COLBERT.wrong(arguments, "names no directory"))?;
    if probes.is_some() && candidates.is_some() {
        return Err(COLBERT.wrong(arguments, "takes nprobe or candidates, not both"));
    }
    Ok(ColbertArguments { dir: Path::new(dir), probes, candidates })
}

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let ColbertArguments { dir, probes, candidates } = parts(arguments)?;
    let candidates = match candidates {
        None => ColbertCandidates::Probed(probes),
        Some((system, k)) => ColbertCandidates::First(opener.inner(system)?, k),
    };
    Ok(Box::new(Colbert::open(opener.base.clone(), dir, candidates)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_may_be_followed_by_probes_or_candidates() {
        let read = |arguments| parts(arguments).ok().map(|read| (read.probes, read.candidates));
        assert_eq!(read(":a/b"), Some((None, None)));
        assert_eq!(read(":a:nprobe=2"), Some((Some(2), None)));
        assert_eq!(read(":a:candidates=bm25f:50"), Some((None, Some(("bm25f", 50)))));
        let inner = "late:candle:b:nprobe=1";
        let nested = format!(":a:candidates={inner}:50");
        assert_eq!(parts(&nested).unwrap().candidates, Some((inner, 50)));
        assert_eq!(parts(&nested).unwrap().dir, Path::new("a"));
        let both = ":a:nprobe=1:candidates=bm25f:50";
        for wrong in ["", ":", ":a:nprobe=0", ":a:nprobe=x", ":a:candidates=bm25f", both] {
            assert!(parts(wrong).is_err_and(|error| error.is_usage()), "{wrong}");
        }
    }
}
