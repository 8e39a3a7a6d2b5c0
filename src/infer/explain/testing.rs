//! Builds tool calls for the tests of this folder.

use agent_kb::{NodeId, Scores};
use agent_llm::replies::AskUsage;
use agent_tools::{Kind, ToolCall, ToolSpec, Value, registry};

/// Makes a call of the tool `name` with this result.
pub(super) fn call(name: &'static str, args: Vec<Value>, result: &Value) -> ToolCall {
    let flow = registry().iter().find(|spec| takes(spec, name, &args)).expect("a tool").flow;
    let (result, asked) = (Ok(result.clone()), AskUsage::default());
    ToolCall { name, flow, args, result, asked, unparsed: 0, line: None }
}

/// Makes scores as the result of a call.
pub(super) fn scores(pairs: &[(NodeId, f32)]) -> Value {
    Value::scores(Scores::new(pairs.to_vec()))
}

/// Returns the scores in the result of a call.
pub(super) fn scores_of(value: &Value) -> &Scores {
    match value {
        Value::Scores(scores) => scores,
        other => panic!("{other:?} are no scores"),
    }
}

/// Whether `spec` is the tool with that name and such arguments; several tools share an operator.
fn takes(spec: &ToolSpec, name: &str, args: &[Value]) -> bool {
    let suits = |kind: Kind, value: &Value| match value {
        Value::Scores(_) => matches!(kind, Kind::Scores | Kind::Any),
        Value::Nodes(_) => matches!(kind, Kind::Nodes | Kind::Any),
        _ => kind != Kind::Scores,
    };
    spec.name == name && spec.args.iter().zip(args).all(|(arg, value)| suits(arg.kind, value))
}
