//! What neighbors cost: by a relation in place and as a list, by any relation, and two steps away.
//! Edges are followed as stored.

use std::hint::black_box;

use crate::{
    cli::{
        Context,
        bench::{Figure, WorkArgs, digest, measure, work},
        dataset,
        failure::Result,
    },
    kb::{Direction, Kb, Marks, NodeId, RelationId},
};

pub(super) fn run(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let kb = Kb::open(&dataset::find(&args.args.dataset, ctx)?.base.kb_dir())?;
    let pairs: Vec<work::Walk<1>> = match &args.work {
        Some(path) => work::read_walks(path, &kb)?,
        None => work::draw_walks(&kb),
    };
    let typed = |&(node, [relation]): &work::Walk<1>| kb.neighbors(node, relation, Direction::Out);
    let n_ids: usize = pairs.iter().map(|pair| typed(pair).len()).sum();
    let lists: Vec<_> = pairs.iter().map(typed).collect();
    let typed_digest = digest(lists.iter().map(|list| list.as_slice()));
    drop(lists);
    let with_digest = |figure: Figure, digest: &str| {
        figure.with("mean_ids", n_ids as f64 / pairs.len().max(1) as f64).with("digest", digest)
    };

    let in_place = measure("neighbors_typed", pairs.len(), || {
        pairs.iter().for_each(|pair| drop(black_box(typed(pair))));
    });
    with_digest(in_place, &typed_digest).print(&args.args, ctx)?;
    let as_list = measure("neighbors_list", pairs.len(), || {
        pairs.iter().for_each(|pair| drop(black_box(typed(pair).into_vec())));
    });
    with_digest(as_list, &typed_digest).print(&args.args, ctx)?;

    let mut marks = Marks::new(kb.n_nodes());
    let mut any = |node: NodeId| {
        for relation in 0..kb.relations().len() as u16 {
            marks.extend(&kb.neighbors(node, RelationId(relation), Direction::Out));
        }
        let mut union = Vec::new();
        marks.drain_into(&mut union);
        union
    };
    let unions: Vec<Vec<NodeId>> = pairs.iter().map(|&(node, _)| any(node)).collect();
    let any_digest = digest(unions.iter().map(Vec::as_slice));
    drop(unions);
    measure("neighbors_any", pairs.len(), || {
        pairs.iter().for_each(|&(node, _)| drop(black_box(any(node))));
    })
    .with("digest", any_digest)
    .print(&args.args, ctx)
}

pub(super) fn run_hop2(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let kb = Kb::open(&dataset::find(&args.args.dataset, ctx)?.base.kb_dir())?;
    let walks: Vec<work::Walk<2>> = match &args.work {
        Some(path) => work::read_walks(path, &kb)?,
        None => work::draw_walks(&kb),
    };
    let mut marks = Marks::new(kb.n_nodes());
    let mut hop2 = |&(node, [first, second]): &work::Walk<2>| {
        for &middle in &kb.neighbors(node, first, Direction::Out) {
            marks.extend(&kb.neighbors(middle, second, Direction::Out));
        }
        let mut union = Vec::new();
        marks.drain_into(&mut union);
        union
    };
    let unions: Vec<Vec<NodeId>> = walks.iter().map(&mut hop2).collect();
    let n_ids: usize = unions.iter().map(Vec::len).sum();
    let union_digest = digest(unions.iter().map(Vec::as_slice));
    drop(unions);
    measure("hop2", walks.len(), || {
        walks.iter().for_each(|walk| drop(black_box(hop2(walk))));
    })
    .with("mean_ids", n_ids as f64 / walks.len().max(1) as f64)
    .with("digest", union_digest)
    .print(&args.args, ctx)
}
