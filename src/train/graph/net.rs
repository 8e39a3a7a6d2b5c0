//! The network: computes the scores of the candidates of a working graph, and gradients. The
//! gradients come from the automatic differentiation of the crate `candle_core`. Within the module
//! `graph`, only this file uses that crate.

pub(super) use candle_core::DType;
use candle_core::{Device, Error as CandleError, Result as CandleResult, Tensor, Var};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    Result, TrainError,
    graph::{
        Ablation, Variant,
        subgraph::{CONTEXT_KINDS, Edge, FEATURES, LEXICAL, RELEVANCE, WorkingGraph},
    },
};

/// Length of the vector of a node's state.
const DIM: usize = 32;
/// Length of the vector of a node type.
const TYPE_DIM: usize = 8;
/// Number of rounds of messages.
const LAYERS: usize = 2;
/// Initial weight of the `bm25+names` score in the score of a candidate.
const LEXICAL_WEIGHT: f64 = 5.0;

/// Sizes of a network: the numbers of node types and of edge kinds in the working graphs of a
/// knowledge base, and the length of a query's vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    /// Number of node types, including the type of the context node.
    pub(super) nodes: usize,
    /// Number of edge kinds, including the kinds of the context node.
    pub(super) edges: usize,
    /// Length of the vector of a query.
    pub(super) phi: usize,
    /// Equations of the network, see the module `graph`.
    pub(super) variant: Variant,
}

/// Returns the shape, `[rows, columns]`, of each weight tensor, in the order in which the forward
/// pass uses the tensors.
fn shapes(kinds: Kinds) -> Vec<[usize; 2]> {
    let Kinds { nodes, edges, phi, variant } = kinds;
    let input = TYPE_DIM + FEATURES;
    let mut shapes = vec![
        [nodes, TYPE_DIM],
        [input, DIM],
        [1, DIM],
        [phi, DIM],
        [edges, DIM],
        [edges, DIM],
        [phi, DIM],
    ];
    let width = match variant {
        Variant::Graph => DIM,
        Variant::Qagnn => DIM + input,
    };
    for _ in 0..LAYERS {
        shapes.extend([
            [width + DIM, DIM],
            [1, DIM],
            [width, DIM],
            [width + DIM, DIM],
            [DIM, DIM],
            [1, DIM],
            [DIM, DIM],
            [1, DIM],
        ]);
    }
    shapes.extend([[2 * DIM + FEATURES, DIM], [1, DIM], [DIM, 1], [1, 1]]);
    shapes
}

/// Returns the total number of weights of a network.
pub(super) fn n_weights(kinds: Kinds) -> usize {
    shapes(kinds).iter().map(|[rows, columns]| rows * columns).sum()
}

/// Returns the initial weights, concatenated in the order of the tensors. Biases are 0; other
/// weights are drawn uniformly from a range that depends on the shape of the tensor (Glorot &
/// Bengio 2010).
pub(super) fn initial_weights(kinds: Kinds, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let shapes = shapes(kinds);
    let mut weights = Vec::with_capacity(n_weights(kinds));
    for [rows, columns] in &shapes {
        let bound = (6.0 / (rows + columns) as f64).sqrt();
        let number = |random: &mut ChaCha8Rng| random.random_range(-bound..bound);
        weights.extend(
            (0..rows * columns).map(|_| if *rows == 1 { 0.0 } else { number(&mut random) }),
        );
    }
    // The output starts small, so that the lexical score dominates at first.
    let ends = weights.len() - 1;
    weights[ends - DIM..ends].iter_mut().for_each(|weight| *weight *= 0.1);
    weights[ends] = LEXICAL_WEIGHT;
    weights
}

/// Computes the score of each candidate of a working graph, in the order of the candidates, in the
/// floating-point precision of `dtype`.
///
/// # Errors
/// [`TrainError::Network`] if the computation fails.
pub(super) fn scores(
    weights: &[f64],
    kinds: Kinds,
    graph: &WorkingGraph,
    ablation: Option<Ablation>,
    dtype: DType,
) -> Result<Vec<f64>> {
    let tensors = tensors(weights, kinds, dtype)?;
    let scores = forward(&tensors, kinds, graph, ablation, dtype)?;
    Ok(scores.to_dtype(DType::F64)?.to_vec1()?)
}

