//! The forward pass of an encoder of the BERT family on a CUDA device (Devlin et al. 2019, with
//! layer norm after each sublayer).
//!
//! The tokens of all sequences are packed row by row without padding. Weights and activations are
//! 16-bit floats; products, norms, softmax and pooling sum in 32 bits. The cosine between a pooled
//! vector and the vector of a 32-bit pass is expected to be above 0.9995. Within this rounding
//! error a vector may depend on its batch, because products of different shapes may sum in
//! different orders.

use std::sync::Arc;

use cudarc::{
    cublaslt::{Matmul, MatmulConfig},
    driver::{CudaFunction, CudaSlice, PushKernelArg},
};
use half::f16;

use crate::gpu::{Device, DeviceContext, GpuError, MAX_WIDTH, ROW_THREADS, Result, grid};

/// Names of the kernels that this module calls.
#[cfg(test)]
pub(super) const KERNELS: &[&str] =
    &["embed", "add_norm", "activate", "attend_32", "attend_64", "pool"];
/// Maximum number of tokens of one pass; bounds the memory of activations.
pub const MAX_TOKENS: usize = 32_768;
/// Number of tokens whose attention one block of threads computes; must match `kernels.cu`.
const TILE: usize = 64;
/// Number of threads of a block of an element-wise kernel.
const ELEMENT_THREADS: u32 = 256;

/// The function between the two products of a layer's feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GELU by the error function (Hendrycks & Gimpel 2016).
    Gelu,
    /// GELU, approximated by tanh.
    GeluTanh,
    /// ReLU: `max(x, 0)`.
    Relu,
}

/// Sizes and activation of an encoder.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Number of values in a token's row.
    pub width: usize,
    /// Number of attention heads; `width / heads` must be 32 or 64.
    pub heads: usize,
    /// Number of values in the inner row between the two products of a layer.
    pub inner: usize,
    /// Number added to the variance in layer norms.
    pub epsilon: f32,
    /// Activation of every layer.
    pub activation: Activation,
}

/// Weights of a linear layer, `weight · input + bias`; `weight` is `[outputs, inputs]`.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    /// Weights, row-major.
    pub weight: Vec<f32>,
    /// Bias, one number per output.
    pub bias: Vec<f32>,
}

/// Scale and shift of a layer norm.
#[derive(Clone, Debug, Default)]
pub struct Norm {
    /// Factor of each column.
    pub scale: Vec<f32>,
    /// Number added to each column after scaling.
    pub shift: Vec<f32>,
}

/// Weights of one layer. `L` is the type of linear layers and `N` that of norms: on the host or on
/// the device.
#[derive(Clone, Debug, Default)]
pub struct Layer<L = Linear, N = Norm> {
    /// Linear layers of queries, keys and values, one after the other: `[3 width, width]`.
    pub attention: L,
    /// Output projection of attention: `[width, width]`.
    pub attention_out: L,
    /// Norm after attention.
    pub attention_norm: N,
    /// First product of the feed-forward part: `[inner, width]`.
    pub inner: L,
    /// Second product of the feed-forward part: `[width, inner]`.
    pub out: L,
    /// Norm after the feed-forward part.
    pub norm: N,
}

/// All weights of a model, in 32 bits.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// Word-piece embeddings, `[vocabulary, width]`.
    pub words: Vec<f32>,
    /// Position embeddings, `[positions, width]`; the row number is the position of the token.
    pub positions: Vec<f32>,
    /// Embedding of segment 0, to which all tokens belong: `[width]`.
    pub segment: Vec<f32>,
    /// Norm after the sum of the word, position and segment embeddings.
    pub norm: Norm,
    /// Layers, first to last.
    pub layers: Vec<Layer>,
}

struct DeviceLinear {
    weight: CudaSlice<f16>,
    bias: CudaSlice<f16>,
    outputs: usize,
    inputs: usize,
}

struct DeviceNorm {
    scale: CudaSlice<f32>,
    shift: CudaSlice<f32>,
}

type DeviceLayer = Layer<DeviceLinear, DeviceNorm>;

/// An encoder on a CUDA device.
pub struct Encoder {
    device: Arc<Device>,
    shape: Shape,
    words: CudaSlice<f16>,
    vocabulary: usize,
    positions: CudaSlice<f16>,
    n_positions: usize,
    segment: CudaSlice<f16>,
    norm: DeviceNorm,
    layers: Vec<DeviceLayer>,
}

