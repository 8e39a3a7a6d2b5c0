//! Compares programs that run inside WebAssembly with the same programs that run in this process.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use crate::{
    CompiledProgram, Failure, FailureKind, Input, Limits, Outcome, Sandbox, WasmSandbox, Workers,
    tests::{LATE, N_NODES, OVER, SPECS, TestHost},
};

/// Returns the sandbox that runs the same Rhai engine inside WebAssembly.
pub(super) fn inside() -> &'static WasmSandbox {
    static SANDBOX: OnceLock<WasmSandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        WasmSandbox::with_tools(Arc::new(Workers::new(2).expect("threads")), &SPECS, None)
    })
}

/// Checks that a program gave the same result in this process (`ran`) and inside WebAssembly
/// (`twin`).
pub(super) fn compare(
    source: &str,
    ran: &Result<Outcome, Failure>,
    twin: &Result<Outcome, Failure>,
) {
    let shown = source.get(..source.len().min(2_000)).unwrap_or_default();
    match (ran, twin) {
        (Ok(a), Ok(b)) => {
            assert_eq!(a.ranking, b.ranking, "{shown}");
            // Each build chooses its own names for anonymous functions.
            if !a.output.contains("anon$") {
                assert_eq!(a.output, b.output, "{shown}");
            }
            let counts = |outcome: &Outcome| (outcome.usage.operations, outcome.usage.tool_calls);
            assert_eq!(counts(a), counts(b), "{shown}");
        }
        (Err(a), Err(b)) if a.kind == b.kind => {
            let told = [FailureKind::Deadline, FailureKind::Memory, FailureKind::Panic];
            if !told.contains(&a.kind) {
                assert_eq!(a.position, b.position, "{shown}");
                // Each build chooses its own names for anonymous functions.
                if !a.message.contains("anon$") {
                    assert_eq!(a.message, b.message, "{shown}");
                }
                assert_eq!(a.output, b.output, "{shown}");
            }
        }
        (a, b) => {
            let kind = |ran: &Result<Outcome, Failure>| {
                ran.as_ref().map(|_| ()).map_err(|failure| failure.kind)
            };
            assert!(may_differ(kind(a), kind(b)), "here {a:?}\ninside {b:?}\n{shown}");
        }
    }
}

/// Whether the results in this process and inside WebAssembly may differ: time depends on the
/// machine, heap is measured differently, and the stack inside WebAssembly is smaller.
fn may_differ(here: Result<(), FailureKind>, inside: Result<(), FailureKind>) -> bool {
    use FailureKind::{Deadline, Depth, Memory, Operations};
    let of_machine = [Deadline, Memory, Operations];
    match (here, inside) {
        (Err(here), Err(inside)) => {
            of_machine.contains(&here) && (of_machine.contains(&inside) || inside == Depth)
        }
        (Ok(()), Err(inside)) => [Deadline, Memory, Depth].contains(&inside),
        (Err(here), Ok(())) => [Deadline, Memory].contains(&here),
        (Ok(()), Ok(())) => true,
    }
}

pub(super) fn run_inside(
    program: &CompiledProgram,
    params: &BTreeMap<String, f64>,
    limits: &Limits,
) -> Result<Outcome, Failure> {
    let input = Input { query: "red shoes", candidates: &[5, 3, 9], params, n_nodes: N_NODES };
    let (result, _) = inside().run(program, Box::<TestHost>::default(), input, limits);
    let usage = match &result {
        Ok(outcome) => outcome.usage,
        Err(failure) => failure.usage,
    };
    let most = (limits.deadline + LATE) * agent_ground::clock::WALL_PER_WORK;
    assert!(usage.ms <= most.as_secs_f64() * 1e3, "took {} ms", usage.ms);
    assert!(usage.peak_bytes <= limits.memory_bytes + OVER, "held {} bytes", usage.peak_bytes);
    assert_eq!(usage.leaked_bytes, 0);
    result
}
