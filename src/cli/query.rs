//! `agent query`: answers a question, or a file of them, with a frozen bundle.

mod batch;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Instant};

use serde::Serialize;

use crate::{
    bundle::{Bundle, BundleError, router::SURE_LINK},
    cli::{
        Context, Exit, dataset,
        failure::Result,
        hits::{self, Hit, MAX_K},
        llm::{self, LlmArgs},
        printer::{plain, table},
        systems::{Effort, Means, STAND_IN, SandboxArgs, open_bundle, read_bundle},
    },
    index::IndexedBase,
    infer::BundleRetriever,
    retrieve::{Answer, Baseline, End, RetrieveError, Retriever, checked},
    systems::bundle::OpenedBundle,
    tools::registry,
};

/// Answers that are explained.
const MAX_EXPLAINED: usize = 5;
/// Characters of a category's name, and of a tool call, that are shown.
const MAX_CATEGORY: usize = 120;
/// The group of tools that combine and cut scores which other tools gave.
const COMPUTES: &str = "rank";

/// Answer a question with a frozen bundle
///
/// Prints rank, id, type, name and score, best first, and behind which rank the answers likely end;
/// what follows are the next best nodes. When a program of the bundle fails, the ranking of the
/// hybrid baseline is printed instead, with a warning, and the exit status is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Frozen bundle
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// What to look for
    #[arg(value_name = "TEXT", required_unless_present = "batch")]
    text: Option<String>,
    /// Answer all questions of this file, or of stdin if it is -, in order
    ///
    /// A line is one JSON object with query and, at will, id; for each, one line is printed with line,
    /// id and what --json prints, or error. The status is 1 if a line was not answered as it should.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "explain"])]
    batch: Option<PathBuf>,
    /// With --batch: begin at this line, to go on where an earlier run ended
    #[arg(long, value_name = "LINE", requires = "batch", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    from_line: u64,
    /// Print at most this many nodes, 1 to 10000
    #[arg(short, value_name = "K", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=MAX_K))]
    k: u64,
    /// Say which categories answer, and for the first five nodes which tool calls gave them
    ///
    /// With --json the explanation has all calls, those that gave other nodes and those that only
    /// compute too.
    #[arg(long)]
    explain: bool,
    /// Use the bundle on another base than the one it was made for
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object: route, nodes, the rank behind which the answers end, times
    #[arg(long)]
    json: bool,
    /// How far a bundle leans on a language model
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    llm: LlmArgs,
}

/// The answer as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    query: &'a str,
    /// The bundle's file, as it was given.
    bundle: String,
    /// Whether the query names anything of the base.
    recognised: bool,
    /// Most probable first.
    route: Vec<Way<'a>>,
    hits: Vec<Hit<'a>>,
    /// The last rank that is an answer, which may lie behind `hits`; none where that is not known.
    cutoff: Option<usize>,
    /// What is expected of the nodes up to there.
    expected: Option<Expected>,
    /// Why the nodes are those of another system; none where they are the bundle's.
    stand_in: Option<String>,
    /// Milliseconds by stage.
    timings: BTreeMap<&'static str, f64>,
}

/// A category that answers.
#[derive(Serialize)]
struct Way<'a> {
    category: &'a str,
    probability: f32,
    /// The beginning of its program's id.
    program: &'a str,
}

/// How good the nodes up to the cut-off are expected to be, each in `0..=1`.
#[derive(Serialize)]
struct Expected {
    precision: f32,
    recall: f32,
}

impl From<End> for Expected {
    fn from(End { precision, recall, .. }: End) -> Self {
        Self { precision, recall }
    }
}

/// Notes under a name how many milliseconds passed since the last note.
struct Stages {
    since: Instant,
    ms: BTreeMap<&'static str, f64>,
}

impl Stages {
    fn begin() -> Self {
        Self { since: Instant::now(), ms: BTreeMap::new() }
    }

