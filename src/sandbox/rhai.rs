//! Runs programs written in Rhai, inside this process, hardened. The only module that knows the
//! `rhai` crate.
//!
//! The engine's own limits miss much: steps inside native callbacks are not counted, some natives
//! allocate by an argument or block, sizes of captured values are not seen, sorts swallow errors.
//! So every step asks the meter (steps, heap, time, output), dangerous natives are replaced, and
//! programs are compiled, run and dropped only on threads with big stacks
//! (see [`Workers`]). An engine is built once per thread, not per call.
//!
//! All numbers of this module were measured with rhai 1.27 and features `sync`, `internals`.

mod bridge;
mod meter;
mod natives;
mod values;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once, OnceLock},
};

use rhai::{
    AST, ASTNode, Dynamic, Engine, EvalAltResult, Expr, LexError, Map, OptimizationLevel,
    ParseErrorType, Scope, Stmt, Token,
    module_resolvers::DummyModuleResolver,
    packages::{Package, StandardPackage},
};

use crate::{
    kb::{NodeId, best},
    sandbox::{
        Compiled, Failure, FailureKind, Input, Limits, Outcome, Param, Position, Ran, Sandbox,
        Workers, rhai::values::ScoresHandle, workers,
    },
    tools::{ToolError, ToolHost, ToolSpec, Value, registry},
};

/// The function that answers a query.
const RETRIEVE: &str = "retrieve";
/// The function that declares numbers.
const PARAMS: &str = "params";
/// Short strings the engine may share.
const INTERNED_STRINGS: usize = 64;
/// Longest parameter name, bytes.
const PARAM_NAME_BYTES: usize = 64;

/// The hardened Rhai engine on a pool of workers.
pub struct RhaiSandbox {
    workers: Arc<Workers>,
    specs: &'static [ToolSpec],
}

impl RhaiSandbox {
    /// A sandbox whose programs may call all tools.
    pub fn new(workers: Arc<Workers>) -> Self {
        Self::with_tools(workers, registry())
    }

    /// A sandbox whose programs may call the given tools; the host gets their positions in it.
    pub fn with_tools(workers: Arc<Workers>, specs: &'static [ToolSpec]) -> Self {
        Self { workers, specs }
    }
}

impl Sandbox for RhaiSandbox {
    fn compile(&self, source: &str, limits: &Limits) -> Result<Compiled, Failure> {
        if source.len() > limits.source_bytes {
            let message = format!(
                "the program has {} bytes, more than {}; shorten it",
                source.len(),
                limits.source_bytes
            );
            return Err(Failure::new(FailureKind::Parse, &message, limits));
        }
        let (specs, source, owned) = (self.specs, source.to_owned(), limits.clone());
        self.workers
            .run(move || compile(specs, &source, &owned))
            .unwrap_or_else(|lost| Err(Failure::new(FailureKind::Panic, &lost.to_string(), limits)))
    }

    fn declared_params(&self, program: &Compiled, limits: &Limits) -> Result<Vec<Param>, Failure> {
        let tree = tree_of(program, limits)?;
        if let Some(declared) = tree.params.get() {
            return declared.clone();
        }
        let owned = limits.clone();
        self.workers
            .run(move || tree.declared(&owned).clone())
            .unwrap_or_else(|lost| Err(Failure::new(FailureKind::Panic, &lost.to_string(), limits)))
    }

    fn reads_candidates(&self, program: &Compiled) -> bool {
        program.0.downcast_ref::<Tree>().is_none_or(|tree| tree.reads_candidates)
    }