/// Rows of all tokens of a pass; `starts` holds the row at which each sequence starts, then the
/// number of rows.
struct Rows {
    rows: CudaSlice<f16>,
    starts: Vec<i32>,
}

impl Encoder {
    /// Copies the weights of an encoder to the device.
    ///
    /// # Errors
    /// [`GpuError::Shape`] if heads are not 32 or 64 wide, a row is wider than [`MAX_WIDTH`], or
    /// the weights do not have the documented shapes; [`GpuError::Device`] if the device fails.
    pub fn new(device: Arc<Device>, shape: Shape, weights: &Weights) -> Result<Encoder> {
        let width = shape.width;
        if width == 0 || width > MAX_WIDTH {
            return Err(GpuError::shape("a row", width, format!("1 to {MAX_WIDTH} numbers")));
        }
        if shape.heads == 0 || ![32, 64].contains(&(width / shape.heads)) {
            let head = width.checked_div(shape.heads).unwrap_or(0);
            return Err(GpuError::shape("a head", head, "32 or 64 numbers"));
        }
        let linear = |linear: &Linear, inputs| device.linear(linear, inputs);
        let norm = |norm: &Norm| device.norm(norm, width);
        let layer = |layer: &Layer| {
            Ok(Layer {
                attention: linear(&layer.attention, width)?,
                attention_out: linear(&layer.attention_out, width)?,
                attention_norm: norm(&layer.attention_norm)?,
                inner: linear(&layer.inner, width)?,
                out: linear(&layer.out, shape.inner)?,
                norm: norm(&layer.norm)?,
            })
        };
        let layers: Vec<DeviceLayer> = weights.layers.iter().map(layer).collect::<Result<_>>()?;
        for one in &layers {
            let outputs = [&one.attention, &one.attention_out, &one.inner, &one.out];
            let expected = [3 * width, width, shape.inner, width];
            for (linear, expected) in outputs.into_iter().zip(expected) {
                if linear.outputs != expected {
                    return Err(GpuError::shape("a product", linear.outputs, expected));
                }
            }
        }
        let table = |what, numbers: &[f32]| {
            if numbers.is_empty() || !numbers.len().is_multiple_of(width) {
                let expected = format!("a multiple of {width}");
                return Err(GpuError::shape(what, numbers.len(), expected));
            }
            Ok((device.narrow(numbers)?, numbers.len() / width))
        };
        let (words, vocabulary) = table("the table of words", &weights.words)?;
        let (positions, n_positions) = table("the table of positions", &weights.positions)?;
        let (segment, _) = table("the row of the segment", &weights.segment)?;
        let norm = norm(&weights.norm)?;
        Ok(Encoder {
            device,
            shape,
            words,
            vocabulary,
            positions,
            n_positions,
            segment,
            norm,
            layers,
        })
    }

