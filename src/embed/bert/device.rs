//! Runs a BERT model on a CUDA device, if there is one: copies the model to the device and groups
//! texts into passes.
//!
//! The vectors differ slightly from those of the CPU, because the device computes with 16-bit
//! numbers (see [`gpu::encoder`]).

use std::{sync::mpsc::sync_channel, thread};

use crate::{
    Result,
    bert::{
        config::{Pooling, Shape},
        kernels::Activation,
        weights::Tensors,
        word_pieces::WordPieces,
    },
    gpu::{self, Device, encoder::Encoder},
};

/// Number of texts that are tokenized together, called a portion.
const PORTION_TEXTS: usize = 4096;
/// Maximum number of tokenized portions that wait for the device.
const WAITING_PORTIONS: usize = 2;

/// A BERT model on a CUDA device.
pub(super) struct DeviceModel {
    encoder: Encoder,
    name: String,
    /// Whether the vector of a text is its first row, instead of the mean of its rows.
    first_only: bool,
    hidden: usize,
}

impl DeviceModel {
    /// Copies the model to the first CUDA device. Returns `None` if there is no device, if the
    /// device fails, or if its kernels do not support the shape, activation or pooling of the
    /// model.
    ///
    /// # Errors
    /// [`crate::EmbedError::Model`] if a tensor cannot be read; with `AGENT_GPU=require`,
    /// [`crate::EmbedError::Gpu`] if the device is missing or fails.
    pub(super) fn load(
        tensors: &Tensors<'_>,
        shape: &Shape,
        pooling: Pooling,
    ) -> Result<Option<DeviceModel>> {
        let heads_fit = [32, 64].contains(&(shape.hidden / shape.heads));
        if !heads_fit || shape.hidden > gpu::MAX_WIDTH {
            return Ok(None);
        }
        let Some(device) = Device::first()? else { return Ok(None) };
        let sizes = gpu::encoder::Shape {
            width: shape.hidden,
            heads: shape.heads,
            inner: shape.inner,
            epsilon: shape.epsilon,
            activation: match shape.activation {
                Activation::Gelu => gpu::encoder::Activation::Gelu,
                Activation::GeluTanh => gpu::encoder::Activation::GeluTanh,
                Activation::Relu => gpu::encoder::Activation::Relu,
                Activation::Identity => return Ok(None),
            },
        };
        let first_only = match pooling {
            Pooling::Mean => false,
            Pooling::First => true,
            Pooling::Last => return Ok(None),
        };
        let name = device.name().to_owned();
        let encoder = Encoder::new(device, sizes, &tensors.for_device()?).map(Some);
        let encoder = encoder.or_else(|error| gpu::give_up(error).map(|()| None))?;
        Ok(encoder.map(|encoder| DeviceModel { encoder, name, first_only, hidden: shape.hidden }))
    }

    /// Returns the name of the CUDA device for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Embeds texts into vectors of norm 1, `[texts, hidden]`, in the given order. `cut` splits
    /// texts into word pieces. For more than [`PORTION_TEXTS`] texts, `cut` runs on its own thread
    /// and prepares the next portions while the device works.
    pub(super) fn embed_pooled(
        &self,
        texts: &[&str],
        cut: impl Fn(&[&str]) -> Result<Vec<WordPieces>> + Sync,
    ) -> Result<Vec<f32>> {
        if texts.len() <= PORTION_TEXTS {
            return self.embed_portion(&cut(texts)?);
        }
        thread::scope(|scope| {
            let (send, receive) = sync_channel(WAITING_PORTIONS);
            let cut = &cut;
            scope.spawn(move || {
                // Sending fails only if the receiver ended early, with an error that it reports.
                texts.chunks(PORTION_TEXTS).map(cut).try_for_each(|pieces| send.send(pieces))
            });
            let mut vectors = Vec::with_capacity(texts.len() * self.hidden);
            for pieces in receive {
                vectors.extend(self.embed_portion(&pieces?)?);
            }
            Ok(vectors)
        })
    }

    /// Embeds one portion of texts into vectors of norm 1, `[texts, hidden]`, in the given order.
    /// Texts of similar length share a pass.
    fn embed_portion(&self, pieces: &[WordPieces]) -> Result<Vec<f32>> {
        // A text without word pieces keeps the zero vector.
        let full = |text: &usize| !pieces[*text].ids.is_empty();
        let mut order: Vec<usize> = (0..pieces.len()).filter(full).collect();
        order.sort_by_key(|&text| pieces[text].ids.len());
        let mut vectors = vec![0.0; pieces.len() * self.hidden];
        let mut rest = &order[..];
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = |&&text: &&usize| {
                tokens += pieces[text].ids.len();
                tokens <= gpu::encoder::MAX_TOKENS
            };
            let n = rest.iter().take_while(fits).count().max(1);
            let (pass, later) = rest.split_at(n);
            let sequences: Vec<&[u32]> = pass.iter().map(|&text| &pieces[text].ids[..]).collect();
            let pooled = self.encoder.embed(&sequences, self.first_only)?;
            for (&text, vector) in pass.iter().zip(pooled.chunks_exact(self.hidden)) {
                vectors[text * self.hidden..][..self.hidden].copy_from_slice(vector);
            }
            rest = later;
        }
        Ok(vectors)
    }

    /// Returns the rows of the last layer for the word pieces of a text, `[word pieces, hidden]`.
    pub(super) fn rows(&self, pieces: &WordPieces) -> Result<Vec<f32>> {
        if pieces.ids.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.encoder.token_rows(&[&pieces.ids])?)
    }
}
