//! What a program costs: compiling it, calling one that does nothing, and three kinds of work over
//! some candidates. Nothing is kept from one call to the next.

use std::{collections::BTreeMap, hint::black_box, sync::Arc};

use anyhow::Context as _;

use crate::{
    Context,
    bench::{WorkArgs, digest, measure, work},
};
use agent_app::{dataset, error::Result};
use agent_kb::NodeId;
use agent_sandbox::{
    Code, CompiledProgram, Failure, Input, Limits, Outcome, RhaiSandbox, Sandbox, Workers,
};
use agent_tools::Session;

/// What is measured, and the source of the program that does it.
const PROGRAMS: [(&str, &str); 4] = [
    ("program_empty", "fn retrieve(query, candidates, params) { #{} }"),
    ("program_relations", include_str!("programs/relations.rhai")),
    ("program_text", include_str!("programs/text.rhai")),
    ("program_mixed", include_str!("programs/mixed.rhai")),
];

pub(super) fn run(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let base = dataset::open(&dataset::find(&args.args.dataset, ctx)?, ctx)?;
    let questions = match &args.work {
        Some(path) => work::read_questions(path)?,
        None => work::draw_questions(&base.kb),
    };
    let workers = Workers::new(1).context("cannot start a thread for programs")?;
    let (sandbox, limits) = (RhaiSandbox::new(Arc::new(workers)), Limits::default());
    let compile = |(_, source): &(_, &str)| sandbox.compile(Code::Rhai(source), &limits);
    let programs: Vec<CompiledProgram> =
        PROGRAMS.iter().map(compile).collect::<std::result::Result<_, Failure>>()?;
    let [_, working @ ..] = &PROGRAMS;
    measure("program_compile", working.len(), || {
        working.iter().for_each(|program| drop(black_box(compile(program))));
    })
    .print(args.args.json, ctx)?;

    let (params, n_nodes) = (BTreeMap::new(), base.kb.n_nodes() as usize);
    let answer = |program: &CompiledProgram, (query, candidates): &(String, Vec<NodeId>)| {
        let input = Input { query, candidates, params: &params, n_nodes };
        let session = Session::new(base.clone(), None);
        sandbox.run(program, Box::new(session), input, &limits).0
    };
    for ((work, _), program) in PROGRAMS.iter().zip(&programs) {
        let answers = questions.iter().map(|question| answer(program, question));
        let answers: Vec<Outcome> =
            answers.collect::<std::result::Result<_, Failure>>().context(*work)?;
        let rankings = answers
            .iter()
            .map(|answer| answer.ranking.iter().map(|pair| pair.0).collect::<Vec<NodeId>>());
        let digest = digest(rankings);
        let calls: u64 = answers.iter().map(|answer| answer.usage.tool_calls).sum();
        measure(work, questions.len(), || {
            questions.iter().for_each(|question| drop(black_box(answer(program, question))));
        })
        .with("tool_calls", calls as f64 / questions.len().max(1) as f64)
        .with("digest", digest)
        .print(args.args.json, ctx)?;
    }
    Ok(())
}
