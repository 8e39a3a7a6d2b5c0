//! `agent serve` and `agent mcp`: answer questions over HTTP, or over standard input and output,
//! until a signal ends them.

use agent_app::choice::choice;
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use crate::{Context, Exit};
use agent_app::{
    Dataset, Effort, Explain, LlmArgs, Result, SandboxArgs, all_threads, counted, dataset, llm,
    named, read_bundle, refused,
};
use agent_infer::bundle::Bundle;
use agent_llm::ledger::Spending;
use agent_serve::{
    self as serve, Helper, Hosts, Keys, LONGEST_TIME, Listening, Opening, Options, ServeError,
    Served,
};
use agent_systems::SystemError;

/// Answer questions over HTTP
///
/// Serves the datasets of the bundles and those of --base until Ctrl-C or SIGTERM; then finishes
/// running requests within 30 seconds. GET /openapi.json describes all requests; assistants connect
/// at /mcp. Without a key (`agent key add`) the server is reachable from this machine only. Use a
/// proxy for TLS.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    served: ServedArgs,
    /// Listen on this address; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// Also accept requests to this host name, not only to the names of this machine; may be given
    /// several times
    #[arg(long = "host", value_name = "NAME", value_parser = host_name)]
    hosts: Vec<String>,
}

/// Options for the bundles and bases that are served.
#[derive(Debug, clap::Args)]
pub(super) struct ServedArgs {
    /// Answer with this bundle: a file, the directory or name of a run, or `latest`; may be given
    /// several times, for different datasets
    #[arg(long = "bundle", value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Also serve this dataset, for searches; may be given several times
    #[arg(long = "base", value_name = "N")]
    bases: Vec<String>,
    /// Let assistants run programs, inside WebAssembly; over HTTP, once an API key exists, only
    /// requests with a key of the scope `admin` may run them
    #[arg(long)]
    allow_programs: bool,
    /// Permit operations that import, update, remove, index, train and optimize: by requests to
    /// /v1/operations and, with --allow-programs, by tools for assistants
    #[arg(long)]
    allow_changes: bool,
    /// Answer with this many threads [default: one per processor]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
    /// Set how much bundles may use a language model; requests may set a lower level
    ///
    /// The model is asked within the time limit of a request, for at most at_a_time requests at
    /// once (see [llm.limits] in the settings). If the model does not reply in time, or the budget
    /// is spent, the bundle answers without it, and the answer names the reason.
    #[arg(long, value_parser = choice::<Effort>(), default_value = "0", help_heading = "Language model")]
    effort: Effort,
    /// Ignore answers that the language model suggests from its own knowledge
    #[arg(long, help_heading = "Language model")]
    no_known_answers: bool,
    #[command(flatten)]
    llm: LlmArgs,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let (options, llm) = args.served.options(ctx)?;
    let listening = Listening {
        address: args.listen,
        keys: Keys::read(&Keys::file(ctx.home.path()))?,
        hosts: Hosts::new(args.hosts.iter().cloned().chain([args.listen.ip().to_string()])),
    };
    // The server finishes running requests within its own time limit.
    ctx.ends_itself.store(true, Ordering::Relaxed);
    let watch = ctx.watch.clone();
    let started =
        move |address: SocketAddr| watch.notice(&format!("listening on http://{address}"));
    match serve::run(options, listening, started) {
        Err(error @ ServeError::Open(_)) => {
            Err(error).hint("create a key with `agent key add NAME`, or listen on 127.0.0.1")
        }
        Err(error @ ServeError::Listen { .. }) => {
            Err(error).hint("choose another port with --listen; port 0 takes a free one")
        }
        outcome => {
            let cut_off = outcome?;
            finish(llm, ctx)?;
            match cut_off {
                0 => ctx.watch.notice("stopped; all running requests finished"),
                n => ctx.watch.warning(&format!(
                    "stopped; {} took too long and {} cut off",
                    counted(n as u64, "connection"),
                    if n == 1 { "was" } else { "were" }
                )),
            }
            Ok(Exit::Done)
        }
    }
}

