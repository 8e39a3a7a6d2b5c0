//! Tools over typed columns: tables of node values, and aggregates over them. Does not depend on
//! questions or SQL.

use std::collections::BTreeMap;

use crate::{ArgSpec, Args, Kind, ToolCtx, ToolError, ToolSpec, Value, lookup};
use agent_kb::{
    Direction, FieldId, NodeId, RelationId, TypeId, distinct,
    table::{
        Budget, Cell, Column, ColumnSpec, read,
        statistics::{Moments, quantile},
    },
};

/// Maximum number of nodes of one table.
const MAX_ROWS: usize = 1_000;
/// Maximum number of columns of one table.
const MAX_COLUMNS: usize = 16;
/// Maximum number of names in one cell of a table; further names are dropped.
const MAX_NAMES: usize = 20;
/// Maximum number of steps of a column.
const MAX_STEPS: usize = 3;
/// Maximum number of groups of one call; a call with more groups fails.
const MAX_GROUPS: usize = 10_000;
/// Cost of determining the type of a field from its values, in cost units.
const FIELD: usize = 1_000;

const NODES: ArgSpec = ArgSpec::new("nodes", Kind::Nodes);

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec::new(
        "table",
        &[NODES, ArgSpec::new("columns", Kind::Texts)],
        Kind::Any,
        "Typed values of at most 1,000 nodes of one type: a list of maps, by id, of `id` and the \
         columns, at most 16, as they are written. A column is \"name\", a field, or up to 3 steps \
         such as \"has_brand\" or \"has_brand:out has_brand:in\", which give a list of names, by \
         id, at most 20; \"count \" before steps gives how many nodes they lead to, itself not \
         counted. Fields whose values are numbers give numbers; what is absent is ().",
        r#"table(nodes([0, 1]), ["name", "price", "has_brand:out", "count also_buy"])"#,
        table,
    )
    .cached(),
    ToolSpec::new(
        "aggregate",
        &[
            NODES,
            ArgSpec::new("column", Kind::Text),
            ArgSpec::optional("how", Kind::Text, "\"mean\""),
            ArgSpec::optional("by", Kind::Text, "\"\""),
        ],
        Kind::Any,
        "One number of a column, written as for table, over nodes of one type: how is \"count\" \
         (nodes with a value), \"sum\", \"mean\", \"median\", \"min\", \"max\", \"variance\" or \
         \"stddev\" (of a sample); () where there is no value. With by, another column, a list of \
         maps of `group`, `value` and `n`, largest value first, ties by group; a node counts in \
         each of its groups. Groups without a value are left out.",
        r#"aggregate(of_type(neighbors(0), "product"), "price", "mean", "has_brand:out")"#,
        aggregate,
    )
    .cached(),
];

/// Where the values of a column come from.
enum Source {
    Name,
    Field(FieldId),
    /// The nodes that these steps reach or, if the flag is `true`, only their number.
    Steps(Vec<(RelationId, Direction)>, bool),
}

fn source(ctx: &ToolCtx<'_>, written: &str) -> Result<Source, ToolError> {
    if written == "name" {
        return Ok(Source::Name);
    }
    if let Some(field) = ctx.base.kb.field_id(written) {
        return Ok(Source::Field(field));
    }
    let (path, counts) = match written.strip_prefix("count ") {
        Some(path) => (path, true),
        None => (written, false),
    };
    let mut steps = Vec::new();
    for step in path.split_whitespace() {
        let (name, direction) = lookup::split_step(step);
        // A relation name may contain blanks; then the column is one step.
        match lookup::relation(ctx.base, name) {
            Ok(relation) => steps.push((relation, lookup::direction(direction)?)),
            Err(error) => {
                let (name, direction) = lookup::split_step(path);
                let Some(relation) = ctx.base.kb.relation_id(name) else {
                    return Err(ToolError::NotFound(format!(
                        "column {written:?} is not a field, and {error}"
                    )));
                };
                return Ok(Source::Steps(vec![(relation, lookup::direction(direction)?)], counts));
            }
        }
    }
    if steps.is_empty() || steps.len() > MAX_STEPS {
        return Err(ToolError::BadArgs(format!(
            "column {written:?} must be \"name\", a field, or 1 to {MAX_STEPS} steps"
        )));
    }
    Ok(Source::Steps(steps, counts))
}