    /// Embeds sequences of word-piece ids. Returns one vector of norm 1 per sequence,
    /// `[sequences, width]`, in the given order. The vector is the mean of the sequence's rows or,
    /// if `first_only` is set, its first row.
    ///
    /// The sequences of one call must have, together, at most [`MAX_TOKENS`] tokens. A few large
    /// calls are faster than many small ones.
    ///
    /// # Errors
    /// [`GpuError::Shape`] if a sequence is empty, too long or has an unknown id, or if all
    /// sequences together are too long; [`GpuError::Device`] if the device fails.
    pub fn embed(&self, sequences: &[&[u32]], first_only: bool) -> Result<Vec<f32>> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let Rows { rows, starts } = self.forward(sequences)?;
        let stream = &self.device.stream;
        let starts = stream.clone_htod(&starts).doing("copying tokens to it")?;
        let n = sequences.len();
        let mut pooled =
            stream.alloc_zeros::<f32>(n * self.shape.width).doing("making room for vectors")?;
        let kernel = self.device.kernel("pool")?;
        let (width, first_only) = (self.shape.width as i32, i32::from(first_only));
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&rows).arg(&starts).arg(&width).arg(&first_only).arg(&mut pooled);
        // SAFETY: arguments are those of the kernel; starts are n + 1 ascending row numbers of
        // rows[_, width], and pooled has n rows.
        unsafe { launch.launch(grid(n, 1, ROW_THREADS)?) }.doing("pooling")?;
        stream.clone_dtoh(&pooled).doing("fetching vectors")
    }

    /// Returns the rows of the last layer, one per token, sequence by sequence: `[tokens, width]`.
    ///
    /// # Errors
    /// As [`Encoder::embed`].
    pub fn token_rows(&self, sequences: &[&[u32]]) -> Result<Vec<f32>> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.forward(sequences)?.rows;
        let narrow = self.device.stream.clone_dtoh(&rows).doing("fetching rows")?;
        Ok(narrow.into_iter().map(f16::to_f32).collect())
    }

    fn forward(&self, sequences: &[&[u32]]) -> Result<Rows> {
        let (ids, positions, starts, tiles) = self.packed(sequences)?;
        let Shape { width, heads, inner, epsilon, activation } = self.shape;
        let (n, stream) = (ids.len(), &self.device.stream);
        let copy = |numbers: &[i32]| stream.clone_htod(numbers).doing("copying tokens to it");
        let (ids, positions, tiles) = (copy(&ids)?, copy(&positions)?, copy(&tiles)?);
        let room = |columns: usize| {
            stream.alloc_zeros::<f16>(n * columns).doing("making room for activations")
        };
        let (mut rows, mut qkv, mut context) = (room(width)?, room(3 * width)?, room(width)?);
        let (mut wide, mut change) = (room(inner)?, room(width)?);
        let kernel = |name| self.device.kernel(name);
        let add_norm = kernel("add_norm")?;
        let activate = kernel("activate")?;
        let attend = kernel(if width / heads == 32 { "attend_32" } else { "attend_64" })?;
        let columns = width as i32;

        let embed = kernel("embed")?;
        let mut launch = stream.launch_builder(&embed);
        launch.arg(&ids).arg(&positions).arg(&self.words).arg(&self.positions).arg(&self.segment);
        launch.arg(&self.norm.scale).arg(&self.norm.shift).arg(&epsilon).arg(&columns);
        launch.arg(&mut rows);
        // SAFETY: arguments are those of the kernel; `packed` has checked ids and positions against
        // their tables, rows is [n, width].
        unsafe { launch.launch(grid(n, 1, ROW_THREADS)?) }.doing("looking up words")?;

        let scale = 1.0 / ((width / heads) as f32).sqrt();
        let (n_heads, n_tiles) = (heads as i32, tiles.len() / 3);
        let kind = match activation {
            Activation::Gelu => 0i32,
            Activation::GeluTanh => 1,
            Activation::Relu => 2,
        };
        for layer in &self.layers {
            self.product(&layer.attention, &rows, n, &mut qkv)?;
            let mut launch = stream.launch_builder(&attend);
            launch.arg(&qkv).arg(&tiles).arg(&n_heads).arg(&scale).arg(&mut context);
            // SAFETY: arguments are those of the kernel; tiles lie within the n rows of qkv[n, 3
            // width] and context[n, width].
            unsafe { launch.launch(grid(n_tiles, heads, TILE as u32)?) }.doing("attending")?;
            self.product(&layer.attention_out, &context, n, &mut change)?;
            self.add_norm(&add_norm, &mut rows, &change, &layer.attention_norm, n)?;

            self.product(&layer.inner, &rows, n, &mut wide)?;
            let numbers = n * inner;
            let mut launch = stream.launch_builder(&activate);
            launch.arg(&mut wide).arg(&numbers).arg(&kind);
            let blocks = numbers.div_ceil(ELEMENT_THREADS as usize);
            // SAFETY: arguments are those of the kernel; wide has `numbers` numbers.
            unsafe { launch.launch(grid(blocks, 1, ELEMENT_THREADS)?) }.doing("activating")?;
            self.product(&layer.out, &wide, n, &mut change)?;
            self.add_norm(&add_norm, &mut rows, &change, &layer.norm, n)?;
        }
        Ok(Rows { rows, starts })
    }

    /// Packs sequences for the kernels. Returns four lists: the id of each token; its position; the
    /// row at which each sequence starts, then the number of rows; and for each tile of at most
    /// [`TILE`] tokens its first row and the first and end row of its sequence.
    #[expect(clippy::type_complexity, reason = "four columns that are used once")]
    fn packed(&self, sequences: &[&[u32]]) -> Result<(Vec<i32>, Vec<i32>, Vec<i32>, Vec<i32>)> {
        let n: usize = sequences.iter().map(|sequence| sequence.len()).sum();
        if n > MAX_TOKENS {
            return Err(GpuError::shape("a pass", n, format!("at most {MAX_TOKENS} tokens")));
        }
        let (mut ids, mut positions, mut starts, mut tiles) = (vec![], vec![], vec![0], vec![]);
        for sequence in sequences {
            if sequence.is_empty() || sequence.len() > self.n_positions {
                let expected = format!("1 to {} tokens", self.n_positions);
                return Err(GpuError::shape("a sequence", sequence.len(), expected));
            }
            if let Some(&id) = sequence.iter().find(|&&id| id as usize >= self.vocabulary) {
                let expected = format!("less than {}", self.vocabulary);
                return Err(GpuError::shape("a word piece", id as usize, expected));
            }
            let first = ids.len() as i32;
            let end = first + sequence.len() as i32;
            ids.extend(sequence.iter().map(|&id| id as i32));
            positions.extend(0..sequence.len() as i32);
            starts.push(end);
            for tile in (first..end).step_by(TILE) {
                tiles.extend([tile, first, end]);
            }
        }
        Ok((ids, positions, starts, tiles))
    }

    /// Computes a linear layer: `out[n, outputs] = rows[n, inputs] * weight^T + bias`.
    fn product(
        &self,
        linear: &DeviceLinear,
        rows: &CudaSlice<f16>,
        n: usize,
        out: &mut CudaSlice<f16>,
    ) -> Result<()> {
        let (m, k) = (linear.outputs, linear.inputs);
        let config = MatmulConfig {
            transa: true,
            transb: false,
            transc: false,
            m: m as u64,
            n: n as u64,
            k: k as u64,
            alpha: 1.0,
            lda: k as i64,
            ldb: k as i64,
            beta: 0.0,
            ldc: m as i64,
            stride_a: None,
            stride_b: None,
            stride_c: None,
            stride_bias: None,
            batch_size: None,
        };
        // SAFETY: cuBLASLt is column-major: the weight is an inputs by outputs matrix to be
        // transposed, rows are inputs by n, and out is outputs by n; the slices are that large.
        unsafe {
            self.device.blas_lt.matmul(config, &linear.weight, rows, out, Some(&linear.bias), None)
        }
        .doing("multiplying rows and weights")
    }

    /// Adds `change` to `rows` and applies the layer norm: `rows = norm(rows + change)`.
    fn add_norm(
        &self,
        kernel: &CudaFunction,
        rows: &mut CudaSlice<f16>,
        change: &CudaSlice<f16>,
        norm: &DeviceNorm,
        n: usize,
    ) -> Result<()> {
        let (width, epsilon) = (self.shape.width as i32, self.shape.epsilon);
        let mut launch = self.device.stream.launch_builder(kernel);
        launch.arg(rows).arg(change).arg(&norm.scale).arg(&norm.shift).arg(&epsilon).arg(&width);
        // SAFETY: arguments are those of the kernel; both matrices are [n, width].
        unsafe { launch.launch(grid(n, 1, ROW_THREADS)?) }.doing("normalising")?;
        Ok(())
    }
}

impl Device {
    fn narrow(&self, numbers: &[f32]) -> Result<CudaSlice<f16>> {
        let narrow: Vec<f16> = numbers.iter().copied().map(f16::from_f32).collect();
        self.stream.clone_htod(&narrow).doing("copying weights to it")
    }

    fn linear(&self, linear: &Linear, inputs: usize) -> Result<DeviceLinear> {
        let outputs = linear.bias.len();
        if outputs == 0 || linear.weight.len() != outputs * inputs {
            let expected = format!("{outputs} x {inputs}");
            return Err(GpuError::shape("a weight", linear.weight.len(), expected));
        }
        let (weight, bias) = (self.narrow(&linear.weight)?, self.narrow(&linear.bias)?);
        Ok(DeviceLinear { weight, bias, outputs, inputs })
    }

    fn norm(&self, norm: &Norm, width: usize) -> Result<DeviceNorm> {
        let copy = |numbers: &[f32]| {
            if numbers.len() != width {
                return Err(GpuError::shape("a norm", numbers.len(), width));
            }
            self.stream.clone_htod(numbers).doing("copying weights to it")
        };
        Ok(DeviceNorm { scale: copy(&norm.scale)?, shift: copy(&norm.shift)? })
    }
}
