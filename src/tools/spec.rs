//! Descriptions of tools, from which the functions for programs, the text shown to a language model
//! and the reference page are made.

use crate::{Args, Kind, ToolCtx, Value};

/// One argument of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// Name shown to authors of programs.
    pub name: &'static str,
    /// Type of the argument; [`Kind`] lists the accepted values.
    pub kind: Kind,
    /// Default value as program text; only trailing arguments have one.
    pub default: Option<&'static str>,
}

/// Where the nodes in a tool's result come from and, for simple tools, how their scores follow from
/// the scores in the arguments. Arguments are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFlow {
    /// Finds the nodes that a text names.
    Link,
    /// Finds nodes by words, by vectors or by their type.
    Find,
    /// Goes from the nodes of argument 1 to their neighbours.
    Metapath(Steps),
    /// Returns nodes of its arguments, with new scores or without scores; or returns no nodes.
    Carry,
    /// Keeps some nodes of argument 1; if they have scores, with their scores.
    Keep,
    /// Keeps the best nodes of argument 1 with their scores.
    Cut,
    /// Keeps the nodes of argument 1 that are not in argument 2; if they have scores, with their
    /// scores.
    Remove,
    /// Adds the scores in its arguments, node by node.
    Sum,
    /// Subtracts the scores of argument 2 from the scores of argument 1, node by node.
    Difference,
    /// Multiplies all scores by the argument that is a number.
    Multiply,
    /// Divides all scores by argument 2.
    Divide,
    /// Divides all scores by the largest.
    Normalize,
    /// Adds, for each node, its reciprocal ranks in several scores: `1 / (k + rank)`, with `k` as
    /// argument 2.
    Fuse,
    /// Shows a value to the author of the program; returns nothing.
    Note,
}

/// How the arguments of a tool state the steps of a metapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// One step: argument 2 names the relation, argument 3 its direction.
    Directed,
    /// One step in either direction: argument 2 names the relation; without it, all relations.
    Either,
    /// Several steps: argument 2 lists them as `relation` or `relation:direction`.
    Path,
}

/// One function that programs may call.
///
/// # Contract
/// - `run` is pure given the base, the query, the arguments and the replies of the language model:
///   same inputs, same output, on any thread. No clock, no randomness, no files.
/// - Node ids are in `0..n_nodes`; scores are finite `f32`, higher is better.
/// - Work is charged to the meter in advance, as `cost` describes; one unit is about 50 ns. Every
///   charge polls the meter; work that may take over 50 ms calls
///   [`Meter::poll`](crate::Meter::poll) in between, so that a program ends by its deadline.
#[derive(Clone, Copy)]
pub struct ToolSpec {
    /// Function name, or an operator such as `&`; several specs may share an operator.
    pub name: &'static str,
    /// Group of tools to which the tool belongs: a section of the reference page.
    pub group: &'static str,
    /// The arguments, in order.
    pub args: &'static [ArgSpec],
    /// Type of the result.
    pub result: Kind,
    /// Where the nodes of the result come from.
    pub flow: NodeFlow,
    /// Description of the cost of one call, in cost units.
    pub cost: &'static str,
    /// Description of the result, its order and ties, and the errors; shown to the language model.
    pub doc: &'static str,
    /// A program line that runs on the toolkit's example base.
    pub example: &'static str,
    /// Whether results are cached by their arguments. If an argument of kind nodes holds scores,
    /// only its nodes matter.
    pub cached: bool,
    /// Runs the tool.
    pub run: Run,
}

/// Implementation of a tool.
pub(crate) type Run = fn(&mut ToolCtx<'_>, &Args<'_>) -> Result<Value, ToolError>;

impl ArgSpec {
    /// Describes a required argument.
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, default: None }
    }

    /// Describes an optional argument with its default, written as in a program.
    pub(crate) const fn optional(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Self { name, kind, default: Some(default) }
    }
}

impl ToolSpec {
    /// Describes a tool that returns nodes of its arguments, and whose results are not cached.
    /// [`registry`](crate::registry) sets its group and, if its cost is empty, the default cost of
    /// the group.
    pub(crate) const fn new(
        name: &'static str,
        args: &'static [ArgSpec],
        result: Kind,
        doc: &'static str,
        example: &'static str,
        run: Run,
    ) -> Self {
        let (group, flow, cost, cached) = ("", NodeFlow::Carry, "", false);
        Self { name, group, args, result, flow, cost, doc, example, cached, run }
    }

    /// Replaces `flow`.
    pub const fn with_flow(self, flow: NodeFlow) -> Self {
        Self { flow, ..self }
    }

    /// Replaces `cost`.
    pub const fn with_cost(self, cost: &'static str) -> Self {
        Self { cost, ..self }
    }

    /// Sets `cached`.
    pub const fn cached(self) -> Self {
        Self { cached: true, ..self }
    }

