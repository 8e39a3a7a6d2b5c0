//! `dense`, `dense:ann` and `dense:trained:FILE`: search by embeddings.

use crate::{Need, SystemSpec, file_of, lexical::baseline};
use agent_index::Part;
use agent_retrieve::{Ann, System, Trained};

pub(super) const EXACT: SystemSpec = SystemSpec {
    name: "dense",
    arguments: "",
    summary: "exact search over embeddings of documents",
    needs: &[],
    open: |_, opener| baseline(System::Dense, opener),
};

pub(super) const ANN: SystemSpec = SystemSpec {
    name: "dense:ann",
    arguments: "",
    summary: "approximate search over embeddings of documents",
    needs: &[Need::Part(Part::Ann)],
    open: |_, opener| Ok(Box::new(Ann::open(opener.base.clone())?)),
};

pub(super) const TRAINED: SystemSpec = SystemSpec {
    name: "dense:trained",
    arguments: ":FILE",
    summary: "exact search over vectors of documents with the names of neighbours, by an encoder \
              trained on labelled queries (DPR, ANCE); FILE is a model's directory or name",
    needs: &[Need::File],
    open: |arguments, opener| Ok(Box::new(Trained::open(opener.base, file_of(arguments))?)),
};
