//! The systems `bm25`, `bm25:stark`, `bm25+names` and `bm25f`: lexical search.

use crate::{Opener, SystemError, SystemSpec};
use agent_retrieve::{Baseline, Retriever, Stark, System};

pub(super) const BM25: SystemSpec = SystemSpec {
    name: "bm25",
    arguments: "",
    summary: "BM25 over documents",
    needs: &[],
    open: |_, opener| baseline(System::Bm25, opener),
};

pub(super) const STARK: SystemSpec = SystemSpec {
    name: "bm25:stark",
    arguments: "",
    summary: "BM25 over documents as in the STaRK benchmark's code: only candidates are in the collection",
    needs: &[],
    open: |_, opener| Ok(Box::new(Stark::open(opener.base.clone()))),
};

pub(super) const NAMES: SystemSpec = SystemSpec {
    name: "bm25+names",
    arguments: "",
    summary: "BM25 over documents with the names of neighbours",
    needs: &[],
    open: |_, opener| baseline(System::Bm25Names, opener),
};

pub(super) const FIELDS: SystemSpec = SystemSpec {
    name: "bm25f",
    arguments: "",
    summary: "BM25F over documents and the names of neighbours, by stems",
    needs: &[],
    open: |_, opener| baseline(System::Bm25F, opener),
};

/// Opens a baseline, which needs nothing but the base.
pub(super) fn baseline(
    system: System,
    opener: &Opener<'_>,
) -> Result<Box<dyn Retriever>, SystemError> {
    Ok(Box::new(Baseline::new(opener.base.clone(), system)))
}
