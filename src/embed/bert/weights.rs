//! Reads the weights of a BERT encoder from `model.safetensors`. The file's header is checked when
//! the model is opened; the numbers are converted and packed at first use.
//!
//! The crate `candle_core` reads the file and converts its numbers. Word-piece embeddings stay in
//! the mapped file, in their stored type; all other weights are packed for
//! [`kernels`](super::kernels) as `f32`.
//!
//! Tensor names are those of `BertModel` in the Python package transformers, with or without the
//! prefix `bert.`.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::Path,
};

use candle_core::{DType, Device, Error, safetensors::SliceSafetensors};
use half::{bf16, f16};
use rayon::prelude::*;
use safetensors::{Dtype, tensor::TensorView};

use crate::{
    EmbedError, Result,
    bert::{
        config::{MAX_WIDTH, Shape, unusable},
        kernels::Packed,
    },
    gpu::encoder::{self, Layer, Norm},
};

/// Maximum size of the file of weights, in bytes.
pub const MAX_WEIGHTS_BYTES: u64 = 8 << 30;
/// Name of the tensor with the word-piece embeddings.
const WORDS: &str = "embeddings.word_embeddings.weight";

/// Weights of a linear layer: `input · weight + bias`.
pub(super) struct Linear {
    pub(super) weight: Packed,
    pub(super) bias: Vec<f32>,
}

/// All weights except the word-piece embeddings.
pub(super) struct Weights {
    /// Position embeddings: `[positions, hidden]`.
    pub(super) positions: Vec<f32>,
    /// Token-type embeddings: `[types, hidden]`.
    pub(super) types: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<Layer<Linear>>,
}

/// Location of the word-piece embeddings in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    bytes: Range<usize>,
    kind: DType,
    hidden: usize,
}

impl Words {
    /// Writes the embedding of the word piece `id` to `row`; returns `false` if the file has none.
    pub(super) fn read(&self, file: &[u8], id: u32, row: &mut [f32]) -> bool {
        let size = self.kind.size_in_bytes() * self.hidden;
        let bytes = file.get(self.bytes.clone()).unwrap_or_default();
        let Some(bytes) = bytes.chunks_exact(size).nth(id as usize) else { return false };
        let (twos, fours) = (bytes.as_chunks::<2>().0.iter(), bytes.as_chunks::<4>().0.iter());
        let numbers = row.iter_mut();
        match self.kind {
            DType::F32 => numbers.zip(fours).for_each(|(n, value)| *n = f32::from_le_bytes(*value)),
            DType::F16 => {
                numbers.zip(twos).for_each(|(n, value)| *n = f16::from_le_bytes(*value).to_f32());
            }
            _ => numbers.zip(twos).for_each(|(n, value)| *n = bf16::from_le_bytes(*value).to_f32()),
        }
        true
    }
}

/// Returns the names, without prefix, and the shapes of a model's tensors, in the order of the
/// forward pass.
pub(super) fn names(shape: &Shape) -> Vec<(String, Vec<usize>)> {
    let Shape { hidden, inner, .. } = *shape;
    let mut names = vec![
        (WORDS.to_owned(), vec![shape.vocabulary, hidden]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![shape.positions, hidden]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![shape.types, hidden]),
    ];
    // The weight of a norm has one number per output; the weight of a linear layer has one row per
    // output.
    let mut add = |name: &str, outputs: usize, inputs: Option<usize>| {
        let weight = [outputs].into_iter().chain(inputs).collect();
        names.push((format!("{name}.weight"), weight));
        names.push((format!("{name}.bias"), vec![outputs]));
    };
    add("embeddings.LayerNorm", hidden, None);
    for layer in 0..shape.layers {
        for (name, outputs, inputs) in [
            ("attention.self.query", hidden, Some(hidden)),
            ("attention.self.key", hidden, Some(hidden)),
            ("attention.self.value", hidden, Some(hidden)),
            ("attention.output.dense", hidden, Some(hidden)),
            ("attention.output.LayerNorm", hidden, None),
            ("intermediate.dense", inner, Some(hidden)),
            ("output.dense", hidden, Some(inner)),
            ("output.LayerNorm", hidden, None),
        ] {
            add(&format!("encoder.layer.{layer}.{name}"), outputs, inputs);
        }
    }
    names
}

