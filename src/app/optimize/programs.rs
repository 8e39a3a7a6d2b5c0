//! `agent optimize --program`: reads and checks the user's programs, and ensures that a resumed run
//! keeps its programs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, anyhow};

use crate::{App, Explain, Result, SandboxArgs, read_program, refused};
use agent_optimize::{
    OptimizeError,
    journal::Journal,
    user::{self, UserProgram},
};
use agent_sandbox::{ChosenSandbox, Limits, Origin, Sandbox, Workers, program::Program};

/// Key in a run's configuration under which the digest of the user's programs is stored.
pub const PROGRAMS: &str = "programs";

/// Checks that `programs`, given to resume the run in `dir`, are the programs that the run began
/// with, and stores them in its journal. If `programs` is empty, checks that the journal holds the
/// run's programs.
///
/// # Errors
/// If the programs differ, if the journal must hold the run's programs and does not, or if the
/// journal cannot be read or written.
pub(super) fn go_on_with(
    programs: &[UserProgram],
    dir: &Path,
    journal: &mut Journal,
) -> Result<()> {
    let begun = journal.config().get(PROGRAMS).and_then(serde_json::Value::as_str);
    let same = |programs: &[UserProgram]| begun == Some(user::digest(programs).as_str());
    let other = || OptimizeError::OtherRun(dir.display().to_string(), user::OTHER_PROGRAMS.into());
    if !programs.is_empty() {
        if !same(programs) {
            return Err(other().into());
        }
        return Ok(user::store(journal, programs)?);
    }
    if begun.is_some() && !same(&user::load(journal)?) {
        return Err(anyhow!("the run in {} ended before your programs were stored", dir.display()))
            .hint("give them again with --program");
    }
    Ok(())
}

/// Reads the user's programs, each once, in the given order. Compiles each and reads its
/// parameters, so that a malformed program fails before a run.
///
/// # Errors
/// If there are too many programs, if their total size is too large, or if a program cannot be read
/// or compiled.
pub(super) fn read_programs(
    files: &[PathBuf],
    sandbox: SandboxArgs,
    app: &App,
) -> Result<Vec<UserProgram>> {
    let mut programs: Vec<UserProgram> = Vec::new();
    if files.is_empty() {
        return Ok(programs);
    }
    let (given, most) = (files.len(), user::MAX_USER_PROGRAMS);
    if given > most {
        return refused(format!(
            "--program is given {given} times, more than {most}; leave some out"
        ));
    }
    let sandbox = sandbox.places(app)?.of(Origin::Elsewhere);
    let workers = Workers::new(1).context("cannot start a thread for programs")?;
    let sandbox = ChosenSandbox::new(Arc::new(workers), &sandbox);
    for path in files {
        let program = read_program(path).map_err(|why| anyhow!(why.to_string()))?;
        check_program(&program, path, &sandbox)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !programs.iter().any(|one| one.program == program) {
            programs.push(UserProgram { file, program });
        }
    }
    let bytes: usize = programs.iter().map(|one| one.program.source().len()).sum();
    if bytes > user::MAX_USER_BYTES {
        let most = user::MAX_USER_BYTES;
        let why = anyhow!("the programs have {bytes} bytes together, more than {most}");
        return Err(why).hint("leave some out, or make modules smaller");
    }
    Ok(programs)
}

/// Compiles a program and reads its parameters.
///
/// # Errors
/// If the program is invalid; the error names the file and, if known, line and column.
fn check_program(program: &Program, path: &Path, sandbox: &ChosenSandbox) -> Result<()> {
    let limits = Limits::default();
    let checked = sandbox
        .compile(program.code(), &limits)
        .and_then(|compiled| sandbox.declared_params(&compiled, &limits));
    checked.map(drop).map_err(|failure| {
        let line =
            failure.position.map_or(String::new(), |at| format!(":{}:{}", at.line, at.column));
        anyhow!("{}{line}: {failure}", path.display()).into()
    })
}
