//! What neighbors cost: by a relation in place and as a list, by any relation, and two steps away.
//! Edges are followed as stored.

use std::hint::black_box;

use crate::{
    Context,
    bench::{Figure, WorkArgs, digest, measure, work},
};
use agent_app::{dataset, error::Result};
use agent_kb::{Direction, Kb, Marks, NodeId, RelationId};

/// Pieces of the slowest look-up; the first ones.
const MOST_ANY: usize = 10_000;

pub(super) fn run(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let kb = Kb::open(&dataset::find(&args.args.dataset, ctx)?.base.kb_dir())?;
    let pairs: Vec<work::Metapath<1>> = match &args.work {
        Some(path) => work::read_metapaths(path, &kb)?,
        None => work::draw_metapaths(&kb),
    };
    let typed =
        |&(node, [relation]): &work::Metapath<1>| kb.neighbors(node, relation, Direction::Out);
    let ids_of = |figure: Figure, n_ids: usize, n: usize, digest: &str| {
        figure.with("mean_ids", n_ids as f64 / n.max(1) as f64).with("digest", digest)
    };
    let n_ids = pairs.iter().map(|pair| typed(pair).len()).sum();
    let typed_digest = digest(pairs.iter().map(typed));
    let in_place = measure("neighbors_typed", pairs.len(), || {
        pairs.iter().for_each(|pair| drop(black_box(typed(pair))));
    });
    ids_of(in_place, n_ids, pairs.len(), &typed_digest).print(args.args.json, ctx)?;
    let as_list = measure("neighbors_list", pairs.len(), || {
        pairs.iter().for_each(|pair| drop(black_box(typed(pair).into_vec())));
    });
    ids_of(as_list, n_ids, pairs.len(), &typed_digest).print(args.args.json, ctx)?;

    let pairs = pairs.get(..MOST_ANY).unwrap_or(&pairs);
    let mut marks = Marks::new(kb.n_nodes());
    let mut any = |&(node, _): &work::Metapath<1>| {
        for relation in 0..kb.relations().len() as u16 {
            marks.extend(&kb.neighbors(node, RelationId(relation), Direction::Out));
        }
        drained(&mut marks)
    };
    let n_ids = pairs.iter().map(|pair| any(pair).len()).sum();
    let any_digest = digest(pairs.iter().map(&mut any));
    let united = measure("neighbors_any", pairs.len(), || {
        pairs.iter().for_each(|pair| drop(black_box(any(pair))));
    });
    ids_of(united, n_ids, pairs.len(), &any_digest).print(args.args.json, ctx)
}

fn drained(marks: &mut Marks) -> Vec<NodeId> {
    let mut nodes = Vec::new();
    marks.drain_into(&mut nodes);
    nodes
}

pub(super) fn run_hop2(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let kb = Kb::open(&dataset::find(&args.args.dataset, ctx)?.base.kb_dir())?;
    let metapaths: Vec<work::Metapath<2>> = match &args.work {
        Some(path) => work::read_metapaths(path, &kb)?,
        None => work::draw_metapaths(&kb),
    };
    let mut marks = Marks::new(kb.n_nodes());
    let mut hop2 = |&(node, [first, second]): &work::Metapath<2>| {
        for &middle in &kb.neighbors(node, first, Direction::Out) {
            marks.extend(&kb.neighbors(middle, second, Direction::Out));
        }
        drained(&mut marks)
    };
    let n_ids: usize = metapaths.iter().map(|metapath| hop2(metapath).len()).sum();
    let union_digest = digest(metapaths.iter().map(&mut hop2));
    measure("hop2", metapaths.len(), || {
        metapaths.iter().for_each(|metapath| drop(black_box(hop2(metapath))));
    })
    .with("mean_ids", n_ids as f64 / metapaths.len().max(1) as f64)
    .with("digest", union_digest)
    .print(args.args.json, ctx)
}
