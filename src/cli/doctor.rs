//! `agent doctor`: checks the home directory and everything installed in it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Instant,
};

use serde::Serialize;

use crate::{Context, Exit, table};
use agent_app::{
    LlmArgs, Result, dataset,
    llm::{self, NoKey},
    private::VARIABLE,
};
use agent_dataset::{Base, DatasetError};
use agent_index::IndexError;
use agent_infer::ROUTER_ROLE;
use agent_kb::{self as kb, Kb, Manifest};
use agent_llm::Message;

/// Maximum number of characters to show for the model's answer.
const MAX_SHOWN_CHARS: usize = 60;
/// Question for the language model with `--ask`.
const QUESTION: &str = "Answer with the one word ready.";

/// Check the home directory and everything installed in it
///
/// Reads all files of all datasets and compares them with their recorded digests. Prints a remedy
/// for each fault. Exits with status 1 if there is a fault.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON line per check, with check, status, detail and remedy
    #[arg(long)]
    json: bool,
    /// Also send the language model one short question, which costs some tokens
    #[arg(long)]
    ask: bool,
    /// Ask this language model instead of the configured one
    #[arg(long, value_name = "M", env = "AGENT_MODEL")]
    model: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Note,
    Broken,
}

#[derive(Serialize)]
struct Check {
    check: String,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn new(check: impl Into<String>, status: Status, detail: impl Into<String>) -> Check {
        Check { check: check.into(), status, detail: detail.into(), remedy: None }
    }

    fn remedy(self, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..self }
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let names = names(ctx);
    let mut checks = vec![
        Check::new("version", Status::Ok, env!("CARGO_PKG_VERSION")),
        Check::new("threads", Status::Ok, rayon::current_num_threads().to_string()),
        home(ctx.home.path(), !names.is_empty()),
        private(ctx),
    ];
    checks.extend(language_model(args, ctx)?);
    for name in &names {
        checks.extend(base(name, ctx));
    }
    checks.extend(unfinished(&names, ctx));
    if names.is_empty() {
        let none = Check::new("datasets", Status::Note, "no dataset is installed");
        checks.push(none.remedy("import one with `agent data import --name N --from DIR`"));
    }
    if args.json {
        ctx.printer.json_lines(&checks)?;
    } else {
        let mut rows = table(["check", "status", "detail"], &[]);
        for check in &checks {
            let status = match check.status {
                Status::Ok => "ok",
                Status::Note => "note",
                Status::Broken => "BROKEN",
            };
            rows.add_row([check.check.as_str(), status, check.detail.as_str()]);
            if let Some(remedy) = &check.remedy {
                rows.add_row(["", "", &format!("-> {remedy}")]);
            }
        }
        ctx.printer.table(&rows)?;
    }
    let broken = checks.iter().any(|check| check.status == Status::Broken);
    Ok(if broken { Exit::Failed } else { Exit::Done })
}

/// Checks that files can be created in the home directory or, if it does not exist, in its nearest
/// existing ancestor. A read-only home with datasets is only noted, as it can still answer
/// questions; one without datasets is broken.
fn home(path: &Path, has_datasets: bool) -> Check {
    let existing = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    match tempfile::NamedTempFile::new_in(existing) {
        Ok(_) => Check::new("home", Status::Ok, format!("{} is writable", path.display())),
        Err(error) => {
            let detail = format!("{} is not writable: {error}", path.display());
            let remedy = "give a writable directory with --home DIR or AGENT_HOME";
            if !has_datasets {
                return Check::new("home", Status::Broken, detail).remedy(remedy);
            }
            let note = "questions can be answered; to import, index or optimize";
            Check::new("home", Status::Note, detail).remedy(format!("{note}, {remedy}"))
        }
    }
}