/// The tensors of one model, by name.
pub(super) struct Tensors<'a> {
    file: SliceSafetensors<'a>,
    bytes: &'a [u8],
    prefix: &'static str,
    path: &'a Path,
    shape: &'a Shape,
}

impl<'a> Tensors<'a> {
    /// Reads the header of the file at `path` from its bytes and checks that every tensor of
    /// `shape` is present, with the right shape and a supported type. O(tensors).
    ///
    /// # Errors
    /// [`EmbedError::Model`], which names the file and the tensor.
    pub(super) fn new(bytes: &'a [u8], path: &'a Path, shape: &'a Shape) -> Result<Tensors<'a>> {
        let file = SliceSafetensors::new(bytes)
            .map_err(|error| unusable(path, format!("it is not a safetensors file: {error}")))?;
        let prefix = if file.get(WORDS).is_err() { "bert." } else { "" };
        let tensors = Tensors { file, bytes, prefix, path, shape };
        for (name, expected) in names(shape) {
            tensors.check(&name, &expected)?;
        }
        Ok(tensors)
    }

    /// Returns the location of the word-piece embeddings.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the tensor cannot be read.
    pub(super) fn words(&self) -> Result<Words> {
        let view = self.file.get(&self.full(WORDS)).map_err(|error| self.missing(WORDS, &error))?;
        let start = view.data().as_ptr().addr() - self.bytes.as_ptr().addr();
        let kind = DType::try_from(view.dtype()).map_err(|error| self.missing(WORDS, &error))?;
        Ok(Words { bytes: start..start + view.data().len(), kind, hidden: self.shape.hidden })
    }

    /// Converts and packs all weights except the word-piece embeddings. Linear in the number of
    /// weights.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if a tensor cannot be read.
    pub(super) fn load(&self) -> Result<Weights> {
        let linear = |names: &[String], inputs: usize| {
            let encoder::Linear { weight: rows, bias } = self.side_by_side(names)?;
            let mut weight = Packed::default();
            weight.transposed(&rows, inputs, bias.len(), inputs);
            Ok(Linear { weight, bias })
        };
        let layers = (0..self.shape.layers).into_par_iter().map(|at| self.layer(at, linear));
        Ok(Weights {
            positions: self.numbers("embeddings.position_embeddings.weight")?,
            types: self.numbers("embeddings.token_type_embeddings.weight")?,
            norm: self.norm("embeddings.LayerNorm")?,
            layers: layers.collect::<Result<_, _>>()?,
        })
    }

    /// Converts all weights to the layout that the CUDA device needs. Linear in their number.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if a tensor cannot be read.
    pub(super) fn for_device(&self) -> Result<encoder::Weights> {
        let linear = |names: &[String], _| self.side_by_side(names);
        let mut segment = self.numbers("embeddings.token_type_embeddings.weight")?;
        segment.truncate(self.shape.hidden);
        Ok(encoder::Weights {
            words: self.numbers(WORDS)?,
            positions: self.numbers("embeddings.position_embeddings.weight")?,
            segment,
            norm: self.norm("embeddings.LayerNorm")?,
            layers: (0..self.shape.layers)
                .map(|at| self.layer(at, linear))
                .collect::<Result<_>>()?,
        })
    }

    /// Reads layer number `at`. `linear` gets the names of linear layers and their number of
    /// inputs, and returns these layers joined into one.
    fn layer<L>(
        &self,
        at: usize,
        linear: impl Fn(&[String], usize) -> Result<L>,
    ) -> Result<Layer<L>> {
        let Shape { hidden, inner, .. } = *self.shape;
        let name = |name: &str| format!("encoder.layer.{at}.{name}");
        let attention =
            ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
        Ok(Layer {
            attention: linear(&attention, hidden)?,
            attention_out: linear(&[name("attention.output.dense")], hidden)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"))?,
            inner: linear(&[name("intermediate.dense")], hidden)?,
            out: linear(&[name("output.dense")], inner)?,
            norm: self.norm(&name("output.LayerNorm"))?,
        })
    }

    /// Returns the weights of several linear layers, concatenated row by row, and their
    /// concatenated biases.
    fn side_by_side(&self, names: &[String]) -> Result<encoder::Linear> {
        let mut linear = encoder::Linear::default();
        for name in names {
            linear.weight.extend(self.numbers(&format!("{name}.weight"))?);
            linear.bias.extend(self.numbers(&format!("{name}.bias"))?);
        }
        Ok(linear)
    }

    fn norm(&self, name: &str) -> Result<Norm> {
        Ok(Norm {
            scale: self.numbers(&format!("{name}.weight"))?,
            shift: self.numbers(&format!("{name}.bias"))?,
        })
    }

    /// Returns all numbers of a tensor as `f32`, row by row.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<f32>> {
        self.file
            .load(&self.full(name), &Device::Cpu)
            .and_then(|tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1())
            .map_err(|error| self.missing(name, &error))
    }