/// Computes the loss of a query's working graph, and its gradient with respect to all weights. The
/// loss is the negative natural logarithm of the total share of the answers in a softmax over the
/// candidates. `answers` holds the indexes of the answers among the candidates.
///
/// # Errors
/// [`TrainError::Network`] if the computation fails.
pub(super) fn gradient(
    weights: &[f64],
    kinds: Kinds,
    graph: &WorkingGraph,
    answers: &[u32],
    ablation: Option<Ablation>,
    dtype: DType,
) -> Result<(f64, Vec<f64>)> {
    let tensors = tensors(weights, kinds, dtype)?;
    let vars: Vec<Var> = tensors.iter().map(Var::from_tensor).collect::<CandleResult<_>>()?;
    let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let scores = forward(&tensors, kinds, graph, ablation, dtype)?;
    let answers = Tensor::new(answers, &Device::Cpu)?;
    let right = log_sum(&scores.index_select(&answers, 0)?)?;
    let loss = (log_sum(&scores)? - right)?;
    let gradients = loss.backward()?;
    let mut all = Vec::with_capacity(weights.len());
    for var in &vars {
        match gradients.get(var) {
            Some(part) => all.extend(part.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?),
            None => all.resize(all.len() + var.elem_count(), 0.0),
        }
    }
    Ok((loss.to_dtype(DType::F64)?.to_scalar()?, all))
}

fn tensors(weights: &[f64], kinds: Kinds, dtype: DType) -> CandleResult<Vec<Tensor>> {
    let mut rest = weights;
    let mut tensors = Vec::new();
    for [rows, columns] in shapes(kinds) {
        let (part, remaining) = rest.split_at_checked(rows * columns).unwrap_or((rest, &[]));
        rest = remaining;
        let tensor = Tensor::from_slice(part, (rows, columns), &Device::Cpu)?;
        tensors.push(tensor.to_dtype(dtype)?);
    }
    Ok(tensors)
}

/// Returns the natural logarithm of the sum of `exp(score)` over `scores`.
fn log_sum(scores: &Tensor) -> CandleResult<Tensor> {
    let largest = scores.detach().max(0)?;
    scores.broadcast_sub(&largest)?.exp()?.sum(0)?.log()? + largest
}

fn linear(input: &Tensor, weight: &Tensor, bias: &Tensor) -> CandleResult<Tensor> {
    input.matmul(weight)?.broadcast_add(bias)
}

/// Returns the features of each node as one row, then a row of zeros for the context node: `[n + 1,
/// FEATURES]`. An ablation may set features to 0.
fn feature_rows(graph: &WorkingGraph, ablation: Option<Ablation>) -> CandleResult<Tensor> {
    let rows = graph.features.iter().chain([&[0.0; FEATURES]]);
    let features: Vec<f32> = rows
        .flat_map(|row| row.iter().enumerate())
        .map(|(feature, &number)| match ablation {
            Some(Ablation::Relevance) if RELEVANCE.contains(&feature) => 0.0,
            _ => number,
        })
        .collect();
    Tensor::from_vec(features, (graph.nodes.len() + 1, FEATURES), &Device::Cpu)
}

