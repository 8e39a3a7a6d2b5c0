//! The hardened engine: sets it up, parses programs, calls functions and interprets errors.
//!
//! Does not depend on where it runs, because the engine inside WebAssembly is built from this file
//! too. Programs are parsed and called between `meter::begin` and [`end`].

use rhai::{
    AST, ASTNode, Dynamic, Engine, EvalAltResult, Expr, LexError, OptimizationLevel,
    ParseErrorType, Scope, Stmt, Token,
    module_resolvers::DummyModuleResolver,
    packages::{Package, StandardPackage},
};

use crate::{
    sandbox::{
        Failure, FailureKind, Limits, Position,
        given::Given,
        rhai::{bridge, meter, natives, values},
    },
    tools::{ToolHost, ToolSpec},
};

/// Name of the function that answers a query.
pub(super) const RETRIEVE: &str = "retrieve";
/// Name of the function that declares parameters.
pub(super) const PARAMS: &str = "params";
/// Maximum number of short strings that the engine shares.
const INTERNED_STRINGS: usize = 64;

/// A parsed source that has the required functions.
pub(super) struct Parsed {
    pub(super) ast: AST,
    /// Whether the source declares parameters.
    pub(super) has_params: bool,
    /// Whether the source may read the candidates.
    pub(super) reads_candidates: bool,
}

/// Creates an engine without limits; [`apply`] sets them.
pub(super) fn build(specs: &'static [ToolSpec]) -> Engine {
    let mut engine = Engine::new_raw();
    engine.register_global_module(StandardPackage::new().as_shared_module());
    engine.set_module_resolver(DummyModuleResolver::new());
    // Folds constants only, because `Full` would call functions at compile time.
    engine.set_optimization_level(OptimizationLevel::Simple);
    engine.set_max_strings_interned(INTERNED_STRINGS);
    for keyword in ["eval", "import", "export"] {
        engine.disable_symbol(keyword);
    }
    natives::register(&mut engine);
    values::register(&mut engine);
    bridge::register(&mut engine, specs);
    engine.on_print(meter::print);
    engine.on_debug(|text, _, _| meter::print(text));
    engine.on_progress(|_| meter::step().then_some(Dynamic::UNIT));
    #[expect(deprecated, reason = "the hook is marked as volatile, not as deprecated")]
    engine.on_parse_token(|token, _, _| match meter::token() {
        Some(message) => Token::LexError(LexError::Runtime(message).into()),
        None => token,
    });
    engine
}

/// Sets the limits of one call.
pub(super) fn apply(engine: &mut Engine, limits: &Limits) {
    // The meter counts steps and stops first, because the engine does not count those in callbacks.
    engine.set_max_operations(limits.operations.saturating_add(1));
    engine.set_max_call_levels(limits.call_levels);
    engine.set_max_expr_depths(limits.expression_depth, limits.expression_depth / 2);
    engine.set_max_string_size(limits.text_bytes);
    engine.set_max_array_size(limits.list_items);
    engine.set_max_map_size(limits.map_entries);
    engine.set_max_variables(limits.variables);
    engine.set_max_functions(limits.functions);
    engine.set_max_modules(0);
}

fn place(at: rhai::Position) -> Option<Position> {
    at.line().map(|line| Position { line, column: at.position().unwrap_or(0) })
}

/// Parses a source and checks that it has the required functions.
///
/// # Errors
/// [`FailureKind::Parse`] or [`FailureKind::MissingFunction`].
pub(super) fn parse(engine: &Engine, source: &str, limits: &Limits) -> Result<Parsed, Failure> {
    meter::begin_parsing(limits);
    let ast = engine.compile(source).map_err(|error| {
        let mut message = error.err_type().to_string();
        if matches!(error.err_type(), ParseErrorType::ExprTooDeep) {
            message.push_str("; use variables or functions");
        }
        Failure {
            position: place(error.position()),
            ..Failure::new(FailureKind::Parse, &message, limits)
        }
    })?;
    let arity = |name: &str| {
        let mut all: Vec<usize> = ast
            .iter_functions()
            .filter(|function| function.name == name && function.this_type.is_none())
            .map(|function| function.params.len())
            .collect();
        all.sort_unstable();
        all
    };
    let (retrieve, params) = (arity(RETRIEVE), arity(PARAMS));
    let missing = if !retrieve.contains(&3) {
        Some("define `fn retrieve(query, candidates, params)` with three parameters")
    } else if !params.is_empty() && !params.contains(&0) {
        Some("define `fn params()` without parameters, or not at all")
    } else {
        None
    };
    if let Some(message) = missing {
        return Err(Failure::new(FailureKind::MissingFunction, message, limits));
    }
    let (has_params, reads_candidates) = (!params.is_empty(), reads_candidates(&ast));
    Ok(Parsed { ast, has_params, reads_candidates })
}

