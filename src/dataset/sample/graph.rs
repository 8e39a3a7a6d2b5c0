//! The graph of a sample: draws sizes and edges, and returns neighbours.
//!
//! A node is identified by its index within its type; [`World::id`] converts the index to the
//! node's id in the base. Memory: 16 bytes per stored edge plus 8 bytes per node and tuple (source
//! type, relation, target type); at most 200 million edges (4 GB).
//!
//! Each node belongs to a theme. Most edges stay within a theme and prefer its popular nodes. So
//! the graph has the hubs, communities and triangles without which questions about two relations
//! would have no answers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::sample::SampleKind;
use crate::sample::random::{Spread, Stream};
use crate::sample::schema::{Degree, EdgePlan, SCHEMAS};
use agent_kb::metapath::Links;

/// Percentage of the draws that choose a node within the theme of the node that draws the edge.
const INSIDE_THEME: usize = 75;
/// Maximum mean degree, as a share of the nodes that can be drawn, so that small bases stay sparse.
const DENSITY_LIMIT: f64 = 0.025;
/// Maximum degree of a node, as a share of the nodes that can be drawn.
const HUB_LIMIT: f64 = 0.25;
/// Maximum number of draws per wanted edge; an edge may need several draws, because popular nodes
/// are drawn repeatedly.
const DRAWS_PER_EDGE: usize = 4;
/// Maximum number of rounds that add missing edges, at scales of at least 1. The wanted number of
/// edges is the benchmark's number times the scale.
const TOP_UPS: u64 = 20;
/// Minimum number of stored edges of a tuple (source type, relation, target type) in a small base,
/// so that rare relations stay usable; fewer if the tuple has fewer at scale 1.
const EDGE_FLOOR: f64 = 160.0;

/// Sizes, themes and popularity of the nodes of one base.
pub(super) struct World {
    /// Kind of the base.
    pub(super) kind: SampleKind,
    /// Seed of all random draws.
    pub(super) seed: u64,
    /// Size relative to the benchmark, greater than 0 and at most [`MAX_SCALE`](super::MAX_SCALE).
    pub(super) scale: f64,
    /// Number of nodes of each type, in schema order.
    pub(super) counts: Vec<u32>,
    /// Id of the first node of each type, in schema order.
    pub(super) offsets: Vec<u32>,
    themes: u32,
    spreads: Vec<Spread>,
}

impl World {
    /// Computes the sizes of a base; the caller has checked the scale.
    pub(super) fn new(kind: SampleKind, seed: u64, scale: f64) -> World {
        let mut counts = Vec::new();
        let mut offsets = Vec::new();
        let mut spreads = Vec::new();
        let mut next = 0u32;
        for (name, &(full, floor)) in kind.types().iter().zip(&SCHEMAS[&kind].sizes) {
            let scaled = (f64::from(full) * scale).round() as u32;
            let count = scaled.max(floor.min(full));
            counts.push(count);
            offsets.push(next);
            next += count;
            let purpose = format!("spread {name}");
            spreads.push(Spread::new(count, &mut Stream::new(seed, &purpose, 0)));
        }
        let themes = (f64::from(next).sqrt() / 5.0).round().clamp(6.0, 200.0) as u32;
        World { kind, seed, scale, counts, offsets, themes, spreads }
    }

    /// Returns the position of a type in the schema.
    pub(super) fn type_of(&self, name: &str) -> usize {
        self.kind.types().iter().position(|known| *known == name).unwrap_or(0)
    }

    /// Returns the type whose nodes draw the edges of a plan, and the type of the drawn nodes.
    fn ends(&self, plan: &EdgePlan) -> (usize, usize) {
        let (source, target) = (self.type_of(&plan.source), self.type_of(&plan.target));
        if plan.degree == Degree::Target { (target, source) } else { (source, target) }
    }

    /// Converts a node's index within its type to the node's id in the base.
    pub(super) fn id(&self, node_type: usize, index: u32) -> u32 {
        self.offsets[node_type] + index
    }

    /// Returns the number of nodes of all types.
    pub(super) fn n_nodes(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the theme of a node: a number below 200.
    pub(super) fn theme(&self, node_type: usize, index: u32) -> u32 {
        self.spreads[node_type].rank(index) % self.themes
    }

    /// Draws a node of a type, popular nodes more often; [`INSIDE_THEME`] per cent of the draws are
    /// within the given theme.
    fn draw(&self, node_type: usize, theme: u32, stream: &mut Stream) -> u32 {
        let count = self.counts[node_type];
        let inside = if count > theme { (count - theme).div_ceil(self.themes) } else { 0 };
        let rank = if inside > 0 && stream.percent(INSIDE_THEME) {
            theme + self.themes * stream.skewed(inside as usize) as u32
        } else {
            stream.skewed(count as usize) as u32
        };
        self.spreads[node_type].index(rank)
    }
}

/// Edges of one tuple (source type, relation, target type) in one direction: the neighbours of each
/// source node, ascending and distinct.
struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// Builds the adjacency from pairs of source and target that are sorted by source, then by
    /// target.
    fn new(n_sources: u32, pairs: &[(u32, u32)]) -> Adjacency {
        let mut starts = vec![0u32; n_sources as usize + 1];
        for &(source, _) in pairs {
            starts[source as usize + 1] += 1;
        }
        for source in 1..starts.len() {
            starts[source] += starts[source - 1];
        }
        Adjacency { starts, targets: pairs.iter().map(|&(_, target)| target).collect() }
    }

    fn neighbors(&self, source: u32) -> &[u32] {
        let (from, to) = (self.starts[source as usize], self.starts[source as usize + 1]);
        &self.targets[from as usize..to as usize]
    }
}

