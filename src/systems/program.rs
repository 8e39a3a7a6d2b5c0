//! The system `program:FILE`: one program. All commands read program files with [`read`].

use std::{io, path::Path};

use crate::{Opener, SystemError, SystemSpec, file_of};
use agent_ground::files;
use agent_infer::{ParamValues, ProgramRetriever};
use agent_retrieve::Retriever;
use agent_sandbox::{Limits, Origin, program::Program};

/// Extension of the files of WebAssembly modules; files with any other extension are Rhai source.
const WASM_SUFFIX: &str = "wasm";

pub(super) const SPEC: SystemSpec =
    SystemSpec::of_file("program", "one program in Rhai, or a module in WebAssembly", open);

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let file = file_of(arguments);
    let program = read(file)?;
    let runtime = opener.runtime(Origin::Elsewhere)?;
    let opened =
        ProgramRetriever::new(runtime, &program, ParamValues::new()).map_err(|source| {
            SystemError::Failed { what: file.display().to_string(), source: Box::new(source) }
        })?;
    Ok(Box::new(opened))
}

/// Why a program file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgramFileError {
    /// The file cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, io::Error),
    /// The file is longer than the sandbox accepts; holds the path, and the limit in bytes.
    #[error("{0} has more than {1} bytes; shorten the program")]
    TooLong(String, usize),
    /// The file is not UTF-8.
    #[error("{0} is not UTF-8 text; save it as UTF-8")]
    NotUtf8(String),
    /// The file is empty or contains only white space.
    #[error("{0} is empty; define `fn retrieve` in it")]
    Empty(String),
}

/// Reads a program from a file: a WebAssembly module if the extension is `wasm`, else Rhai source.
/// Does not compile the program.
///
/// # Errors
/// [`ProgramFileError`] if the file cannot be read, is too long, or is not a program.
pub fn read(file: &Path) -> Result<Program, ProgramFileError> {
    let name = || file.display().to_string();
    let limits = Limits::default();
    let is_module = file.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case(WASM_SUFFIX));
    let max_bytes = if is_module { limits.module_bytes } else { limits.source_bytes };
    let bytes = files::read(file, max_bytes as u64).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ProgramFileError::TooLong(name(), max_bytes),
        _ => ProgramFileError::Unreadable(name(), error),
    })?;
    if is_module {
        return Ok(Program::module(&bytes));
    }
    let source = String::from_utf8(bytes).map_err(|_| ProgramFileError::NotUtf8(name()))?;
    if source.trim().is_empty() {
        return Err(ProgramFileError::Empty(name()));
    }
    Ok(Program::new(&source))
}
