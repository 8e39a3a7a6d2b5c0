//! The arithmetic of an encoder on rows of numbers: products with packed weights, layer norm, softmax,
//! activations.
//!
//! It must not know layers, heads or texts. A row of a result depends on the same row of the input alone:
//! every element is one chain of fused multiply-adds in ascending order of the inner dimension, however
//! many rows there are and whichever [`Isa`] computes it, so the bits are the same everywhere.

#[cfg(target_arch = "x86_64")]
use crate::embed::bert::lanes::{Avx2, Avx512};
use crate::embed::bert::lanes::{Lanes, Plain, WIDTH};

/// Rows of which all panels are computed before the next: their numbers stay in the cache.
const BLOCK_ROWS: usize = 96;

/// The instructions that kernels are compiled for; a value of it proves that the processor has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Isa(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

impl Isa {
    /// All that this processor has, fastest first; the last needs nothing.
    pub(super) fn all() -> Vec<Isa> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") {
                all.push(Isa(Kind::Avx512));
            }
            if has!("avx2") && has!("fma") {
                all.push(Isa(Kind::Avx2));
            }
        }
        all.push(Isa(Kind::Plain));
        all
    }

    /// The fastest that this processor has.
    pub(super) fn best() -> Isa {
        Isa::all().first().copied().unwrap_or(Isa(Kind::Plain))
    }

    /// Name for people.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            Kind::Plain => "no vector instructions",
        }
    }
}

/// Compiles a kernel for every [`Isa`] and picks one of them at run time.
macro_rules! on_each_isa {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $kernel:ident) => {
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn avx512($($argument: $type),*) {
                // SAFETY: the instructions are those of this function.
                unsafe { $kernel::<Avx512>($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $type),*) {
                // SAFETY: the instructions are those of this function.
                unsafe { $kernel::<Avx2>($($argument),*) }
            }
            match isa.0 {
                // SAFETY: an `Isa` exists only where the processor has its instructions.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: likewise.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => unsafe { avx2($($argument),*) },
                // SAFETY: it needs no instructions of its own.
                Kind::Plain => unsafe { $kernel::<Plain>($($argument),*) },
            }
        }
    };
}

/// A matrix `[inner, columns]` cut into panels of [`WIDTH`] columns, each `[inner, WIDTH]` row after row.
#[derive(Debug, Default)]
pub(super) struct Packed {
    inner: usize,
    columns: usize,
    panels: Vec<f32>,
}

impl Packed {
    /// Packs the transpose of `rows`, `[columns, inner]` with `stride` numbers from row to row: the layout
    /// of a linear layer's weights. Columns are filled up with zeros to a multiple of [`WIDTH`].
    pub(super) fn transposed(&mut self, rows: &[f32], stride: usize, columns: usize, inner: usize) {
        self.reset(columns, inner);
        for (column, row) in rows.chunks(stride).take(columns).enumerate() {
            let panel = &mut self.panels[column / WIDTH * WIDTH * inner..];
            for (i, value) in row[..inner].iter().enumerate() {
                panel[i * WIDTH + column % WIDTH] = *value;
            }
        }
    }

    /// Packs `rows`, `[inner, columns]` with `stride` numbers from row to row.
    ///
    /// `columns` is a multiple of [`WIDTH`].
    pub(super) fn straight(&mut self, rows: &[f32], stride: usize, columns: usize, inner: usize) {
        self.reset(columns, inner);
        for (i, row) in rows.chunks(stride).take(inner).enumerate() {
            for (panel, part) in row[..columns].as_chunks::<WIDTH>().0.iter().enumerate() {
                let at = (panel * inner + i) * WIDTH;
                self.panels[at..at + WIDTH].copy_from_slice(part);
            }
        }
    }

    /// Columns with the zeros that fill the last panel.
    pub(super) fn full_columns(&self) -> usize {
        self.columns.next_multiple_of(WIDTH)
    }

    fn reset(&mut self, columns: usize, inner: usize) {
        self.inner = inner;
        self.columns = columns;
        self.panels.clear();
        self.panels.resize(columns.next_multiple_of(WIDTH) * inner, 0.0);
    }
}

/// What is added to a product.
#[derive(Clone, Copy)]
pub(super) enum Plus<'a> {
    /// Nothing.
    Nothing,
    /// A number per column.
    Bias(&'a [f32]),
    /// A number per column, and what the output holds.
    BiasAndOutput(&'a [f32]),
}

/// Rows of a matrix that lie `stride` numbers apart in a longer slice.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
}

/// As [`Rows`], to be written.
pub(super) struct RowsMut<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) stride: usize,
}

/// A function applied to every number of a layer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    /// `x`.
    Identity,
    /// `x Φ(x)`, by the error function.
    Gelu,
    /// Its approximation by the hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