    fn note(&mut self, stage: &'static str) {
        self.ms.insert(stage, self.since.elapsed().as_secs_f64() * 1e3);
        self.since = Instant::now();
    }
}

/// A bundle that was opened on its base, for any number of questions.
struct Session<'a> {
    args: &'a Args,
    ctx: &'a Context,
    bundle: &'a Bundle,
    base: Arc<IndexedBase>,
    opened: OpenedBundle,
}

/// What is told of a question, however it is printed.
struct Answered<'a> {
    text: &'a str,
    hits: Vec<Hit<'a>>,
    end: Option<End>,
    recognised: bool,
    /// Why the nodes are those of another system.
    stand_in: Option<String>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let mut stages = Stages::begin();
    if let Some(text) = &args.text {
        checked(text)?;
    }
    let bundle = read_bundle(&args.bundle)?;
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    check_base(&bundle, &base, args.force, ctx)?;
    let llm = llm::open_if_configured(&args.llm, ctx)?;
    let places = args.sandbox.places(ctx);
    let means = Means { effort: args.effort, ..Means::new(llm.as_ref(), places, ctx) };
    let opened = open_bundle(&bundle, &base, &means)?;
    let session = Session { args, ctx, bundle: &bundle, base, opened };
    stages.note("open_ms");
    match (&args.batch, &args.text) {
        (Some(file), _) => batch::run(&session, file),
        (None, Some(text)) => session.print_one(checked(text)?, stages),
        // The command line asks for one of them.
        (None, None) => Ok(Exit::Usage),
    }
}

impl Session<'_> {
    /// Answers a question. A program that fails is stood in for by a baseline.
    fn answer<'a>(&'a self, text: &'a str) -> Result<Answered<'a>> {
        let k = self.args.k as usize;
        let (Answer { ranking, end }, stand_in) = match self.opened.answers.answer(text, k) {
            Ok(answer) => (answer, None),
            Err(RetrieveError::Program(failure)) => {
                let baseline = Baseline::new(self.base.clone(), STAND_IN);
                (baseline.answer(text, k)?, Some(failure))
            }
            Err(error) => return Err(error.into()),
        };
        let linked = self.base.names.link(&self.base.kb, text, &[], 1);
        let recognised = linked.largest() >= SURE_LINK;
        Ok(Answered { text, hits: hits::hits(&self.base.kb, &ranking), end, recognised, stand_in })
    }

    /// An answer as JSON.
    fn printed<'a>(&'a self, answered: Answered<'a>, mut stages: Stages) -> Result<Printed<'a>> {
        let route = route(answered.text, &self.opened.routed, self.bundle)?;
        stages.note("route_ms");
        Ok(Printed {
            query: answered.text,
            bundle: self.args.bundle.display().to_string(),
            recognised: answered.recognised,
            route,
            hits: answered.hits,
            cutoff: answered.end.map(|end| end.rank),
            expected: answered.end.map(Expected::from),
            stand_in: answered.stand_in,
            timings: stages.ms,
        })
    }

    /// Answers one question for people, or as JSON.
    fn print_one(&self, text: &str, mut stages: Stages) -> Result<Exit> {
        let Session { args, ctx, .. } = self;
        let mut answered = self.answer(text)?;
        if let Some(failure) = &answered.stand_in {
            let name = STAND_IN.name();
            ctx.printer.warning(&format!("a program failed: {failure}"));
            ctx.printer.warning(&format!("this is the ranking of {name} instead"));
        }
        stages.note("answer_ms");
        let explain = args.explain && answered.stand_in.is_none();
        if explain {
            for hit in answered.hits.iter_mut().take(MAX_EXPLAINED) {
                let whole = self.opened.answers.explain(text, hit.id)?;
                hit.explanation = Some(if args.json { whole } else { told(&whole) });
            }
            stages.note("explain_ms");
        }
        match (answered.recognised, answered.hits.is_empty()) {
            (false, true) => ctx.printer.notice("nothing in this base was recognised"),
            (false, false) => ctx.printer.notice(
                "no name in the question was recognised; these nodes are found by its other words",
            ),
            (true, true) => ctx.printer.notice("no node matches"),
            (true, false) => {}
        }
        let exit = if answered.stand_in.is_some() { Exit::Failed } else { Exit::Done };
        if args.json {
            ctx.printer.json(&self.printed(answered, stages)?)?;
        } else if explain {
            let route = route(text, &self.opened.routed, self.bundle)?;
            print_explained(&route, &answered.hits, answered.end, ctx)?;
        } else if !answered.hits.is_empty() {
            hits::print_table(&answered.hits, answered.end, ctx)?;
        }
        Ok(exit)
    }
}