/// Checks the user's state directory, which holds the record of the artefacts made on this machine,
/// and the cache directory, which holds compiled code.
fn private(ctx: &Context) -> Check {
    let check = "state";
    match ctx.private.unusable() {
        None => Check::new(check, Status::Ok, "state and cache directories are usable"),
        Some(why) => Check::new(check, Status::Note, why).remedy(format!(
            "programs run inside WebAssembly, which each command compiles again; set {VARIABLE} to \
             a directory that only you can write to"
        )),
    }
}

/// Checks the configured language model and, with `--ask`, whether it answers a question.
fn language_model(args: &Args, ctx: &Context) -> Result<Vec<Check>> {
    let check = "language model";
    let configured = match llm::configured(ctx, args.model.as_deref()) {
        Ok(Some(configured)) => configured,
        Ok(None) => {
            let none = Check::new(check, Status::Note, "no model is configured");
            return Ok(vec![none.remedy(llm::REMEDY)]);
        }
        Err(error) => return Ok(vec![Check::new(check, Status::Broken, error.message())]),
    };
    let key = match &configured.key_variable {
        Some(variable) => format!("with the key of {variable}"),
        None => "without a key".to_owned(),
    };
    let models = llm::models_in_words(&configured);
    let limits = llm::limits_in_words(&configured);
    let service = match configured.account.place() {
        Ok(service) => service,
        Err(error) => return Ok(vec![Check::new(check, Status::Broken, error.to_string())]),
    };
    let detail = format!("{models} at {service} {key}; {limits}");
    let mut checks = vec![match llm::missing_key(&configured) {
        None => Check::new(check, Status::Ok, detail),
        Some(NoKey { what, remedy }) => Check::new(check, Status::Broken, what).remedy(remedy),
    }];
    if args.ask {
        checks.push(match answer(args, ctx) {
            Ok(text) => Check::new("its answer", Status::Ok, text),
            Err(error) if ctx.stop.load(Ordering::Relaxed) => return Err(error),
            Err(error) => Check::new("its answer", Status::Broken, error.message()),
        });
    }
    Ok(checks)
}

/// Asks the language model [`QUESTION`]. Returns its answer with the time and tokens taken.
fn answer(args: &Args, ctx: &Context) -> Result<String> {
    let choice = LlmArgs { model: args.model.clone(), no_cache: true, ..LlmArgs::default() };
    let llm = llm::open(&choice, None, ctx)?.assistant.llm().clone();
    let began = Instant::now();
    let request = llm.request(ROUTER_ROLE.role(), vec![Message::user(QUESTION)], None, 0);
    let reply = llm.ask(&request)?;
    let spent = llm.ledger().total();
    let tokens = spent.tokens_in + spent.tokens_out;
    let shown: String = reply.text.chars().take(MAX_SHOWN_CHARS).collect();
    Ok(format!("{shown:?} in {}, {tokens} tokens", ms(began)))
}

/// Returns a note for each hidden directory in the home, beside the bases or among the indexes of
/// the bases `names`. Such a directory belongs to work in progress, or was left by a killed
/// process.
fn unfinished(names: &[String], ctx: &Context) -> Vec<Check> {
    let bases = names.iter().filter_map(|name| ctx.home.get(name).ok());
    let places = bases.map(|base| base.index_dir()).chain(bases_dir(ctx));
    let entries = places
        .chain([ctx.home.path().to_path_buf()])
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()));
    let hidden = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
            && path.is_dir()
    };
    let mut hidden: Vec<PathBuf> = entries.filter(hidden).collect();
    hidden.sort_unstable();
    let check = |path: PathBuf| {
        Check::new("unfinished", Status::Note, path.display().to_string())
            .remedy("remove it if no other `agent` process is running")
    };
    hidden.into_iter().map(check).collect()
}

/// Returns the directory that holds all bases; `None` if the path of a base cannot be formed.
fn bases_dir(ctx: &Context) -> Option<PathBuf> {
    Some(ctx.home.path_of("x").ok()?.parent()?.to_path_buf())
}

