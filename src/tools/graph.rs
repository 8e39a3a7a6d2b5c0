//! Tools over typed relations: sets of nodes, hops, metapaths.

use std::{cell::RefCell, sync::Arc};

use crate::{
    ArgSpec, Args, Kind, NodeFlow, Steps, ToolCtx, ToolError, ToolSpec, Value, cost, lookup,
};
use agent_index::IndexedBase;
use agent_kb::{Direction, NodeId, NodeSet, Path, PathBounds, RelationId, Scores, shortest_paths};

/// Cost of following relations, as shown on the reference page.
const FOLLOWED: &str = "1 per edge followed and per node started from";
/// Maximum number of steps of one metapath or path.
const MAX_STEPS: usize = 6;
/// Maximum number of target nodes of one call of `paths`.
const MAX_ENDS: usize = 100;
/// Maximum number of edges visited by one call of `paths`.
const MAX_EDGES: usize = 1_000_000;
/// Number of nodes of the base that `paths` marks as unseen per cost unit.
const NODES_PER_UNIT: usize = 64;

const ANY_DIRECTION: ArgSpec = ArgSpec::optional("direction", Kind::Text, "\"any\"");
const FROM: ArgSpec = ArgSpec::new("from", Kind::Any);
const PAIR: &[ArgSpec] = &[ArgSpec::new("a", Kind::Nodes), ArgSpec::new("b", Kind::Nodes)];

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec::new(
        "hop",
        &[
            FROM,
            ArgSpec::new("relation", Kind::Text),
            ANY_DIRECTION,
            ArgSpec::optional("how", Kind::Text, "\"sum\""),
        ],
        Kind::Scores,
        "Nodes one step away along a relation. Scores are carried over: with how = \"sum\" a \
         node reached from several nodes gets the sum of their scores, with \"max\" the \
         largest; plain nodes count 1 each. direction is \"out\" (as stored), \"in\" or \
         \"any\".",
        r#"hop(link(query, "brand"), "has_brand", "in")"#,
        hop,
    )
    .with_flow(NodeFlow::Metapath(Steps::Directed))
    .with_cost(FOLLOWED)
    .cached(),
    ToolSpec::new(
        "walk",
        &[FROM, ArgSpec::new("steps", Kind::Texts), ArgSpec::optional("limit", Kind::Int, "10000")],
        Kind::Scores,
        "Nodes at the end of a metapath of at most 6 steps, each written \"relation\", \
         \"relation:out\" or \"relation:in\". Scores are carried over by the largest; after \
         each step only the best `limit` nodes go on, ties by smaller id.",
        r#"walk(link(query, "brand"), ["has_brand:in", "also_buy"])"#,
        walk,
    )
    .with_flow(NodeFlow::Metapath(Steps::Path))
    .with_cost(FOLLOWED)
    .cached(),
    ToolSpec::new(
        "neighbors",
        &[FROM],
        Kind::Scores,
        "Nodes one step away along any relation in any direction; a node gets the sum of the \
         scores it is reached from, plain nodes count 1 each.",
        "neighbors(nodes([0, 1]))",
        neighbors,
    )
    .with_flow(NodeFlow::Metapath(Steps::Either))
    .with_cost("1 per edge followed; 1 per node started from and relation of the base")
    .cached(),
    ToolSpec::new(
        "paths",
        &[
            ArgSpec::new("a", Kind::Nodes),
            ArgSpec::new("b", Kind::Nodes),
            ArgSpec::optional("max_hops", Kind::Int, "3"),
        ],
        Kind::Any,
        "How the nodes of b are linked to those of a: for each of b that at most max_hops edges \
         (1 to 6) lead to, followed in any direction, one shortest path from any of a, as a list \
         of maps in the order of b: `nodes`, its node ids from a to b, and `steps`, its edges as \
         \"relation:out\" or \"relation:in\". Ties: at each step from the end \
         the node with the smallest id, then an edge as stored, then the first relation. At most \
         100 nodes in b; at most 1,000,000 edges are looked at, and what lies further has no path.",
        r#"paths(link(query, "brand"), nodes([0, 1]), 2)"#,
        paths,
    )
    .with_cost("1 per edge looked at and per node started from, 1 per 64 nodes of the base")
    .cached(),
    ToolSpec::new(
        "degree",
        &[ArgSpec::new("nodes", Kind::Nodes), ArgSpec::new("relation", Kind::Text), ANY_DIRECTION],
        Kind::Scores,
        "How many neighbours each node has by a relation; also 0.",
        r#"degree(nodes([0, 1]), "also_buy")"#,
        degree,
    )
    .cached(),
    ToolSpec::new(
        "nodes",
        &[ArgSpec::new("ids", Kind::Nodes)],
        Kind::Nodes,
        "A set of nodes from a list of ids, an id, or scores. Sets combine with & (both), | \
         (either) and - (first without second); they iterate in ascending order.",
        "nodes([2, 1, 2])",
        |ctx, args| {
            let nodes = args.nodes(0)?;
            ctx.meter.touch(nodes.len())?;
            lookup::nodes(ctx.base, &nodes)?;
            Ok(Value::Nodes(nodes))
        },
    ),
    ToolSpec::new(
        "of_type",
        &[FROM, ArgSpec::new("types", Kind::Texts)],
        Kind::Any,
        "Only the nodes of the given types (all when none is given); a set stays a set, scores \
         stay scores.",
        r#"of_type(neighbors(0), "product")"#,
        of_type,
    )
    .with_flow(NodeFlow::Keep),
    ToolSpec::new(
        "&",
        PAIR,
        Kind::Nodes,
        "Nodes in both sets.",
        "nodes([1, 2]) & nodes([2, 3])",
        |ctx, args| combine(ctx, args, NodeSet::intersection),
    )
    .with_flow(NodeFlow::Keep),
    ToolSpec::new(
        "|",
        PAIR,
        Kind::Nodes,
        "Nodes in either set.",
        "nodes([1, 2]) | nodes([2, 3])",
        |ctx, args| combine(ctx, args, NodeSet::union),
    ),
    ToolSpec::new(
        "-",
        PAIR,
        Kind::Nodes,
        "Nodes of the first set that are not in the second.",
        "nodes([1, 2]) - nodes([2, 3])",
        |ctx, args| combine(ctx, args, NodeSet::difference),
    )
    .with_flow(NodeFlow::Remove),
];

