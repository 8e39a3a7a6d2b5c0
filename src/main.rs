//! The `agent` binary: passes the command line to [`agent::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::cli::main()
}
