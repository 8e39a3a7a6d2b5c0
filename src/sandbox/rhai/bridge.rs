//! Registers tools with the engine, as functions and operators of programs.
//!
//! Functions accept values of any type, and the host checks them. Operators are registered for
//! exact types that include a handle, so that `1 + 1` keeps its meaning in Rhai.

use std::{any::TypeId, collections::HashSet};

use rhai::{Array, Dynamic, Engine, EvalAltResult, INT, NativeCallContext};

use crate::{
    sandbox::{
        FailureKind, Position,
        guard::guarded,
        rhai::{
            meter,
            values::{NodesHandle, ScoresHandle, VectorHandle, to_dynamic, to_value},
        },
    },
    tools::{Kind, ToolError, ToolHost, ToolSpec},
};

/// Registers every tool. Of several operators with the same name and types, the first one counts.
pub(super) fn register(engine: &mut Engine, specs: &'static [ToolSpec]) {
    let mut taken = HashSet::new();
    for (tool, spec) in specs.iter().enumerate() {
        let overloads = if spec.is_operator() {
            operand_types(spec)
        } else {
            (spec.min_args()..=spec.args.len()).map(|n| vec![TypeId::of::<Dynamic>(); n]).collect()
        };
        for types in overloads {
            if taken.insert((spec.name, types.clone())) {
                engine.register_raw_fn(spec.name, types, move |ctx, args| {
                    call(&ctx, tool, spec.name, args)
                });
            }
        }
    }
}

/// Returns all combinations of operand types that include a handle.
fn operand_types(spec: &ToolSpec) -> Vec<Vec<TypeId>> {
    let nodes = TypeId::of::<NodesHandle>();
    let scores = TypeId::of::<ScoresHandle>();
    let vector = TypeId::of::<VectorHandle>();
    let mut overloads = vec![Vec::new()];
    for arg in spec.args {
        let choices = match arg.kind {
            Kind::Nodes => vec![nodes, TypeId::of::<Array>()],
            Kind::Scores => vec![scores],
            Kind::Vector => vec![vector],
            Kind::Int | Kind::Node => vec![TypeId::of::<INT>()],
            Kind::Number => vec![TypeId::of::<INT>(), TypeId::of::<f64>()],
            Kind::Bool => vec![TypeId::of::<bool>()],
            Kind::Text => vec![TypeId::of::<rhai::ImmutableString>()],
            Kind::Map => vec![TypeId::of::<rhai::Map>()],
            Kind::Unit => vec![TypeId::of::<()>()],
            Kind::Texts | Kind::Numbers | Kind::Vectors | Kind::Bools => {
                vec![TypeId::of::<Array>()]
            }
            Kind::Any => vec![nodes, scores, vector],
        };
        overloads = overloads
            .iter()
            .flat_map(|types: &Vec<TypeId>| {
                choices.iter().map(move |choice| {
                    let mut longer = types.clone();
                    longer.push(*choice);
                    longer
                })
            })
            .collect();
    }
    overloads.retain(|types| types.iter().any(|t| [nodes, scores, vector].contains(t)));
    overloads
}

/// Calls a tool. A failure ends the program, even if the program catches the error.
fn call(
    ctx: &NativeCallContext<'_>,
    tool: usize,
    name: &str,
    args: &mut [&mut Dynamic],
) -> Result<Dynamic, Box<EvalAltResult>> {
    let at = ctx.call_position();
    let place = at.line().map(|line| Position { line, column: at.position().unwrap_or(0) });
    let ended = || Err(EvalAltResult::ErrorTerminated(Dynamic::UNIT, at).into());
    if !meter::may_call_tool() || meter::over_budget() {
        return ended();
    }
    // A panic is caught here, before it can unwind through the frames of the engine.
    let answer = meter::as_host(|| {
        guarded(|| {
            let values: Result<Vec<_>, String> = args.iter().map(|arg| to_value(arg)).collect();
            let values = values.map_err(ToolError::BadArgs)?;
            let call = |host: &mut dyn ToolHost| {
                if let Some(line) = at.line() {
                    host.place(line);
                }
                host.call(tool, values)
            };
            meter::with_host(call).unwrap_or_else(|| {
                Err(ToolError::BadArgs("tools cannot be called in params()".to_owned()))
            })
        })
    });
    match answer {
        Ok(Ok(value)) => {
            let given = to_dynamic(&value);
            meter::as_host(|| drop(value));
            if meter::over_budget() { ended() } else { Ok(given) }
        }
        Ok(Err(error)) => {
            let kind = match error {
                ToolError::Budget(_) => FailureKind::ToolBudget,
                ToolError::Deadline(_) => FailureKind::Deadline,
                _ => FailureKind::Tool,
            };
            meter::stop(kind, format!("{name}: {error}"), place);
            ended()
        }
        Err(panic) => {
            meter::stop(FailureKind::Panic, format!("{name}: {panic}"), place);
            ended()
        }
    }
}