    /// Returns the minimum number of arguments of a call.
    pub fn min_args(&self) -> usize {
        self.args.iter().take_while(|arg| arg.default.is_none()).count()
    }

    /// Whether the name is an operator, written between its arguments.
    pub fn is_operator(&self) -> bool {
        !self.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }

    /// Formats the signature, such as `link(query: text, types: list of text = []) -> scores`.
    pub fn signature(&self) -> String {
        if self.is_operator() {
            let kinds: Vec<String> = self.args.iter().map(|arg| arg.kind.to_string()).collect();
            return format!("{} -> {}", kinds.join(&format!(" {} ", self.name)), self.result);
        }
        let args: Vec<String> = self
            .args
            .iter()
            .map(|arg| match arg.default {
                Some(default) => format!("{}: {} = {default}", arg.name, arg.kind),
                None => format!("{}: {}", arg.name, arg.kind),
            })
            .collect();
        format!("{}({}) -> {}", self.name, args.join(", "), self.result)
    }
}

/// Why a tool call failed; every failure ends the program. The text is shown to the author of the
/// program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The call is wrong; the message says how to fix it.
    #[error("{0}")]
    BadArgs(String),
    /// Something that the call names, such as a type, a field or a node, does not exist; the
    /// message lists what exists.
    #[error("{0}")]
    NotFound(String),
    /// The call would exceed a budget.
    #[error("tool budget spent: {0}")]
    Budget(String),
    /// The program reached its deadline.
    #[error("stopped after {0} ms")]
    Deadline(u128),
    /// The process is stopping; the program did not cause it.
    #[error("stopped")]
    Stopped,
    /// A tool that needs a language model was called and none is configured.
    #[error("no LLM configured")]
    NoLlm,
    /// The language model is unavailable: an outage, a ceiling, a stop.
    #[error("the LLM is unavailable: {0}")]
    Llm(String),
    /// The tool failed; the program did not cause it.
    #[error("internal failure of the tool: {0}")]
    Internal(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    /// Whether the arguments and the result fit the flow.
    fn fits(spec: &ToolSpec) -> bool {
        let named =
            |index: usize, name: &str| spec.args.get(index).is_some_and(|arg| arg.name == name);
        let kinds: Vec<Kind> = spec.args.iter().map(|arg| arg.kind).collect();
        let first = |allowed: &[Kind]| kinds.first().is_some_and(|kind| allowed.contains(kind));
        let gives_scores = spec.result == Kind::Scores;
        let gives_nodes = matches!(spec.result, Kind::Scores | Kind::Nodes | Kind::Any);
        match spec.flow {
            NodeFlow::Link | NodeFlow::Find => first(&[Kind::Text]) && gives_nodes,
            NodeFlow::Metapath(Steps::Directed) => named(1, "relation") && named(2, "direction"),
            NodeFlow::Metapath(Steps::Path) => named(1, "steps") && gives_nodes,
            NodeFlow::Metapath(Steps::Either) => {
                (kinds.len() == 1 || named(1, "relation_type")) && gives_nodes
            }
            NodeFlow::Carry => true,
            NodeFlow::Keep => first(&[Kind::Scores, Kind::Nodes, Kind::Any]) && gives_nodes,
            NodeFlow::Cut => kinds == [Kind::Scores, Kind::Int] && gives_scores,
            NodeFlow::Remove => {
                first(&[spec.result]) && kinds.get(1) == Some(&Kind::Nodes) && gives_nodes
            }
            NodeFlow::Sum | NodeFlow::Difference => kinds == [Kind::Scores; 2] && gives_scores,
            NodeFlow::Multiply => {
                kinds.len() == 2 && kinds.contains(&Kind::Number) && kinds.contains(&Kind::Scores)
            }
            NodeFlow::Divide => kinds == [Kind::Scores, Kind::Number] && gives_scores,
            NodeFlow::Normalize => kinds == [Kind::Scores] && gives_scores,
            NodeFlow::Fuse => named(1, "k") && gives_scores,
            NodeFlow::Note => spec.result == Kind::Unit,
        }
    }

    #[test]
    fn what_a_tool_does_to_nodes_fits_its_arguments_and_its_result() {
        for spec in registry() {
            assert!(fits(spec), "{}: {:?}", spec.signature(), spec.flow);
        }
        // A tool that takes no nodes but returns some must find them.
        let takes =
            |kind: Kind| matches!(kind, Kind::Nodes | Kind::Scores | Kind::Node | Kind::Any);
        let finds = registry().iter().filter(|spec| {
            matches!(spec.result, Kind::Nodes | Kind::Scores)
                && !spec.args.iter().any(|arg| takes(arg.kind))
        });
        for spec in finds {
            assert!(matches!(spec.flow, NodeFlow::Link | NodeFlow::Find), "{}", spec.name);
        }
    }
}
