//! Tools over scores: arithmetic, filters, fusion.

use crate::{ArgSpec, Args, Kind, NodeFlow, ToolCtx, ToolError, ToolSpec, Value, cost, lookup};
use agent_index::query::number;
use agent_kb::{Combine, NodeSet, Scores};

/// Maximum number of rankings fused in one call.
const MAX_FUSED: usize = 16;

const SCORES: ArgSpec = ArgSpec::new("scores", Kind::Scores);
const OTHER: ArgSpec = ArgSpec::new("other", Kind::Scores);
const NODES: ArgSpec = ArgSpec::new("nodes", Kind::Nodes);

/// Cost of a tool that reads one field of each node.
const PER_FIELD: &str = "1 per node and per 100 bytes of its field";

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec::new(
        "top",
        &[SCORES, ArgSpec::new("k", Kind::Int)],
        Kind::Scores,
        "The k best scores; ties by smaller id. End a program with it.",
        r#"top(search(query), 5)"#,
        |ctx, args| {
            let k = args.count(1)?;
            change(ctx, args, |scores| scores.top(k))
        },
    )
    .with_flow(NodeFlow::Cut),
    ToolSpec::new(
        "normalize",
        &[SCORES],
        Kind::Scores,
        "Scores divided by the largest, so that the best is 1, however weak it was; negative ones \
         become 0, and all where none is above 0. Of no scores none.",
        "normalize(search(query))",
        |ctx, args| change(ctx, args, Scores::normalized),
    )
    .with_flow(NodeFlow::Normalize),
    ToolSpec::new(
        "at_least",
        &[SCORES, ArgSpec::new("least", Kind::Number)],
        Kind::Scores,
        "The scores of at least that much, as they are; perhaps none.",
        "at_least(link(query), 0.5)",
        |ctx, args| {
            let least = args.number(1)? as f32;
            change(ctx, args, |scores| scores.filter(|_, score| score >= least))
        },
    )
    .with_flow(NodeFlow::Keep),
    ToolSpec::new(
        "power",
        &[SCORES, ArgSpec::new("exponent", Kind::Number)],
        Kind::Scores,
        "Every score to a power; above 1 it sharpens differences, below 1 it flattens them, below \
         0 it turns the order around. Negative scores count as 0; a node is dropped where the \
         result is not finite, as of 0 to a negative power.",
        "power(link(query), 2.0)",
        |ctx, args| {
            let exponent = args.number(1)? as f32;
            change(ctx, args, |scores| scores.map(|_, score| score.max(0.0).powf(exponent)))
        },
    ),
    ToolSpec::new(
        "restrict",
        &[SCORES, NODES],
        Kind::Scores,
        "The scores of nodes in the set (or in other scores), as they are; none is added, and of an \
         empty set none is left.",
        r#"restrict(search(query), of_type(neighbors(0), "product"))"#,
        restrict,
    )
    .with_flow(NodeFlow::Keep),
    ToolSpec::new(
        "without",
        &[SCORES, NODES],
        Kind::Scores,
        "The scores of nodes that are not in the set (or in other scores), as they are.",
        r#"without(search(query), link(query))"#,
        without,
    )
    .with_flow(NodeFlow::Remove),
    ToolSpec::new(
        "uniform",
        &[NODES, ArgSpec::optional("score", Kind::Number, "1.0")],
        Kind::Scores,
        "The same score for every node of a set, a list of ids or one id.",
        "uniform(nodes([1, 2]), 0.5)",
        |ctx, args| {
            let (nodes, score) = (args.nodes(0)?, args.number(1)? as f32);
            ctx.meter.touch(nodes.len())?;
            Ok(Value::scores(Scores::uniform(&nodes, score)))
        },
    ),
    ToolSpec::new(
        "largest",
        &[SCORES, OTHER],
        Kind::Scores,
        "The larger of two scores, node by node; a node in one of them keeps its score.",
        "largest(link(query), search(query))",
        |ctx, args| combine(ctx, args, Combine::Max),
    ),
    ToolSpec::new(
"fuse",
&[ArgSpec::new("rankings", Kind::Any), ArgSpec::optional("k", Kind::Number, "60.0")],
Kind::Scores,
"Reciprocal rank fusion of a list of scores: the sum of 1 / (k + rank), ranks from 1, \
         ties by smaller id (Cormack et al. 2009). At most 16 lists.",
"fuse([search(query), search_vectors(query)])",
fuse,
)
.with_flow(NodeFlow::Fuse),
    ToolSpec::new(
"score_of",
&[SCORES, ArgSpec::new("node", Kind::Node)],
Kind::Number,
"The score of a node, 0 when it has none.",
"score_of(search(query), 1)",
|_, args| {
            let score = args.scores(0)?.get(args.node(1)?).unwrap_or(0.0);
            Ok(Value::Float(f64::from(score)))
        },
)
.with_cost("1"),
    ToolSpec::new(
        "+",
        &[SCORES, OTHER],
        Kind::Scores,
        "Sum of scores, node by node; a node in one of them keeps its score.",
        "search(query) + link(query)",
        |ctx, args| combine(ctx, args, Combine::Sum),
    )
    .with_flow(NodeFlow::Sum),
    ToolSpec::new(
        "*",
        &[SCORES, OTHER],
        Kind::Scores,
        "Product of scores; only nodes in both remain, none where one of them is empty.",
        "search(query) * search_vectors(query)",
        |ctx, args| combine(ctx, args, Combine::Product),
    ),
    ToolSpec::new(
        "*",
        &[SCORES, ArgSpec::new("weight", Kind::Number)],
        Kind::Scores,
        "Every score times a number.",
        "search(query) * 0.5",
        |ctx, args| {
            let weight = args.number(1)? as f32;
            change(ctx, args, |scores| scores.scale(weight))
        },
    )
    .with_flow(NodeFlow::Multiply),
    ToolSpec::new(
        "*",
        &[ArgSpec::new("weight", Kind::Number), SCORES],
        Kind::Scores,
        "A number times every score.",
        "0.5 * search(query)",
        |ctx, args| {
            let (weight, scores) = (args.number(0)? as f32, args.scores(1)?);
            ctx.meter.touch(scores.len())?;
            Ok(Value::scores(scores.scale(weight)))
        },
    )
    .with_flow(NodeFlow::Multiply),
    ToolSpec::new(
        "/",
        &[SCORES, ArgSpec::new("divisor", Kind::Number)],
        Kind::Scores,
        "Every score divided by a number other than 0.",
        "search(query) / 2",
        |ctx, args| {
            let divisor = args.number(1)? as f32;
            if divisor == 0.0 {
                return Err(ToolError::BadArgs("scores cannot be divided by 0".to_owned()));
            }
            change(ctx, args, |scores| scores.scale(1.0 / divisor))
        },
    )
    .with_flow(NodeFlow::Divide),
    ToolSpec::new(
        "-",
        &[SCORES, OTHER],
        Kind::Scores,
        "Difference of scores, node by node; a node in one of them counts 0 in the other.",
        "search(query) - link(query)",
        |ctx, args| {
            let (a, b) = (args.scores(0)?, args.scores(1)?);
            ctx.meter.touch(a.len() + b.len())?;
            Ok(Value::scores(a.combine(&b.scale(-1.0), Combine::Sum)))
        },
    )
    .with_flow(NodeFlow::Difference),
    ToolSpec::new(
        "&",
        &[SCORES, NODES],
        Kind::Scores,
        "Only the scores of nodes in the set; the same as restrict.",
        r#"search(query) & nodes(of_type(neighbors(0), "product"))"#,
        restrict,
    )
    .with_flow(NodeFlow::Keep),
    ToolSpec::new(
        "-",
        &[SCORES, NODES],
        Kind::Scores,
        "The scores of nodes that are not in the set; the same as without.",
        "search(query) - nodes([0, 1])",
        without,
    )
    .with_flow(NodeFlow::Remove),
    ToolSpec::new(
        "with_field",
        &[
            NODES,
            ArgSpec::new("field", Kind::Text),
            ArgSpec::optional("contains", Kind::Text, "\"\""),
        ],
        Kind::Nodes,
        "Nodes that have a field; with `contains`, whose field has that text, case ignored.",
        r#"with_field(nodes([0, 1, 2]), "description", "steel")"#,
        with_field,
    )
    .with_cost(PER_FIELD),
    ToolSpec::new(
        "with_number",
        &[
            NODES,
            ArgSpec::new("field", Kind::Text),
            ArgSpec::new("low", Kind::Number),
            ArgSpec::new("high", Kind::Number),
        ],
        Kind::Nodes,
        "Nodes whose field is a number from low to high, both included; a leading currency sign is \
         ignored.",
        r#"with_number(nodes([0, 1, 2]), "price", 5, 20)"#,
        with_number,
    )
    .with_cost(PER_FIELD),
];

