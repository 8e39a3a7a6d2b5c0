//! Acceptance: a change of a category's program stays when the validation queries speak for it.

use serde::{Deserialize, Serialize};

use crate::{
    eval::statistics::randomization_p,
    infer::ParamValues,
    optimize::{Event, OptimizeError, Run, members::Member, trial::Origin},
};

/// A change is accepted below this two-sided p of the paired test on validation.
const ACCEPT_P: f64 = 0.2;

/// A test on validation, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The category.
    pub category: String,
    /// The program it had.
    pub from: String,
    /// The program that was tested; the same when only numbers changed.
    pub to: String,
    /// Numbers of the tested program that differ from the declared ones.
    pub params: ParamValues,
    /// What was changed.
    pub change: String,
    /// Validation queries of the category.
    pub n: usize,
    /// Difference of the mean reciprocal ranks.
    pub difference: f64,
    /// Two-sided p of the paired randomisation test.
    pub p: f64,
    /// Whether the change was kept.
    pub accepted: bool,
}

impl Run<'_> {
    /// Replaces a category's program if the paired test on its validation queries says so; whether
    /// it did.
    pub(super) fn accept(
        &mut self,
        member: &mut Member,
        mut changed: Member,
        routed: &[usize],
        origin: &Origin,
    ) -> Result<bool, OptimizeError> {
        let differences: Vec<f64> = routed
            .iter()
            .map(|&at| f64::from(changed.validation[at]) - f64::from(member.validation[at]))
            .collect();
        let difference = (differences.iter().sum::<f64>() + 0.0) / differences.len().max(1) as f64;
        let p = match differences.is_empty() {
            true => 1.0,
            false => randomization_p(&differences, self.options.seed)?,
        };
        let accepted = difference > 0.0 && p < ACCEPT_P;
        let (name, change) = (member.name(), &origin.change);
        (self.watch)(Event::Tested { name, change, difference, p, accepted });
        let decision = Decision {
            category: name.to_owned(),
            from: member.program.id().to_owned(),
            to: changed.program.id().to_owned(),
            params: changed.params.clone(),
            change: change.clone(),
            n: routed.len(),
            difference,
            p,
            accepted,
        };
        let key = serde_json::to_string(&decision).unwrap_or_default();
        let key = blake3::hash(key.as_bytes()).to_hex().to_string();
        self.trials.journal.commit("decision", &key, &decision, &[])?;
        if accepted {
            changed.queries = member.queries.take();
            *member = changed;
        }
        Ok(accepted)
    }
}