/// The categories that answer, most probable first.
fn route<'a>(text: &str, retriever: &BundleRetriever, bundle: &'a Bundle) -> Result<Vec<Way<'a>>> {
    let ways = retriever.route(text)?.into_iter().filter_map(|(at, probability)| {
        let category = bundle.categories.get(at)?;
        let program = category.program.short_id();
        Some(Way { category: &category.name, probability, program })
    });
    Ok(ways.collect())
}

/// Refuses another base than the bundle's unless forced.
fn check_base(bundle: &Bundle, base: &IndexedBase, force: bool, ctx: &Context) -> Result<()> {
    match bundle.check_base(base) {
        Err(error @ BundleError::OtherBase { .. }) if force => {
            ctx.printer.warning(&format!("--force: {error}"));
            Ok(())
        }
        checked => Ok(checked?),
    }
}

/// The categories that answer, then the nodes with what the programs did.
fn print_explained(
    route: &[Way<'_>],
    hits: &[Hit<'_>],
    end: Option<End>,
    ctx: &Context,
) -> Result<()> {
    let mut rows = table(["category", "probability", "program"], &[1]);
    for Way { category, probability, program } in route {
        rows.add_row([
            plain(category, MAX_CATEGORY),
            format!("{:.1} %", probability * 100.0),
            (*program).to_owned(),
        ]);
    }
    ctx.printer.table(&rows)?;
    ctx.printer.data("\n")?;
    hits::print_explained(hits, end, ctx)
}

/// Of an explanation the categories that rank the node, of their calls the tools that gave it, and
/// what moved it in the order of the answer.
fn told(explanation: &str) -> String {
    let mut lines = Vec::new();
    let mut ranked = false;
    for line in explanation.lines() {
        let Some(call) = line.strip_prefix("  ") else {
            ranked = !line.ends_with(": not ranked");
            if ranked {
                lines.push(line.to_owned());
            }
            continue;
        };
        let name = call.split('(').next().unwrap_or_default();
        let computes = registry().iter().any(|spec| spec.name == name && spec.group == COMPUTES);
        let of_node = call.rfind("; this node ").or_else(|| call.rfind("; with this node"));
        if let Some(at) = of_node.filter(|_| ranked && !computes) {
            lines.push(format!("  {}{}", plain(&call[..at], MAX_CATEGORY), &call[at..]));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn only_what_speaks_of_the_node_is_told() {
        let whole = "category a (60 %): rank 1, score 2.0000\n  search(\"x\", 5) = 2 scores: n, m; this node 1.0000\n  \
            +(1 scores, 1 scores) = 2 scores; this node 2.0000\n  link(\"x\") = 0 scores; not this node\n  top(2 scores, 1) = 1 scores; this node 2.0000\n\
            category b (40 %): not ranked\n  in_set() = 1 nodes: n; with this node\n\
            order +1.20: length 0.50\n";
        let kept = "category a (60 %): rank 1, score 2.0000\n  \
            search(\"x\", 5) = 2 scores: n, m; this node 1.0000\n\
            order +1.20: length 0.50";
        assert_eq!(told(whole), kept);
    }
}