    fn run(
        &self,
        program: &Compiled,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> Ran {
        let tree = match tree_of(program, limits) {
            Ok(tree) => tree,
            Err(failure) => return (Err(failure), host),
        };
        let query = input.query.to_owned();
        let candidates = input.candidates.to_vec();
        let (params, n_nodes) = (input.params.clone(), input.n_nodes);
        let owned = limits.clone();
        let job = move || {
            let input = Input { query: &query, candidates: &candidates, params: &params, n_nodes };
            run(&tree, host, input, &owned)
        };
        self.workers.run(job).unwrap_or_else(|lost| {
            let failure = Failure::new(FailureKind::Panic, &lost.to_string(), limits);
            (Err(failure), Box::new(LostHost))
        })
    }
}

/// Stands in for a host that went down with its worker.
struct LostHost;

impl ToolHost for LostHost {
    fn call(&mut self, _: usize, _: Vec<Value>) -> Result<Value, ToolError> {
        Err(ToolError::Internal("the host was lost in a panic".to_owned()))
    }
}

/// The host of a call that may use tools.
type Host = Option<Box<dyn ToolHost>>;

/// A parsed program. Its syntax tree is dropped on a big stack.
struct Tree {
    ast: Option<AST>,
    specs: &'static [ToolSpec],
    has_params: bool,
    reads_candidates: bool,
    params: OnceLock<Result<Vec<Param>, Failure>>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(ast) = self.ast.take() {
            workers::drop_on_big_stack(ast);
        }
    }
}

fn tree_of(program: &Compiled, limits: &Limits) -> Result<Arc<Tree>, Failure> {
    program.0.clone().downcast::<Tree>().map_err(|_| {
        Failure::new(FailureKind::Parse, "the program was compiled by another engine", limits)
    })
}

thread_local! {
    /// Engines of this thread, by their tools.
    static ENGINES: RefCell<Vec<(&'static [ToolSpec], Engine)>> = const { RefCell::new(Vec::new()) };
    /// Whether a panic on this thread is expected and told in a failure.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work with this thread's engine and a fresh meter; after a panic the engine is built anew.
fn with_engine<T>(
    specs: &'static [ToolSpec],
    limits: &Limits,
    host: Host,
    work: impl FnOnce(&Engine) -> T,
) -> Result<T, Failure> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                loud(info);
            }
        }));
    });
    let found = ENGINES.with(|engines| {
        let mut engines = engines.borrow_mut();
        engines
            .iter()
            .position(|entry| std::ptr::eq(entry.0, specs))
            .map(|at| engines.swap_remove(at).1)
    });
    GUARDED.set(true);
    let mut engine = found.unwrap_or_else(|| build_engine(specs));
    apply(&mut engine, limits);
    meter::begin(limits, host);
    let done = catch_unwind(AssertUnwindSafe(|| {
        let done = work(&engine);
        (engine, done)
    }));
    GUARDED.set(false);
    match done {
        Ok((engine, done)) => {
            ENGINES.with(|engines| engines.borrow_mut().push((specs, engine)));
            Ok(done)
        }
        Err(panic) => Err(Failure::new(FailureKind::Panic, &bridge::panic_text(&panic), limits)),
    }
}

