//! The systems `bm25`, `bm25:stark`, `bm25+names` and `bm25f`: lexical search.

use crate::{Opener, SystemError, SystemSpec};
use agent_retrieve::{Baseline, Retriever, Stark, System};

pub(super) const BM25: SystemSpec =
    SystemSpec::plain("bm25", "BM25 over documents", |_, opener| baseline(System::Bm25, opener));

pub(super) const STARK: SystemSpec = SystemSpec::plain(
    "bm25:stark",
    "BM25 over documents as in the STaRK benchmark's code: only candidates are in the collection",
    |_, opener| Ok(Box::new(Stark::open(opener.base.clone()))),
);

pub(super) const NAMES: SystemSpec = SystemSpec::plain(
    "bm25+names",
    "BM25 over documents with the names of neighbours",
    |_, opener| baseline(System::Bm25Names, opener),
);

pub(super) const FIELDS: SystemSpec = SystemSpec::plain(
    "bm25f",
    "BM25F over documents and the names of neighbours, by stems",
    |_, opener| baseline(System::Bm25F, opener),
);

/// Opens a baseline, which needs only the base.
pub(super) fn baseline(
    system: System,
    opener: &Opener<'_>,
) -> Result<Box<dyn Retriever>, SystemError> {
    Ok(Box::new(Baseline::new(opener.base.clone(), system)))
}
