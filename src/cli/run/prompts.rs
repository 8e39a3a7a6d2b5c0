//! `agent run prompts`: prints the prompts and replies of language models in a run.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use crate::{Context, Exit, printer::plain};
use agent_app::{
    error::{Explain, Result},
    named,
    text::{MAX_SHOWN, count},
};
use agent_llm::{Exchange, Message, Reply, Role, Speaker};
use agent_optimize::{record::Record, roles::ROLES};

/// Number of hex digits to show for an exchange's key.
const SHOWN_DIGITS: usize = 12;

/// Print the prompts and replies of language models in a run
///
/// Prints each exchange (a prompt and its reply) in full, with its role and its cache key. API
/// keys of services are never included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show this run: its directory, its name, or `latest`
    #[arg(value_name = "RUN")]
    dir: PathBuf,
    /// Print only exchanges that this step used, by its number in the journal
    #[arg(long, value_name = "N", group = "which")]
    step: Option<u64>,
    /// Print only exchanges of this role
    #[arg(long, value_name = "R", group = "which", value_parser = roles())]
    role: Option<Role>,
    /// Print only exchanges whose cache key has this prefix
    #[arg(long, value_name = "PREFIX", group = "which")]
    key: Option<String>,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(ROLES.map(|spec| spec.name)).map(Role::from)
}

#[derive(Serialize)]
struct Shown<'a> {
    key: &'a str,
    role: &'a Role,
    model: &'a str,
    paid: bool,
    /// Numbers of the steps that used this exchange.
    steps: Vec<u64>,
    temperature: Option<f64>,
    max_tokens: u32,
    messages: &'a [Message],
    reply: &'a Reply,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let record = Record::read(&named::run_dir(&args.dir, &ctx.home)?)?;
    let chosen = chosen(args, &record)?;
    if chosen.is_empty() {
        ctx.printer.notice("no prompt of this run matches");
        return Ok(Exit::Done);
    }
    for (key, exchange) in chosen {
        let users = record.steps.iter().filter(|step| step.replies.contains(key));
        let shown = Shown {
            key,
            role: &exchange.request.role,
            model: &exchange.request.model,
            paid: exchange.paid,
            steps: users.map(|step| step.n).collect(),
            temperature: exchange.request.temperature,
            max_tokens: exchange.request.max_tokens,
            messages: &exchange.request.messages,
            reply: &exchange.reply,
        };
        if args.json {
            ctx.printer.json(&shown)?;
        } else {
            ctx.printer.text(&text(&shown))?;
        }
    }
    Ok(Exit::Done)
}

fn chosen<'a>(args: &Args, record: &'a Record) -> Result<Vec<&'a (String, Exchange)>> {
    let all = record.exchanges.iter();
    if let Some(n) = args.step {
        let Some(step) = record.steps.iter().find(|step| step.n == n) else {
            return Err(anyhow!("the run has no step {n}"))
                .hint(format!("its steps are 1 to {}", record.steps.len()));
        };
        return Ok(all.filter(|(key, _)| step.replies.contains(key)).collect());
    }
    if let Some(prefix) = &args.key {
        let prefix = prefix.to_ascii_lowercase();
        let found: Vec<_> = all.filter(|(key, _)| key.starts_with(&prefix)).collect();
        if found.is_empty() {
            return Err(anyhow!("no prompt of the run has a key that begins with {prefix:?}"))
                .hint("`agent run prompts DIR` shows all keys");
        }
        return Ok(found);
    }
    Ok(all
        .filter(|(_, exchange)| {
            args.role.as_ref().is_none_or(|role| exchange.request.role == *role)
        })
        .collect())
}

/// Formats an exchange for reading: its key, role, model and tokens, then its messages and its
/// reply.
fn text(shown: &Shown<'_>) -> String {
    let usage = shown.reply.usage;
    let paid = if shown.paid { "paid" } else { "from the cache" };
    let steps: Vec<String> = shown.steps.iter().map(u64::to_string).collect();
    let steps = match steps.is_empty() {
        true => String::new(),
        false => format!(", steps {}", steps.join(" ")),
    };
    let mut text = format!(
        "=== {} {} {}: {} tokens in, {} out, {paid}{steps}\n",
        shown.key.get(..SHOWN_DIGITS).unwrap_or(shown.key),
        shown.role,
        plain(shown.model, MAX_SHOWN),
        count(usage.tokens_in),
        count(usage.tokens_out),
    );
    for message in shown.messages {
        let speaker = match message.speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        text += &format!("--- {speaker}\n{}\n", lines(&message.text));
    }
    text += &format!("--- reply\n{}\n\n", lines(&shown.reply.text));
    text
}

/// Replaces control characters by spaces, except line breaks and tabs, and removes trailing
/// whitespace.
fn lines(text: &str) -> String {
    let safe = |c: char| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c };
    text.trim_end().chars().map(safe).collect()
}