    /// Returns the weight, `[outputs, hidden]`, row by row, of a linear layer that has no bias and
    /// is not part of the encoder; also returns the number of outputs. The name of the layer has no
    /// prefix.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the tensor is missing or has another shape.
    pub(super) fn projection(&self, name: &str) -> Result<(Vec<f32>, usize)> {
        let tensor = self.file.load(name, &Device::Cpu).map_err(|error| {
            unusable(self.path, format!("{error}; use a ColBERT checkpoint, which has {name}"))
        })?;
        let hidden = self.shape.hidden;
        match *tensor.dims() {
            [outputs, inputs] if inputs == hidden && (1..=MAX_WIDTH).contains(&outputs) => tensor
                .to_dtype(DType::F32)
                .and_then(|tensor| Ok((tensor.flatten_all()?.to_vec1()?, outputs)))
                .map_err(|error| self.missing(name, &error)),
            ref shape => {
                let reason = format!(
                    "tensor {name} has shape {shape:?}, but config.json requires [dim, {hidden}]; \
                     use both files of the same model"
                );
                Err(unusable(self.path, reason))
            }
        }
    }

    fn check(&self, name: &str, expected: &[usize]) -> Result<()> {
        let view = self.file.get(&self.full(name)).map_err(|error| self.missing(name, &error))?;
        if view.shape() != expected {
            let reason = format!(
                "tensor {name} has shape {:?}, but config.json requires {expected:?}; \
                 use both files of the same model",
                view.shape()
            );
            return Err(unusable(self.path, reason));
        }
        match DType::try_from(view.dtype()) {
            Ok(DType::F32 | DType::F16 | DType::BF16) => Ok(()),
            _ => {
                let reason = format!(
                    "tensor {name} has type {:?}, expected F32, F16 or BF16; convert the weights",
                    view.dtype()
                );
                Err(unusable(self.path, reason))
            }
        }
    }

    /// Writes a copy of this file to `path` in which the tensors of [`names`] have other weights,
    /// as `f32`: `numbers`, concatenated in the order of [`names`]. All other tensors are copied.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the numbers are too few or the file cannot be written.
    pub(super) fn write_with(&self, path: &Path, numbers: &[f32]) -> Result<()> {
        let mut rest = numbers;
        let mut changed = BTreeMap::new();
        for (name, shape) in names(self.shape) {
            let n = shape.iter().product();
            let (own, behind) = rest.split_at_checked(n).unwrap_or_default();
            rest = behind;
            changed.insert(self.full(&name), (shape, own));
        }
        let failed = |error| unusable(path, format!("its weights cannot be written: {error}"));
        let others =
            self.file.tensors().into_iter().filter(|(name, _)| !changed.contains_key(name));
        let mut views: Vec<(String, TensorView<'_>)> = others.collect();
        for (name, (shape, numbers)) in &changed {
            let bytes = bytemuck::cast_slice(numbers);
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            views.push((name.clone(), view.map_err(failed)?));
        }
        // The Python package transformers requires this entry.
        let said = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize_to_file(views, Some(said), path).map_err(failed)
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn missing(&self, name: &str, error: &Error) -> EmbedError {
        let reason =
            format!("tensor {name} cannot be read ({error}); use the weights of a BERT encoder");
        unusable(self.path, reason)
    }
}
