//! The forward pass of architectures other than BERT, on the CPU, by the crate
//! `candle-transformers`. It maps each word piece of a text to one row.
//!
//! This module is compiled only with the feature `encoders`. Every text has its own pass, so its
//! rows do not depend on other texts.

use std::{path::Path, sync::Arc};

use candle_core::{DType, Device, Result as CandleResult, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::{modernbert, qwen3, xlm_roberta};

use crate::{
    Result,
    bert::{
        config::{Architecture, Settings, unusable},
        word_pieces::WordPieces,
    },
};

/// A model of an architecture other than BERT, with its weights as `f32`.
pub(super) struct Layers {
    model: Model,
    path: Arc<Path>,
}

enum Model {
    ModernBert(modernbert::ModernBert),
    XlmRoberta(xlm_roberta::XLMRobertaModel),
    /// Qwen3. The model caches the keys and values of a text, so each text gets a clone; clones
    /// share the weights.
    Qwen3(qwen3::Model),
}

impl Layers {
    /// Reads all weights from `bytes`, the content of the file at `path`; returns `None` if the
    /// architecture is BERT. Linear in the number of weights.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`], with the name of the tensor that is missing or has another
    /// shape.
    pub(super) fn load(settings: &Settings, bytes: &[u8], path: &Path) -> Result<Option<Self>> {
        let model = load(settings, bytes).map_err(|error| {
            unusable(
                path,
                format!("{error}; use the configuration and the weights of the same model"),
            )
        })?;
        Ok(model.map(|model| Self { model, path: path.into() }))
    }

    /// Runs the model over one text and returns a row for each word piece: `[word pieces, hidden]`.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if the forward pass fails.
    pub(super) fn rows(&self, pieces: &WordPieces) -> Result<Vec<f32>> {
        if pieces.ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows = || {
            let (n, cpu) = (pieces.ids.len(), Device::Cpu);
            let ids = Tensor::from_slice(&pieces.ids, (1, n), &cpu)?;
            let all = Tensor::ones((1, n), DType::U32, &cpu)?;
            let rows = match &self.model {
                Model::ModernBert(model) => model.forward(&ids, &all)?,
                Model::XlmRoberta(model) => {
                    let types = Tensor::from_slice(&pieces.types, (1, n), &cpu)?;
                    model.forward(&ids, &all, &types, None, None, None)?
                }
                Model::Qwen3(model) => model.clone().forward(&ids, 0)?,
            };
            rows.flatten_all()?.to_vec1()
        };
        let failed = |error: candle_core::Error| unusable(&self.path, error.to_string());
        rows().map_err(failed)
    }
}

fn load(settings: &Settings, bytes: &[u8]) -> CandleResult<Option<Model>> {
    let Settings { architecture, shape, .. } = settings;
    let weights = VarBuilder::from_slice_safetensors(bytes, DType::F32, &Device::Cpu)?;
    // Files of models with a task head put a prefix before the names of the encoder's tensors. The
    // crate expects the prefix for ModernBERT and Qwen3, but not for XLM-RoBERTa.
    let bare = |prefix: &'static str| {
        let inside =
            weights.contains_tensor(&format!("{prefix}.embeddings.word_embeddings.weight"));
        if inside { weights.pp(prefix) } else { weights.clone() }
    };
    let prefixed = || {
        let inside = ["model.embeddings.tok_embeddings.weight", "model.embed_tokens.weight"];
        if inside.iter().any(|name| weights.contains_tensor(name)) {
            return weights.clone();
        }
        weights.clone().rename_f(|name| name.strip_prefix("model.").unwrap_or(name).to_owned())
    };
    let epsilon = f64::from(shape.epsilon);
    Ok(Some(match *architecture {
        Architecture::Bert => return Ok(None),
        Architecture::ModernBert { whole_every, local, theta: [global_theta, local_theta] } => {
            let config = modernbert::Config {
                vocab_size: shape.vocabulary,
                hidden_size: shape.hidden,
                num_hidden_layers: shape.layers,
                num_attention_heads: shape.heads,
                intermediate_size: shape.inner,
                max_position_embeddings: shape.positions,
                layer_norm_eps: epsilon,
                pad_token_id: 0,
                global_attn_every_n_layers: whole_every,
                global_rope_theta: global_theta,
                local_attention: local,
                local_rope_theta: local_theta,
                classifier_config: None,
            };
            Model::ModernBert(modernbert::ModernBert::load(prefixed(), &config)?)
        }
        Architecture::XlmRoberta { padding } => {
            let config = xlm_roberta::Config {
                hidden_size: shape.hidden,
                layer_norm_eps: epsilon,
                attention_probs_dropout_prob: 0.0,
                hidden_dropout_prob: 0.0,
                num_attention_heads: shape.heads,
                position_embedding_type: "absolute".to_owned(),
                intermediate_size: shape.inner,
                hidden_act: Activation::Gelu,
                num_hidden_layers: shape.layers,
                vocab_size: shape.vocabulary,
                max_position_embeddings: shape.positions + padding as usize + 1,
                type_vocab_size: shape.types,
                pad_token_id: padding,
            };
            Model::XlmRoberta(xlm_roberta::XLMRobertaModel::new(&config, bare("roberta"))?)
        }
        Architecture::Qwen3 { key_heads, head, theta, bias } => {
            let config = qwen3::Config {
                vocab_size: shape.vocabulary,
                hidden_size: shape.hidden,
                intermediate_size: shape.inner,
                num_hidden_layers: shape.layers,
                num_attention_heads: shape.heads,
                head_dim: head,
                attention_bias: bias,
                num_key_value_heads: key_heads,
                max_position_embeddings: shape.positions,
                sliding_window: None,
                max_window_layers: 0,
                tie_word_embeddings: false,
                rope_theta: theta,
                rms_norm_eps: epsilon,
                use_sliding_window: false,
                hidden_act: Activation::Silu,
            };
            Model::Qwen3(qwen3::Model::new(&config, prefixed())?)
        }
    }))
}
