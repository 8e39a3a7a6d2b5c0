//! Programs of the user. A run stores them in its journal and tries them on all training queries,
//! as it does with composed plans. The programs that answer best become categories.
//!
//! A resumed run must have the same programs. The run tunes their declared parameters but tries
//! their source unchanged. A language model may rewrite programs in Rhai.

use serde::{Deserialize, Serialize};

use crate::{
    Event, Result, Run,
    asks::asks,
    category_programs::{CategoryProgram, best_together, needed},
    discover::Worth,
    journal::{Journal, JournalError},
    trial::{self, Origin},
};
use agent_infer::ParamValues;
use agent_sandbox::program::Program;

/// Maximum number of the user's programs in a run.
pub const MAX_USER_PROGRAMS: usize = 32;
/// Maximum total size of the user's programs in a run, in bytes of their stored form; modules are
/// stored in base64.
pub const MAX_USER_BYTES: usize = 32 << 20;
/// Value of `proposed_by` of the user's programs.
pub(super) const USER: &str = "user";
/// Part of the error message for a run that was started with other programs of the user.
pub const OTHER_PROGRAMS: &str = "other programs of yours (--program)";
/// Kind and key of the journal step that stores the user's programs.
const KIND: &str = "run";
const KEY: &str = "programs";

/// A program of the user, with its file name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserProgram {
    /// Name of the program's file, without the directory.
    pub file: String,
    /// The program itself, a Rhai source or a WebAssembly module.
    pub program: Program,
}

/// Returns a digest of the programs and their file names, as hexadecimal digits. The digest depends
/// on the order of the programs.
pub fn digest(programs: &[UserProgram]) -> String {
    let line = |one: &UserProgram| format!("{:?} {}\n", one.file, one.program.id());
    trial::digest(&programs.iter().map(line).collect::<String>())
}

/// Stores the user's programs in a run's journal, so that the run can be resumed without the files.
///
/// # Errors
/// Errors of the journal.
pub fn store(journal: &mut Journal, programs: &[UserProgram]) -> Result<(), JournalError> {
    let names: Vec<(&str, &str)> =
        programs.iter().map(|one| (one.file.as_str(), one.program.id())).collect();
    let programs: Vec<Program> = programs.iter().map(|one| one.program.clone()).collect();
    journal.commit(KIND, KEY, &names, &programs)
}

/// Loads the user's programs from a run's journal, in the order in which they were stored.
///
/// # Errors
/// Errors of the journal.
pub fn load(journal: &Journal) -> Result<Vec<UserProgram>, JournalError> {
    let names: Vec<(String, String)> = journal.find(KIND, KEY)?.unwrap_or_default();
    let mut programs = Vec::new();
    for (file, id) in names {
        if let Some(program) = journal.program(&id)? {
            programs.push(UserProgram { file, program });
        }
    }
    Ok(programs)
}

/// A user's program that was tried, with its reciprocal ranks.
pub(super) struct UserTrial {
    program: UserProgram,
    origin: Origin,
    /// Pairs of a training query's position and the program's reciprocal rank on it, for all
    /// training queries.
    pub(super) worth: Worth,
}

impl Run<'_> {
    /// Tries the user's programs on all training queries. Skips, with a message, programs that ask
    /// a language model, and programs that fail on all queries.
    pub(super) fn try_user_programs(&mut self) -> Result<Vec<UserTrial>> {
        let all: Vec<usize> = (0..self.train.queries.len()).collect();
        let total = self.options.programs.len();
        let mut tried = Vec::new();
        for (done, one) in self.options.programs.iter().enumerate() {
            (self.watch)(Event::Progress { phase: "trying your programs", done, total });
            if asks(&one.program) {
                self.report(format!(
                    "{}: skipped, since it calls functions that ask a language model; only \
                     programs of the llm actor may call these",
                    one.file
                ));
                continue;
            }
            let origin = Origin::new(USER, &one.file, None);
            let none = ParamValues::new();
            let trial = self.trials.run(&one.program, &none, &self.train, &all, &origin)?;
            let message = trial_message(&one.file, trial.mrr(), all.len(), trial.failed);
            self.report(message);
            if let Some(failure) = &trial.failure {
                self.report(format!("{}: {failure}", one.file));
            }
            if trial.failed < all.len() {
                let worth = trial.reciprocal_ranks.iter().map(|&rank| f64::from(rank));
                let worth = worth.enumerate().collect();
                tried.push(UserTrial { program: one.clone(), origin, worth });
            }
        }
        Ok(tried)
    }

    /// Returns a category with a tried program of the user, named by the program's header or else
    /// by its file.
    pub(super) fn program_of_user(&mut self, tried: &UserTrial) -> Result<CategoryProgram> {
        let UserProgram { file, program } = &tried.program;
        let none = ParamValues::new();
        let mut category =
            self.category_program(None, program.clone(), none, None, &tried.origin)?;
        let name = program.category().unwrap_or(file);
        category.name = Some(name.to_owned());
        Ok(category)
    }

    /// Tries the user's programs and returns those that become categories, for runs without the
    /// search actor.
    pub(super) fn programs_of_user(&mut self) -> Result<Vec<CategoryProgram>> {
        let tried = self.try_user_programs()?;
        let n = self.train.queries.len();
        let worths: Vec<&Worth> = tried.iter().map(|tried| &tried.worth).collect();
        let chosen = best_together(&worths, n);
        let categories = chosen.into_iter().map(|at| self.program_of_user(&tried[at]));
        let mut categories = needed(categories.collect::<Result<_>>()?, n);
        make_names_differ(&mut categories);
        Ok(categories)
    }
}