/// Returns the names of all installed bases, including damaged ones, in ascending order.
fn names(ctx: &Context) -> Vec<String> {
    let entries =
        bases_dir(ctx).and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| ctx.home.path_of(name).is_ok()).collect();
    names.sort_unstable();
    names
}

fn base(name: &str, ctx: &Context) -> Vec<Check> {
    let again = format!("import it again with `agent data import --name {name} --from DIR`");
    let check = format!("dataset {name}");
    let base = match ctx.home.get(name) {
        Ok(base) => base,
        // The base was removed after it was listed, or is a plain file.
        Err(DatasetError::UnknownName { .. }) => return Vec::new(),
        Err(error) => {
            return vec![Check::new(check, Status::Broken, error.to_string()).remedy(again)];
        }
    };
    let broken = |check: String, why: String| Check::new(check, Status::Broken, why).remedy(&again);
    let began = Instant::now();
    let opened = match Kb::open(&base.kb_dir()) {
        Ok(kb) => format!("{} nodes, opened in {}", kb.n_nodes(), ms(began)),
        Err(error) => return vec![broken(check, error.to_string())],
    };
    let mut read = ctx.progress(format!("reading {check}"), bytes_of(&base));
    let whole = kb::verify(&base.kb_dir(), &mut read).map_err(|error| error.to_string());
    let whole =
        whole.and_then(|()| base.verify_queries(&mut read).map_err(|error| error.to_string()));
    drop(read);
    let opened = match whole {
        Ok(()) => Check::new(check, Status::Ok, format!("{opened}; all digests match")),
        Err(why) => broken(check, why),
    };
    let check = format!("index of {name}");
    let damaged = |check: String, error: &IndexError| {
        Check::new(check, Status::Broken, error.to_string())
            .remedy(format!("build it again with `agent index {name} --force`"))
    };
    let began = Instant::now();
    let index = match dataset::open_index(&base, ctx) {
        Ok(index) => {
            let (time, embedder) = (ms(began), index.embedder().describe());
            let mut read = ctx.progress(format!("reading {check}"), index.bytes_to_verify());
            let verified = index.verify(&mut read);
            drop(read);
            match verified.and_then(|sealed| Ok((sealed, index.describe_parts()?))) {
                Ok((sealed, parts)) => {
                    let parts: String = parts.iter().map(|part| format!("; {part}")).collect();
                    let detail =
                        format!("opened with its base in {time}; embedder: {embedder}{parts}");
                    if sealed {
                        let detail = format!("{detail}; all digests match");
                        Check::new(check, Status::Ok, detail)
                    } else {
                        let detail = format!("{detail}; its words have no digests");
                        Check::new(check, Status::Note, detail)
                            .remedy(format!("`agent index {name} --force` writes them"))
                    }
                }
                Err(error) => damaged(check, &error),
            }
        }
        Err(IndexError::Missing { .. }) => Check::new(check, Status::Note, "none")
            .remedy(format!("build it with `agent index {name}`")),
        Err(error) => damaged(check, &error),
    };
    vec![opened, index]
}

/// Returns the total size in bytes of the files of a base and of its queries.
fn bytes_of(base: &Base) -> u64 {
    let of_base = Manifest::read(&base.kb_dir())
        .map_or(0, |manifest| manifest.files.values().map(|file| file.bytes).sum::<u64>());
    of_base + base.record.query_files.values().map(|file| file.bytes).sum::<u64>()
}

fn ms(began: Instant) -> String {
    format!("{:.1} ms", began.elapsed().as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_can_only_be_read_is_broken_where_it_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(home(dir.path(), false).status, Status::Ok);
        // No file can be made in a file, whoever asks.
        assert_eq!(home(&file, false).status, Status::Broken);
        let filled = home(&file, true);
        assert_eq!(filled.status, Status::Note);
        assert!(filled.remedy.unwrap().contains("questions can be answered"));
    }
}
