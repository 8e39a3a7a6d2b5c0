//! `agent unit work DIR`: runs what a run with that pool tries. Must not know how a pool is kept.

use std::{
    path::PathBuf,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use crate::{Context, Exit, unit::work::Bench};
use agent_app::{
    error::Result,
    systems::SandboxArgs,
    text::counted,
    unit::pool::{next, registered},
};
use agent_ground::pool_dir::PoolDir;

/// How often an idle worker looks for work, at first and at last.
const LOOK_FOR_WORK: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// Run what `agent optimize --pool DIR` tries, until it is interrupted or there is nothing to do
///
/// As many of these as there are machines, or more; they may come and go at any time.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// Directory of the pool, on a file system with locks that all machines share
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// End after this many seconds without work
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    idle: u64,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

pub(super) fn work(args: &WorkArgs, ctx: &Context) -> Result<Exit> {
    let pool = PoolDir::take(&args.dir)?;
    let alive = registered(&args.dir)?;
    let dir = args.dir.display();
    ctx.printer.notice(&format!("working for {dir}; Ctrl-C ends it"));
    let mut bench = Bench::new(args.sandbox, ctx);
    let (mut n, mut idle, mut wait) = (0, Instant::now(), LOOK_FOR_WORK[0]);
    while !ctx.stop.load(Ordering::Relaxed) {
        match next(&pool, &alive) {
            Some(taken) => {
                match bench.run(&taken.units, taken.unit) {
                    Ok(_) => n += 1,
                    // The run went on without it.
                    Err(_) if !taken.job.exists() => {}
                    Err(error) => return Err(error),
                }
                (idle, wait) = (Instant::now(), LOOK_FOR_WORK[0]);
            }
            None if idle.elapsed().as_secs() >= args.idle => break,
            None => {
                thread::sleep(wait);
                wait = (wait * 2).min(LOOK_FOR_WORK[1]);
            }
        }
    }
    ctx.printer.notice(&format!("ran {} of {dir}", counted(n, "unit")));
    Ok(Exit::Done)
}