/// Whether any variable has the name of the second parameter of `retrieve`.
fn reads_candidates(ast: &AST) -> bool {
    let retrieve = ast.iter_functions().find(|function| function.name == RETRIEVE);
    let Some(name) = retrieve.and_then(|function| function.params.get(1).copied()) else {
        return true;
    };
    let mut reads = false;
    ast.walk(&mut |path| {
        reads |= match path.last() {
            Some(ASTNode::Expr(Expr::Variable(variable, ..))) => variable.1 == name,
            Some(ASTNode::Stmt(Stmt::Share(shared))) => shared.iter().any(|one| one.0.name == name),
            _ => false,
        };
        !reads
    });
    reads
}

/// Calls a function and converts its result.
///
/// # Errors
/// The error of the program; [`end`] replaces it if the meter stopped the call.
pub(super) fn call(
    engine: &Engine,
    ast: &AST,
    function: &str,
    args: Vec<Dynamic>,
    limits: &Limits,
) -> Result<Given, Failure> {
    engine
        .call_fn::<Dynamic>(&mut Scope::new(), ast, function, args)
        .map(|result| values::given(&result))
        .map_err(|error| failure_of(&error, limits))
}

/// Result of an ended call with the records of its meter, or its failure; and the host.
pub(super) type Over<T> = (Result<(T, meter::Ended), Failure>, Option<Box<dyn ToolHost>>);

/// Ends a call and returns its result, or a failure if the meter stopped it. `kept` is the heap of
/// the result, in bytes.
pub(super) fn end<T>(done: Result<T, Failure>, kept: usize, limits: &Limits) -> Over<T> {
    let kept = match &done {
        Ok(_) => kept,
        Err(failure) => failure.message.capacity(),
    };
    let mut ended = meter::end(kept, limits.leak_bytes);
    let host = ended.host.take();
    let failure = match (done, ended.stop.take()) {
        (Ok(value), None) => return (Ok((value, ended)), host),
        (done, Some(stop)) => {
            let at = done.err().and_then(|failure| failure.position);
            let position = stop.position.or(at);
            Failure { position, ..Failure::new(stop.kind, &stop.message, limits) }
        }
        (Err(failure), None) => failure,
    };
    (Err(Failure { usage: ended.usage, output: ended.output, ..failure }), host)
}

/// Converts an error of the engine to a failure.
fn failure_of(error: &EvalAltResult, limits: &Limits) -> Failure {
    let mut error = error;
    while let EvalAltResult::ErrorInFunctionCall(_, _, inner, _)
    | EvalAltResult::ErrorInModule(_, inner, _) = error
    {
        error = inner;
    }
    let (kind, message) = match error {
        EvalAltResult::ErrorTooManyOperations(_) => {
            (FailureKind::Operations, format!("more than {} steps", limits.operations))
        }
        EvalAltResult::ErrorStackOverflow(_) => (
            FailureKind::Depth,
            format!("more than {} nested calls; use a loop", limits.call_levels),
        ),
        EvalAltResult::ErrorDataTooLarge(what, _) => {
            (FailureKind::Memory, format!("{what} is over its limit"))
        }
        EvalAltResult::ErrorTooManyVariables(_) => {
            (FailureKind::Memory, format!("more than {} variables", limits.variables))
        }
        // The engine must not format values, because they may be huge or contain themselves.
        EvalAltResult::ErrorRuntime(thrown, _) => (FailureKind::Runtime, values::describe(thrown)),
        EvalAltResult::ErrorIndexNotFound(index, _) => {
            (FailureKind::Runtime, format!("no such index: {}", values::describe(index)))
        }
        EvalAltResult::LoopBreak(..) | EvalAltResult::Return(..) | EvalAltResult::Exit(..) => {
            (FailureKind::Runtime, "the program left its function".to_owned())
        }
        EvalAltResult::ErrorTerminated(..) => (FailureKind::Runtime, "stopped".to_owned()),
        EvalAltResult::ErrorFunctionNotFound(call, _) => {
            (FailureKind::Runtime, format!("no function takes these arguments: {call}"))
        }
        EvalAltResult::ErrorVariableNotFound(name, _) => {
            (FailureKind::Runtime, format!("no variable is named {name}"))
        }
        other => {
            let mut text = other.to_string();
            if let Some(at) = text.rfind(" (line ") {
                text.truncate(at);
            }
            (FailureKind::Runtime, text)
        }
    };
    Failure { position: place(error.position()), ..Failure::new(kind, &message, limits) }
}
