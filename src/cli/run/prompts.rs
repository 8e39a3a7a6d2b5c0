//! `agent run prompts`: prints the prompts and replies of language models in a run.

use anyhow::anyhow;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::{Context, Exit, plain, run::RunArg};
use agent_app::{Explain, MAX_SHOWN, Result, count, named};
use agent_llm::{Exchange, Reply, Request, Role, Speaker};
use agent_optimize::{record::Record, roles::ROLES};

/// Number of hex digits to show for an exchange's key.
const SHOWN_DIGITS: usize = 12;

/// Print the prompts and replies of language models in a run
///
/// Prints each exchange (a prompt and its reply) in full, with its role and its cache key. API
/// keys of services are never included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    run: RunArg,
    /// Print only exchanges that step N of the journal used
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

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let record = Record::read(&named::run_dir(&args.run.dir, ctx)?)?;
    let chosen = chosen(args, &record)?;
    if chosen.is_empty() {
        ctx.watch.notice("no prompts of this run match");
        return Ok(Exit::Done);
    }
    for (key, Exchange { request, reply, paid }) in chosen {
        let users = record.steps.iter().filter(|step| step.replies.contains(key));
        let steps: Vec<u64> = users.map(|step| step.n).collect();
        if args.json {
            ctx.printer.json(&json!({
                "key": key,
                "role": request.role,
                "model": request.model,
                "paid": paid,
                "steps": steps,
                "temperature": request.temperature,
                "max_tokens": request.max_tokens,
                "messages": request.messages,
                "reply": reply,
            }))?;
        } else {
            let paid = if *paid { "paid" } else { "from the cache" };
            ctx.printer.text(&text(key, request, reply, &format!("{paid}{}", in_steps(&steps))))?;
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

/// Describes the steps that used an exchange; empty without steps.
fn in_steps(steps: &[u64]) -> String {
    let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
    if steps.is_empty() { String::new() } else { format!(", steps {}", steps.join(" ")) }
}

/// Formats an exchange for reading: its key, role, model and tokens, with `used`, which says how it
/// was paid and used, then its messages and its reply.
fn text(key: &str, request: &Request, reply: &Reply, used: &str) -> String {
    let mut text = format!(
        "=== {} {} {}: {} tokens in, {} out, {used}\n",
        key.get(..SHOWN_DIGITS).unwrap_or(key),
        request.role,
        plain(&request.model, MAX_SHOWN),
        count(reply.usage.tokens_in),
        count(reply.usage.tokens_out),
    );
    for message in &request.messages {
        let speaker = match message.speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        text += &format!("--- {speaker}\n{}\n", message.text.trim_end());
    }
    text += &format!("--- reply\n{}\n\n", reply.text.trim_end());
    text
}
