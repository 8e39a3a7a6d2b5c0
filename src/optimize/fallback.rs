//! Builds a bundle from the best baseline, for runs whose programs are clearly worse than this
//! baseline or equal to it. The bundle has one program for all queries, which ranks like the
//! baseline. The bundle's provenance names the baseline.

use std::collections::BTreeMap;

use agent_index::IndexedBase;
use agent_infer::{
    ParamValues,
    bundle::{
        Bundle, Category, CategoryScore, Fusion, Provenance, Validation, cutoff::Cutoff,
        router::Router,
    },
};
use agent_retrieve::System;
use agent_sandbox::program::Program;
use agent_tools::source::literals;

/// Value of `proposed_by` of the program that ranks like a baseline.
pub const PROPOSED_BY: &str = "baseline";
/// Name of the bundle's only category, which all queries belong to.
const CATEGORY: &str = "any query";
/// Number of nodes that the program ranks, which is also the number used to measure baselines.
const DEPTH: usize = 1_000;

/// Fusion of the bundle: every query goes to the single program, whose scores are not changed.
pub const FUSION: Fusion = Fusion::of_scores(1, false);

/// Returns a program that ranks like the baseline with this name, such as `bm25`; `None` if the
/// name is unknown or the baseline is [`System::Weighted`].
pub fn program(base: &IndexedBase, baseline: &str) -> Option<Program> {
    let system = System::ALL.into_iter().find(|system| system.name() == baseline)?;
    let types = literals(base.kb.searched_types().iter().map(|&kind| base.kb.type_name(kind)));
    let search = |tool: &str| format!("{tool}(query, {types}, {DEPTH})");
    let [words, names, fields, vectors] =
        ["search", "search_with_names", "search_fields", "search_vectors"].map(search);
    let ranked = match system {
        System::Bm25 => words,
        System::Bm25Names => names,
        System::Bm25F => fields,
        System::Dense => vectors,
        System::Hybrid => format!("fuse([{fields}, {vectors}], 60.0).top({DEPTH})"),
        System::Weighted(_) => return None,
    };
    Some(Program::new(&format!(
        "//! category: {CATEGORY}\n//! Ranks as {baseline}: the programs of the run were not better.\n\n\
         fn params() {{\n    #{{}}\n}}\n\n\
         fn retrieve(query, candidates, params) {{\n    {ranked}\n}}\n"
    )))
}

/// Returns the bundle `found` with its programs replaced by `program`, which ranks like a baseline;
/// `score` is the result of `program` on validation queries. Plain questions are still answered
/// from the graph.
pub fn bundle(found: Bundle, program: Program, score: CategoryScore) -> Bundle {
    let (mrr, baseline) = (score.mrr, Some(score.baseline.clone()));
    let category = Category {
        name: CATEGORY.to_owned(),
        program,
        params: ParamValues::new(),
        proposed_by: PROPOSED_BY.to_owned(),
        validation: Some(score),
    };
    Bundle {
        categories: vec![category],
        router: Router { n_categories: 1, weights: BTreeMap::new() },
        fusion: FUSION,
        reranker: None,
        ensemble: Vec::new(),
        cutoff: found.cutoff.map(Cutoff::for_plain_questions),
        validation: Validation { mrr, held_out: None, best_program: None, ..found.validation },
        provenance: Provenance { baseline, ..found.provenance },
        digest: String::new(),
        ..found
    }
    .sealed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fusion unites up to two rankings of [`DEPTH`] nodes, more than a program may return.
    #[test]
    fn every_program_returns_at_most_as_many_nodes_as_a_baseline() {
        let base = agent_testing::planted();
        for system in System::ALL {
            let Some(program) = program(&base, system.name()) else { continue };
            let lines = program.source().lines();
            let ranked = lines.skip_while(|line| !line.starts_with("fn retrieve")).nth(1);
            let ranked = ranked.unwrap().trim();
            let is_one = ranked.starts_with("search") && ranked.ends_with(", 1000)");
            assert!(is_one || ranked.ends_with(".top(1000)"), "{ranked}");
        }
    }
}
