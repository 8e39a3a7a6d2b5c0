//! Arithmetic on sixteen numbers at once, in registers of the processor.
//!
//! Every implementation does the same IEEE operation on each of the sixteen numbers, with one
//! rounding per fused multiply-add. So a result is the same bit for bit with AVX-512, with AVX2,
//! and without either (where each fused operation is a function call, slow on x86-64).

use crate::matrix::fold_lanes;

/// Number of `f32` values in one [`Lanes`].
pub(super) const WIDTH: usize = 16;

/// `1.5 * 2^23`. Adding this to a small number rounds the number to an integer, which the low bits
/// of the sum hold.
const ROUNDER: f32 = 12_582_912.0;
/// Bits of the `f32` value `1.0`: its exponent.
const ONE_BITS: i32 = 127 << 23;
/// Position of the lowest exponent bit in an `f32`.
const EXPONENT: u32 = 23;

/// A vector of [`WIDTH`] `f32` values, for the instruction set of the implementing type.
///
/// # Safety
/// Every method may be called only on a processor with the instructions of the implementing type,
/// and pointers must be valid for [`WIDTH`] numbers; no alignment is required.
pub(super) trait Lanes: Copy {
    /// Maximum number of rows of a matrix tile in registers, at most 8.
    const ROWS: usize;
    /// Maximum width of a matrix tile in registers, in panels of [`WIDTH`] columns; at most 3.
    const PANELS: usize;

    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn abs(self) -> Self;
    /// Returns `self * factor + term`, rounded once.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    /// Returns `2^n` for lanes that hold `n +` [`ROUNDER`], `-126 <= n <= 127`.
    unsafe fn power_of_two(self) -> Self;

    /// Returns the lanes as an array.
    #[inline(always)]
    unsafe fn array(self) -> [f32; WIDTH] {
        let mut array = [0.0; WIDTH];
        // SAFETY: the array holds `WIDTH` numbers; the processor has the instructions, as the
        // caller promises.
        unsafe { self.store(array.as_mut_ptr()) };
        array
    }

    /// Returns the sum of the lanes, always added in the same order.
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as the caller promises.
        fold_lanes(unsafe { self.array() })
    }

    /// Returns `e` to the power of each lane, with an error of at most two units in the last place;
    /// lanes are clamped to -87..=88 first. Computes a power of two times the Taylor series of
    /// degree 7 on `[-ln 2 / 2, ln 2 / 2]`.
    #[inline(always)]
    unsafe fn exp(self) -> Self {
        // SAFETY: as the caller promises; the exponent is in -126..=127, as `x` is clamped.
        unsafe {
            let x = self.max(Self::splat(-87.0)).min(Self::splat(88.0));
            let rounder = Self::splat(ROUNDER);
            let shifted = x.mul_add(Self::splat(std::f32::consts::LOG2_E), rounder);
            let n = shifted.sub(rounder);
            // ln 2 in two parts; the first has few enough bits that its multiples are exact.
            let rest = n.mul_add(Self::splat(-355.0 / 512.0), x);
            let rest = n.mul_add(Self::splat(2.121_944_4e-4), rest);
            let mut sum = Self::splat(1.0 / 5040.0);
            for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
                sum = sum.mul_add(rest, Self::splat(term));
            }
            sum.mul(shifted.power_of_two())
        }
    }
}

/// Lanes without vector instructions: an array, in Rust that the compiler may vectorize.
#[derive(Clone, Copy)]
pub(super) struct Plain([f32; WIDTH]);

impl Plain {
    #[inline(always)]
    fn zip(mut self, other: Plain, operation: impl Fn(f32, f32) -> f32) -> Plain {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = operation(*a, b);
        }
        self
    }
}

