//! The systems `dense`, `dense:ann`, `bag:dpr:FILE`, `bag:ance:FILE` and `dense:trained:FILE`:
//! search by embeddings.

use crate::{Need, Opener, SystemError, SystemSpec, file_of, lexical::baseline};
use agent_index::Part;
use agent_retrieve::{Ann, Retriever, System, Trained};
use agent_train::{TrainError, dense::Negatives};

pub(super) const EXACT: SystemSpec =
    SystemSpec::plain("dense", "exact search over embeddings of documents", |_, opener| {
        baseline(System::Dense, opener)
    });

pub(super) const ANN: SystemSpec = SystemSpec {
    name: "dense:ann",
    arguments: "",
    summary: "approximate search over embeddings of documents",
    needs: &[Need::Part(Part::Ann)],
    open: |_, opener| Ok(Box::new(Ann::open(opener.base.clone())?)),
};

pub(super) const BAG_DPR: SystemSpec = SystemSpec::of_file(
    "bag:dpr",
    "exact search over vectors of documents and the names of neighbours, by a bag-of-words \
     encoder trained as in DPR with negatives from bm25+names; FILE is a model's directory \
     or name",
    |arguments, opener| bag(&BAG_DPR, Negatives::Bm25, arguments, opener),
);

pub(super) const BAG_ANCE: SystemSpec = SystemSpec::of_file(
    "bag:ance",
    "as bag:dpr, but trained as in ANCE with negatives from the encoder itself",
    |arguments, opener| bag(&BAG_ANCE, Negatives::Own, arguments, opener),
);

pub(super) const TRAINED: SystemSpec = SystemSpec::of_file(
    "dense:trained",
    "older name of bag:dpr and bag:ance; the model in FILE determines which",
    |arguments, opener| Ok(Box::new(Trained::open(opener.base, file_of(arguments))?)),
);

/// Opens the trained bag-of-words encoder in the file that `arguments` names.
///
/// # Errors
/// [`SystemError::Model`] if the encoder cannot be used, or was not trained with
/// negative examples of the kind `negatives`.
fn bag(
    spec: &SystemSpec,
    negatives: Negatives,
    arguments: &str,
    opener: &Opener<'_>,
) -> Result<Box<dyn Retriever>, SystemError> {
    let trained = Trained::open(opener.base, file_of(arguments))?;
    if trained.negatives() == negatives {
        return Ok(Box::new(trained));
    }
    Err(SystemError::Model(TrainError::OtherSystem {
        path: file_of(arguments).display().to_string(),
        found: trained.name(),
        wanted: spec.name.to_owned(),
    }))
}
