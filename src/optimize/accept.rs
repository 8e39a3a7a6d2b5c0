//! Acceptance: which changes a run keeps while it goes on. A change is kept when training queries
//! of its category speak for it: a choice, no proof; that is the
//! [sequential test](super::sequential_test)'s.
//!
//! Must not know: who proposes changes, how validation queries are answered.

use serde::{Deserialize, Serialize};

use crate::{
    Event, OptimizeError, Run,
    category_programs::CategoryProgram,
    e_value::{EValue, Levels},
    trial::Origin,
    wording::{self, Wording},
};
use agent_infer::ParamValues;
use agent_retrieve::eval::statistics::randomization_p;

/// Sum of reciprocal ranks that a change must gain on the training queries of its category, both
/// wordings alike ([`wording::gain`]): as much as getting one query right.
pub(super) const MIN_GAIN: f64 = 1.0;

/// A test of a change, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The category.
    pub category: String,
    /// The program it had.
    pub from: String,
    /// The program that was tested; the same when only parameters changed.
    pub to: String,
    /// Parameters of the tested program that differ from the declared ones.
    pub params: ParamValues,
    /// What was changed.
    pub change: String,
    /// Training queries of the category.
    pub n: usize,
    /// Difference of the mean reciprocal ranks.
    pub difference: f64,
    /// The sum of the differences with both wordings weighed alike; what decides.
    #[serde(default)]
    pub gain: f64,
    /// Two-sided p of the paired randomisation test; the queries were seen when the change was
    /// made, so it is no proof.
    pub p: f64,
    /// E-value of an improvement, see [`EValue::e`].
    #[serde(default)]
    pub e: f64,
    /// How many more queries with such differences would be proof, by themselves.
    #[serde(default)]
    pub needed: Option<usize>,
    /// Whether the change was kept.
    pub accepted: bool,
}

impl Run<'_> {
    /// Replaces a category's program if its training queries speak for it; whether they did.
    pub(super) fn accept(
        &mut self,
        category_program: &mut CategoryProgram,
        mut changed: CategoryProgram,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<bool, OptimizeError> {
        let differences: Vec<f64> = queries
            .iter()
            .map(|&at| f64::from(changed.train[at]) - f64::from(category_program.train[at]))
            .collect();
        let e_value = EValue::of(&differences);
        let difference = e_value.difference();
        let p = match differences.is_empty() {
            true => 1.0,
            false => randomization_p(&differences, self.options.seed)?,
        };
        let worded = |(&at, &by): (&usize, &f64)| (Wording::of(&self.train.queries[at].text), by);
        let by_wording: Vec<(Wording, f64)> =
            queries.iter().zip(&differences).map(worded).collect();
        let gain = wording::gain(&by_wording);
        let accepted = gain >= MIN_GAIN;
        let (name, change) = (category_program.name(), &origin.change);
        (self.watch)(Event::Tested { name, change, difference, p, accepted });
        let decision = Decision {
            category: name.to_owned(),
            from: category_program.program.id().to_owned(),
            to: changed.program.id().to_owned(),
            params: changed.params.clone(),
            change: change.clone(),
            n: queries.len(),
            difference,
            gain,
            p,
            e: e_value.e(),
            needed: e_value.needed(Levels::of(1).together),
            accepted,
        };
        self.trials.journal.commit("decision", &key_of(&decision), &decision, &[])?;
        if accepted {
            changed.queries = category_program.queries.take();
            changed.name = category_program.name.take();
            *category_program = changed;
        }
        Ok(accepted)
    }
}

/// A key of the journal that belongs to this result alone, in hexadecimal.
pub(super) fn key_of(result: &impl Serialize) -> String {
    let text = serde_json::to_string(result).unwrap_or_default();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
