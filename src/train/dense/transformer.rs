//! The forward pass of a BERT encoder with trainable weights, on the CPU, and its gradients. The
//! gradients come from the automatic differentiation of the crate `candle_core`. Within the module
//! `dense`, only this file uses that crate. [`agent_embed::bert`] computes the same vectors faster,
//! but without gradients.
//!
//! All texts of a call are padded to the longest one; padding is masked out of attention and
//! pooling.

use candle_core::{D, Device, Result as CandleResult, Tensor, Var, WithDType};

use crate::Result;
use agent_embed::bert::{Activation, Pooling, Shape, WordPieces};

/// Number added to the attention logits of padding, so that padding gets the share 0.
const MASKED: f32 = -1e9;
/// Number added to the square of a vector's norm before dividing by the norm, so that a text
/// without word pieces keeps the zero vector.
const NORM_EPSILON: f64 = 1e-12;

/// Shape, pooling and tensors of a BERT encoder; the weights are passed to each call.
pub(super) struct Transformer<'a> {
    pub(super) shape: &'a Shape,
    pub(super) pooling: Pooling,
    /// Shapes of the weight tensors, in the order of the forward pass.
    pub(super) tensors: &'a [Vec<usize>],
}

/// Weights as tensors for which gradients can be computed.
pub(super) struct Variables(Vec<Var>);