fn combine(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    operation: fn(&NodeSet, &NodeSet) -> NodeSet,
) -> Result<Value, ToolError> {
    let (a, b) = (args.nodes(0)?, args.nodes(1)?);
    ctx.meter.touch(a.len() + b.len())?;
    Ok(Value::nodes(operation(&a, &b)))
}

/// How the scores that reach one node are combined.
#[derive(Clone, Copy, PartialEq)]
enum Merge {
    Sum,
    Max,
}

/// Returns the first argument as scores; if it is a set of nodes, each node has the score 1.
fn start_scores(base: &IndexedBase, args: &Args<'_>) -> Result<Arc<Scores>, ToolError> {
    let scores = match args.value(0) {
        Value::Scores(scores) => scores.clone(),
        _ => Arc::new(Scores::uniform(&*args.nodes(0)?, 1.0)),
    };
    if let Some(&(last, _)) = scores.as_slice().last() {
        lookup::node(base, last)?;
    }
    Ok(scores)
}

/// Buffers of [`step`], with one entry per node of the base; reused and reset between calls.
struct Sums {
    scores: Vec<f32>,
    reached: Vec<NodeId>,
    seen: Vec<bool>,
}

/// Follows one step along several relations and combines the scores that reach each node.
fn step(
    ctx: &mut ToolCtx<'_>,
    from: &Scores,
    along: &[(RelationId, Direction)],
    merge: Merge,
) -> Result<Scores, ToolError> {
    thread_local! {
        static SUMS: RefCell<Sums> =
            const { RefCell::new(Sums { scores: Vec::new(), reached: Vec::new(), seen: Vec::new() }) };
    }
    SUMS.with_borrow_mut(|sums| {
        let n = ctx.base.kb.n_nodes() as usize;
        sums.scores.resize(n.max(sums.scores.len()), 0.0);
        sums.seen.resize(n.max(sums.seen.len()), false);
        let mut outcome = Ok(());
        'all: for &(source, score) in from.as_slice() {
            for &(relation, direction) in along {
                let neighbors = ctx.base.kb.neighbors(source, relation, direction);
                outcome = ctx.meter.touch(1 + neighbors.len());
                if outcome.is_err() {
                    break 'all;
                }
                for &target in neighbors.iter() {
                    let index = target as usize;
                    if !sums.seen[index] {
                        sums.seen[index] = true;
                        sums.reached.push(target);
                        sums.scores[index] = score;
                    } else if merge == Merge::Sum {
                        sums.scores[index] += score;
                    } else {
                        sums.scores[index] = sums.scores[index].max(score);
                    }
                }
            }
        }
        let pairs = sums.reached.iter().map(|&node| (node, sums.scores[node as usize])).collect();
        for node in sums.reached.drain(..) {
            sums.seen[node as usize] = false;
            sums.scores[node as usize] = 0.0;
        }
        outcome.map(|()| Scores::new(pairs))
    })
}

