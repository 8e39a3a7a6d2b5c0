//! `agent query`: answers a question with a frozen bundle.

use std::path::PathBuf;

use crate::{
    bundle::{Bundle, BundleError},
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
    retrieve::{Baseline, RetrieveError, Retriever, checked},
    sandbox::Place,
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
/// Prints rank, id, type, name and score, best first. When a program of the bundle fails, the
/// ranking of the hybrid baseline is printed instead, with a warning, and the exit status is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Frozen bundle
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(long, value_name = "N")]
    dataset: String,
    /// What to look for
    #[arg(value_name = "TEXT")]
    text: String,
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
    /// Print JSON lines with rank, id, type, name and score
    #[arg(long)]
    json: bool,
    /// How far a bundle leans on a language model
    #[arg(long, value_enum, default_value_t)]
    effort: Effort,
    #[command(flatten)]
    llm: LlmArgs,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let text = checked(&args.text)?;
    let bundle = read_bundle(&args.bundle)?;
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    check_base(&bundle, &base, args.force, ctx)?;
    let llm = llm::open_if_configured(&args.llm, ctx)?;
    let means = Means {
        effort: args.effort,
        sandbox: args.sandbox.options(Place::Process, ctx),
        ..Means::with(&llm, ctx)
    };
    let opened = open_bundle(&bundle, &base, &means)?;
    let retriever = &opened.answers;
    let k = args.k as usize;
    let (ranking, failed) = match retriever.retrieve(text, k) {
        Ok(ranking) => (ranking, false),
        Err(RetrieveError::Program(failure)) => {
            let name = STAND_IN.name();
            ctx.printer.warning(&format!("a program failed: {failure}"));
            ctx.printer.warning(&format!("this is the ranking of {name} instead"));
            (Baseline::new(base.clone(), STAND_IN).retrieve(text, k)?, true)
        }
        Err(error) => return Err(error.into()),
    };
    let mut hits = hits::hits(&base.kb, &ranking);
    let explain = args.explain && !failed;
    if explain {
        for hit in hits.iter_mut().take(MAX_EXPLAINED) {
            let whole = retriever.explain(text, hit.id)?;
            hit.explanation = Some(if args.json { whole } else { told(&whole) });
        }
    }
    if hits.is_empty() {
        ctx.printer.notice("no node matches");
    }
    if args.json {
        hits::print_json(&hits, ctx)?;
    } else if explain {
        print_explained(text, &opened.routed, &bundle, &hits, ctx)?;
    } else if !hits.is_empty() {
        hits::print_table(&hits, ctx)?;
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
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
    text: &str,
    retriever: &BundleRetriever,
    bundle: &Bundle,
    hits: &[Hit<'_>],
    ctx: &Context,
) -> Result<()> {
    let mut rows = table(["category", "probability", "program"], &[1]);
    for (at, probability) in retriever.route(text)? {
        if let Some(category) = bundle.categories.get(at) {
            rows.add_row([
                plain(&category.name, MAX_CATEGORY),
                format!("{:.1} %", probability * 100.0),
                category.program.short_id().to_owned(),
            ]);
        }
    }
    ctx.printer.table(&rows)?;
    ctx.printer.data("\n")?;
    hits::print_explained(hits, ctx)
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
