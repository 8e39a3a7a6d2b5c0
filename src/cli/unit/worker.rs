//! `agent unit work DIR`: runs trials of the optimization whose pool is in `DIR`. Does not depend
//! on how a pool is stored.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use crate::{Context, Exit, unit::work::Bench};
use agent_app::{
    Result, SandboxArgs, counted,
    unit::pool::{next, registered},
};
use agent_ground::pool_dir::PoolDir;

/// The first and the longest pause of an idle worker before it looks for work again; the pause
/// doubles each time.
const LOOK_FOR_WORK: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// Number of consecutive failed jobs after which a worker ends, since the cause is then probably
/// the worker itself.
const FAILED_IN_A_ROW: usize = 3;

/// Run trials of `agent optimize --pool DIR` until interrupted or idle
///
/// Start one or more of these workers on each host; they may start and end at any time.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    /// Run trials of the pool in this directory, on a file system with locks that all hosts share
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
    ctx.watch.notice(&format!("running units of {dir}; press Ctrl-C to stop"));
    let mut bench = Bench::new(args.sandbox, ctx);
    let (mut n, mut idle, mut wait) = (0, Instant::now(), LOOK_FOR_WORK[0]);
    let (mut left_out, mut in_a_row) = (BTreeSet::new(), 0);
    while !ctx.stop.load(Ordering::Relaxed) {
        match next(&pool, &alive, &left_out) {
            Some(taken) => {
                match bench.run(&taken.units, taken.unit) {
                    Ok(_) => (n, in_a_row) = (n + 1, 0),
                    // The optimization has already dropped this job.
                    Err(_) if !taken.job.exists() => {}
                    Err(error) if in_a_row + 1 == FAILED_IN_A_ROW => return Err(error),
                    Err(error) => {
                        let (job, unit) = (taken.job.display(), taken.unit);
                        let why = error.message();
                        ctx.watch.warning(&format!("{job}, unit {unit}: {why}; job skipped"));
                        left_out.insert(taken.job);
                        in_a_row += 1;
                    }
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
    ctx.watch.notice(&format!("ran {} of {dir}", counted(n, "unit")));
    Ok(Exit::Done)
}
