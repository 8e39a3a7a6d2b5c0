//! Dot products of rows of unsigned bytes with queries of signed bytes, computed with the fastest
//! instructions of the processor.
//!
//! Sums are exact integers, so all kernels return the same sums. The kernel is selected at the
//! first search.
//!
//! A block has [`BLOCK`] rows of `stride` bytes, a multiple of [`STEP`]; blocks are always full. No
//! sum overflows: `255 * 127 * 16_384 < 2^31`.

use std::sync::OnceLock;

/// Number of rows of a block.
pub(super) const BLOCK: usize = 64;
/// Number of bytes of a row that are read at a time: a register of 512 bits, or a row of a tile.
pub(super) const STEP: usize = 64;
/// Number of queries whose 32-bit sums share a register.
pub(super) const LANES: usize = 16;
/// The number of queries of a panel is padded to a multiple of this.
const PANEL_QUERIES: usize = 2 * LANES;

/// The codes of many queries, packed for [`Kernel::panel`].
pub(super) struct Panel {
    stride: usize,
    n: usize,
    /// The codes query by query, `[n, stride]`.
    rows: Vec<i8>,
    /// The same codes as `[n / 16, stride / 4, 16, 4]`: for each group of 16 queries, four bytes of
    /// every query in turn, then the next four bytes of every query.
    packed: Vec<i8>,
}

impl Panel {
    /// Packs the codes of queries, each of `stride` bytes; queries of zeros pad their number to a
    /// multiple of [`PANEL_QUERIES`].
    pub(super) fn new<'a>(stride: usize, queries: impl Iterator<Item = &'a [i8]>) -> Panel {
        let mut rows: Vec<i8> = queries.flat_map(|query| query.iter().copied()).collect();
        rows.resize(rows.len().next_multiple_of(PANEL_QUERIES * stride), 0);
        let mut packed = Vec::with_capacity(rows.len());
        for group in rows.chunks_exact(LANES * stride) {
            for at in (0..stride).step_by(4) {
                for lane in 0..LANES {
                    packed.extend_from_slice(&group[lane * stride + at..][..4]);
                }
            }
        }
        Panel { stride, n: rows.len() / stride, rows, packed }
    }

    /// Number of queries, including those of zeros.
    pub(super) fn n(&self) -> usize {
        self.n
    }
}

/// Terms of 16 queries in the test of whether the score of a row may reach a query's threshold; see
/// [`Kernel::reaching`].
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Lanes {
    /// Numbers subtracted from the sums of products.
    pub(super) shift: [i32; LANES],
    /// Factor of the row's `full`.
    pub(super) full: [f32; LANES],
    /// Factor of the row's `rest`.
    pub(super) rest: [f32; LANES],
    /// Smallest bound that passes the test.
    pub(super) threshold: [f32; LANES],
}

/// Terms of one query in the test of the rows of a block; see [`Kernel::reaching_one`].
#[derive(Clone, Copy)]
pub(super) struct Test {
    /// Numbers subtracted from the two sums of products.
    pub(super) shifts: [i32; 2],
    /// Factor of the second sum, relative to the first.
    pub(super) second: f32,
    /// Factor of a row's `full`.
    pub(super) full: f32,
    /// Factor of a row's `rest`.
    pub(super) rest: f32,
    /// Smallest bound that passes the test.
    pub(super) threshold: f32,
}

/// Terms of a row in the bound: the scale of its codes, and two error terms, as defined in
/// `quantized`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Note {
    pub(super) scale: f32,
    pub(super) full: f32,
    pub(super) rest: f32,
}

/// An implementation of the sums of products; all return the same sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Portable code, for any processor.
    Plain,
    /// The portable code, compiled for registers of 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Instructions that multiply four pairs of bytes per 32-bit lane and add the products, in
    /// registers of 512 bits.
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// Tiles of 16 x 64 bytes for panels; as `Vnni` for single queries.
    #[cfg(target_arch = "x86_64")]
    Amx,
}