fn forward(
    weights: &[Tensor],
    sizes: Kinds,
    graph: &WorkingGraph,
    ablation: Option<Ablation>,
    dtype: DType,
) -> CandleResult<Tensor> {
    let cpu = &Device::Cpu;
    let n = graph.nodes.len();
    let ignores_relations = ablation == Some(Ablation::Relations);
    let ids = |numbers: Vec<u32>| {
        let len = numbers.len();
        Tensor::from_vec(numbers, len, cpu)
    };
    let features = feature_rows(graph, ablation)?.to_dtype(dtype)?;
    let phi = Tensor::from_slice(&graph.phi, (1, sizes.phi), cpu)?.to_dtype(dtype)?;
    let mut weights = weights.iter();
    let mut next =
        || weights.next().ok_or_else(|| candle_core::Error::Msg("too few weights".to_owned()));
    let types = graph.types.iter().map(|&kind| if ignores_relations { 0 } else { kind }).collect();
    let typed = next()?.index_select(&ids(types)?, 0)?;
    let input = Tensor::cat(&[&typed, &features], 1)?;
    let nodes = linear(&input.narrow(0, 0, n)?, next()?, next()?)?;
    let context = phi.matmul(next()?)?;
    let mut state = Tensor::cat(&[&nodes, &context], 0)?;
    let (relations, gates) = (next()?, next()?);
    let query = phi.matmul(next()?)?;
    let relations = (relations + gates.broadcast_mul(&query)?)?;
    let column =
        |number: &dyn Fn(&Edge) -> u32| graph.edges.iter().map(number).collect::<Vec<u32>>();
    let (sources, targets) = (column(&|edge| edge.source), column(&|edge| edge.target));
    let kinds = column(&|edge| match ignores_relations {
        true => kind_without_relations(edge.kind, relations.dims()[0]),
        false => edge.kind,
    });
    let (from, to, kinds) = (ids(sources)?, ids(targets.clone())?, ids(kinds)?);
    for _ in 0..LAYERS {
        let (m, m_bias, q, k, w1, b1, w2, b2) =
            (next()?, next()?, next()?, next()?, next()?, next()?, next()?, next()?);
        if ablation == Some(Ablation::Graph) || graph.edges.is_empty() {
            continue;
        }
        let seen = match sizes.variant {
            Variant::Graph => state.clone(),
            Variant::Qagnn => Tensor::cat(&[&state, &input], 1)?,
        };
        let width = seen.dim(1)?;
        // [node, relation] W for each edge; the products are computed once per node and relation.
        let project = |ends: &Tensor, weight: &Tensor| {
            let of_nodes = seen.matmul(&weight.narrow(0, 0, width)?)?.index_select(ends, 0)?;
            let of_kinds = relations.matmul(&weight.narrow(0, width, DIM)?)?;
            of_nodes + of_kinds.index_select(&kinds, 0)?
        };
        let message = project(&from, m)?.broadcast_add(m_bias)?.relu()?;
        let sent = seen.matmul(q)?.index_select(&from, 0)?;
        let logits = (sent * project(&to, k)?)?.sum(1)?;
        let logits = (logits / (DIM as f64).sqrt())?;
        let powers = (&logits - largest_of_target(&logits, &targets, n + 1)?)?.exp()?;
        let sums = Tensor::zeros(n + 1, dtype, cpu)?.index_add(&to, &powers, 0)?;
        let shares = (powers / sums.index_select(&to, 0)?)?;
        let message = message.broadcast_mul(&shares.unsqueeze(1)?)?;
        let sum = Tensor::zeros((n + 1, DIM), dtype, cpu)?.index_add(&to, &message, 0)?;
        let change = linear(&linear(&sum, w1, b1)?.relu()?, w2, b2)?;
        state = (state + change)?;
    }
    let n_candidates = graph.n_candidates;
    let candidates = state.narrow(0, 0, n_candidates)?;
    let context = state.narrow(0, n, 1)?.broadcast_as((n_candidates, DIM))?;
    let relevance = features.narrow(0, 0, n_candidates)?;
    let all = Tensor::cat(&[&candidates, &context.contiguous()?, &relevance], 1)?;
    let hidden = linear(&all, next()?, next()?)?.relu()?;
    let scores = hidden.matmul(next()?)?;
    let lexical = relevance.narrow(1, LEXICAL, 1)?.broadcast_mul(next()?)?;
    (scores + lexical)?.squeeze(1)
}

/// Returns the kind of an edge in a network that ignores relations: 0 for edges of any relation;
/// the kinds of the context node's edges stay.
fn kind_without_relations(kind: u32, n_kinds: usize) -> u32 {
    if (kind as usize) < n_kinds.saturating_sub(CONTEXT_KINDS) { 0 } else { kind }
}

/// Returns, for each edge, the largest logit among the edges with the same target; the caller
/// subtracts it from the edge's logit, so that `exp` does not overflow.
fn largest_of_target(logits: &Tensor, targets: &[u32], n: usize) -> CandleResult<Tensor> {
    let numbers: Vec<f64> = logits.detach().to_dtype(DType::F64)?.to_vec1()?;
    let mut largest = vec![f64::NEG_INFINITY; n];
    for (&target, &number) in targets.iter().zip(&numbers) {
        let max = &mut largest[target as usize];
        *max = max.max(number);
    }
    let per_edge: Vec<f64> = targets.iter().map(|&target| largest[target as usize]).collect();
    Tensor::from_vec(per_edge, targets.len(), &Device::Cpu)?.to_dtype(logits.dtype())
}

impl From<CandleError> for TrainError {
    fn from(error: CandleError) -> Self {
        Self::Network(error.to_string())
    }
}