fn hop(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let relation = lookup::relation(ctx.base, args.text(1)?)?;
    let direction = lookup::direction(args.text(2)?)?;
    let merge = match args.text(3)? {
        "sum" => Merge::Sum,
        "max" => Merge::Max,
        other => {
            return Err(ToolError::BadArgs(format!(
                "how must be \"sum\" or \"max\", not {other:?}"
            )));
        }
    };
    let from = start_scores(ctx.base, args)?;
    step(ctx, &from, &[(relation, direction)], merge).map(Value::scores)
}

fn walk(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let steps = args.texts(1)?;
    if steps.len() > MAX_STEPS {
        return Err(ToolError::BadArgs(format!("a metapath has at most {MAX_STEPS} steps")));
    }
    let limit = args.count(2)?;
    let mut reached = start_scores(ctx.base, args)?;
    for written in steps {
        let (name, direction) = lookup::split_step(written);
        let along = (lookup::relation(ctx.base, name)?, lookup::direction(direction)?);
        reached = Arc::new(step(ctx, &reached, &[along], Merge::Max)?.top(limit));
    }
    Ok(Value::Scores(reached))
}

fn neighbors(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let along: Vec<_> = (0..ctx.base.kb.relations().len())
        .map(|relation| (RelationId(relation as u16), Direction::Any))
        .collect();
    let from = start_scores(ctx.base, args)?;
    step(ctx, &from, &along, Merge::Sum).map(Value::scores)
}

fn paths(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (from, to) = (args.nodes(0)?, args.nodes(1)?);
    let hops = args.count(2)?;
    if !(1..=MAX_STEPS).contains(&hops) {
        return Err(ToolError::BadArgs(format!(
            "max_hops must be from 1 to {MAX_STEPS}, not {hops}"
        )));
    }
    if to.len() > MAX_ENDS {
        let n = to.len();
        return Err(ToolError::BadArgs(format!(
            "paths to {n} nodes exceed the limit of {MAX_ENDS}"
        )));
    }
    let (from, to) = (lookup::nodes(ctx.base, &from)?, lookup::nodes(ctx.base, &to)?);
    let kb = &ctx.base.kb;
    ctx.meter.touch(from.len() + to.len() + kb.n_nodes() as usize / NODES_PER_UNIT)?;
    let bounds = PathBounds { hops, nodes: MAX_EDGES, edges: MAX_EDGES };
    let meter = &mut *ctx.meter;
    let found = shortest_paths(kb, from, to, bounds, &mut |edges| meter.touch(edges))?;
    let path = |path: Path| {
        let ends = path.hops.iter().map(|hop| hop.node);
        let nodes = std::iter::once(path.from).chain(ends).map(|node| Value::Int(node.into()));
        let steps = path.hops.iter().map(|hop| {
            let relation = kb.relation_name(hop.relation);
            let direction = if hop.direction == Direction::In { "in" } else { "out" };
            Value::text(&format!("{relation}:{direction}"))
        });
        let (nodes, steps) = (Value::List(nodes.collect()), Value::List(steps.collect()));
        Value::Map([("nodes".to_owned(), nodes), ("steps".to_owned(), steps)].into())
    };
    Ok(Value::List(found.into_iter().flatten().map(path).collect()))
}

fn degree(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let nodes = args.nodes(0)?;
    let relation = lookup::relation(ctx.base, args.text(1)?)?;
    let direction = lookup::direction(args.text(2)?)?;
    ctx.meter.touch(nodes.len())?;
    let nodes = lookup::nodes(ctx.base, &nodes)?;
    let degrees = cost::map_nodes(ctx, nodes, |ctx, node| {
        Ok((node, ctx.base.kb.degree(node, relation, direction) as f32))
    })?;
    Ok(Value::scores(Scores::new(degrees)))
}