/// One step of a metapath: from a node type over a relation to a node type, in the stored direction
/// of the edges or against it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Step {
    /// Index of the start type in the schema.
    pub(super) from: usize,
    /// Name of the relation.
    pub(super) relation: &'static str,
    /// Index of the end type in the schema.
    pub(super) to: usize,
}

impl Step {
    /// Returns the inverse step.
    pub(super) fn reversed(self) -> Step {
        Step { from: self.to, relation: self.relation, to: self.from }
    }
}

/// All edges of the base; they can be followed from both ends.
#[derive(Default)]
pub(super) struct Graph {
    adjacency: BTreeMap<Step, Adjacency>,
}

impl Graph {
    /// Adds the edges of one tuple. `pairs` are source and target as stored, sorted and distinct.
    pub(super) fn add(&mut self, world: &World, plan: &'static EdgePlan, pairs: Vec<(u32, u32)>) {
        let source = world.type_of(&plan.source);
        let target = world.type_of(&plan.target);
        let step = Step { from: source, relation: &plan.relation, to: target };
        let mut turned: Vec<(u32, u32)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
        if source == target {
            turned.extend_from_slice(&pairs);
        } else {
            self.adjacency.insert(step, Adjacency::new(world.counts[source], &pairs));
        }
        drop(pairs);
        turned.sort_unstable();
        turned.dedup();
        let back = Adjacency::new(world.counts[target], &turned);
        self.adjacency.insert(step.reversed(), back);
    }

    /// Returns the neighbours of a node along a step, ascending; empty if the schema has no such
    /// step.
    pub(super) fn neighbors(&self, step: Step, node: u32) -> &[u32] {
        self.adjacency.get(&step).map_or(&[], |adjacency| adjacency.neighbors(node))
    }
}

impl Links for Graph {
    type Step = Step;

    fn linked(&self, step: &Step, node: u32) -> Cow<'_, [u32]> {
        Cow::Borrowed(self.neighbors(*step, node))
    }

    fn reversed(&self, step: &Step) -> Step {
        step.reversed()
    }
}

/// Draws the edges of one tuple as pairs of source and target, sorted by source, then by target,
/// distinct, and without edges from a node to itself.
pub(super) fn draw_edges(world: &World, plan: &EdgePlan) -> Vec<(u32, u32)> {
    let (drawing, drawn) = world.ends(plan);
    let n_drawing = world.counts[drawing];
    let n_drawn = world.counts[drawn] as f64;
    let full = f64::from(plan.full);
    let wanted = (full * world.scale).max(full.min(EDGE_FLOOR));
    let mean = (wanted / f64::from(n_drawing)).min(n_drawn * DENSITY_LIMIT).max(1e-3);
    let mean = mean / (plan.share as f64 / 100.0);
    let limit = ((n_drawn * HUB_LIMIT) as usize).max(3);
    let purpose = format!("edges {}|{}|{}", plan.source, plan.relation, plan.target);
    let mut pairs = Vec::with_capacity((wanted * 1.1) as usize);
    for node in 0..n_drawing {
        let mut stream = Stream::new(world.seed, &purpose, u64::from(node));
        if !stream.percent(plan.share) {
            continue;
        }
        let degree = match plan.degree {
            Degree::One => 1,
            Degree::Source | Degree::Target | Degree::Symmetric => stream.heavy_count(mean, limit),
        };
        let theme = world.theme(drawing, node);
        let mut others: Vec<u32> = Vec::with_capacity(degree);
        for _ in 0..degree * DRAWS_PER_EDGE {
            if others.len() == degree {
                break;
            }
            let other = world.draw(drawn, theme, &mut stream);
            if drawing == drawn && other == node {
                continue;
            }
            if let Err(place) = others.binary_search(&other) {
                others.insert(place, other);
            }
        }
        pairs.extend(others.into_iter().map(|other| stored(plan, node, other)));
    }
    pairs.sort_unstable();
    pairs.dedup();
    if world.scale >= 1.0 && plan.degree != Degree::One {
        top_up(world, plan, wanted.round() as usize, &mut pairs);
    }
    pairs
}

/// Returns source and target of the edge between a drawing and a drawn node.
fn stored(plan: &EdgePlan, node: u32, other: u32) -> (u32, u32) {
    match plan.degree {
        Degree::Symmetric => (node.min(other), node.max(other)),
        Degree::Target => (other, node),
        Degree::One | Degree::Source => (node, other),
    }
}

/// Adds edges to nodes that already have edges, until there are `wanted` edges or the maximum
/// number of rounds is reached. Without this, dense relations would have too few edges, because
/// popular nodes and symmetric pairs are drawn more than once.
fn top_up(world: &World, plan: &EdgePlan, wanted: usize, pairs: &mut Vec<(u32, u32)>) {
    let (drawing, drawn) = world.ends(plan);
    let purpose = format!("more edges {}|{}|{}", plan.source, plan.relation, plan.target);
    for round in 0..TOP_UPS {
        let n_known = pairs.len();
        let missing = wanted.saturating_sub(n_known);
        if missing == 0 || n_known == 0 {
            break;
        }
        let mut stream = Stream::new(world.seed, &purpose, round);
        for _ in 0..missing {
            let (from, to) = pairs[stream.below(n_known)];
            let node = if plan.degree == Degree::Target { to } else { from };
            let other = world.draw(drawn, world.theme(drawing, node), &mut stream);
            if drawing != drawn || other != node {
                pairs.push(stored(plan, node, other));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
    }
}