/// Returns the common type of the nodes, `None` without nodes; fails if the types differ.
fn type_of(ctx: &ToolCtx<'_>, nodes: &[NodeId]) -> Result<Option<TypeId>, ToolError> {
    let kb = &ctx.base.kb;
    let Some(&first) = nodes.first() else { return Ok(None) };
    let kind = kb.node_type(first);
    match nodes.iter().find(|&&node| kb.node_type(node) != kind) {
        Some(&other) => Err(ToolError::BadArgs(format!(
            "the nodes are of several types, {} and {}; take one with of_type",
            kb.type_name(kind),
            kb.type_name(kb.node_type(other))
        ))),
        None => Ok(Some(kind)),
    }
}

/// Returns the nodes that the steps reach from a node, ascending, without the node itself.
fn follow(
    ctx: &mut ToolCtx<'_>,
    node: NodeId,
    steps: &[(RelationId, Direction)],
) -> Result<Vec<NodeId>, ToolError> {
    let mut nodes = vec![node];
    for &(relation, direction) in steps {
        let mut next: Vec<NodeId> = Vec::new();
        for &from in &nodes {
            let neighbors = ctx.base.kb.neighbors(from, relation, direction);
            ctx.meter.touch(1 + neighbors.len())?;
            next.extend(neighbors.iter());
        }
        nodes = distinct(next);
    }
    nodes.retain(|&other| other != node);
    Ok(nodes)
}

/// Reads a field of nodes of type `kind` as typed cells, one per node, in their order.
fn cells(
    ctx: &mut ToolCtx<'_>,
    kind: TypeId,
    nodes: &[NodeId],
    field: FieldId,
) -> Result<Column, ToolError> {
    ctx.meter.touch(nodes.len() + FIELD)?;
    read(&ctx.base.kb, kind, nodes, &ColumnSpec::Field(field), &Budget::start())
        .map_err(|error| ToolError::BadArgs(error.to_string()))
}

/// Reads a column: one value per node, in their order. A value holds at most `max_names` names.
fn values(
    ctx: &mut ToolCtx<'_>,
    kind: TypeId,
    nodes: &[NodeId],
    written: &str,
    max_names: usize,
) -> Result<Vec<Value>, ToolError> {
    let column = match source(ctx, written)? {
        Source::Name => {
            ctx.meter.touch(nodes.len())?;
            nodes.iter().map(|&node| Value::text(ctx.base.kb.name(node))).collect()
        }
        Source::Field(field) => {
            let column = cells(ctx, kind, nodes, field)?;
            column.cells.iter().map(value).collect()
        }
        Source::Steps(steps, counts) => {
            let mut values = Vec::with_capacity(nodes.len());
            for &node in nodes {
                let ends = follow(ctx, node, &steps)?;
                values.push(if counts {
                    Value::Int(ends.len() as i64)
                } else {
                    let names = ends.iter().take(max_names);
                    Value::List(names.map(|&end| Value::text(ctx.base.kb.name(end))).collect())
                });
            }
            values
        }
    };
    Ok(column)
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Empty => Value::Unit,
        Cell::Number(number) => Value::Float(*number),
        Cell::Text(text) => Value::text(text),
        Cell::Many(named) => {
            Value::List(named.iter().map(|link| Value::text(&link.name)).collect())
        }
    }
}

fn table(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (nodes, columns) = (args.nodes(0)?, args.texts(1)?);
    if nodes.len() > MAX_ROWS || columns.len() > MAX_COLUMNS {
        return Err(ToolError::BadArgs(format!(
            "{} nodes with {} columns exceed the limit of {MAX_ROWS} with {MAX_COLUMNS}",
            nodes.len(),
            columns.len()
        )));
    }
    let nodes = lookup::nodes(ctx.base, &nodes)?;
    let Some(kind) = type_of(ctx, nodes)? else { return Ok(Value::List(Vec::new())) };
    let row = |node: &NodeId| BTreeMap::from([("id".to_owned(), Value::Int((*node).into()))]);
    let mut table: Vec<BTreeMap<String, Value>> = nodes.iter().map(row).collect();
    for written in columns {
        let column = values(ctx, kind, nodes, written, MAX_NAMES)?;
        for (row, value) in table.iter_mut().zip(column) {
            row.insert(written.to_owned(), value);
        }
    }
    Ok(Value::List(table.into_iter().map(Value::Map).collect()))
}

