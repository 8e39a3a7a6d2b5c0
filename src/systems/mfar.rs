//! The system `mfar:FILE[:mask=FIELDS]`: ranks nodes by their fields, which a model trained by
//! `agent train` weights for each query (mFAR).

use crate::{Need, SystemSpec, file_of};
use agent_retrieve::Mfar;

/// Text in the arguments between the model and the masked fields.
const MASK: &str = ":mask=";

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "mfar",
    arguments: ":FILE[:mask=FIELDS]",
    summary: "the fields of nodes, weighted by the query with a trained model (mFAR); FILE is a model's \
              directory or name; masked fields, separated by commas, get no weight",
    needs: &[Need::File],
    open: |arguments, opener| {
        let (dir, mask) = arguments.split_once(MASK).unwrap_or((arguments, ""));
        Ok(Box::new(Mfar::open(opener.base, file_of(dir), mask)?))
    },
};

/// Returns the system name `name` with the fields in `mask`, separated by commas, added to its
/// masked fields; `None` if `name` does not name an mFAR system.
pub fn masked(name: &str, mask: &str) -> Option<String> {
    SPEC.arguments_of(name)?;
    Some(match name.contains(MASK) {
        true => format!("{name},{mask}"),
        false => format!("{name}{MASK}{mask}"),
    })
}
