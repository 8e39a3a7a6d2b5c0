//! The arithmetic of a BERT encoder on the CPU: products of rows with packed weights, layer norm,
//! softmax and activations.
//!
//! A row of a result depends only on the same row of the input. Every element of a product is one
//! chain of fused multiply-adds in ascending order of the inner dimension. So results are the same
//! bit for bit for any number of rows and any instruction set ([`Isa`]).

#[cfg(target_arch = "x86_64")]
use crate::bert::lanes::{Avx2, Avx512};
use crate::bert::lanes::{Lanes, Plain, WIDTH};

/// Instruction set that the kernels use; a value exists only if the processor supports the set.
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
    /// Returns the instruction sets of this processor, fastest first; the last is always available.
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

    /// Returns the fastest instruction set of this processor.
    pub(super) fn best() -> Isa {
        Isa::all().first().copied().unwrap_or(Isa(Kind::Plain))
    }

    /// Returns the name of the instruction set for messages.
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

/// Compiles a kernel for every [`Isa`] and selects one at run time.
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
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => unsafe { avx2($($argument),*) },
                // SAFETY: `Plain` needs no special instructions.
                Kind::Plain => unsafe { $kernel::<Plain>($($argument),*) },
            }
        }
    };
}

/// A matrix `[inner, columns]` cut into panels of [`WIDTH`] columns, each `[inner, WIDTH]`,
/// row-major.
#[derive(Debug, Default)]
pub(super) struct Packed {
    inner: usize,
    columns: usize,
    panels: Vec<f32>,
}

impl Packed {
    /// Packs the transpose of `rows`, a `[columns, inner]` matrix whose rows start `stride` numbers
    /// apart; weights of linear layers are stored in this way. Zeros pad the columns to a multiple
    /// of [`WIDTH`].
    pub(super) fn transposed(&mut self, rows: &[f32], stride: usize, columns: usize, inner: usize) {
        self.reset(columns, inner);
        for first in (0..columns).step_by(WIDTH) {
            let panel = &mut self.panels[first * inner..];
            for (column, row) in
                rows[first * stride..].chunks(stride).take(columns - first).enumerate().take(WIDTH)
            {
                for (to, value) in panel.chunks_exact_mut(WIDTH).zip(&row[..inner]) {
                    to[column] = *value;
                }
            }
        }
    }

    /// Packs `rows`, an `[inner, columns]` matrix whose rows start `stride` numbers apart.
    ///
    /// `columns` must be a multiple of [`WIDTH`].
    pub(super) fn straight(&mut self, rows: &[f32], stride: usize, columns: usize, inner: usize) {
        self.reset(columns, inner);
        for (i, row) in rows.chunks(stride).take(inner).enumerate() {
            for (panel, part) in row[..columns].as_chunks::<WIDTH>().0.iter().enumerate() {
                let at = (panel * inner + i) * WIDTH;
                self.panels[at..at + WIDTH].copy_from_slice(part);
            }
        }
    }

    /// Returns the number of columns, including padding.
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

/// The term to which a product of matrices is added.
#[derive(Clone, Copy)]
pub(super) enum Addend<'a> {
    /// Nothing.
    Nothing,
    /// One number per column.
    Bias(&'a [f32]),
    /// One number per column, plus the previous output.
    BiasAndOutput(&'a [f32]),
}

/// Rows of a matrix; in `data`, row `r` starts at index `r * stride`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
    /// Number of rows.
    pub(super) n: usize,
}

/// Rows that a kernel writes, laid out like [`Rows`]; there are as many as in the kernel's input.
pub(super) struct RowsMut<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) stride: usize,
}

/// A function applied to every number of a layer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// No change: `x`.
    Identity,
    /// GELU: `x Φ(x)`, computed with the error function.
    Gelu,
    /// GELU, approximated by tanh.
    GeluTanh,
    /// ReLU: `max(x, 0)`.
    Relu,
}