fn build_engine(specs: &'static [ToolSpec]) -> Engine {
    let mut engine = Engine::new_raw();
    engine.register_global_module(StandardPackage::new().as_shared_module());
    engine.set_module_resolver(DummyModuleResolver::new());
    // Folds constants only: `Full` would call functions while compiling.
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

fn apply(engine: &mut Engine, limits: &Limits) {
    // Steps are counted by the meter, which stops first: the engine loses those inside callbacks.
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

fn compile(specs: &'static [ToolSpec], source: &str, limits: &Limits) -> Result<Compiled, Failure> {
    let parsed = with_engine(specs, limits, None, |engine| {
        meter::begin_parsing(limits);
        engine.compile(source)
    })?;
    let ast = parsed.map_err(|error| {
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
    let has_params = !params.is_empty();
    let reads_candidates = reads_candidates(&ast);
    let ast = Some(ast);
    let tree = Tree { ast, specs, has_params, reads_candidates, params: OnceLock::new() };
    Ok(Compiled(Arc::new(tree)))
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

impl Tree {
    /// What `params()` declares; runs it the first time. Only on a big stack.
    fn declared(&self, limits: &Limits) -> &Result<Vec<Param>, Failure> {
        self.params.get_or_init(|| {
            if !self.has_params {
                return Ok(Vec::new());
            }
            let (result, _) = self.call(PARAMS, None, limits, Vec::new, |result| {
                let params = read_params(&result, limits)?;
                Ok((params, 0))
            });
            result.map(|(params, ..)| params)
        })
    }

    /// Calls a function and reads its result while the meter still runs. `read` gives what it read
    /// and its heap, bytes.
    fn call<T>(
        &self,
        function: &str,
        host: Host,
        limits: &Limits,
        args: impl FnOnce() -> Vec<Dynamic>,
        read: impl FnOnce(Dynamic) -> Result<(T, usize), Failure>,
    ) -> (Result<(T, meter::Ended), Failure>, Host) {
        let done = with_engine(self.specs, limits, host, |engine| {
            let Some(ast) = &self.ast else {
                return Err(Failure::new(FailureKind::Panic, "the program is gone", limits));
            };
            engine
                .call_fn::<Dynamic>(&mut Scope::new(), ast, function, args())
                .map_err(|error| failure_of(&error, limits))
                .and_then(read)
        });
        let done = done.and_then(|done| done);
        let kept = match &done {
            Ok((_, bytes)) => *bytes,
            Err(failure) => failure.message.capacity(),
        };
        let mut ended = meter::end(kept, limits.leak_bytes);
        let host = ended.host.take();
        let failure = match (done, ended.stop.take()) {
            (Ok((value, _)), None) => return (Ok((value, ended)), host),
            (done, Some(stop)) => {
                let at = done.err().and_then(|failure| failure.position);
                let position = stop.position.or(at);
                Failure { position, ..Failure::new(stop.kind, &stop.message, limits) }
            }
            (Err(failure), None) => failure,
        };
        (Err(Failure { usage: ended.usage, output: ended.output, ..failure }), host)
    }
}

/// The failure that an error of the engine stands for.
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
        // Values are never shown by the engine: they may be huge or contain themselves.
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

/// Reads the map that `params()` gave.
fn read_params(result: &Dynamic, limits: &Limits) -> Result<Vec<Param>, Failure> {
    let wrong = |message: String| Err(Failure::new(FailureKind::Result, &message, limits));
    let Ok(entries) = result.as_map_ref() else {
        return wrong(
            "params() must give a map such as #{ k: #{ value: 50, min: 10, max: 400 } }".to_owned(),
        );
    };
    if entries.len() > limits.parameters {
        return wrong(format!("more than {} parameters", limits.parameters));
    }
    let mut params = Vec::with_capacity(entries.len());
    for (name, entry) in entries.iter() {
        let name = name.as_str();
        if name.is_empty() || name.len() > PARAM_NAME_BYTES {
            return wrong(format!("a parameter name must have 1 to {PARAM_NAME_BYTES} bytes"));
        }
        let (value, min, max) = match (number(entry), entry.as_map_ref()) {
            (Some(fixed), _) => (Some(fixed), Some(fixed), Some(fixed)),
            (None, Ok(parts)) => {
                if let Some(odd) = parts.keys().find(|k| !["value", "min", "max"].contains(&&***k))
                {
                    return wrong(format!("parameter {name} has an unknown entry {odd}"));
                }
                let part = |key: &str| parts.get(key).and_then(number);
                (part("value"), part("min"), part("max"))
            }
            _ => (None, None, None),
        };
        let (Some(value), Some(min), Some(max)) = (value, min, max) else {
            return wrong(format!(
                "parameter {name} must be a number or #{{ value, min, max }} of numbers"
            ));
        };
        let integer = value.1 && min.1 && max.1;
        let (value, min, max) = (value.0, min.0, max.0);
        if ![value, min, max].iter().all(|number| number.is_finite()) {
            return wrong(format!("parameter {name} is not finite"));
        }
        if !(min <= value && value <= max) {
            return wrong(format!("parameter {name}: {value} is not within {min} and {max}"));
        }
        params.push(Param { name: name.to_owned(), value, min, max, integer });
    }
    Ok(params)
}

/// A number and whether it is an integer.
fn number(value: &Dynamic) -> Option<(f64, bool)> {
    match (value.as_int(), value.as_float()) {
        (Ok(integer), _) => Some((integer as f64, true)),
        (_, Ok(float)) => Some((float, false)),
        _ => None,
    }
}

/// The parameters as the program gets them: declared values, changed by the given ones.
fn bind_params(
    declared: &[Param],
    given: &BTreeMap<String, f64>,
    limits: &Limits,
) -> Result<Map, Failure> {
    let wrong = |message: String| Err(Failure::new(FailureKind::Runtime, &message, limits));
    if let Some(name) = given.keys().find(|name| !declared.iter().any(|p| p.name == **name)) {
        let known: Vec<&str> = declared.iter().map(|param| param.name.as_str()).collect();
        return wrong(format!("no parameter is named {name}; declared are: {}", known.join(", ")));
    }
    let mut bound = Map::new();
    for param in declared {
        let value = given.get(&param.name).copied().unwrap_or(param.value);
        let value = if param.integer { value.round() } else { value };
        if !(param.min <= value && value <= param.max) {
            return wrong(format!(
                "parameter {} is {value}, not within {} and {}",
                param.name, param.min, param.max
            ));
        }
        let value: Dynamic = if param.integer { (value as i64).into() } else { value.into() };
        bound.insert(param.name.as_str().into(), value);
    }
    Ok(bound)
}

/// Runs one call; only on a big stack.
fn run(tree: &Tree, host: Box<dyn ToolHost>, input: Input<'_>, limits: &Limits) -> Ran {
    let declared = match tree.declared(limits) {
        Ok(declared) => declared,
        Err(failure) => return (Err(failure.clone()), host),
    };
    // Checked before the call, built within it, so that its heap is charged to it.
    if let Err(failure) = bind_params(declared, input.params, limits) {
        return (Err(failure), host);
    }
    let args = || {
        let candidates: rhai::Array =
            input.candidates.iter().map(|&id| Dynamic::from(i64::from(id))).collect();
        let params = bind_params(declared, input.params, limits).unwrap_or_default();
        vec![input.query.into(), candidates.into(), params.into()]
    };
    let (result, host) = tree.call(RETRIEVE, Some(host), limits, args, |result| {
        let ranking = read_ranking(&result, input.n_nodes, limits)?;
        let bytes = ranking.capacity() * size_of::<(NodeId, f32)>();
        Ok((ranking, bytes))
    });
    let result = result.map(|(ranking, ended)| Outcome {
        ranking,
        usage: ended.usage,
        output: ended.output,
    });
    (result, host.unwrap_or_else(|| Box::new(LostHost)))
}

/// Checks what `retrieve` gave and orders it best first.
fn read_ranking(
    result: &Dynamic,
    n_nodes: usize,
    limits: &Limits,
) -> Result<Vec<(NodeId, f32)>, Failure> {
    let wrong = |message: String| Err(Failure::new(FailureKind::Result, &message, limits));
    let most = limits.max_answers;
    let too_many = |n: usize| format!("{n} answers, more than {most}; end with `.top({most})`");
    let known = |id: NodeId| (id as usize) < n_nodes;
    let mut pairs = Vec::new();
    if let Some(scores) = result.read_lock::<ScoresHandle>() {
        let scores = scores.get();
        if scores.len() > most {
            return wrong(too_many(scores.len()));
        }
        if let Some((id, _)) = scores.as_slice().iter().find(|pair| !known(pair.0)) {
            return wrong(format!("node {id} does not exist; there are {n_nodes} nodes"));
        }
        pairs.extend_from_slice(scores.as_slice());
    } else if let Ok(entries) = result.as_map_ref() {
        if entries.len() > most {
            return wrong(too_many(entries.len()));
        }
        for (key, value) in entries.iter() {
            let digits = key.bytes().all(|byte| byte.is_ascii_digit());
            let id = key.parse().ok().filter(|&id: &NodeId| digits && known(id));
            let Some(id) = id else {
                return wrong(format!(
                    "{key} is not the id of a node; there are {n_nodes} nodes, and keys are ids as \
                     text, such as `{{}}[id.to_string()]`"
                ));
            };
            let score = number(value).map(|score| score.0 as f32);
            let Some(score) = score.filter(|score| score.is_finite()) else {
                return wrong(format!(
                    "the score of node {id} is {}; give a finite number",
                    values::describe(value)
                ));
            };
            pairs.push((id, score));
        }
        // Keys such as "7" and "07" name one node.
        let mut ids: Vec<NodeId> = pairs.iter().map(|pair| pair.0).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong(format!("node {} is given twice", twice[0]));
        }
    } else {
        return wrong(format!(
            "retrieve gave {}; return scores, or a map from node id as text to a number",
            values::describe(result)
        ));
    }
    let n = pairs.len();
    Ok(best(pairs, n))
}
