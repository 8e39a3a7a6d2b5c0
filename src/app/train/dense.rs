//! Trains dual encoders: models that map queries and nodes to vectors, such that the vector of a
//! query is near those of its answers.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ModelArgs, Rate, Trained};
use crate::{
    App, Bounded, Perform, Result,
    choice::{NegativesName, choice},
};
use agent_train::dense::{
    self, ModelInfo, Negatives, Settings,
    tune::{self, TunedModelInfo},
};

/// Options for training a dual encoder.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Dataset and name of the model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Train this text encoder: bag (the weighted mean of word vectors) or candle:DIR (a BERT-like
    /// sentence encoder in a directory)
    #[arg(long, value_name = "ENCODER", default_value = "bag")]
    #[serde(default)]
    #[schema(value_type = String)]
    pub encoder: Encoder,
    /// Take negatives from this source, in addition to the other documents of a batch
    #[arg(long, value_name = "WHERE", value_parser = choice::<Negatives>(), default_value = negatives().name())]
    #[serde(default = "negatives")]
    #[schema(value_type = NegativesName)]
    pub negatives: Negatives,
    /// With --negatives self, let the encoder choose new negatives N times, at most 100
    #[arg(long, value_name = "N", default_value_t = refresh())]
    #[serde(default = "refresh")]
    pub refresh: Bounded<0, 100>,
    /// Generate N training queries from documents, at most 200000 [default: 8000; 0 with
    /// candle:DIR]
    #[arg(long, value_name = "N")]
    #[schema(inline)]
    pub made: Option<Bounded<0, 200_000>>,
    /// Train for N epochs, at most 1000 [default: 12; 3 with candle:DIR]
    #[arg(long, value_name = "N")]
    #[schema(inline)]
    pub epochs: Option<Bounded<0, 1_000>>,
    /// Train on batches of N pairs, at most 1000 [default: 64; 16 with candle:DIR]
    #[arg(long, value_name = "N")]
    #[schema(inline)]
    pub batch: Option<Bounded<0, 1_000>>,
    /// Use this maximum learning rate [default: 0.001; 0.00002 with candle:DIR]
    #[arg(long, value_name = "R")]
    #[schema(inline)]
    pub rate: Option<Rate>,
    /// With bag, use vectors of length N, at most 1024 and at most the length of the built-in
    /// embedder's vectors [default: 256]
    #[arg(long, value_name = "N")]
    #[schema(inline)]
    pub dim: Option<Bounded<0, 1_024>>,
    /// With candle:DIR, read the first N word pieces of a text, at most 8192 [default: 128]
    #[arg(long, value_name = "N")]
    #[schema(inline)]
    pub max_tokens: Option<Bounded<0, 8_192>>,
    /// With candle:DIR, rank N nodes for each validation query, and choose the negatives of
    /// --negatives self from N nodes; at most 1000000 [default: 1000]
    #[arg(long, value_name = "N")]
    #[schema(inline)]
    pub pool: Option<Bounded<0, 1_000_000>>,
    /// Use this seed for generated queries, batches and negatives
    #[arg(long, value_name = "S", default_value_t = seed())]
    #[serde(default = "seed")]
    pub seed: u64,
    /// Resume interrupted training, which must have been started with the same options
    #[arg(long)]
    #[serde(default)]
    pub resume: bool,
}

fn negatives() -> Negatives {
    Settings::default().negatives
}

fn refresh() -> Bounded<0, 100> {
    Bounded::new(Settings::default().refresh as u64)
}

fn seed() -> u64 {
    Settings::default().seed
}

/// Kind of text encoder to train; as text `bag` or `candle:DIR`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Encoder {
    /// The weighted mean of the vectors of a text's words.
    #[default]
    Bag,
    /// A BERT-like sentence encoder, whose files are in this directory.
    Candle(PathBuf),
}

impl FromStr for Encoder {
    type Err = String;

    fn from_str(text: &str) -> Result<Encoder, String> {
        match text.split_once(':') {
            None if text == "bag" => Ok(Encoder::Bag),
            Some(("candle", dir)) if !dir.is_empty() => Ok(Encoder::Candle(dir.into())),
            _ => Err("use bag or candle:DIR".to_owned()),
        }
    }
}

impl TryFrom<String> for Encoder {
    type Error = String;

    fn try_from(text: String) -> Result<Encoder, String> {
        text.parse()
    }
}

/// The dual encoder that was trained.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// Word vectors, with a weight for each word.
    Bag(Trained<ModelInfo>),
    /// A fine-tuned sentence encoder.
    Encoder(Trained<TunedModelInfo>),
}

impl Perform for Request {
    const NAME: &'static str = "train_dense";
    const SUMMARY: &'static str =
        "Learn vectors of queries and nodes, such that a query is near its answers";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        match &self.encoder {
            Encoder::Bag => self.bag(app).map(Reply::Bag),
            Encoder::Candle(dir) => self.sentence_encoder(dir, app).map(Reply::Encoder),
        }
    }
}

impl Request {
    /// Trains the vectors of words and a weight for each word.
    fn bag(&self, app: &App) -> Result<Trained<ModelInfo>> {
        refuse("--max-tokens", self.max_tokens, "candle:DIR")?;
        refuse("--pool", self.pool, "candle:DIR")?;
        let training = self.model.open("dense", app)?;
        let known = Settings::default();
        let settings = Settings {
            negatives: self.negatives,
            refresh: self.refresh.get(),
            seed: self.seed,
            made: self.made.map_or(known.made, Bounded::get),
            epochs: self.epochs.map_or(known.epochs, Bounded::get),
            dim: self.dim.map_or(known.dim, Bounded::get).max(1),
            batch: self.batch.map_or(known.batch, Bounded::get).max(1),
            rate: self.rate.map_or(known.rate, |rate| rate.0),
            ..known
        };
        training.in_epochs(&settings, self.resume, app, |task, report| {
            dense::train(task, report, &app.stop)
        })
    }

    /// Fine-tunes the sentence encoder whose files are in `dir`.
    fn sentence_encoder(&self, dir: &Path, app: &App) -> Result<Trained<TunedModelInfo>> {
        app.refuse_paths("train dense")?;
        refuse("--dim", self.dim, "bag")?;
        let known = tune::Settings::default();
        let max_tokens = self.max_tokens.map_or(known.max_tokens, Bounded::get);
        let encoder = tune::BaseEncoder::open(dir, max_tokens)?;
        let training = self.model.open("encoder", app)?;
        let settings = tune::Settings {
            encoder: encoder.fingerprint().to_owned(),
            negatives: self.negatives,
            refresh: self.refresh.get(),
            seed: self.seed,
            made: self.made.map_or(known.made, Bounded::get),
            epochs: self.epochs.map_or(known.epochs, Bounded::get),
            batch: self.batch.map_or(known.batch, Bounded::get).max(1),
            rate: self.rate.map_or(known.rate, |rate| rate.0),
            pool: self.pool.map_or(known.pool, Bounded::get).max(1),
            max_tokens,
            ..known
        };
        training.in_epochs(&settings, self.resume, app, |task, report| {
            dense::tune(task, &encoder, report, &app.stop)
        })
    }
}

/// Fails if `given` is set, because `option` applies only to encoders of the kind `encoder`.
fn refuse<T>(option: &str, given: Option<T>, encoder: &str) -> Result<()> {
    if given.is_some() {
        return Err(anyhow!("{option} is an option of --encoder {encoder}; leave it out").into());
    }
    Ok(())
}