impl Lanes for Plain {
    const ROWS: usize = 4;
    const PANELS: usize = 1;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Plain {
        Plain([value; WIDTH])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Plain {
        // SAFETY: `from` is valid for `WIDTH` numbers, as the caller promises; no alignment is
        // required.
        Plain(unsafe { from.cast::<[f32; WIDTH]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { to.cast::<[f32; WIDTH]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, other: Plain) -> Plain {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn max(self, other: Plain) -> Plain {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn min(self, other: Plain) -> Plain {
        self.zip(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    unsafe fn abs(self) -> Plain {
        Plain(self.0.map(f32::abs))
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Plain, term: Plain) -> Plain {
        let mut sums = term.0;
        for ((sum, a), b) in sums.iter_mut().zip(self.0).zip(factor.0) {
            *sum = a.mul_add(b, *sum);
        }
        Plain(sums)
    }
    #[inline(always)]
    unsafe fn power_of_two(self) -> Plain {
        let shift = |value: f32| (value.to_bits() << EXPONENT).wrapping_add(ONE_BITS as u32);
        Plain(self.0.map(|value| f32::from_bits(shift(value))))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{EXPONENT, Lanes, ONE_BITS, WIDTH};

    /// Lanes in one AVX-512 register; needs `avx512f`.
    #[derive(Clone, Copy)]
    pub(in crate::bert) struct Avx512(__m512);

    /// Lanes in two AVX2 registers; needs `avx2` and `fma`.
    #[derive(Clone, Copy)]
    pub(in crate::bert) struct Avx2(__m256, __m256);

    /// Defines methods that are one instruction on one register.
    macro_rules! single {
        ($($name:ident = $instruction:ident),*) => {$(
            #[inline(always)]
            unsafe fn $name(self, other: Avx512) -> Avx512 {
                // SAFETY: the processor has the instruction, as the caller promises.
                Avx512(unsafe { $instruction(self.0, other.0) })
            }
        )*};
    }

    /// Defines methods that are one instruction on each of two registers.
    macro_rules! double {
        ($($name:ident = $instruction:ident),*) => {$(
            #[inline(always)]
            unsafe fn $name(self, other: Avx2) -> Avx2 {
                // SAFETY: the processor has the instruction, as the caller promises.
                unsafe { Avx2($instruction(self.0, other.0), $instruction(self.1, other.1)) }
            }
        )*};
    }

    impl Lanes for Avx512 {
        const ROWS: usize = 8;
        const PANELS: usize = 3;

        single! {
            add = _mm512_add_ps, sub = _mm512_sub_ps, mul = _mm512_mul_ps, div = _mm512_div_ps,
            max = _mm512_max_ps, min = _mm512_min_ps
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> Avx512 {
            // SAFETY: the processor has the instruction, as the caller promises; also below.
            Avx512(unsafe { _mm512_set1_ps(value) })
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Avx512 {
            // SAFETY: the pointer is valid for 16 numbers, as the caller promises.
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the pointer is valid for 16 numbers, as the caller promises.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Avx512 {
            // SAFETY: as in `splat`.
            Avx512(unsafe { _mm512_abs_ps(self.0) })
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Avx512, term: Avx512) -> Avx512 {
            // SAFETY: as in `splat`.
            Avx512(unsafe { _mm512_fmadd_ps(self.0, factor.0, term.0) })
        }
        #[inline(always)]
        unsafe fn power_of_two(self) -> Avx512 {
            // SAFETY: as in `splat`.
            unsafe {
                let shifted = _mm512_slli_epi32::<EXPONENT>(_mm512_castps_si512(self.0));
                let bits = _mm512_add_epi32(shifted, _mm512_set1_epi32(ONE_BITS));
                Avx512(_mm512_castsi512_ps(bits))
            }
        }
    }

    impl Avx2 {
        #[inline(always)]
        unsafe fn exponent(half: __m256) -> __m256 {
            // SAFETY: the processor has the instructions, as the caller promises.
            unsafe {
                let shifted = _mm256_slli_epi32::<{ EXPONENT as i32 }>(_mm256_castps_si256(half));
                _mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_set1_epi32(ONE_BITS)))
            }
        }
    }

    impl Lanes for Avx2 {
        const ROWS: usize = 6;
        const PANELS: usize = 1;

        double! {
            add = _mm256_add_ps, sub = _mm256_sub_ps, mul = _mm256_mul_ps, div = _mm256_div_ps,
            max = _mm256_max_ps, min = _mm256_min_ps
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> Avx2 {
            // SAFETY: the processor has the instruction, as the caller promises; also below.
            unsafe { Avx2(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Avx2 {
            // SAFETY: the pointer is valid for 16 numbers, as the caller promises.
            unsafe { Avx2(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(WIDTH / 2))) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the pointer is valid for 16 numbers, as the caller promises.
            unsafe {
                _mm256_storeu_ps(to, self.0);
                _mm256_storeu_ps(to.add(WIDTH / 2), self.1);
            }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Avx2 {
            // SAFETY: as in `splat`.
            unsafe {
                let sign = _mm256_set1_ps(-0.0);
                Avx2(_mm256_andnot_ps(sign, self.0), _mm256_andnot_ps(sign, self.1))
            }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Avx2, term: Avx2) -> Avx2 {
            // SAFETY: as in `splat`.
            unsafe {
                Avx2(
                    _mm256_fmadd_ps(self.0, factor.0, term.0),
                    _mm256_fmadd_ps(self.1, factor.1, term.1),
                )
            }
        }
        #[inline(always)]
        unsafe fn power_of_two(self) -> Avx2 {
            // SAFETY: as in `splat`.
            unsafe { Avx2(Avx2::exponent(self.0), Avx2::exponent(self.1)) }
        }
    }
}
