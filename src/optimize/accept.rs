//! Accepts or rejects changes during a run: a change is accepted if it gains enough on the training
//! queries of its category. This does not prove that the change helps on other queries; the
//! [sequential test](super::sequential_test) does.

use serde::{Deserialize, Serialize};

use crate::{
    Event, Result, Run,
    category_programs::CategoryProgram,
    e_value::{EValue, Levels},
    trial::{Origin, differences, digest},
    wording::{self, Wording},
};
use agent_infer::ParamValues;
use agent_retrieve::eval::statistics::randomization_p;

/// Minimum gain for which a change is accepted, in summed reciprocal rank on the training queries
/// of its category ([`wording::gain`]): the gain of one more correct first answer.
pub(super) const MIN_GAIN: f64 = 1.0;

/// Outcome of testing a change, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Name of the category whose program was tested.
    pub category: String,
    /// Id of the category's previous program.
    pub from: String,
    /// Id of the tested program; equal to `from` if only parameters changed.
    pub to: String,
    /// Parameters of the tested program that differ from the declared values.
    pub params: ParamValues,
    /// Description of the change.
    pub change: String,
    /// Number of training queries on which both programs were compared.
    pub n: usize,
    /// Mean reciprocal rank of the tested program minus that of the previous program.
    pub difference: f64,
    /// Summed difference of reciprocal ranks, new minus old ([`wording::gain`]). The change is
    /// accepted if this is at least 1.
    #[serde(default)]
    pub gain: f64,
    /// Two-sided p-value of the paired randomisation test on the reciprocal ranks; not a proof,
    /// because the change was chosen on the same queries.
    pub p: f64,
    /// E-value against the hypothesis that the change does not improve the mean reciprocal rank;
    /// see [`EValue::e`].
    #[serde(default)]
    pub e: f64,
    /// Estimated number of further queries until the change is proven, if there is an estimate; see
    /// [`EValue::needed`].
    #[serde(default)]
    pub needed: Option<usize>,
    /// Whether the change was accepted.
    pub accepted: bool,
}

impl Run<'_> {
    /// Replaces the program of a category by `changed` if the gain on `queries` (positions of
    /// training queries) is at least [`MIN_GAIN`], and records the decision in the journal. Returns
    /// whether the program was replaced.
    pub(super) fn accept(
        &mut self,
        category: &mut CategoryProgram,
        mut changed: CategoryProgram,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<bool> {
        let differences = differences(&changed.train_on(queries), &category.train_on(queries));
        let e_value = EValue::from_differences(&differences);
        let difference = e_value.difference();
        let p = match differences.is_empty() {
            true => 1.0,
            false => randomization_p(&differences, self.options.seed)?,
        };
        let wordings = queries.iter().map(|&at| Wording::detect(&self.train.queries[at].text));
        let gain = wording::gain(&wordings.zip(differences).collect::<Vec<_>>());
        let accepted = gain >= MIN_GAIN;
        let decision = Decision {
            category: category.name().to_owned(),
            from: category.program.id().to_owned(),
            to: changed.program.id().to_owned(),
            params: changed.params.clone(),
            change: origin.change.clone(),
            n: queries.len(),
            difference,
            gain,
            p,
            e: e_value.e(),
            needed: e_value.needed(Levels::for_test(1).together),
            accepted,
        };
        (self.watch)(Event::Tested(&decision));
        self.trials.journal.commit("decision", &key_of(&decision), &decision, &[])?;
        if accepted {
            changed.queries = category.queries.take();
            changed.name = category.name.take();
            *category = changed;
        }
        Ok(accepted)
    }
}

/// Returns the hexadecimal digest of a step's result, which is the step's key in the journal.
pub(super) fn key_of(result: &impl Serialize) -> String {
    digest(&serde_json::to_string(result).unwrap_or_default())
}
