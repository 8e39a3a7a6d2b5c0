//! The `agent` binary: hands the command line to [`agent::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::cli::main()
}