impl Kernel {
    /// Lists the kernels that this processor supports, slowest first.
    pub(super) fn all() -> &'static [Kernel] {
        static ALL: OnceLock<Vec<Kernel>> = OnceLock::new();
        ALL.get_or_init(|| {
            let kernels = [
                (Kernel::Plain, true),
                #[cfg(target_arch = "x86_64")]
                (Kernel::Avx2, std::arch::is_x86_feature_detected!("avx2")),
                #[cfg(target_arch = "x86_64")]
                (Kernel::Vnni, has_vnni()),
                #[cfg(target_arch = "x86_64")]
                (Kernel::Amx, has_vnni() && amx::is_there()),
            ];
            kernels.into_iter().filter(|(_, has)| *has).map(|(kernel, _)| kernel).collect()
        })
    }

    /// Returns the fastest of [`Kernel::all`].
    pub(super) fn best() -> Kernel {
        Kernel::all().last().copied().unwrap_or(Kernel::Plain)
    }

    /// Computes the sum of products of each row of a block with two queries of `stride` bytes.
    pub(super) fn pair(self, rows: &[u8], pair: [&[i8]; 2], out: &mut [[i32; BLOCK]; 2]) {
        assert_eq!(pair[0].len(), pair[1].len());
        assert_eq!(rows.len(), BLOCK * pair[0].len());
        assert_eq!(pair[0].len() % STEP, 0);
        match self {
            Kernel::Plain => pair_plain(rows, pair, out),
            // SAFETY: a kernel is only created if the processor has its instructions; lengths were
            // checked.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { pair_avx2(rows, pair, out) },
            // SAFETY: likewise; `Amx` is only created if the instructions of `Vnni` exist too.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni | Kernel::Amx => unsafe { vnni::pair(rows, pair, out) },
        }
    }

    /// Returns the sum of products of one row and one query, of equal length.
    pub(super) fn product(self, row: &[u8], query: &[i8]) -> i32 {
        assert_eq!(row.len(), query.len());
        match self {
            Kernel::Plain => product(row, query),
            // SAFETY: a kernel is only created if the processor has its instructions; lengths were
            // checked.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { product_avx2(row, query) },
            // SAFETY: likewise.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni | Kernel::Amx => unsafe { vnni::product(row, query) },
        }
    }

    /// Computes the sum of products of each row of a block with each query of a panel; `out` is
    /// `[BLOCK, panel.n()]`.
    pub(super) fn panel(self, rows: &[u8], panel: &Panel, out: &mut [i32]) {
        assert_eq!(rows.len(), BLOCK * panel.stride);
        assert_eq!(out.len(), BLOCK * panel.n);
        assert!(panel.n > 0 && panel.stride > 0 && panel.stride.is_multiple_of(STEP));
        match self {
            Kernel::Plain => panel_plain(rows, panel, out),
            // SAFETY: a kernel is only created if the processor has its instructions; lengths were
            // checked.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { panel_avx2(rows, panel, out) },
            // SAFETY: likewise.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::panel(rows, panel, out) },
            // SAFETY: likewise.
            #[cfg(target_arch = "x86_64")]
            Kernel::Amx => unsafe { amx::panel(rows, panel, out) },
        }
    }

    /// Tests which queries' thresholds the score of a row may reach: bit `i` of `masks[j]` is set
    /// for query `16 j + i`.
    ///
    /// A bit is clear only if `scale * (sum - shift) + note.full * full + note.rest * rest <
    /// threshold`, computed with at most one rounding per operation.
    pub(super) fn reaching(self, sums: &[i32], lanes: &[Lanes], note: Note, masks: &mut [u16]) {
        match self {
            Kernel::Plain => reaching_plain(sums, lanes, note, masks),
            // SAFETY: a kernel is only created if the processor has its instructions.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { reaching_avx2(sums, lanes, note, masks) },
            // SAFETY: likewise.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni | Kernel::Amx => unsafe { vnni::reaching(sums, lanes, note, masks) },
        }
    }

    /// Returns the rows of a block whose score may reach a query's threshold: bit `i` for row `i`.
    /// `notes` holds the scales of all rows, their `full` and their `rest`.
    ///
    /// A bit is clear only if `scale * ((sums[0] - shifts[0]) + (sums[1] - shifts[1]) * second) +
    /// note.full * full + note.rest * rest < threshold`, computed with at most one rounding per
    /// operation.
    pub(super) fn reaching_one(
        self,
        sums: &[[i32; BLOCK]; 2],
        test: Test,
        notes: [&[f32; BLOCK]; 3],
    ) -> u64 {
        match self {
            Kernel::Plain => reaching_one_plain(sums, test, notes),
            // SAFETY: a kernel is only created if the processor has its instructions.
            #[cfg(target_arch = "x86_64")]
            _ => unsafe { reaching_one_avx2(sums, test, notes) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    // The VNNI functions also need `avx512f`; `reaching_one` needs `avx2`.
    use std::arch::is_x86_feature_detected as has;
    has!("avx512vnni") && has!("avx512f") && has!("avx2")
}

/// Returns the sum of products of a row and a query, of equal length.
#[inline(always)]
fn product(row: &[u8], query: &[i8]) -> i32 {
    let (row, query) = (row.as_chunks::<STEP>().0, query.as_chunks::<STEP>().0);
    let mut sum = 0i32;
    for (row, query) in row.iter().zip(query) {
        for at in 0..STEP {
            // Sixteen bits hold both factors, so pairs of products are one instruction.
            let product = i32::from(i16::from(row[at])) * i32::from(i16::from(query[at]));
            sum = sum.wrapping_add(product);
        }
    }
    sum
}

#[inline(always)]
fn pair_plain(rows: &[u8], pair: [&[i8]; 2], out: &mut [[i32; BLOCK]; 2]) {
    for (query, out) in pair.iter().zip(out) {
        for (row, out) in rows.chunks_exact(query.len()).zip(out) {
            *out = product(row, query);
        }
    }
}

#[inline(always)]
fn panel_plain(rows: &[u8], panel: &Panel, out: &mut [i32]) {
    for (row, out) in rows.chunks_exact(panel.stride).zip(out.chunks_exact_mut(panel.n)) {
        for (query, out) in panel.rows.chunks_exact(panel.stride).zip(out) {
            *out = product(row, query);
        }
    }
}

#[inline(always)]
fn reaching_plain(sums: &[i32], lanes: &[Lanes], note: Note, masks: &mut [u16]) {
    for ((sums, lanes), mask) in sums.as_chunks::<LANES>().0.iter().zip(lanes).zip(masks) {
        let mut below = [false; LANES];
        for at in 0..LANES {
            let estimate = sums[at].wrapping_sub(lanes.shift[at]) as f32 * note.scale;
            let bound = estimate + note.full * lanes.full[at] + note.rest * lanes.rest[at];
            below[at] = bound < lanes.threshold[at];
        }
        *mask = (0..LANES).fold(0, |mask, at| mask | u16::from(!below[at]) << at);
    }
}

#[inline(always)]
fn reaching_one_plain(sums: &[[i32; BLOCK]; 2], test: Test, notes: [&[f32; BLOCK]; 3]) -> u64 {
    let [scale, full, rest] = notes;
    let mut below = [0u8; BLOCK];
    for row in 0..BLOCK {
        let sum = |at: usize| sums[at][row].wrapping_sub(test.shifts[at]) as f32;
        let estimate = (sum(0) + sum(1) * test.second) * scale[row];
        let bound = estimate + full[row] * test.full + rest[row] * test.rest;
        below[row] = u8::from(bound < test.threshold);
    }
    below.iter().enumerate().fold(0, |mask, (row, below)| mask | u64::from(below ^ 1) << row)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn reaching_one_avx2(sums: &[[i32; BLOCK]; 2], test: Test, notes: [&[f32; BLOCK]; 3]) -> u64 {
    reaching_one_plain(sums, test, notes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_avx2(row: &[u8], query: &[i8]) -> i32 {
    product(row, query)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pair_avx2(rows: &[u8], pair: [&[i8]; 2], out: &mut [[i32; BLOCK]; 2]) {
    pair_plain(rows, pair, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn panel_avx2(rows: &[u8], panel: &Panel, out: &mut [i32]) {
    panel_plain(rows, panel, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn reaching_avx2(sums: &[i32], lanes: &[Lanes], note: Note, masks: &mut [u16]) {
    reaching_plain(sums, lanes, note, masks);
}

/// Kernels for registers of 512 bits with instructions that multiply and add bytes.
#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::*;

    use super::{BLOCK, LANES, Lanes, Note, PANEL_QUERIES, Panel, STEP};

    /// Number of rows whose sums are in registers at the same time.
    const PAIR_ROWS: usize = 4;
    /// Distance in bytes by which prefetching runs ahead of reading.
    const AHEAD: usize = 4096;
    const PANEL_ROWS: usize = 8;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn product(row: &[u8], query: &[i8]) -> i32 {
        let mut sums = _mm512_setzero_si512();
        for (row, query) in row.as_chunks::<STEP>().0.iter().zip(query.as_chunks::<STEP>().0) {
            // SAFETY: both are a register long.
            unsafe {
                let row = _mm512_loadu_si512(row.as_ptr().cast());
                sums = _mm512_dpbusd_epi32(sums, row, _mm512_loadu_si512(query.as_ptr().cast()));
            }
        }
        _mm512_reduce_add_epi32(sums)
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn pair(rows: &[u8], pair: [&[i8]; 2], out: &mut [[i32; BLOCK]; 2]) {
        let stride = pair[0].len();
        for (group, rows) in rows.chunks_exact(PAIR_ROWS * stride).enumerate() {
            let mut sums = [[_mm512_setzero_si512(); PAIR_ROWS]; 2];
            for at in (0..stride).step_by(STEP) {
                // SAFETY: `at + STEP <= stride`, the length of a query and of each of the rows.
                // Prefetched addresses need not be valid.
                unsafe {
                    let query = pair.map(|query| _mm512_loadu_si512(query.as_ptr().add(at).cast()));
                    let [first, second] = &mut sums;
                    for (row, (first, second)) in first.iter_mut().zip(second).enumerate() {
                        let bytes = rows.as_ptr().add(row * stride + at);
                        _mm_prefetch::<_MM_HINT_T0>(bytes.wrapping_add(AHEAD).cast());
                        let bytes = _mm512_loadu_si512(bytes.cast());
                        *first = _mm512_dpbusd_epi32(*first, bytes, query[0]);
                        *second = _mm512_dpbusd_epi32(*second, bytes, query[1]);
                    }
                }
            }
            for (out, sums) in out.iter_mut().zip(sums) {
                out.as_chunks_mut::<PAIR_ROWS>().0[group] = totals(sums);
            }
        }
    }

    /// Returns the sum of the lanes of each of four registers.
    #[target_feature(enable = "avx512f")]
    fn totals([a, b, c, d]: [__m512i; 4]) -> [i32; 4] {
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        let all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        let half =
            _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
        let sums = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        let mut out = [0; 4];
        // SAFETY: `out` is 16 bytes long.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), sums) };
        out
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn panel(rows: &[u8], panel: &Panel, out: &mut [i32]) {
        let stride = panel.stride;
        for (queries, packed) in panel.packed.chunks_exact(PANEL_QUERIES * stride).enumerate() {
            for (first, rows) in rows.chunks_exact(PANEL_ROWS * stride).enumerate() {
                let mut sums = [[_mm512_setzero_si512(); 2]; PANEL_ROWS];
                for at in (0..stride).step_by(4) {
                    // SAFETY: `at + 4 <= stride`; a group of the panel has 16 bytes for each byte
                    // of a row.
                    unsafe {
                        let group = |group| packed.as_ptr().add((group * stride + at) * LANES);
                        let query = [0, 1].map(|at| _mm512_loadu_si512(group(at).cast()));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let four = rows.as_ptr().add(row * stride + at).cast::<i32>();
                            let four = _mm512_set1_epi32(four.read_unaligned());
                            for (sum, query) in sums.iter_mut().zip(query) {
                                *sum = _mm512_dpbusd_epi32(*sum, four, query);
                            }
                        }
                    }
                }
                for (row, sums) in sums.into_iter().enumerate() {
                    let place = (first * PANEL_ROWS + row) * panel.n + queries * PANEL_QUERIES;
                    let out = &mut out[place..place + PANEL_QUERIES];
                    for (out, sums) in out.chunks_exact_mut(LANES).zip(sums) {
                        // SAFETY: `out` is a register long.
                        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sums) };
                    }
                }
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn reaching(sums: &[i32], lanes: &[Lanes], note: Note, masks: &mut [u16]) {
        let [scale, full, rest] = [note.scale, note.full, note.rest].map(|x| _mm512_set1_ps(x));
        for ((sums, lanes), mask) in sums.as_chunks::<LANES>().0.iter().zip(lanes).zip(masks) {
            // SAFETY: every array has the length of a register.
            unsafe {
                let sums = _mm512_loadu_si512(sums.as_ptr().cast());
                let shift = _mm512_loadu_si512(lanes.shift.as_ptr().cast());
                let estimate = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, shift));
                let allowed = _mm512_mul_ps(full, _mm512_loadu_ps(lanes.full.as_ptr()));
                let allowed = _mm512_fmadd_ps(rest, _mm512_loadu_ps(lanes.rest.as_ptr()), allowed);
                let bound = _mm512_fmadd_ps(estimate, scale, allowed);
                let threshold = _mm512_loadu_ps(lanes.threshold.as_ptr());
                // Compares with "not less than", so that a NaN bound passes.
                *mask = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(bound, threshold);
            }
        }
    }
}

/// Kernel for tiles: eight registers of 16 rows of 64 bytes. The compiler has no intrinsics for
/// their instructions yet, so they are written in assembly.
#[cfg(target_arch = "x86_64")]
mod amx {
    use std::arch::{asm, x86_64::__cpuid_count};

    use super::{BLOCK, LANES, PANEL_QUERIES, Panel, STEP};

    /// Number of rows of a tile.
    const TILE: usize = 16;

    /// The shapes of eight full tiles, in the format of the instruction `ldtilecfg`.
    #[repr(align(64))]
    struct Shapes([u8; 64]);

    static SHAPES: Shapes = {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        let mut tile = 0;
        while tile < 8 {
            bytes[16 + 2 * tile] = STEP as u8;
            bytes[48 + tile] = TILE as u8;
            tile += 1;
        }
        Shapes(bytes)
    };

    /// Whether the processor supports AMX tiles of 8-bit integers and the system lets this process
    /// use them; asks the system for permission.
    pub(super) fn is_there() -> bool {
        /// The flags `amx-tile` and `amx-int8` in leaf 7 of `cpuid`.
        const TILES: u32 = 1 << 24 | 1 << 25;
        let has_tiles = || __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & TILES == TILES;
        // Permission is requested from Linux only; other systems count as not supporting tiles.
        if !cfg!(target_os = "linux") || !has_tiles() {
            return false;
        }
        let refused: i64;
        // SAFETY: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA) changes nothing in memory.
        unsafe {
            asm!("syscall", inlateout("rax") 158i64 => refused, in("rdi") 0x1023, in("rsi") 18,
                out("rcx") _, out("r11") _, options(nostack));
        }
        refused == 0
    }

    /// As [`super::Kernel::panel`].
    ///
    /// # Safety
    /// [`is_there`] must have returned true, and the lengths must be those that
    /// [`super::Kernel::panel`] checks.
    pub(super) unsafe fn panel(rows: &[u8], panel: &Panel, out: &mut [i32]) {
        let (stride, row_bytes) = (panel.stride, panel.n * size_of::<i32>());
        for first in (0..BLOCK).step_by(2 * TILE) {
            let rows = rows[first * stride..].as_ptr();
            let out = out[first * panel.n..].as_mut_ptr();
            // Two tiles of rows (4 and 5) times two tiles of queries (6 and 7) give four tiles of
            // sums (0 to 3).
            // SAFETY: tiles 4 and 5 read rows `first..first + 32`, tiles 6 and 7 two groups of 16
            // queries of the panel; tiles 0 to 3 write the same rows and queries of `out`.
            unsafe {
                asm!(
                    "ldtilecfg [{shapes}]",
                    "2:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "xor {at:e}, {at:e}",
                    "3:",
                    "tileloadd tmm6, [{queries0} + {step}*1]",
                    "tileloadd tmm4, [{rows0} + {stride}*1]",
                    "tileloadd tmm7, [{queries1} + {step}*1]",
                    "tileloadd tmm5, [{rows1} + {stride}*1]",
                    "tdpbusd tmm0, tmm4, tmm6",
                    "tdpbusd tmm1, tmm4, tmm7",
                    "tdpbusd tmm2, tmm5, tmm6",
                    "tdpbusd tmm3, tmm5, tmm7",
                    "add {rows0}, 64",
                    "add {rows1}, 64",
                    "add {queries0}, 1024",
                    "add {queries1}, 1024",
                    "add {at}, 64",
                    "cmp {at}, {stride}",
                    "jb 3b",
                    "tilestored [{out0} + {row_bytes}*1], tmm0",
                    "tilestored [{out0} + {row_bytes}*1 + 64], tmm1",
                    "tilestored [{out1} + {row_bytes}*1], tmm2",
                    "tilestored [{out1} + {row_bytes}*1 + 64], tmm3",
                    // The second group of queries ends where the next pair begins.
                    "sub {rows0}, {stride}",
                    "sub {rows1}, {stride}",
                    "lea {at}, [{queries1}]",
                    "sub {at}, {queries0}",
                    "mov {queries0}, {queries1}",
                    "add {queries1}, {at}",
                    "add {out0}, 128",
                    "add {out1}, 128",
                    "dec {pairs}",
                    "jnz 2b",
                    "tilerelease",
                    shapes = in(reg) SHAPES.0.as_ptr(),
                    at = out(reg) _,
                    rows0 = inout(reg) rows => _,
                    rows1 = inout(reg) rows.add(TILE * stride) => _,
                    stride = in(reg) stride,
                    queries0 = inout(reg) panel.packed.as_ptr() => _,
                    queries1 = inout(reg) panel.packed.as_ptr().add(LANES * stride) => _,
                    step = in(reg) STEP,
                    out0 = inout(reg) out => _,
                    out1 = inout(reg) out.add(TILE * panel.n) => _,
                    row_bytes = in(reg) row_bytes,
                    pairs = inout(reg) panel.n / PANEL_QUERIES => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn every_kernel_gives_the_same_sums_and_masks() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        for (stride, n_queries) in [(64, 1), (64, 33), (192, 40), (448, 70)] {
            let mut rows = vec![0u8; BLOCK * stride];
            random.fill(&mut rows[..]);
            rows[..stride].fill(u8::MAX);
            let queries: Vec<i8> =
                (0..n_queries * stride).map(|_| random.random_range(-127..=127)).collect();
            let panel = Panel::new(stride, queries.chunks(stride));
            assert_eq!(panel.n(), n_queries.next_multiple_of(PANEL_QUERIES));
            let naive = |row: usize, query: usize| -> i32 {
                let row = &rows[row * stride..][..stride];
                let Some(query) = queries.chunks(stride).nth(query) else { return 0 };
                row.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
            };
            let lanes = Lanes {
                shift: std::array::from_fn(|at| at as i32 * 1000 - 8000),
                full: [2.0; LANES],
                rest: [0.5; LANES],
                threshold: std::array::from_fn(|at| at as f32 * 100.0 - 700.0),
            };
            let lanes = vec![lanes; panel.n() / LANES];
            let note = Note { scale: 0.25, full: 8.0, rest: 16.0 };
            for &kernel in Kernel::all() {
                let mut out = vec![7; BLOCK * panel.n()];
                kernel.panel(&rows, &panel, &mut out);
                let mut pairs = [[7; BLOCK]; 2];
                let second = &queries[queries.len() - stride..];
                kernel.pair(&rows, [&queries[..stride], second], &mut pairs);
                let test = Test {
                    shifts: [500, -300],
                    second: 0.5,
                    full: 2.0,
                    rest: 0.5,
                    threshold: 100.0,
                };
                let notes = [[0.25; BLOCK], [8.0; BLOCK], [16.0; BLOCK]];
                let passed = kernel.reaching_one(&pairs, test, notes.each_ref());
                let mut masks = vec![0; panel.n() / LANES];
                for row in 0..BLOCK {
                    let pair = [pairs[0][row], pairs[1][row]];
                    assert_eq!(pair, [naive(row, 0), naive(row, n_queries - 1)], "{kernel:?}");
                    let estimate = (pair[0] - 500) as f32 + (pair[1] + 300) as f32 * 0.5;
                    let reaches = estimate * 0.25 + 24.0 >= 100.0;
                    assert_eq!(passed >> row & 1 == 1, reaches, "{kernel:?}");
                    let one = kernel.product(&rows[row * stride..][..stride], second);
                    assert_eq!(one, pair[1], "{kernel:?}");
                    let sums = &out[row * panel.n()..][..panel.n()];
                    kernel.reaching(sums, &lanes, note, &mut masks);
                    for (query, &sum) in sums.iter().enumerate() {
                        assert_eq!(sum, naive(row, query), "{kernel:?}, row {row}, query {query}");
                        let lanes = &lanes[0];
                        let at = query % LANES;
                        let bound = (sum - lanes.shift[at]) as f32 * 0.25 + 16.0 + 8.0;
                        let bit = masks[query / LANES] >> at & 1;
                        assert_eq!(bit == 1, bound >= lanes.threshold[at], "{kernel:?}");
                    }
                }
            }
        }
    }
}