on_each_isa! {
    /// `out[r] = activation(plus + input[r] · weights)` for `n_rows` rows.
    ///
    /// # Panics
    /// When a slice is shorter than its shape says.
    fn matmul(
        input: Rows<'_>,
        n_rows: usize,
        weights: &Packed,
        plus: Plus<'_>,
        activation: Activation,
        out: &mut RowsMut<'_>,
    ) = product
}

on_each_isa! {
    /// Scales and shifts each row of `dim` numbers, a multiple of [`WIDTH`], to mean `bias` and standard
    /// deviation `weight`, column by column: `(x - mean) / sqrt(variance + epsilon) * weight + bias`.
    fn layer_norm(rows: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32) = norm_rows
}

on_each_isa! {
    /// Replaces the first `len` of each row of `width` numbers, a multiple of [`WIDTH`], by
    /// `exp(scale * (x - max))`, and notes one over their sum.
    fn exp_rows(rows: &mut [f32], width: usize, len: usize, scale: f32, inverse: &mut [f32]) = exp_scaled
}

/// Where a tile begins, in numbers and pointers that its caller has checked.
#[derive(Clone, Copy)]
struct Tile {
    input: *const f32,
    input_stride: usize,
    panels: *const f32,
    inner: usize,
    bias: *const f32,
    adds_output: bool,
    out: *mut f32,
    out_stride: usize,
}

