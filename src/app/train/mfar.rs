//! Trains a model that weighs the fields of nodes; the weights depend on the query (mFAR).

use serde::Deserialize;
use utoipa::ToSchema;

use super::{ModelArgs, Trained};
use crate::{
    App, Bounded, Perform, Plan, Result,
    choice::{ConditioningName, VariantName, choice},
};
use agent_train::{
    ValidationPoint,
    mfar::{self, Conditioning, ModelInfo, Progress, Scorers, Settings, TrainedModel, Variant},
};

/// Number of training steps between two notices.
const NOTICE_EVERY: usize = 50;
/// Stages of training in the order in which they run, each with its approximate share of the total
/// time.
const STAGES: Plan = &[("queries", 2.0), ("choosing", 8.0), ("learning", 1.0)];

/// Options for training a model that weighs the fields of nodes.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Dataset and name of the model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Weigh fields, the whole document with neighbour names, or both; fields need the index part
    /// `fields`, and their vectors need the index part `field-vectors`
    #[arg(long, value_name = "VARIANT", value_parser = choice::<Variant>(), default_value = "1+n:lexical")]
    #[serde(default = "variant")]
    #[schema(value_type = VariantName)]
    pub variant: Variant,
    /// Let the weights depend on this property of the query [default: chosen by cross-validation]
    #[arg(long, value_name = "WHAT", value_parser = choice::<Conditioning>())]
    #[schema(value_type = Option<ConditioningName>, inline)]
    pub conditioning: Option<Conditioning>,
    /// Use this seed for the folds of cross-validation
    #[arg(long, value_name = "S", default_value_t = seed())]
    #[serde(default = "seed")]
    pub seed: u64,
    /// Train for K steps, at most 10000
    #[arg(long, value_name = "K", default_value_t = steps())]
    #[serde(default = "steps")]
    pub steps: Bounded<1, 10_000>,
}

fn variant() -> Variant {
    Variant::OnePlusNLexical
}

fn seed() -> u64 {
    Settings::default().seed
}

fn steps() -> Bounded<1, 10_000> {
    Bounded::new(Settings::default().steps as u64)
}

impl Perform for Request {
    const NAME: &'static str = "train_mfar";
    const SUMMARY: &'static str = "Learn field weights that depend on the query (mFAR)";
    const CHANGES: bool = true;
    type Reply = Trained<ModelInfo>;

    fn perform(&self, app: &App) -> Result<Trained<ModelInfo>> {
        let training = self.model.open("mfar", app)?;
        let scorers = Scorers::open(training.base.clone(), self.variant)?;
        let (conditioning, seed, steps) = (self.conditioning, self.seed, self.steps.get());
        let settings = Settings { conditioning, seed, steps, ..Settings::default() };
        let progress = app.watch.progress_of("training", STAGES);
        let report = |at: Progress| match at {
            Progress::Asking { done, total } => progress.at("queries", done as u64, total as u64),
            Progress::Choosing { done, total, .. } => {
                progress.at("choosing", done as u64, total as u64);
            }
            Progress::Learning(look, of) => {
                progress.at("learning", look.step as u64, of as u64);
                if look.step % NOTICE_EVERY == 0 || look.step == of {
                    app.watch.notice(&step_line(&look));
                }
            }
        };
        let (train, val) = (&training.train, &training.val);
        let trained = mfar::train(&scorers, train, val, &settings, &report, &app.stop)?;
        drop(progress);
        let TrainedModel { model, cross_validation, curve } = trained;
        let (dir, source) = (&training.dir, &training.source);
        let record = model.save(dir, source, &settings, cross_validation, curve)?;
        Ok(training.trained(record, app))
    }
}

/// Formats the loss and validation result of a training step on one line.
pub fn step_line(look: &ValidationPoint) -> String {
    format!("step {}: loss {:.4}, validation mrr {:.1} %", look.step, look.loss, 100.0 * look.mrr)
}
