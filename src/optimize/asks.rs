//! Programs whose functions ask a language model: which they are, and how often they may be run.
//!
//! A run of the loop has an allowance of program runs, and each of these a few requests. A program
//! claims all it may ever need before it is tried, so that one that is kept can also be tested and
//! measured; what it did not need is given back. Counts follow from programs and queries alone, so
//! that a run that goes on comes to the same.
//!
//! Must not know: how models are asked, what programs do.

use std::{collections::BTreeSet, sync::LazyLock};

use crate::leak::literals;
use agent_retrieve::expand::Method;
use agent_sandbox::program::Program;
use agent_tools::{FEEDBACK, registry};

/// Requests that one run of a program may make while the loop goes on; a bundle may make more.
pub const REQUESTS_PER_RUN: u64 = 4;
/// Tokens that these may have.
pub const TOKENS_PER_RUN: u64 = 40_000;
/// Program runs beside those on validation queries.
const TRAINING_RUNS: usize = 100;
/// Programs that ask and that may be measured on all validation queries.
const MEASURED: usize = 2;

/// Program runs that may ask a model in a run of the loop with so many validation queries.
pub fn most_runs(n_validation: usize) -> usize {
    TRAINING_RUNS + MEASURED * n_validation
}

/// The function that asks a model by all of its methods but [`FEEDBACK`].
const BY_METHOD: &str = "expand";

/// Whether a program calls a function that asks a language model.
pub(super) fn asks(program: &Program) -> bool {
    asking(program).is_some()
}

/// The first function that asks a language model which a program calls. A module never does here:
/// its calls cannot be read, so that it is run without a model.
pub(super) fn asking(program: &Program) -> Option<&'static str> {
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

/// Program runs that may still ask.
#[derive(Debug)]
pub(super) struct Allowance {
    left: usize,
}

impl Allowance {
    /// The allowance of a run of the loop with so many validation queries.
    pub(super) fn new(n_validation: usize) -> Self {
        Self { left: most_runs(n_validation) }
    }

    /// Takes so many runs, if there are as many.
    pub(super) fn claim(&mut self, runs: usize) -> bool {
        let enough = runs <= self.left;
        if enough {
            self.left -= runs;
        }
        enough
    }

    /// Gives back what was claimed and not needed.
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
        assert_eq!(most_runs(10), 120);
        assert!(allowance.claim(100) && !allowance.claim(21) && allowance.claim(20));
        assert!(!allowance.claim(1));
        allowance.give_back(5);
        assert!(allowance.claim(5) && !allowance.claim(1));
    }
}
