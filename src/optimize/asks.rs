//! Detects programs that call functions which ask a language model, and limits how often such
//! programs run.
//!
//! An optimizer run has an allowance of such program runs, each with a few requests to the model.
//! Before a program is tried, all runs that it may need are claimed, so that an accepted program
//! can also be tested and measured. Unused runs return to the allowance. The numbers of claimed
//! runs depend only on programs and queries, so that a resumed run repeats them.

use std::{collections::BTreeSet, sync::LazyLock};

use crate::leak::literals;
use agent_retrieve::expand::Method;
use agent_sandbox::program::Program;
use agent_tools::{FEEDBACK, registry};

/// Maximum number of requests that one program run may send to the language model during
/// optimization; a bundle's programs may send more.
pub const REQUESTS_PER_RUN: u64 = 4;
/// Maximum total number of tokens of the language-model requests that one program run sends during
/// optimization.
pub const TOKENS_PER_RUN: u64 = 40_000;
/// Number of program runs on training queries that may ask a language model, in one optimizer run.
const TRAINING_RUNS: usize = 100;
/// Number of programs that can run on every validation query within the allowance.
const MEASURED_PROGRAMS: usize = 2;

/// Returns the maximum number of program runs that may ask a model, in an optimizer run with
/// `n_validation` validation queries.
pub fn max_runs(n_validation: usize) -> usize {
    TRAINING_RUNS + MEASURED_PROGRAMS * n_validation
}

/// Name of the tool function that asks a model unless its method is [`FEEDBACK`].
const BY_METHOD: &str = "expand";

/// Whether a program's source names a function that would ask a language model; never true for
/// WebAssembly modules.
pub(super) fn asks(program: &Program) -> bool {
    asking_function(program).is_some()
}

/// Returns the name of the first function in a program's source that asks a language model; `None`
/// if there is none. Also `None` for WebAssembly modules: their calls cannot be read, and they run
/// without a model.
pub(super) fn asking_function(program: &Program) -> Option<&'static str> {
    static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        registry().iter().filter(|spec| spec.group == "llm").map(|spec| spec.name).collect()
    });
    if program.is_module() {
        return None;
    }
    let texts = literals(program.source());
    let names = |method: &str| texts.iter().any(|text| text == method);
    let never = names(FEEDBACK) && !Method::ALL.iter().any(|method| names(method.name()));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = program.source().split(|c| !is_word(c));
    words.find_map(|word| NAMES.get(word).copied().filter(|name| !(never && *name == BY_METHOD)))
}

/// Number of program runs that may still ask a language model in an optimizer run.
#[derive(Debug)]
pub(super) struct Allowance {
    left: usize,
}

impl Allowance {
    /// Creates the allowance of an optimizer run with `n_validation` validation queries:
    /// [`max_runs`] program runs that may ask a language model.
    pub(super) fn new(n_validation: usize) -> Self {
        Self { left: max_runs(n_validation) }
    }

    /// Subtracts `runs` from the allowance if at least that many program runs remain; returns
    /// whether they were subtracted.
    pub(super) fn claim(&mut self, runs: usize) -> bool {
        let left = self.left.checked_sub(runs);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Gives claimed program runs that were not used back to the allowance.
    pub(super) fn give_back(&mut self, runs: usize) {
        self.left += runs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_asks_that_names_such_a_function() {
        let program = |body: &str| {
            Program::new(&format!("fn retrieve(query, candidates, params) {{ {body} }}"))
        };
        let named = registry().iter().find(|spec| spec.group == "llm").unwrap().name;
        assert!(asks(&program(&format!("{named}(candidates, query)"))));
        assert!(!asks(&program(&format!("my_{named}(candidates)"))));
        assert!(!asks(&program("search(query)")));
        let (expand, prf) = (BY_METHOD, FEEDBACK);
        assert!(!asks(&program(&format!("search({expand}(query, \"{prf}\"))"))));
        assert!(asks(&program(&format!("search({expand}(query, \"hyde\"))"))));
        assert!(asks(&program(&format!("search({expand}(query, params.how))"))));
        let both = format!("{expand}({expand}(query, \"{prf}\"), \"kar\")");
        assert!(asks(&program(&both)));
        let module = wat::parse_str("(module)").unwrap();
        assert!(!asks(&Program::module(&module)));
    }

    #[test]
    fn runs_are_claimed_before_they_are_made() {
        let mut allowance = Allowance::new(10);
        assert_eq!(max_runs(10), 120);
        assert!(allowance.claim(100) && !allowance.claim(21) && allowance.claim(20));
        assert!(!allowance.claim(1));
        allowance.give_back(5);
        assert!(allowance.claim(5) && !allowance.claim(1));
    }
}
