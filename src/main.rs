//! The `agent` binary: hands the command line to [`agent::cli`].

fn main() {}
