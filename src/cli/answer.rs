//! `agent answer`: a short answer in prose, of which every sentence cites nodes that were found.

use anyhow::anyhow;
use serde::Serialize;

use crate::{
    Context, Exit, dataset,
    eval::forecast,
    failure::{Explain, Result},
    hits,
    llm::{self, LlmArgs},
    named,
    printer::plain,
    query::warn_unassisted,
    systems::{Resources, SandboxArgs, open_system},
};
use agent_infer::{
    self as infer, AnswerRecord, HitRecord,
    rag::{self, Dropped, Prose, SHOWN},
};
use agent_kb::Kb;
use agent_retrieve::{Detail, check_query};
use agent_systems as systems;

/// Characters of a sentence that is dropped, of a name and of a type that are printed.
const SHOWN_SENTENCE: usize = 200;
const SHOWN_NAME: usize = 60;

/// Answer a question in a few sentences, each with the nodes that say so
///
/// A language model writes the answer from the first nodes that a system finds, and from nothing
/// else: a sentence that cites none of them is dropped. Printed are the sentences with the ids of the
/// nodes that they cite, and these nodes with the way to each from what the question names. Where
/// nothing that was found supports an answer it is refused, and the exit status is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(value_name = "N")]
    dataset: String,
    /// The question
    #[arg(value_name = "QUESTION")]
    question: String,
    #[arg(long, value_name = "SYSTEM", default_value = "bm25+names",
        help = format!("Find the nodes with {}", systems::one_of()))]
    system: String,
    /// Ask once more whether the nodes say what each sentence says, and drop what they do not
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Print one JSON object: the sentences with their nodes, what was dropped and why, the nodes
    #[arg(long)]
    json: bool,
    /// Say how many requests and tokens that would take at most, and ask nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    llm: LlmArgs,
}

/// The answer as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    question: &'a str,
    /// Whether nothing supports an answer.
    refused: bool,
    sentences: Vec<PrintedSentence<'a>>,
    dropped: &'a [Dropped],
    /// The nodes that the sentences cite, as they were found.
    cited: Vec<&'a HitRecord<'a>>,
}

#[derive(Serialize)]
struct PrintedSentence<'a> {
    text: &'a str,
    /// The ids that the user's data call its nodes by.
    cites: Vec<String>,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let question = check_query(&args.question)?;
    let system = named::system(&args.system, &ctx.home)?;
    if args.dry_run {
        let check = if args.check { "=check" } else { "" };
        let whole = format!("answer{check}:{system}");
        return forecast::print_one(&whole, &args.llm, args.json, ctx);
    }
    let dataset = dataset::find(&args.dataset, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let llm = llm::open(&args.llm, None, ctx)?;
    let resources = Resources::new(Some(&llm), args.sandbox.places(ctx), ctx);
    let system = open_system(&system, &base, &resources)?;
    let detail = Detail { explained_count: 0, paths: true };
    let answer = infer::answer(&base, &*system, question, SHOWN, detail)?;
    warn_unassisted(&answer, ctx);
    if let Some(stand_in) = &answer.stand_in {
        ctx.printer.warning(&format!("a program failed: {}", stand_in.reason));
        ctx.printer.warning(&format!("the nodes are those of {} instead", stand_in.system));
    }
    let nodes: Vec<_> = answer.ranking().iter().map(|pair| pair.0).collect();
    let prose = rag::write(&base, &llm.assistant, question, &nodes, args.check)?;
    llm.finish(ctx)?;
    let record = AnswerRecord::new(&base.kb, &answer);
    let cited = prose.cited();
    let of_hits = |node| record.hits.iter().find(|hit| hit.id == node);
    let cited: Vec<&HitRecord<'_>> = cited.into_iter().filter_map(of_hits).collect();
    for Dropped { text, why } in &prose.dropped {
        ctx.printer.notice(&format!("dropped, as it {why}: {}", plain(text, SHOWN_SENTENCE)));
    }
    if args.json {
        ctx.printer.json(&printed(question, &prose, &base.kb, cited))?;
    } else if !prose.is_refused() {
        print(&prose, &base.kb, &cited, ctx)?;
    }
    match prose.is_refused() {
        true => Err(anyhow!("nothing that was found supports an answer"))
            .hint("ask in other words, or find nodes with another --system"),
        false => Ok(Exit::Done),
    }
}

fn printed<'a>(
    question: &'a str,
    prose: &'a Prose,
    kb: &Kb,
    cited: Vec<&'a HitRecord<'a>>,
) -> Printed<'a> {
    let sentences = prose.sentences.iter().map(|sentence| PrintedSentence {
        text: &sentence.text,
        cites: sentence.cites.iter().map(|&node| kb.key(node).into_owned()).collect(),
    });
    Printed {
        question,
        refused: prose.is_refused(),
        sentences: sentences.collect(),
        dropped: &prose.dropped,
        cited,
    }
}

/// The sentences, a line each, and the nodes that they cite.
fn print(prose: &Prose, kb: &Kb, cited: &[&HitRecord<'_>], ctx: &Context) -> Result<()> {
    let mut text = String::new();
    for sentence in &prose.sentences {
        let cites: Vec<String> =
            sentence.cites.iter().map(|&node| plain(kb.key(node), SHOWN_NAME)).collect();
        text += &format!("{} [{}]\n", plain(&sentence.text, usize::MAX), cites.join(", "));
    }
    text.push('\n');
    for hit in cited {
        let (key, name) = (plain(&hit.key, SHOWN_NAME), plain(hit.name, SHOWN_NAME));
        let kind = plain(hit.node_type, SHOWN_NAME);
        text += &format!("[{key}] {name} ({kind})  {}\n", hits::reason(hit, None));
    }
    ctx.printer.text(&text)
}
