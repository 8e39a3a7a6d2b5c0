//! `agent serve`: answers over HTTP until it is told to end.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use anyhow::anyhow;

use crate::{
    cli::{
        Context, Exit, dataset,
        failure::{CommandError, Explain, Result},
        named,
        systems::{SandboxArgs, all_threads, read_bundle},
    },
    serve::{self, Hosts, Keys, Listening, Opening, Options, ServeError, Served},
};

/// Answer questions over HTTP
///
/// Serves the bases that bundles were made for, and further ones, until Ctrl-C or SIGTERM; then
/// finishes what is under way, at most 30 seconds. GET /openapi.json describes all requests;
/// assistants ask at /mcp. Without a key (`agent key add`) it can be reached from this machine only.
/// TLS is a proxy's.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    served: ServedArgs,
    /// Listen here; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// Answer requests to this host name, besides those of this machine; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

/// What answers.
#[derive(Debug, clap::Args)]
pub(super) struct ServedArgs {
    /// Let this bundle answer: its file, or the run that it is of (its name, or latest); may be
    /// repeated, for different bases
    #[arg(long = "bundle", value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Serve this dataset too, for searches; may be repeated
    #[arg(long = "base", value_name = "N")]
    bases: Vec<String>,
    /// Let assistants run programs, inside WebAssembly; over HTTP with a key of scope admin, where
    /// there are keys
    #[arg(long)]
    allow_programs: bool,
    /// Answer with this many threads [default: one for each processor]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let options = args.served.options(ctx)?;
    let listening = Listening {
        address: args.listen,
        keys: Keys::read(&Keys::file(ctx.home.path()))?,
        hosts: Hosts::new(args.hosts.iter().cloned().chain([args.listen.ip().to_string()])),
    };
    // What is under way is finished, however long that takes within the server's own bound.
    ctx.ends_itself.store(true, Ordering::Relaxed);
    let printer = ctx.printer.clone();
    let started =
        move |address: SocketAddr| printer.notice(&format!("listening on http://{address}"));
    let stop = ctx.stop.clone();
    match serve::run(options, listening, started, move || stop.load(Ordering::Relaxed)) {
        Err(error @ ServeError::Open(_)) => {
            Err(error).hint("make a key with `agent key add NAME`, or listen on 127.0.0.1")
        }
        Err(error @ ServeError::Listen { .. }) => {
            Err(error).hint("choose another port with --listen; port 0 takes a free one")
        }
        outcome => {
            outcome?;
            ctx.printer.notice("ended; every request under way was finished");
            Ok(Exit::Done)
        }
    }
}

impl ServedArgs {
    /// What answers, opened.
    ///
    /// # Errors
    /// That there is nothing to serve, or that a base or bundle cannot be opened.
    pub(super) fn options(&self, ctx: &Context) -> Result<Options> {
        let threads = self.threads.map_or_else(all_threads, |threads| threads as usize);
        let home = ctx.home.clone();
        let find = move |given: &str| {
            named::bundle_file(Path::new(given), &home).map_err(|error| error.message())
        };
        Ok(Options {
            bases: self.served(threads, ctx)?,
            threads,
            find: Arc::new(find),
            home: ctx.home.clone(),
            programs: self.allow_programs,
        })
    }

    /// The bases that are served, with their bundles.
    fn served(&self, threads: usize, ctx: &Context) -> Result<Vec<Served>> {
        let places = self.sandbox.places(ctx);
        let opening = Opening {
            threads,
            places: Arc::new(move |origin| places.of(origin)),
            access: ctx.access(),
            // Programs of requests under way are not ended by the signal that ends the server.
            stop: Arc::default(),
        };
        let mut bases: Vec<Served> = Vec::new();
        let open = |name: &str| -> Result<Served> {
            let dataset = dataset::find(name, ctx)?;
            let base = dataset::open(&dataset, ctx)?;
            Ok(Served::new(dataset.base, base, opening.clone()))
        };
        for given in &self.bundles {
            let name = read_bundle(given, ctx)?.dataset.name;
            if bases.iter().any(|base| base.name == name) {
                return Err(CommandError::usage(anyhow!("two bundles are for {name:?}")))
                    .hint("give one; PUT /v1/bundles/active exchanges it later");
            }
            let base = open(&name)?;
            base.activate(&named::bundle_file(given, &ctx.home)?)?;
            bases.push(base);
        }
        for name in &self.bases {
            if !bases.iter().any(|base| base.name == *name) {
                bases.push(open(name)?);
            }
        }
        if bases.is_empty() {
            return Err(CommandError::usage(anyhow!("there is nothing to serve")))
                .hint("give --bundle latest, or --base N for searches alone");
        }
        Ok(bases)
    }
}