impl Transformer<'_> {
    /// Copies weights into tensors; `numbers` holds the weights of all tensors, concatenated in the
    /// order of the tensors.
    ///
    /// # Errors
    /// [`crate::TrainError::Network`] if the numbers are too few.
    pub(super) fn variables<T: WithDType>(&self, numbers: &[T]) -> Result<Variables> {
        let mut rest = numbers;
        let mut variables = Vec::with_capacity(self.tensors.len());
        for shape in self.tensors {
            let n = shape.iter().product();
            let (part, remaining) = rest.split_at_checked(n).unwrap_or_default();
            rest = remaining;
            variables.push(Var::from_slice(part, shape.as_slice(), &Device::Cpu)?);
        }
        Ok(Variables(variables))
    }

    /// Embeds texts into vectors of norm 1; a text without word pieces gets the zero vector.
    ///
    /// # Errors
    /// [`crate::TrainError::Network`] if the computation fails.
    pub(super) fn embed<T: WithDType>(
        &self,
        variables: &Variables,
        texts: &[&WordPieces],
    ) -> Result<Vec<Vec<T>>> {
        let weights: Vec<Tensor> = variables.0.iter().map(Var::as_detached_tensor).collect();
        Ok(self.forward(&weights, texts)?.to_vec2()?)
    }

    /// Computes the gradient of a loss with respect to all weights, concatenated in the order of
    /// the tensors. `by_vector` holds the derivative of the loss with respect to the vector of each
    /// text.
    ///
    /// # Errors
    /// [`crate::TrainError::Network`] if the computation fails.
    pub(super) fn gradient<T: WithDType>(
        &self,
        variables: &Variables,
        texts: &[&WordPieces],
        by_vector: &[&[f64]],
    ) -> Result<Vec<T>> {
        let weights: Vec<Tensor> =
            variables.0.iter().map(|variable| variable.as_tensor().clone()).collect();
        let vectors = self.forward(&weights, texts)?;
        let given = Tensor::from_vec(by_vector.concat(), vectors.dims(), &Device::Cpu)?;
        let gradients = (vectors * given.to_dtype(T::DTYPE)?)?.sum_all()?.backward()?;
        let mut all = Vec::new();
        for variable in &variables.0 {
            match gradients.get(variable) {
                Some(part) => all.extend(part.flatten_all()?.to_vec1::<T>()?),
                None => all.resize(all.len() + variable.elem_count(), T::zero()),
            }
        }
        Ok(all)
    }

    fn forward(&self, weights: &[Tensor], texts: &[&WordPieces]) -> CandleResult<Tensor> {
        let Shape { hidden, heads, layers, epsilon, .. } = *self.shape;
        let mut weights = weights.iter();
        let mut next =
            || weights.next().ok_or_else(|| candle_core::Error::Msg("too few weights".to_owned()));
        let words = next()?;
        let (dtype, cpu) = (words.dtype(), &Device::Cpu);
        let n = texts.len();
        let len = texts.iter().map(|text| text.ids.len()).max().unwrap_or(0).max(1);
        let padded = |numbers: fn(&WordPieces) -> &[u32]| {
            let mut all = vec![0u32; n * len];
            for (row, text) in all.chunks_mut(len).zip(texts) {
                row[..text.ids.len()].copy_from_slice(numbers(text));
            }
            Tensor::from_vec(all, n * len, cpu)
        };
        // One number per text and token, from the token's position and the number of tokens.
        let masked = |number: &dyn Fn(usize, usize) -> f32| {
            let row = |text: &&WordPieces| {
                let tokens = text.ids.len();
                (0..len).map(|position| number(position, tokens)).collect::<Vec<f32>>()
            };
            let all: Vec<f32> = texts.iter().flat_map(row).collect();
            Tensor::from_vec(all, (n, 1, 1, len), cpu)?.to_dtype(dtype)
        };
        let words = words.index_select(&padded(|text| &text.ids)?, 0)?;
        let positions = next()?.narrow(0, 0, len)?;
        let types = next()?.index_select(&padded(|text| &text.types)?, 0)?;
        let rows = (words + types)?.reshape((n, len, hidden))?.broadcast_add(&positions)?;
        let epsilon = f64::from(epsilon);
        let mut rows = norm(&rows.reshape((n * len, hidden))?, next()?, next()?, epsilon)?;
        let mask = masked(&|position, tokens| if position < tokens { 0.0 } else { MASKED })?;
        let head = hidden / heads;
        for _ in 0..layers {
            let mut heads_of = || -> CandleResult<Tensor> {
                let all = linear(&rows, next()?, next()?)?.reshape((n, len, heads, head))?;
                all.transpose(1, 2)?.contiguous()
            };
            let (queries, keys, values) = (heads_of()?, heads_of()?, heads_of()?);
            let logits = (queries.matmul(&keys.t()?)? / (head as f64).sqrt())?;
            let gathered = softmax(&logits.broadcast_add(&mask)?)?.matmul(&values)?;
            let gathered = gathered.transpose(1, 2)?.contiguous()?.reshape((n * len, hidden))?;
            let change = linear(&gathered, next()?, next()?)?;
            rows = norm(&(rows + change)?, next()?, next()?, epsilon)?;
            let inner = linear(&rows, next()?, next()?)?;
            let inner = match self.shape.activation {
                Activation::Identity => inner,
                Activation::Gelu => inner.gelu_erf()?,
                Activation::GeluTanh => inner.gelu()?,
                Activation::Relu => inner.relu()?,
            };
            let change = linear(&inner, next()?, next()?)?;
            rows = norm(&(rows + change)?, next()?, next()?, epsilon)?;
        }
        // The sum replaces the mean, because the vector is scaled to norm 1.
        let pooled = match self.pooling {
            Pooling::Mean => masked(&|position, tokens| f32::from(u8::from(position < tokens)))?,
            Pooling::First => {
                masked(&|position, tokens| f32::from(u8::from(position == 0 && tokens > 0)))?
            }
            Pooling::Last => {
                masked(&|position, tokens| f32::from(u8::from(position + 1 == tokens)))?
            }
        };
        let rows = rows.reshape((n, len, hidden))?;
        let vectors = rows.broadcast_mul(&pooled.reshape((n, len, 1))?)?.sum(1)?;
        let norms = (vectors.sqr()?.sum_keepdim(1)? + NORM_EPSILON)?.sqrt()?;
        vectors.broadcast_div(&norms)
    }
}

/// Returns `input . weight^T + bias`; `weight` has a row per output.
fn linear(input: &Tensor, weight: &Tensor, bias: &Tensor) -> CandleResult<Tensor> {
    input.matmul(&weight.t()?)?.broadcast_add(bias)
}

/// Applies layer normalisation to each row: subtracts the mean, divides by the standard deviation,
/// multiplies by `scale` and adds `shift`.
fn norm(rows: &Tensor, scale: &Tensor, shift: &Tensor, epsilon: f64) -> CandleResult<Tensor> {
    let rows = rows.broadcast_sub(&rows.mean_keepdim(D::Minus1)?)?;
    let deviation = (rows.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?;
    rows.broadcast_div(&deviation)?.broadcast_mul(scale)?.broadcast_add(shift)
}

/// Applies softmax over the last dimension.
fn softmax(logits: &Tensor) -> CandleResult<Tensor> {
    let largest = logits.detach().max_keepdim(D::Minus1)?;
    let powers = logits.broadcast_sub(&largest)?.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
}
