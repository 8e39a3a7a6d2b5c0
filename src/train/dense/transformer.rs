//! The forward pass of a BERT encoder with weights that can be learnt, and the derivative of a product
//! of its vectors. The only file here that knows `candle_core`, whose automatic differentiation it uses;
//! `embed::bert` computes the same vectors faster, without derivatives. Must not know nodes or queries.
//!
//! Texts of a call are padded to the longest of them, and padding is masked out of attention and
//! pooling. On the CPU.

use candle_core::{D, Device, Result as CandleResult, Tensor, Var, WithDType};

use crate::TrainError;
use agent_embed::bert::{Activation, Pooling, Shape, WordPieces};

/// Added to the logits of padding, so that it has no share.
const MASKED: f32 = -1e9;
/// Added to the square of a norm, so that a text without word pieces keeps the zero vector.
const LEAST_SQUARE: f64 = 1e-12;

/// What is not learnt.
pub(super) struct Transformer<'a> {
    pub(super) shape: &'a Shape,
    pub(super) pooling: Pooling,
    /// The shapes of the tensors of weights, in their order.
    pub(super) tensors: &'a [Vec<usize>],
}

/// The weights as tensors that can have derivatives.
pub(super) struct Variables(Vec<Var>);

/// What candle refused: no fault of the user.
fn failed(error: candle_core::Error) -> TrainError {
    TrainError::Network(error.to_string())
}

impl Transformer<'_> {
    /// Weights, one tensor behind the other; they are copied.
    ///
    /// # Errors
    /// [`TrainError::Network`].
    pub(super) fn variables<T: WithDType>(&self, numbers: &[T]) -> Result<Variables, TrainError> {
        let mut rest = numbers;
        let mut variables = Vec::with_capacity(self.tensors.len());
        for shape in self.tensors {
            let n = shape.iter().product();
            let (own, behind) = rest.split_at_checked(n).unwrap_or_default();
            rest = behind;
            variables.push(Var::from_slice(own, shape.as_slice(), &Device::Cpu).map_err(failed)?);
        }
        Ok(Variables(variables))
    }

    /// A vector of norm 1 for each text, or zeros for one without word pieces.
    ///
    /// # Errors
    /// [`TrainError::Network`].
    pub(super) fn embed<T: WithDType>(
        &self,
        variables: &Variables,
        texts: &[&WordPieces],
    ) -> Result<Vec<Vec<T>>, TrainError> {
        let weights: Vec<Tensor> = variables.0.iter().map(Var::as_detached_tensor).collect();
        self.forward(&weights, texts).and_then(|vectors| vectors.to_vec2()).map_err(failed)
    }

    /// The derivative of `sum over texts of by_vector . vector` by all weights, in their order: what a
    /// loss says of them whose derivative by the vectors is given.
    ///
    /// # Errors
    /// [`TrainError::Network`].
    pub(super) fn gradient<T: WithDType>(
        &self,
        variables: &Variables,
        texts: &[&WordPieces],
        by_vector: &[&[f64]],
    ) -> Result<Vec<T>, TrainError> {
        let run = || {
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
        };
        run().map_err(failed)
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
        let padded = |of: fn(&WordPieces) -> &[u32]| {
            let mut all = vec![0u32; n * len];
            for (row, text) in all.chunks_mut(len).zip(texts) {
                row[..text.ids.len()].copy_from_slice(of(text));
            }
            Tensor::from_vec(all, n * len, cpu)
        };
        // A number for each text and token, of the token's place and the text's tokens.
        let masked = |of: &dyn Fn(usize, usize) -> f32| {
            let row = |text: &&WordPieces| {
                let tokens = text.ids.len();
                (0..len).map(|at| of(at, tokens)).collect::<Vec<f32>>()
            };
            let all: Vec<f32> = texts.iter().flat_map(row).collect();
            Tensor::from_vec(all, (n, 1, 1, len), cpu)?.to_dtype(dtype)
        };
        let words = words.index_select(&padded(|text| &text.ids)?, 0)?;
        let places = next()?.narrow(0, 0, len)?;
        let types = next()?.index_select(&padded(|text| &text.types)?, 0)?;
        let rows = (words + types)?.reshape((n, len, hidden))?.broadcast_add(&places)?;
        let epsilon = f64::from(epsilon);
        let mut rows = norm(&rows.reshape((n * len, hidden))?, next()?, next()?, epsilon)?;
        let mask = masked(&|at, tokens| if at < tokens { 0.0 } else { MASKED })?;
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
        // The mean is a sum here, as the vector is scaled.
        let pooled = match self.pooling {
            Pooling::Mean => masked(&|at, tokens| f32::from(u8::from(at < tokens)))?,
            Pooling::First => masked(&|at, tokens| f32::from(u8::from(at == 0 && tokens > 0)))?,
            Pooling::Last => masked(&|at, tokens| f32::from(u8::from(at + 1 == tokens)))?,
        };
        let rows = rows.reshape((n, len, hidden))?;
        let vectors = rows.broadcast_mul(&pooled.reshape((n, len, 1))?)?.sum(1)?;
        let norms = (vectors.sqr()?.sum_keepdim(1)? + LEAST_SQUARE)?.sqrt()?;
        vectors.broadcast_div(&norms)
    }
}

/// `input . weight^T + bias`, the weight with a row for each output.
fn linear(input: &Tensor, weight: &Tensor, bias: &Tensor) -> CandleResult<Tensor> {
    input.matmul(&weight.t()?)?.broadcast_add(bias)
}

/// Each row with mean 0 and variance 1, then scaled and shifted.
fn norm(rows: &Tensor, scale: &Tensor, shift: &Tensor, epsilon: f64) -> CandleResult<Tensor> {
    let rows = rows.broadcast_sub(&rows.mean_keepdim(D::Minus1)?)?;
    let deviation = (rows.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?.sqrt()?;
    rows.broadcast_div(&deviation)?.broadcast_mul(scale)?.broadcast_add(shift)
}

/// Over the last dimension.
fn softmax(logits: &Tensor) -> CandleResult<Tensor> {
    let largest = logits.detach().max_keepdim(D::Minus1)?;
    let powers = logits.broadcast_sub(&largest)?.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
}