/// Serves the Model Context Protocol over standard input and output.
pub(super) fn assist(args: &ServedArgs, ctx: &Context) -> Result<Exit> {
    let (options, llm) = args.options(ctx)?;
    ctx.ends_itself.store(true, Ordering::Relaxed);
    serve::assist(options)?;
    finish(llm, ctx)?;
    Ok(Exit::Done)
}

/// Parses a host name or address, with or without a port.
fn host_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match !text.is_empty() && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("not a host name, such as kb.example.org".to_owned()),
    }
}

/// Completes the recording of the language model's replies, and prints the number of its requests
/// and tokens.
///
/// # Errors
/// As [`llm::Opened::finish`].
fn finish(llm: Option<llm::Opened>, ctx: &Context) -> Result<()> {
    let Some(llm) = llm else { return Ok(()) };
    llm.finish(ctx)?;
    let Spending { calls, tokens_in, tokens_out, .. } = llm.assistant.llm().ledger().total();
    ctx.watch.notice(&format!(
        "the language model was asked {calls} times; {tokens_in} tokens sent, {tokens_out} received"
    ));
    Ok(())
}

impl ServedArgs {
    /// Opens the bases, bundles and language model that these options name. Returns the options of
    /// the server, and the model, if one is used, for [`finish`] when the server ends.
    ///
    /// # Errors
    /// If there is nothing to serve, or a base, bundle or language model cannot be opened.
    fn options(&self, ctx: &Context) -> Result<(Options, Option<llm::Opened>)> {
        let llm = match self.effort == Effort::None && !self.any_asks(ctx)? {
            true => None,
            false => Some(llm::open_within(&self.llm, LONGEST_TIME, ctx)?),
        };
        let helper = llm.as_ref().map(|llm| Helper {
            assistant: llm.assistant.clone(),
            effort: self.effort,
            no_known_answers: self.no_known_answers,
            at_a_time: llm.at_a_time,
        });
        let threads = self.threads.map_or_else(all_threads, |threads| threads as usize);
        let options = Options {
            bases: self.served(threads, helper, ctx)?,
            threads,
            app: ctx.app.clone(),
            programs: self.allow_programs,
            changes: self.allow_changes,
        };
        Ok((options, llm))
    }

    /// Whether some bundle has programs that ask a language model.
    fn any_asks(&self, ctx: &Context) -> Result<bool> {
        for given in &self.bundles {
            let file = named::bundle_file(given, None, ctx)?;
            if Bundle::read(&file).map_err(SystemError::from)?.asks() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the bases to serve: first the bases of the bundles, with the bundles, then the bases
    /// of `--base`.
    fn served(&self, threads: usize, helper: Option<Helper>, ctx: &Context) -> Result<Vec<Served>> {
        let opening = Opening {
            threads,
            places: self.sandbox.places(ctx)?,
            access: ctx.access(),
            // The signal that ends the server does not end programs of running requests.
            stop: Arc::default(),
            helper,
        };
        let mut bases: Vec<Served> = Vec::new();
        let open = |dataset: Dataset| -> Result<Served> {
            let base = dataset::open(&dataset, ctx)?;
            Ok(Served::new(dataset.base, base, opening.clone()))
        };
        for given in &self.bundles {
            let name = read_bundle(given, None, ctx)?.dataset.name;
            if bases.iter().any(|base| base.name == name) {
                return refused(format!("two bundles are for {name:?}"))
                    .hint("give one; PUT /v1/bundles/active can replace it later");
            }
            let base = open(dataset::installed(&name, ctx)?)?;
            base.activate(&named::bundle_file(given, None, ctx)?)?;
            bases.push(base);
        }
        for name in &self.bases {
            if !bases.iter().any(|base| base.name == *name) {
                bases.push(open(dataset::find(name, ctx)?)?);
            }
        }
        if bases.is_empty() {
            return refused("nothing to serve")
                .hint("give --bundle latest, or --base NAME to serve search alone");
        }
        Ok(bases)
    }
}
