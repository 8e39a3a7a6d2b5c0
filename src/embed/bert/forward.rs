//! The forward pass of a BERT encoder over packed rows: the tokens of several texts, one text after
//! the other, without padding.
//!
//! The model is that of Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for
//! Language Understanding", NAACL 2019. The rows of a text depend on that text alone, bit for bit:
//! products and norms are computed row by row, and attention text by text.
//!
//! A layer costs `2 n (4 h² + 2 h f) + 4 Σ l² h` operations for `n` tokens in texts of `l` tokens
//! each (the sum is over texts), with rows of `h` numbers and inner rows of `f` numbers.
//! [`Scratch`] holds `n (5 h + f)` numbers and the attention of [`QUERY_ROWS`] rows.

use crate::bert::{
    config::Shape,
    kernels::{Activation, Addend, Isa, Packed, Rows, RowsMut, exp_rows, layer_norm, matmul},
    weights::{Linear, Weights, Words},
    word_pieces::WordPieces,
};
use crate::gpu::encoder::Layer;

/// Maximum number of tokens whose attention to all tokens of their text is in memory at once.
const QUERY_ROWS: usize = 32;

/// Buffers of the forward pass, which a thread reuses for all its batches.
#[derive(Default)]
pub(super) struct Scratch {
    /// One row per token: the input of the next layer, and at the end the output: `[n, hidden]`.
    rows: Vec<f32>,
    /// Queries, keys and values of attention: `[n, 3 hidden]`.
    attended: Vec<f32>,
    /// Output of attention: `[n, hidden]`.
    gathered: Vec<f32>,
    /// Inner rows of a layer: `[n, inner]`.
    inner: Vec<f32>,
    /// Attention of up to [`QUERY_ROWS`] tokens to all tokens of their text, not divided by its row
    /// sums: `[QUERY_ROWS, tokens of a text]`, padded. `inverse` holds the reciprocals of the sums.
    scores: Vec<f32>,
    inverse: Vec<f32>,
    keys: Packed,
    values: Packed,
}

/// Runs the model over `texts` and returns the rows of all their tokens, `[n, hidden]`, text by
/// text; `None` if the weights have no row for a word piece, token type or position.
pub(super) fn encode<'a>(
    isa: Isa,
    shape: &Shape,
    weights: &Weights,
    (words, file): (&Words, &[u8]),
    texts: &[&WordPieces],
    scratch: &'a mut Scratch,
) -> Option<&'a [f32]> {
    let hidden = shape.hidden;
    let n = texts.iter().map(|pieces| pieces.ids.len()).sum::<usize>();
    scratch.rows.resize(n * hidden, 0.0);
    scratch.attended.resize(n * 3 * hidden, 0.0);
    scratch.gathered.resize(n * hidden, 0.0);
    scratch.inner.resize(n * shape.inner, 0.0);
    let mut rows = scratch.rows.chunks_exact_mut(hidden);
    for pieces in texts {
        let positions = weights.positions.chunks_exact(hidden);
        for ((id, kind), position) in pieces.ids.iter().zip(&pieces.types).zip(positions) {
            let row = rows.next()?;
            let kind = weights.types.chunks_exact(hidden).nth(*kind as usize)?;
            if !words.read(file, *id, row) {
                return None;
            }
            for ((number, kind), position) in row.iter_mut().zip(kind).zip(position) {
                *number = (*number + kind) + position;
            }
        }
    }
    if rows.next().is_some() {
        return None;
    }
    let norm = &weights.norm;
    layer_norm(isa, &mut scratch.rows, &norm.scale, &norm.shift, shape.epsilon);
    for layer in &weights.layers {
        run(isa, shape, layer, texts, n, scratch);
    }
    Some(&scratch.rows)
}

/// Runs one layer over the rows of all texts, in `scratch`; `n` is the number of all tokens.
fn run(
    isa: Isa,
    shape: &Shape,
    layer: &Layer<Linear>,
    texts: &[&WordPieces],
    n: usize,
    scratch: &mut Scratch,
) {
    let (hidden, inner) = (shape.hidden, shape.inner);
    let linear =
        |from: (&[f32], usize), layer: &Linear, adds, activation, to: (&mut [f32], usize)| {
            let plus =
                if adds { Addend::BiasAndOutput(&layer.bias) } else { Addend::Bias(&layer.bias) };
            let mut out = RowsMut { data: to.0, stride: to.1 };
            let input = Rows { data: from.0, stride: from.1, n };
            matmul(isa, input, &layer.weight, plus, activation, &mut out);
        };
    let none = Activation::Identity;
    let to = (&mut scratch.attended[..], 3 * hidden);
    linear((&scratch.rows, hidden), &layer.attention, false, none, to);
    let mut start = 0;
    for pieces in texts {
        attend(isa, shape, start, pieces, scratch);
        start += pieces.ids.len();
    }
    let to = (&mut scratch.rows[..], hidden);
    linear((&scratch.gathered, hidden), &layer.attention_out, true, none, to);
    let norm = &layer.attention_norm;
    layer_norm(isa, &mut scratch.rows, &norm.scale, &norm.shift, shape.epsilon);
    let to = (&mut scratch.inner[..], inner);
    linear((&scratch.rows, hidden), &layer.inner, false, shape.activation, to);
    let to = (&mut scratch.rows[..], hidden);
    linear((&scratch.inner, inner), &layer.out, true, none, to);
    layer_norm(isa, &mut scratch.rows, &layer.norm.scale, &layer.norm.shift, shape.epsilon);
}

/// Computes attention, head by head, among the tokens of one text, whose rows begin at `start`.
fn attend(isa: Isa, shape: &Shape, start: usize, pieces: &WordPieces, scratch: &mut Scratch) {
    let len = pieces.ids.len();
    let seen = len.saturating_sub(pieces.masked);
    if seen == 0 {
        return;
    }
    let hidden = shape.hidden;
    let head = hidden / shape.heads;
    let stride = 3 * hidden;
    let scale = 1.0 / (head as f32).sqrt();
    let Scratch { attended, gathered, scores, inverse, keys, values, .. } = scratch;
    for column in (0..hidden).step_by(head) {
        let part = |which: usize| &attended[start * stride + which * hidden + column..];
        keys.transposed(part(1), stride, seen, head);
        values.straight(part(2), stride, head, seen);
        let width = keys.full_columns();
        for first in (0..len).step_by(QUERY_ROWS) {
            let n = QUERY_ROWS.min(len - first);
            scores.resize(n * width, 0.0);
            inverse.resize(n, 0.0);
            let queries = Rows { data: &part(0)[first * stride..], stride, n };
            let mut out = RowsMut { data: scores, stride: width };
            matmul(isa, queries, keys, Addend::Nothing, Activation::Identity, &mut out);
            exp_rows(isa, scores, width, seen, scale, inverse);
            let shares = Rows { data: scores, stride: width, n };
            let rows = &mut gathered[(start + first) * hidden + column..];
            let mut out = RowsMut { data: rows, stride: hidden };
            matmul(isa, shares, values, Addend::Nothing, Activation::Identity, &mut out);
            for (row, inverse) in rows.chunks_mut(hidden).zip(&*inverse) {
                row[..head].iter_mut().for_each(|number| *number *= inverse);
            }
        }
    }
}