on_each_isa! {
    /// Computes `out[r] = activation(plus + input[r] · weights)` for the rows of `input`.
    ///
    /// # Panics
    /// If a slice is shorter than its shape requires.
    fn matmul(
        input: Rows<'_>,
        weights: &Packed,
        plus: Addend<'_>,
        activation: Activation,
        out: &mut RowsMut<'_>,
    ) = product
}

on_each_isa! {
    /// Normalises each row: `(x - mean) / sqrt(variance + epsilon) * weight + bias`. A row is as
    /// long as `weight`, a multiple of [`WIDTH`].
    fn layer_norm(rows: &mut [f32], weight: &[f32], bias: &[f32], epsilon: f32) = norm_rows
}

on_each_isa! {
    /// Replaces the first `len` numbers of each row by `exp(scale * (x - max))`, and writes the
    /// reciprocal of their sum to `inverse`. A row has `width` numbers, a multiple of [`WIDTH`];
    /// numbers after the first `len` become negligible.
    fn exp_rows(rows: &mut [f32], width: usize, len: usize, scale: f32, inverse: &mut [f32]) = exp_scaled
}

/// Location of a tile of a product in its input, weights and output; the caller has checked the
/// pointers and sizes.
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

/// Computes one tile of a product: `R` rows of `P` panels, with all sums in registers.
///
/// # Safety
/// The processor has the instructions of `L`; the pointers of `at` are valid for all numbers of the
/// tile; `bias` is null or valid for the columns of the panels.
#[expect(clippy::needless_range_loop, reason = "loops over iterators leave the sums in memory")]
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const P: usize>(at: Tile) {
    // SAFETY: as the caller promises.
    unsafe {
        // Pointers are computed here because additions of indices in the loop would be checked.
        let mut inputs = [at.input; R];
        let mut outputs = [at.out; R];
        for r in 1..R {
            inputs[r] = inputs[r - 1].add(at.input_stride);
            outputs[r] = outputs[r - 1].add(at.out_stride);
        }
        let mut panels = [at.panels; P];
        for p in 1..P {
            panels[p] = panels[p - 1].add(at.inner * WIDTH);
        }
        let mut sums = [[L::splat(0.0); P]; R];
        for p in 0..P {
            let bias =
                if at.bias.is_null() { L::splat(0.0) } else { L::load(at.bias.add(p * WIDTH)) };
            for r in 0..R {
                let before = outputs[r].add(p * WIDTH);
                sums[r][p] = if at.adds_output { L::load(before).add(bias) } else { bias };
            }
        }
        for i in 0..at.inner {
            let mut columns = [L::splat(0.0); P];
            for p in 0..P {
                columns[p] = L::load(panels[p]);
                panels[p] = panels[p].add(WIDTH);
            }
            for r in 0..R {
                let value = L::splat(*inputs[r].add(i));
                for p in 0..P {
                    sums[r][p] = value.mul_add(columns[p], sums[r][p]);
                }
            }
        }
        for r in 0..R {
            for p in 0..P {
                sums[r][p].store(outputs[r].add(p * WIDTH));
            }
        }
    }
}

/// Calls [`tile`] with `rows` and `panels` as its constants `R` and `P`.
///
/// # Safety
/// As for [`tile`]; `1 <= rows <= L::ROWS`, `1 <= panels <= L::PANELS`.
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