fn of_type(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let types = lookup::node_types(ctx.base, &args.texts(1)?)?;
    let keep = |node: NodeId| types.is_empty() || types.contains(&ctx.base.kb.node_type(node));
    match args.value(0) {
        Value::Scores(scores) => {
            ctx.meter.touch(scores.len())?;
            Ok(Value::scores(scores.filter(|node, _| keep(node))))
        }
        _ => {
            let nodes = args.nodes(0)?;
            ctx.meter.touch(nodes.len())?;
            Ok(Value::nodes(nodes.filter(keep)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::atomic::AtomicBool};

    use super::*;
    use crate::{Session, TOOLKIT, ToolHost, registry};
    use agent_dataset::{Home, ImportOptions, import_neutral};
    use agent_index::build;
    use agent_kb::Kb;

    #[test]
    fn paths_say_how_nodes_are_linked_and_metapath_takes_their_steps() {
        let base = agent_testing::example_base();
        let tool = |name| registry().iter().position(|spec| spec.name == name).unwrap();
        let set = |nodes: Vec<NodeId>| Value::nodes(NodeSet::new(nodes));
        let mut session = Session::new(base.clone(), None);
        let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[0];
        let has_brand = base.kb.relation_id("has_brand").unwrap();
        let made = base.kb.neighbors(brand, has_brand, Direction::In).into_owned();
        let all = (0..base.kb.n_nodes()).take(MAX_ENDS).collect();
        let found = session.call(tool("paths"), vec![set(vec![brand]), set(all)]).unwrap();
        let Value::List(found) = found else { panic!("{found:?} is not a list") };
        let mut ends = Vec::new();
        for path in found {
            let Value::Map(path) = path else { panic!("{path:?} is not a map") };
            let (Value::List(nodes), Value::List(steps)) = (&path["nodes"], &path["steps"]) else {
                panic!("{path:?}")
            };
            assert_eq!((nodes.len(), &nodes[0]), (steps.len() + 1, &Value::Int(brand.into())));
            let Some(Value::Int(end)) = nodes.last() else { panic!("{nodes:?}") };
            let end = NodeId::try_from(*end).unwrap();
            if !steps.is_empty() {
                let metapath = vec![set(vec![brand]), path["steps"].clone()];
                let Value::Scores(reached) = session.call(tool("walk"), metapath).unwrap() else {
                    panic!("a metapath gives scores")
                };
                assert!(reached.get(end).is_some(), "{path:?}");
            }
            ends.push((end, steps.len()));
        }
        assert!(ends.contains(&(brand, 0)) && made.iter().all(|&node| ends.contains(&(node, 1))));
        assert!(ends.iter().any(|pair| pair.1 == 2), "{ends:?}");
        assert!(ends.is_sorted(), "in the order of b: {ends:?}");
        let many = set((0..=MAX_ENDS as NodeId).collect());
        for (b, hops) in [(set(vec![0]), 0), (set(vec![0]), 7), (many, 3), (set(vec![9_999]), 3)] {
            let call = vec![set(vec![brand]), b, Value::Int(hops)];
            let error = session.call(tool("paths"), call).unwrap_err();
            assert!(matches!(error, ToolError::BadArgs(_) | ToolError::NotFound(_)), "{error}");
        }
    }

    /// If any part of a graph is overwritten, tools over it answer or report the damage.
    #[test]
    fn a_damaged_graph_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let (home, stop) = (Home::new(dir.path()), AtomicBool::new(false));
        let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("toolkits")
            .join(TOOLKIT)
            .join("base");
        let options = ImportOptions::default();
        let report =
            import_neutral(&source, &home, "example", &options, &mut |_| {}, &stop).unwrap();
        let (kb_dir, index) = (report.base.kb_dir(), report.base.index_dir());
        build(&Kb::open(&kb_dir).unwrap(), &index, &|_| {}, &stop).unwrap();
        let path = kb_dir.join("graph.bin");
        let intact = fs::read(&path).unwrap();
        let tool = |name| registry().iter().position(|spec| spec.name == name).unwrap();
        let mut reported = 0;
        for at in (8..intact.len() - 4).step_by(4) {
            let mut bytes = intact.clone();
            bytes[at..at + 4].copy_from_slice(&(u32::MAX / 2).to_le_bytes());
            // The file may be mapped, so it is replaced instead of changed in place.
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
            let Ok(base) = IndexedBase::open(&kb_dir, &index, "example") else { continue };
            let all = Value::nodes((0..base.kb.n_nodes()).collect());
            let relations = base.kb.relations().to_vec();
            let mut session = Session::new(Arc::new(base), None);
            let mut call = |name, args| match session.call(tool(name), args) {
                Err(ToolError::Internal(why)) => {
                    assert!(why.contains("graph.bin of the base is damaged"), "{why}");
                    reported += 1;
                }
                answered => drop(answered),
            };
            call("neighbors", vec![all.clone()]);
            call("paths", vec![all.clone(), all.clone()]);
            for relation in &relations {
                call("hop", vec![all.clone(), Value::text(relation.as_str())]);
                call("degree", vec![all.clone(), Value::text(relation.as_str())]);
            }
        }
        assert!(reported > 100, "{reported}");
    }
}