/// Function that aggregates numbers; `None` if the aggregate is undefined, such as the mean of an
/// empty list.
type Aggregate = fn(&[f64]) -> Option<f64>;

fn aggregate_function(name: &str) -> Result<Aggregate, ToolError> {
    Ok(match name {
        "count" => |numbers| Some(numbers.len() as f64),
        "sum" => |numbers| (!numbers.is_empty()).then(|| numbers.iter().sum()),
        "mean" => |numbers| Moments::of(numbers).mean(),
        "median" => |numbers| quantile(&mut numbers.to_vec(), 0.5),
        "min" => |numbers| numbers.iter().copied().reduce(f64::min),
        "max" => |numbers| numbers.iter().copied().reduce(f64::max),
        "variance" => |numbers| Moments::of(numbers).variance(),
        "stddev" => |numbers| Moments::of(numbers).variance().map(f64::sqrt),
        other => {
            return Err(ToolError::BadArgs(format!(
                "how must be count, sum, mean, median, min, max, variance or stddev, not {other:?}"
            )));
        }
    })
}

/// Returns the names of the groups to which a value belongs.
fn groups(value: Value) -> Vec<String> {
    match value {
        Value::Text(text) => vec![text.to_string()],
        Value::Int(number) => vec![number.to_string()],
        Value::Float(number) => vec![number.to_string()],
        Value::List(all) => all.into_iter().flat_map(groups).collect(),
        _ => Vec::new(),
    }
}

