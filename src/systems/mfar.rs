//! `mfar:FILE[:mask=FIELDS]`: fields weighed as the query asks, by a model that `agent train` made.

use crate::{Need, SystemSpec, file_of};
use agent_index::Part;
use agent_retrieve::Mfar;

/// Stands between the model and the fields that get no weight.
const MASK: &str = ":mask=";

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "mfar",
    arguments: ":FILE[:mask=FIELDS]",
    summary: "the fields of nodes, weighed as the query asks by a trained model (mFAR); the directory \
              of a model, or its name; masked fields, joined by commas, get no weight",
    needs: &[Need::File, Need::Part(Part::Fields)],
    open: |arguments, opener| {
        let (dir, mask) = arguments.split_once(MASK).unwrap_or((arguments, ""));
        Ok(Box::new(Mfar::open(opener.base, file_of(dir), mask)?))
    },
};

/// The name of a system with these fields masked as well, if it is an mFAR.
pub fn masked(name: &str, mask: &str) -> Option<String> {
    SPEC.arguments_of(name)?;
    Some(match name.contains(MASK) {
        true => format!("{name},{mask}"),
        false => format!("{name}{MASK}{mask}"),
    })
}