fn change(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    operation: impl FnOnce(&Scores) -> Scores,
) -> Result<Value, ToolError> {
    let scores = args.scores(0)?;
    ctx.meter.touch(scores.len())?;
    Ok(Value::scores(operation(scores)))
}

fn restrict(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let nodes = args.nodes(1)?;
    ctx.meter.touch(nodes.len())?;
    change(ctx, args, |scores| scores.restricted(&nodes))
}

fn without(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let nodes = args.nodes(1)?;
    ctx.meter.touch(nodes.len())?;
    change(ctx, args, |scores| scores.filter(|node, _| !nodes.contains(node)))
}

fn combine(ctx: &mut ToolCtx<'_>, args: &Args<'_>, operation: Combine) -> Result<Value, ToolError> {
    let (a, b) = (args.scores(0)?, args.scores(1)?);
    ctx.meter.touch(a.len() + b.len())?;
    Ok(Value::scores(a.combine(b, operation)))
}

fn fuse(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let k = args.number(1)? as f32;
    if k < 0.0 {
        return Err(ToolError::BadArgs("k must not be negative".to_owned()));
    }
    let Value::List(rankings) = args.value(0) else {
        return Err(ToolError::BadArgs("argument 1 must be a list of scores".to_owned()));
    };
    if rankings.len() > MAX_FUSED {
        return Err(ToolError::BadArgs(format!("at most {MAX_FUSED} rankings can be fused")));
    }
    let mut fused = Scores::default();
    for (ranking, item) in rankings.iter().zip(1..) {
        let Value::Scores(scores) = ranking else {
            let got = ranking.describe();
            return Err(ToolError::BadArgs(format!(
                "item {item} of the list must be scores, got {got}"
            )));
        };
        ctx.meter.touch(scores.len() + fused.len())?;
        fused = fused.combine(&scores.reciprocal_ranks(k), Combine::Sum);
    }
    Ok(Value::scores(fused))
}

/// Returns the nodes of the first argument whose field, named by the second, satisfies `keep`.
fn by_field(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    keep: impl Fn(&str) -> bool,
) -> Result<Value, ToolError> {
    let nodes = args.nodes(0)?;
    let field = lookup::field(ctx.base, args.text(1)?)?;
    ctx.meter.touch(nodes.len())?;
    lookup::nodes(ctx.base, &nodes)?;
    let kept = cost::map_nodes(ctx, nodes.as_slice(), |ctx, node| {
        let Some(text) = ctx.base.kb.field(node, field) else { return Ok(None) };
        cost::charge_read(ctx, text)?;
        Ok(keep(text).then_some(node))
    })?;
    Ok(Value::nodes(kept.into_iter().flatten().collect::<NodeSet>()))
}

fn with_field(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let needle = args.text(2)?.to_lowercase();
    by_field(ctx, args, |text| {
        let text = text.to_lowercase();
        // Substring search preprocesses the needle in linear time: skip needles that are too long.
        needle.len() <= text.len() && text.contains(&needle)
    })
}

fn with_number(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (low, high) = (args.number(2)?, args.number(3)?);
    by_field(ctx, args, |text| number(text).is_some_and(|number| (low..=high).contains(&number)))
}
