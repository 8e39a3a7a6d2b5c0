//! Trains a graph network. It ranks nodes for a query by the part of the graph around the nodes
//! that the query names.

use serde::Deserialize;
use utoipa::ToSchema;

use super::{ModelArgs, Rate, Trained};
use crate::{
    App, Bounded, Perform, Result,
    choice::{AblationName, choice},
};
use agent_train::graph::{self, Ablation, ModelInfo, Settings, Variant};

/// Options for training a graph network.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Dataset and name of the model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Train the QA-GNN network, which reads names but no documents, for the system `qagnn`
    #[arg(long)]
    #[serde(default)]
    pub qagnn: bool,
    /// Leave out this part of the model, to measure its effect
    #[arg(long, value_name = "PART", value_parser = choice::<Ablation>())]
    #[schema(value_type = Option<AblationName>, inline)]
    pub without: Option<Ablation>,
    /// Train for N epochs, at most 1000
    #[arg(long, value_name = "N", default_value_t = epochs())]
    #[serde(default = "epochs")]
    pub epochs: Bounded<0, 1_000>,
    /// Use this learning rate
    #[arg(long, value_name = "R", default_value_t = rate())]
    #[serde(default = "rate")]
    pub rate: Rate,
    /// Use this seed for initial weights and batches
    #[arg(long, value_name = "S", default_value_t = seed())]
    #[serde(default = "seed")]
    pub seed: u64,
    /// Resume interrupted training, which must have been started with the same options
    #[arg(long)]
    #[serde(default)]
    pub resume: bool,
}

fn epochs() -> Bounded<0, 1_000> {
    Bounded::new(Settings::default().epochs as u64)
}

fn rate() -> Rate {
    Rate(Settings::default().rate)
}

fn seed() -> u64 {
    Settings::default().seed
}

impl Perform for Request {
    const NAME: &'static str = "train_graph";
    const SUMMARY: &'static str = "Learn to order nodes by the graph around the query";
    const CHANGES: bool = true;
    type Reply = Trained<ModelInfo>;

    fn perform(&self, app: &App) -> Result<Trained<ModelInfo>> {
        let variant = if self.qagnn { Variant::Qagnn } else { Variant::Graph };
        let training = self.model.open(variant.name(), app)?;
        let settings = Settings {
            variant,
            ablation: self.without,
            epochs: self.epochs.get(),
            rate: self.rate.0,
            seed: self.seed,
            ..Settings::default()
        };
        training.in_epochs(&settings, self.resume, app, |task, report| {
            graph::train(task, report, &app.stop)
        })
    }
}