/// Computes `R` rows of `P` panels, all sums in registers.
///
/// # Safety
/// The processor has the instructions of `L`; the pointers of `at` are good for the stated numbers; `bias`
/// is null or good for the columns of the panels.
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const P: usize>(at: Tile) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[L::splat(0.0); P]; R];
        for p in 0..P {
            let bias =
                if at.bias.is_null() { L::splat(0.0) } else { L::load(at.bias.add(p * WIDTH)) };
            for (r, sums) in sums.iter_mut().enumerate() {
                let before = at.out.add(r * at.out_stride + p * WIDTH);
                sums[p] = if at.adds_output { L::load(before).add(bias) } else { bias };
            }
        }
        for i in 0..at.inner {
            let mut columns = [L::splat(0.0); P];
            for p in 0..P {
                columns[p] = L::load(at.panels.add((p * at.inner + i) * WIDTH));
            }
            for r in 0..R {
                let value = L::splat(*at.input.add(r * at.input_stride + i));
                for p in 0..P {
                    sums[r][p] = value.mul_add(columns[p], sums[r][p]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (p, sum) in sums.iter().enumerate() {
                sum.store(at.out.add(r * at.out_stride + p * WIDTH));
            }
        }
    }
}

/// As [`tile`], with its numbers of rows and panels found at run time.
///
/// # Safety
/// As [`tile`]; `1 <= rows <= L::ROWS`, `1 <= panels <= L::PANELS`.
#[inline(always)]
unsafe fn any_tile<L: Lanes>(at: Tile, rows: usize, panels: usize) {
    macro_rules! pick {
        ($($r:literal)*) => {
            // SAFETY: as the caller promises.
            unsafe {
                match (rows, panels) {
                    $(($r, 1) if $r <= L::ROWS => tile::<L, $r, 1>(at),
                    ($r, 2) if $r <= L::ROWS && L::PANELS >= 2 => tile::<L, $r, 2>(at),
                    ($r, 3) if $r <= L::ROWS && L::PANELS >= 3 => tile::<L, $r, 3>(at),)*
                    _ => {}
                }
            }
        };
    }
    pick!(1 2 3 4 5 6 7 8);
}

/// [`matmul`].
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn product<L: Lanes>(
    input: Rows<'_>,
    n_rows: usize,
    weights: &Packed,
    plus: Plus<'_>,
    activation: Activation,
    out: &mut RowsMut<'_>,
) {
    let (inner, columns) = (weights.inner, weights.full_columns());
    if n_rows == 0 || columns == 0 {
        return;
    }
    let needs = |stride: usize, len: usize| (n_rows - 1) * stride + len;
    assert!(input.data.len() >= needs(input.stride, inner), "the input has too few rows");
    assert!(out.data.len() >= needs(out.stride, columns), "the output has too few rows");
    assert!(weights.panels.len() == columns * inner, "the weights are not packed");
    let (bias, adds_output) = match plus {
        Plus::Nothing => (None, false),
        Plus::Bias(bias) => (Some(bias), false),
        Plus::BiasAndOutput(bias) => (Some(bias), true),
    };
    assert!(bias.is_none_or(|bias| bias.len() >= columns), "the bias has too few numbers");
    let n_panels = columns / WIDTH;
    for block in (0..n_rows).step_by(BLOCK_ROWS) {
        let block_end = (block + BLOCK_ROWS).min(n_rows);
        for panel in (0..n_panels).step_by(L::PANELS) {
            let panels = L::PANELS.min(n_panels - panel);
            for row in (block..block_end).step_by(L::ROWS) {
                let rows = L::ROWS.min(block_end - row);
                let column = panel * WIDTH;
                // SAFETY: rows and columns lie within the shapes checked above.
                unsafe {
                    let at = Tile {
                        input: input.data.as_ptr().add(row * input.stride),
                        input_stride: input.stride,
                        panels: weights.panels.as_ptr().add(column * inner),
                        inner,
                        bias: bias.map_or(std::ptr::null(), |bias| bias.as_ptr().add(column)),
                        adds_output,
                        out: out.data.as_mut_ptr().add(row * out.stride + column),
                        out_stride: out.stride,
                    };
                    any_tile::<L>(at, rows, panels);
                    for r in 0..rows {
                        for p in 0..panels {
                            let to = at.out.add(r * at.out_stride + p * WIDTH);
                            match activation {
                                Activation::Identity => {}
                                Activation::Gelu => gelu(L::load(to)).store(to),
                                Activation::GeluTanh => gelu_tanh(L::load(to)).store(to),
                                Activation::Relu => L::load(to).max(L::splat(0.0)).store(to),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// `x Φ(x) = x (1 + erf(x / √2)) / 2`, with erf by formula 7.1.26 of Abramowitz and Stegun, "Handbook of
/// Mathematical Functions", 1964: its error is at most 1.5e-7.
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn gelu<L: Lanes>(x: L) -> L {
    // SAFETY: as the caller promises.
    unsafe {
        let one = L::splat(1.0);
        let z = x.abs().mul(L::splat(std::f32::consts::FRAC_1_SQRT_2));
        let t = one.div(z.mul_add(L::splat(0.327_591_1), one));
        let mut sum = L::splat(1.061_405_4);
        for term in [-1.453_152, 1.421_413_7, -0.284_496_72, 0.254_829_6] {
            sum = sum.mul_add(t, L::splat(term));
        }
        // erfc(z) / 2, which is Φ(-|x|).
        let below = sum.mul(t).mul(L::splat(0.5)).mul(L::splat(0.0).sub(z.mul(z)).exp());
        // x Φ(x) is |x| Φ(-|x|) below what max(x, 0) is.
        x.max(L::splat(0.0)).sub(x.abs().mul(below))
    }
}

/// `x / (1 + exp(-2 u))` with `u = √(2/π) (x + 0.044715 x³)`: Hendrycks and Gimpel, "Gaussian Error Linear
/// Units", arXiv 1606.08415.
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn gelu_tanh<L: Lanes>(x: L) -> L {
    // SAFETY: as the caller promises.
    unsafe {
        let cubic = x.mul(x).mul_add(L::splat(0.044_715), L::splat(1.0)).mul(x);
        let exponent = cubic.mul(L::splat(-1.595_769_1));
        x.div(exponent.exp().add(L::splat(1.0)))
    }
}

/// [`layer_norm`].
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn norm_rows<L: Lanes>(rows: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32) {
    let dim = weight.len();
    assert!(dim > 0 && dim.is_multiple_of(WIDTH) && bias.len() == dim, "wrong row length");
    for row in rows.chunks_exact_mut(dim) {
        let row = row.as_mut_ptr();
        // SAFETY: row, weight and bias hold `dim` numbers.
        unsafe {
            let mut sum = L::splat(0.0);
            for at in (0..dim).step_by(WIDTH) {
                sum = sum.add(L::load(row.add(at)));
            }
            let mean = L::splat(sum.sum() / dim as f32);
            let mut squares = L::splat(0.0);
            for at in (0..dim).step_by(WIDTH) {
                let centred = L::load(row.add(at)).sub(mean);
                squares = centred.mul_add(centred, squares);
            }
            let scale = L::splat(1.0 / (squares.sum() / dim as f32 + epsilon).sqrt());
            for at in (0..dim).step_by(WIDTH) {
                let scaled = L::load(row.add(at)).sub(mean).mul(scale);
                let weight = L::load(weight.as_ptr().add(at));
                scaled.mul_add(weight, L::load(bias.as_ptr().add(at))).store(row.add(at));
            }
        }
    }
}

/// [`exp_rows`].
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn exp_scaled<L: Lanes>(
    rows: &mut [f32],
    width: usize,
    len: usize,
    scale: f32,
    inverse: &mut [f32],
) {
    assert!(width.is_multiple_of(WIDTH) && 0 < len && len <= width, "wrong row length");
    for (row, inverse) in rows.chunks_exact_mut(width).zip(inverse) {
        row[len..].fill(f32::MIN);
        let row = row.as_mut_ptr();
        // SAFETY: the row holds `width` numbers, a multiple of `WIDTH`.
        unsafe {
            let mut max = L::load(row);
            for at in (WIDTH..width).step_by(WIDTH) {
                max = max.max(L::load(row.add(at)));
            }
            let max = L::splat(max.array().into_iter().fold(f32::MIN, f32::max));
            let mut sum = L::splat(0.0);
            for at in (0..width).step_by(WIDTH) {
                let value = L::load(row.add(at)).sub(max).mul(L::splat(scale)).exp();
                value.store(row.add(at));
                sum = sum.add(value);
            }
            *inverse = 1.0 / sum.sum();
        }
    }
}