/// Formats the message about the trial of a user's program on the `n` training queries.
fn trial_message(file: &str, mrr: f64, n: usize, failed: usize) -> String {
    let mrr = 100.0 * mrr;
    match failed {
        0 => format!("{file}: mrr {mrr:.1} on {n} training queries"),
        all if all == n => format!("{file}: skipped, since it failed on all {n} training queries"),
        _ => format!("{file}: mrr {mrr:.1} on {n} training queries, failed on {failed} of them"),
    }
}

/// Makes the names of categories with the user's programs unique. A name gets a number, such as
/// `name (2)`, if an earlier category or a category with a composed program has it.
pub(super) fn make_names_differ(categories: &mut [CategoryProgram]) {
    for at in 0..categories.len() {
        let Some(name) = categories[at].name.clone() else { continue };
        let taken = |name: &str| {
            let others = categories.iter().enumerate();
            let mut others =
                others.filter(|&(other, category)| other < at || category.name.is_none());
            others.any(|(_, category)| category.name() == name)
        };
        let mut distinct = name.clone();
        let mut number = 2;
        while taken(&distinct) {
            distinct = format!("{name} ({number})");
            number += 1;
        }
        categories[at].name = Some(distinct);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::{UserProgram, digest, load, make_names_differ, store};
    use crate::{category_programs::CategoryProgram, journal::Journal};
    use agent_infer::ParamValues;
    use agent_sandbox::program::Program;

    fn program(file: &str, source: &str) -> UserProgram {
        UserProgram { file: file.to_owned(), program: Program::new(source) }
    }

    #[test]
    fn programs_are_kept_in_their_order_and_the_digest_tells_them_apart() {
        let dir = TempDir::new().expect("directory");
        let mut journal = Journal::create(dir.path(), &json!({})).expect("create");
        assert_eq!(load(&journal).expect("kept"), []);
        let module = wat::parse_str("(module)").expect("a module");
        let module = UserProgram { file: "a.wasm".to_owned(), program: Program::module(&module) };
        let programs = [program("b.rhai", "fn b() {}"), module, program("c.rhai", "fn b() {}")];
        store(&mut journal, &programs).expect("keep");
        store(&mut journal, &programs).expect("keep again");
        assert_eq!(load(&journal).expect("kept"), programs);
        let others = [&programs[..2], &programs[1..], &[]];
        assert!(others.iter().all(|&others| digest(others) != digest(&programs)));
        let renamed = [program("d.rhai", "fn b() {}")];
        assert_ne!(digest(&renamed), digest(&programs[..1]));
    }

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let category = |source: &str, name: Option<&str>| CategoryProgram {
            plan: None,
            program: Program::new(source),
            params: ParamValues::new(),
            proposed_by: String::new(),
            name: name.map(str::to_owned),
            queries: None,
            train: Vec::new(),
            part: None,
        };
        let mut categories = vec![
            category("", Some("mine")),
            category("", Some("mine")),
            category("", Some("theirs")),
            category("//! category: theirs", None),
        ];
        make_names_differ(&mut categories);
        let names: Vec<&str> = categories.iter().map(CategoryProgram::name).collect();
        assert_eq!(names, ["mine", "mine (2)", "theirs (2)", "theirs"]);
    }
}
