//! `agent verify`: checks that a bundle is intact and reproduces its recorded scores.

use crate::{Context, Exit, plain, table};
use agent_app::{
    Perform as _, Result,
    verify::{
        Check, Reply, Request, Status,
        drift::{DriftReport, FEW, Session},
    },
};
use agent_retrieve::eval::Interval;

/// Maximum number of characters to show for a check's detail.
const MAX_DETAIL: usize = 300;
/// Maximum number of characters to show for a category's name.
const MAX_SHOWN: usize = 60;

/// Check that a bundle is intact and reproduces its recorded scores
///
/// Checks format and digest, and that all programs compile, call only existing functions and have
/// parameters within their bounds. Then checks that the bundle's dataset is unchanged, and that the
/// validation queries give exactly the recorded scores. Exits with status 1 if a check fails.
///
/// After an update of the dataset, --drift measures how much worse the bundle has become: it
/// answers the validation queries on the updated dataset, and names categories that became
/// significantly worse and relations that no longer exist.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    request: Request,
    /// Print JSON lines with check, status and detail
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let request = &args.request;
    let reply = match request.is_of_drift() && !args.json {
        true => {
            let session = Session::open(request, ctx)?;
            if session.is_same {
                let name = &session.name;
                let same = format!(
                    "\"{name}\" is the base that the bundle was made for: there is no drift"
                );
                ctx.watch.notice(&same);
                return Ok(Exit::Done);
            }
            Reply::Drift(session.measure(request, ctx)?)
        }
        false => request.perform(ctx)?,
    };
    match &reply {
        Reply::Checks { checks } if args.json => ctx.printer.json_lines(checks)?,
        Reply::Checks { checks } => print_checks(checks, ctx)?,
        Reply::Drift(report) if args.json => ctx.printer.json(report)?,
        Reply::Drift(report) => print_drift(report, ctx)?,
    };
    Ok(if reply.holds() { Exit::Done } else { Exit::Failed })
}

fn print_checks(checks: &[Check], ctx: &Context) -> Result<Exit> {
    let mut rows = table(["check", "status", "detail"], &[]);
    for check in checks {
        let status = match check.status {
            Status::Ok => "ok",
            Status::Skipped => "skipped",
            Status::Failed => "FAILED",
        };
        rows.add_row([check.check, status, &plain(&check.detail, MAX_DETAIL)]);
    }
    ctx.printer.table(&rows)
}

fn print_drift(report: &DriftReport, ctx: &Context) -> Result<Exit> {
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1}", 100.0 * s));
    let verdict = match (report.fits, report.accepted) {
        (true, true) => "Accepted: the bundle now belongs to the updated base",
        (true, false) => {
            "The bundle fits the updated base; record the new version in it with --accept-drift"
        }
        (false, _) => "Optimize again: the bundle does not fit the updated base",
    };
    let range = |ci: Interval| format!("[{:.1}, {:.1}]", 100.0 * ci.low, 100.0 * ci.high);
    ctx.printer.text(&format!(
        "{verdict}.\nvalidation{} MRR {} {} against {} when it was frozen, n {}; {} {}\n\n",
        if report.synthetic { " (synthetic questions)" } else { "" },
        percent(Some(report.mrr)),
        range(report.ci95),
        percent(Some(report.stated_mrr)),
        report.n,
        report.baseline,
        percent(Some(report.baseline_mrr)),
    ))?;
    let mut rows = table(["question type", "n", "frozen", "now", "95 %", ""], &[1, 2, 3]);
    for of in &report.categories {
        let mark = match (of.lost, of.n) {
            (true, _) => "lost",
            (false, n) if n < FEW => "few",
            (false, _) => "",
        };
        rows.add_row([
            plain(&of.name, MAX_SHOWN),
            of.n.to_string(),
            percent(of.stated_mrr),
            percent(of.mrr),
            of.ci95.map_or_else(String::new, range),
            mark.to_owned(),
        ]);
    }
    ctx.printer.table(&rows)?;
    let reasons: String = report.reasons.iter().map(|why| format!("why        {why}\n")).collect();
    ctx.printer.text(&reasons)
}