/// Implements [`matmul`].
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn product<L: Lanes>(
    input: Rows<'_>,
    weights: &Packed,
    plus: Addend<'_>,
    activation: Activation,
    out: &mut RowsMut<'_>,
) {
    let (n_rows, inner, columns) = (input.n, weights.inner, weights.full_columns());
    if n_rows == 0 || columns == 0 {
        return;
    }
    let needs = |stride: usize, len: usize| (n_rows - 1) * stride + len;
    assert!(input.data.len() >= needs(input.stride, inner), "the input has too few rows");
    assert!(out.data.len() >= needs(out.stride, columns), "the output has too few rows");
    assert!(weights.panels.len() == columns * inner, "the weights are not packed");
    let (bias, adds_output) = match plus {
        Addend::Nothing => (None, false),
        Addend::Bias(bias) => (Some(bias), false),
        Addend::BiasAndOutput(bias) => (Some(bias), true),
    };
    assert!(bias.is_none_or(|bias| bias.len() >= columns), "the bias has too few numbers");
    let n_panels = columns / WIDTH;
    // Each panel is multiplied with all rows before the next, so that weights are read once.
    for panel in (0..n_panels).step_by(L::PANELS) {
        let panels = L::PANELS.min(n_panels - panel);
        for row in (0..n_rows).step_by(L::ROWS) {
            let rows = L::ROWS.min(n_rows - row);
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

/// Returns `x Φ(x) = x (1 + erf(x / √2)) / 2`, with erf by formula 7.1.26 of Abramowitz and Stegun,
/// "Handbook of Mathematical Functions", 1964, whose error is at most 1.5e-7.
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
        // x Φ(x) = max(x, 0) - |x| Φ(-|x|).
        x.max(L::splat(0.0)).sub(x.abs().mul(below))
    }
}

/// Returns `x / (1 + exp(-2 u))` with `u = √(2/π) (x + 0.044715 x³)`: Hendrycks and Gimpel,
/// "Gaussian Error Linear Units", arXiv 1606.08415.
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn gelu_tanh<L: Lanes>(x: L) -> L {
    // SAFETY: as the caller promises.
    unsafe {
        let cubic = x.mul(x).mul_add(L::splat(0.044_715), L::splat(1.0)).mul(x);
        let exponent = cubic.mul(L::splat(-1.595_769));
        x.div(exponent.exp().add(L::splat(1.0)))
    }
}

/// Implements [`layer_norm`].
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

/// Implements [`exp_rows`].
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers in -2..2, the same in every run.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        let mix = |i: usize| (i + 1).wrapping_mul(seed * 2 + 2_654_435_761) >> 7;
        (0..n).map(|i| (mix(i) % 4001) as f32 / 1000.0 - 2.0).collect()
    }

    /// Compares the product of `[n_rows, inner]` and the transpose of `[columns, inner]` with sums
    /// in `f64`; returns the bits of the product.
    fn check_product(isa: Isa, n_rows: usize, inner: usize, columns: usize) -> Vec<u32> {
        let (input, rows) = (numbers(n_rows * inner, 1), numbers(columns * inner, 2));
        let mut packed = Packed::default();
        packed.transposed(&rows, inner, columns, inner);
        let full = packed.full_columns();
        let bias = numbers(full, 3);
        let mut out = numbers(n_rows * full, 4);
        let before = out.clone();
        let mut to = RowsMut { data: &mut out, stride: full };
        let from = Rows { data: &input, stride: inner, n: n_rows };
        let plus = Addend::BiasAndOutput(&bias);
        matmul(isa, from, &packed, plus, Activation::Identity, &mut to);
        for r in 0..n_rows {
            for c in 0..columns {
                let (row, column) = (&input[r * inner..][..inner], &rows[c * inner..][..inner]);
                let at = r * full + c;
                let mut exact = f64::from(before[at]) + f64::from(bias[c]);
                row.iter().zip(column).for_each(|(a, b)| exact += f64::from(*a) * f64::from(*b));
                assert!((f64::from(out[at]) - exact).abs() < 1e-3, "{exact} {}", out[at]);
            }
        }
        out.iter().map(|number| number.to_bits()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn products_are_the_same_bits_with_all_instructions_and_near_the_exact_ones(
            n_rows in 1..40usize, inner in 1..40usize, columns in 1..100usize,
        ) {
            let all = Isa::all().into_iter();
            let mut bits = all.map(|isa| check_product(isa, n_rows, inner, columns));
            let first = bits.next().unwrap();
            prop_assert!(bits.all(|other| other == first));
        }
    }

    /// `activation(x)` of every number, by a product with the identity.
    fn activated(isa: Isa, activation: Activation, x: &[f32]) -> Vec<f32> {
        let mut one = Packed::default();
        let diagonal: Vec<f32> =
            (0..WIDTH * WIDTH).map(|i| if i % (WIDTH + 1) == 0 { 1.0 } else { 0.0 }).collect();
        one.straight(&diagonal, WIDTH, WIDTH, WIDTH);
        let mut out = vec![0.0; x.len()];
        let mut to = RowsMut { data: &mut out, stride: WIDTH };
        let from = Rows { data: x, stride: WIDTH, n: x.len() / WIDTH };
        matmul(isa, from, &one, Addend::Nothing, activation, &mut to);
        out
    }

    #[test]
    fn activations_are_near_the_exact_ones_and_the_same_bits_everywhere() {
        let x: Vec<f32> = (0..16 * 1024).map(|i| (i as f32 - 8192.0) / 800.0).collect();
        // The normal distribution by its integral, in steps of the grid.
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let mut below = 0.0;
        let mut exact = vec![0.0];
        for pair in x.windows(2) {
            let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
            below += (b - a) * (density(a) + 4.0 * density((a + b) / 2.0) + density(b)) / 6.0;
            exact.push(b * below);
        }
        let tanh = |x: f64| {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x / 2.0 * (1.0 + u.tanh())
        };
        for isa in Isa::all() {
            let gelu = activated(isa, Activation::Gelu, &x);
            let approximate = activated(isa, Activation::GeluTanh, &x);
            let relu = activated(isa, Activation::Relu, &x);
            for i in 0..x.len() {
                assert!((f64::from(gelu[i]) - exact[i]).abs() < 2e-6, "{} {}", x[i], gelu[i]);
                let expected = tanh(f64::from(x[i]));
                assert!((f64::from(approximate[i]) - expected).abs() < 2e-6, "{}", x[i]);
                assert_eq!(relu[i], x[i].max(0.0));
            }
            let plain = Isa(Kind::Plain);
            assert_eq!(gelu, activated(plain, Activation::Gelu, &x), "{}", isa.name());
            assert_eq!(approximate, activated(plain, Activation::GeluTanh, &x), "{}", isa.name());
        }
    }

    #[test]
    fn norms_and_softmax_are_near_the_exact_ones_and_the_same_bits_everywhere() {
        let (dim, len) = (48, 37);
        let (weight, bias) = (numbers(dim, 5), numbers(dim, 6));
        let run = |isa| {
            let mut normed = numbers(3 * dim, 7);
            layer_norm(isa, &mut normed, &weight, &bias, 1e-5);
            let (mut powers, mut inverse) = (numbers(3 * dim, 8), vec![0.0; 3]);
            exp_rows(isa, &mut powers, dim, len, 0.3, &mut inverse);
            (normed, powers, inverse)
        };
        let (normed, powers, inverse) = run(Isa(Kind::Plain));
        let wide = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
        for (row, out) in wide(&numbers(3 * dim, 7)).chunks(dim).zip(normed.chunks(dim)) {
            let mean = row.iter().sum::<f64>() / dim as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / dim as f64;
            for i in 0..dim {
                let scaled = (row[i] - mean) / (variance + 1e-5).sqrt();
                let expected = scaled * f64::from(weight[i]) + f64::from(bias[i]);
                assert!((f64::from(out[i]) - expected).abs() < 1e-5);
            }
        }
        let rows = wide(&numbers(3 * dim, 8));
        for ((row, out), inverse) in rows.chunks(dim).zip(powers.chunks(dim)).zip(&inverse) {
            let sum: f64 = row[..len].iter().map(|x| (x * 0.3).exp()).sum();
            for i in 0..len {
                let share = f64::from(out[i]) * f64::from(*inverse);
                assert!((share - (row[i] * 0.3).exp() / sum).abs() < 1e-6);
            }
        }
        for isa in Isa::all() {
            assert_eq!(run(isa), (normed.clone(), powers.clone(), inverse.clone()));
        }
    }
}