fn aggregate(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let nodes = args.nodes(0)?;
    let (written, function, by) = (args.text(1)?, args.text(2)?, args.text(3)?);
    let (counts, function) = (function == "count", aggregate_function(function)?);
    let nodes = lookup::nodes(ctx.base, &nodes)?;
    let Some(kind) = type_of(ctx, nodes)? else {
        return Ok(match by {
            "" if counts => Value::Float(0.0),
            "" => Value::Unit,
            _ => Value::List(Vec::new()),
        });
    };
    let mut numbers: Vec<Option<f64>> = Vec::with_capacity(nodes.len());
    for value in values(ctx, kind, nodes, written, MAX_NAMES)? {
        numbers.push(match value {
            Value::Unit => None,
            Value::Int(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            Value::List(all) if counts => (!all.is_empty()).then_some(0.0),
            _ if counts => Some(0.0),
            other => {
                return Err(ToolError::BadArgs(format!(
                    "column {written:?} holds {}, not numbers; use how = \"count\"",
                    other.describe()
                )));
            }
        });
    }
    if by.is_empty() {
        let known: Vec<f64> = numbers.into_iter().flatten().collect();
        return Ok(function(&known).map_or(Value::Unit, Value::Float));
    }
    let mut parts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (number, value) in numbers.into_iter().zip(values(ctx, kind, nodes, by, usize::MAX)?) {
        let Some(number) = number else { continue };
        for group in groups(value) {
            parts.entry(group).or_default().push(number);
            if parts.len() > MAX_GROUPS {
                return Err(ToolError::BadArgs(format!("there are more than {MAX_GROUPS} groups")));
            }
        }
    }
    let mut found: Vec<(String, f64, usize)> = parts
        .into_iter()
        .filter_map(|(group, numbers)| Some((group, function(&numbers)?, numbers.len())))
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let row = |(group, value, n): (String, f64, usize)| {
        Value::Map(BTreeMap::from([
            ("group".to_owned(), Value::text(&group)),
            ("value".to_owned(), Value::Float(value)),
            ("n".to_owned(), Value::Int(n as i64)),
        ]))
    };
    Ok(Value::List(found.into_iter().map(row).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Session, ToolHost, registry};
    use agent_kb::NodeSet;
    use agent_testing::{base_of, example_base};

    fn call(name: &str, args: Vec<Value>) -> Result<Value, ToolError> {
        let tool = registry().iter().position(|spec| spec.name == name).unwrap();
        Session::new(example_base(), None).call(tool, args)
    }

    fn products() -> Value {
        let base = example_base();
        let kind = base.kb.type_id("product").unwrap();
        Value::nodes(base.kb.nodes_of_type(kind).iter().copied().collect())
    }

    #[test]
    fn a_table_has_typed_cells_of_fields_names_and_counts() {
        let columns = ["name", "price", "has_brand:out", "count has_brand has_brand"];
        let columns = Value::List(columns.map(Value::text).to_vec());
        let table = call("table", vec![Value::List(vec![Value::Int(0)]), columns]).unwrap();
        let Value::List(rows) = table else { panic!("{table:?}") };
        let Value::Map(row) = &rows[0] else { panic!("{rows:?}") };
        assert_eq!((rows.len(), &row["id"]), (1, &Value::Int(0)));
        assert_eq!(row["name"], Value::text("Summit Steel Bottle"));
        assert_eq!(row["price"], Value::Float(24.95));
        let Value::List(brands) = &row["has_brand:out"] else { panic!("{row:?}") };
        assert_eq!(brands.len(), 1);
        // Its brand has three products, itself included.
        assert_eq!(row["count has_brand has_brand"], Value::Int(2));
    }

    #[test]
    fn groups_part_what_one_number_is_of() {
        let text = Value::text;
        let number = |how: &str, column: &str| match call(
            "aggregate",
            vec![products(), text(column), text(how)],
        )
        .unwrap()
        {
            Value::Float(number) => number,
            other => panic!("{other:?}"),
        };
        let n = number("count", "price");
        assert!((number("sum", "price") / n - number("mean", "price")).abs() < 1e-9);
        assert!(number("min", "price") <= number("median", "price"));
        assert!((number("variance", "price").sqrt() - number("stddev", "price")).abs() < 1e-9);
        let grouped = vec![products(), text("price"), text("count"), text("has_brand:out")];
        let Value::List(groups) = call("aggregate", grouped).unwrap() else { panic!("no list") };
        let total: f64 = groups
            .iter()
            .map(|group| match group {
                Value::Map(group) => match group["value"] {
                    Value::Float(value) => value,
                    _ => panic!("{group:?}"),
                },
                _ => panic!("{group:?}"),
            })
            .sum();
        assert!(groups.len() > 1 && total <= n, "{groups:?}");
        let none = vec![Value::nodes(NodeSet::default()), text("price")];
        assert_eq!(call("aggregate", none).unwrap(), Value::Unit);
    }

    #[test]
    fn a_node_counts_in_each_of_its_groups() {
        let mut nodes = r#"{"id": 0, "type": "product", "name": "Kite"}"#.to_owned();
        let mut edges = String::new();
        for id in 1..=25 {
            nodes += &format!("\n{{\"id\": {id}, \"type\": \"color\", \"name\": \"Color {id}\"}}");
            edges += &format!("0\thas_color\t{id}\n");
        }
        let base = base_of(&(nodes + "\n"), &edges, "product");
        let tool = registry().iter().position(|spec| spec.name == "aggregate").unwrap();
        let texts = ["name", "count", "has_color:out"].map(Value::text);
        let mut args = vec![Value::List(vec![Value::Int(0)])];
        args.extend(texts);
        match Session::new(base, None).call(tool, args).unwrap() {
            Value::List(groups) => assert_eq!(groups.len(), 25),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_columns_are_errors() {
        let text = Value::text;
        let every = Value::nodes((0..example_base().kb.n_nodes()).collect());
        for (tool, args, expected) in [
            ("table", vec![products(), text("colour")], "colour"),
            ("table", vec![products(), text("")], "column"),
            ("table", vec![every.clone(), text("price")], "several types"),
            ("aggregate", vec![products(), text("name")], "not numbers"),
            ("aggregate", vec![products(), text("price"), text("mode")], "median"),
            ("aggregate", vec![every, text("price")], "several types"),
        ] {
            let error = call(tool, args).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
