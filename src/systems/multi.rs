//! `multi`, `multi:mean` and `multi:top3`: embeddings of the chunks of documents, pooled.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_index::Part;
use agent_retrieve::{Multi, Pooling, Retriever};

pub(super) const MAX: SystemSpec = SystemSpec {
    name: "multi",
    arguments: "",
    summary: "embeddings of the chunks of documents; the best chunk counts",
    needs: &[Need::Part(Part::Multi)],
    open: |_, opener| pooled(Pooling::Max, opener),
};

pub(super) const MEAN: SystemSpec = SystemSpec {
    name: "multi:mean",
    arguments: "",
    summary: "embeddings of the chunks of documents; the mean of all counts",
    needs: &[Need::Part(Part::Multi)],
    open: |_, opener| pooled(Pooling::Mean, opener),
};

pub(super) const TOP3: SystemSpec = SystemSpec {
    name: "multi:top3",
    arguments: "",
    summary: "embeddings of the chunks of documents; the mean of the best three counts",
    needs: &[Need::Part(Part::Multi)],
    open: |_, opener| pooled(Pooling::Top3, opener),
};

fn pooled(pooling: Pooling, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    Ok(Box::new(Multi::open(opener.base.clone(), pooling)?))
}
