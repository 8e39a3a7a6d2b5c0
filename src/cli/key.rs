//! `agent key`: creates, lists and removes the API keys of a server.

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use crate::{Context, Exit, ListArgs, table};
use agent_app::Result;
use agent_serve::{Keys, Scope};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Create a key; the key is printed once and never again
    Add(AddArgs),
    /// List the keys by name
    List(ListArgs),
    /// Remove a key; a running server accepts the key until the server is restarted
    Remove(RemoveArgs),
}

/// Create a key; the key is printed once and never again
///
/// Only the digest of the key is stored, in the home directory.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    /// Give the key this name, by which it is listed and removed
    #[arg(value_name = "NAME")]
    name: String,
    /// Set the permissions of the key
    #[arg(long, value_enum, default_value_t = ScopeName::Read)]
    scope: ScopeName,
}

#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// Remove the key with this name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeName {
    /// Ask questions
    Read,
    /// Ask questions, replace bases and bundles, run programs and operations
    Admin,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    let file = Keys::file(ctx.home.path());
    match command {
        Command::Add(args) => {
            let scope = match args.scope {
                ScopeName::Read => Scope::Read,
                ScopeName::Admin => Scope::Admin,
            };
            let key = Keys::change(&file, |keys| keys.add(&args.name, scope))?;
            if let Err(error) = ctx.printer.data(&key) {
                // A key that was not printed cannot be used.
                Keys::change(&file, |keys| keys.remove(&args.name))?;
                return Err(error);
            }
            ctx.watch
                .notice("save the key: it is not shown again; a server accepts it after a restart");
        }
        Command::List(args) => {
            let keys = Keys::read(&file)?;
            if args.json {
                let keys = keys.keys.iter();
                let lines = keys.map(|(name, key)| json!({"name": name, "scope": key.scope}));
                ctx.printer.json_lines(&lines.collect::<Vec<_>>())?;
            } else if keys.keys.is_empty() {
                ctx.watch.notice("no key exists; create one with `agent key add NAME`");
            } else {
                let mut rows = table(["name", "scope"], &[]);
                for (name, key) in &keys.keys {
                    let scope = if key.scope == Scope::Admin { "admin" } else { "read" };
                    rows.add_row([name, scope]);
                }
                ctx.printer.table(&rows)?;
            }
        }
        Command::Remove(args) => {
            Keys::change(&file, |keys| keys.remove(&args.name))?;
            ctx.watch.notice(&format!("removed key {:?}", args.name));
        }
    }
    Ok(Exit::Done)
}
