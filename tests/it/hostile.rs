//! Hostile programs: those that a limit may end in a process of its own each, watched from outside,
//! the others in this process, which must answer afterwards as before.
//!
//! A deadline is processor time, which is what is compared; wall time is, where programs get little of
//! a processor, a multiple of it. `AGENT_HOSTILE_STRICT=1` runs every program in a process of its own,
//! and asks for ends within 250 ms of the deadline by the wall, which only an idle machine can keep;
//! `AGENT_HOSTILE=NAME` runs those whose file has this name in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use agent::{clock::WALL_PER_WORK, program::Program, sandbox::Limits, tools::EXAMPLE_QUERY};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    sandbox::{INSIDE, both, root, run},
    support::World,
    toolkit,
};

/// A run may be late by this much on a loaded machine.
const LATE: Duration = Duration::from_millis(2_500);
/// And by this much on an idle one.
const LATE_STRICT: Duration = Duration::from_millis(250);
/// What a run may hold beyond its budget, bytes.
const OVER: u64 = 64 << 20;
/// The process waits no longer than this for a program, compiling of modules apart.
const PATIENCE: Duration = Duration::from_millis(2_400);
/// Times that an unexpected end by the deadline is tried again.
const AGAIN: usize = 2;
/// Processes at once.
const AT_ONCE: usize = 2;
/// Programs ended by a limit that run in this process as well: it must be usable afterwards.
const LIMITED_HERE: [&str; 3] = ["many_slow_natives.rhai", "loop_in_map.rhai", "endless_loop.wat"];
/// Ends the text that is repeated, begins it, and parts the number from it.
const REPEAT: [char; 3] = ['⟪', '*', '⟫'];

/// One hostile program and how it may end.
#[derive(Deserialize)]
struct Hostile {
    file: PathBuf,
    /// In this process; a module is not run there.
    #[serde(default)]
    process: Vec<String>,
    /// Inside WebAssembly.
    wasm: Vec<String>,
}

impl Hostile {
    /// The engines that run it, and how it may end there.
    fn engines(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let engines = [("rhai", self.process.as_slice()), ("wasm", self.wasm.as_slice())];
        engines.into_iter().filter(|engine| !engine.1.is_empty())
    }

    /// Whether it may end so. On a loaded machine the time may be over before steps or memory are.
    fn may_end(expected: &[String], kind: &str) -> bool {
        expected.iter().any(|one| one == kind) || (kind == "deadline" && Self::is_limited(expected))
    }

    /// Whether a limit on what a program uses may end it.
    fn is_limited(expected: &[String]) -> bool {
        let limits = ["deadline", "operations", "memory", "depth", "tool_budget", "output"];
        expected.iter().any(|one| limits.contains(&one.as_str()))
    }
}

/// The text with every `⟪3*x%%⟫` replaced by `x0x1x2`.
fn expanded(text: &str) -> String {
    let [begin, part, end] = REPEAT;
    let mut pieces = text.split(begin);
    let mut whole = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (repeated, rest) = piece.split_once(end).expect("what is repeated ends");
        let (times, repeated) = repeated.split_once(part).expect("a number of times");
        for number in 0..times.parse::<usize>().expect("a number of times") {
            whole += &repeated.replace("%%", &number.to_string());
        }
        whole += rest;
    }
    whole
}

/// All programs in the form in which a file holds them: text, or the bytes of a module.
fn hostile_programs() -> Vec<(Hostile, Vec<u8>)> {
    let dir = root().join("tests/data/hostile");
    let manifest = fs::read_to_string(dir.join("manifest.json")).unwrap();
    let all: Vec<Hostile> = serde_json::from_str(&manifest).unwrap();
    let only = std::env::var("AGENT_HOSTILE").unwrap_or_default();
    let read = |hostile: Hostile| {
        let text = expanded(&fs::read_to_string(dir.join(&hostile.file)).unwrap());
        let bytes = match is_module(&hostile.file) {
            true => wat::parse_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", hostile.file.display())),
            false => text.into_bytes(),
        };
        (hostile, bytes)
    };
    let named = |hostile: &Hostile| hostile.file.to_string_lossy().contains(&only);
    all.into_iter().filter(named).map(read).collect()
}

fn is_module(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "wat")
}

#[test]
fn the_manifest_names_every_hostile_program_once() {
    let mut listed: Vec<String> = hostile_programs()
        .iter()
        .map(|(hostile, _)| hostile.file.to_string_lossy().into_owned())
        .collect();
    let n = listed.len();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed.len(), n, "a file is listed twice");
    if std::env::var_os("AGENT_HOSTILE").is_some() {
        return;
    }
    let files = fs::read_dir(root().join("tests/data/hostile")).unwrap();
    let mut there: Vec<String> = files
        .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".rhai") || name.ends_with(".wat"))
        .collect();
    there.sort_unstable();
    assert_eq!(listed, there);
    assert!(n >= 190, "{n} programs");
}

#[test]
fn hostile_programs_leave_this_process_as_it_was() {
    let limits = Limits::default();
    // The first start compiles the engine.
    let _ = INSIDE.compile(&Program::new("fn retrieve(query, candidates, params) { #{} }"));
    let mut wrong = Vec::new();
    for (hostile, bytes) in hostile_programs() {
        let program = match is_module(&hostile.file) {
            true => Program::module(&bytes),
            false => Program::new(std::str::from_utf8(&bytes).unwrap()),
        };
        let file = hostile.file.display().to_string();
        for (engine, expected) in hostile.engines() {
            if Hostile::is_limited(expected) && !LIMITED_HERE.contains(&file.as_str()) {
                continue;
            }
            let runtime = if engine == "rhai" { &*toolkit::RUNTIME } else { &*INSIDE };
            let ran = run(runtime, &program, EXAMPLE_QUERY);
            let (kind, usage) = match &ran {
                Ok(outcome) => ("ok", outcome.usage),
                Err(failure) => (failure.kind.name(), failure.usage),
            };
            if !Hostile::may_end(expected, kind) {
                wrong.push(format!("{file} in {engine}: {kind}, not {expected:?}: {ran:?}"));
            }
            if usage.peak_bytes > limits.memory_bytes + OVER {
                wrong.push(format!("{file} in {engine}: held {} bytes", usage.peak_bytes));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // And afterwards both engines answer as before.
    let source = fs::read_to_string(root().join("toolkits/stark/examples/two_entities.rhai"));
    let (here, inside) = both(&source.unwrap(), EXAMPLE_QUERY);
    assert!(here.is_ok() && here == inside);
}

/// How a process ended, seen from outside.
struct Seen {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    took: Duration,
    /// Processor time it took in all; zero where the system does not say.
    computed: Duration,
    /// The most memory it had at any moment, bytes; zero where the system does not say.
    peak: u64,
}

impl Seen {
    /// What it said.
    fn said(&self) -> Value {
        serde_json::from_str(self.stdout.trim_end()).unwrap_or_default()
    }

    /// The kind of its failure, `ok`, or that it did not say.
    fn kind(&self) -> String {
        let said = self.said();
        match (said["status"].as_str(), said["kind"].as_str()) {
            (Some("ok"), None) => "ok".to_owned(),
            (Some("error"), Some(kind)) => kind.to_owned(),
            _ => "no answer".to_owned(),
        }
    }
}

/// Most memory that a process had so far, bytes; nothing once it has ended, and nothing before it has
/// the name of its program: until then it has the memory of this process, whose child it is.
fn peak_of(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let name = status.lines().next()?.strip_prefix("Name:")?.trim();
    if name != "agent" {
        return None;
    }
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Processor time of a process so far, all its threads together; nothing once it has ended.
fn computed_by(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // Behind the name, which may hold anything: the state is the first field, and the 12th and 13th
    // are hundredths of a second in the program and in the system.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// Runs a program in a process and looks at its memory a thousand times a second.
fn seen(world: &World, file: &str, engine: &str) -> Seen {
    let (out, err) = (world.path(&format!("{file}.out")), world.path(&format!("{file}.err")));
    let args = ["program", "run", file, "--dataset", "example", "--query", EXAMPLE_QUERY];
    let mut command = world.command(args.into_iter().chain(["--sandbox", engine, "--json"]));
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let (mut peak, mut computed) = (0, Duration::ZERO);
    let status = loop {
        peak = peak.max(peak_of(&child).unwrap_or(0));
        computed = computed.max(computed_by(&child).unwrap_or_default());
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let took = began.elapsed();
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Seen { status: status.code(), stdout: read(&out), stderr: read(&err), took, computed, peak }
}

/// Whether every program has a process of its own and little more time than its deadline.
fn strict() -> bool {
    std::env::var_os("AGENT_HOSTILE_STRICT").is_some()
}

/// What is wrong with an end, and the end in words.
fn judge(seen: &Seen, expected: &[String], base: &Seen, is_module: bool) -> (Vec<String>, String) {
    let limits = Limits::default();
    let mut wrong = Vec::new();
    let (said, kind) = (seen.said(), seen.kind());
    if !Hostile::may_end(expected, &kind) {
        wrong.push(format!("{kind}, not {expected:?}: {}", said["message"]));
    }
    if seen.status != Some(i32::from(kind != "ok")) || seen.stdout.lines().count() != 1 {
        wrong.push(format!("status {:?}, said {:?}", seen.status, seen.stdout));
    }
    if seen.stderr.contains("panicked") || seen.stderr.lines().count() > 1 {
        wrong.push(format!("told {:?}", seen.stderr));
    }
    let ms = said["usage"]["ms"].as_f64().unwrap_or(0.0);
    // Modules are compiled before the clock starts, within a deadline of its own.
    let compiling = if is_module { limits.compile_deadline } else { Duration::ZERO };
    let (late, wall) = if strict() { (LATE_STRICT, 1) } else { (LATE, WALL_PER_WORK) };
    let call = limits.deadline * wall + late;
    let whole = base.took * wall + PATIENCE * wall + late + compiling;
    if ms > call.as_secs_f64() * 1e3 || seen.took > whole {
        wrong.push(format!("took {:?}, {ms:.0} ms of it the call", seen.took));
    }
    if seen.computed > base.computed + PATIENCE + late + compiling {
        wrong.push(format!("took {:?} of the processor", seen.computed));
    }
    let budget = limits.memory_bytes;
    if seen.peak > base.peak + budget + OVER {
        wrong.push(format!(
            "had {} MiB, {} MiB of it the base line",
            seen.peak >> 20,
            base.peak >> 20
        ));
    }
    let told = said["usage"]["peak_bytes"].as_u64().unwrap_or(0);
    if told > budget + OVER {
        wrong.push(format!("was charged {} MiB", told >> 20));
    }
    let (took, peak) = (seen.took.as_millis(), seen.peak >> 20);
    (wrong, format!("{kind}, {ms:.0} of {took} ms, {peak} MiB"))
}

/// Hostile programs in a process of its own each: it ends by an exit status and one line, never by a
/// signal, soon after its deadline, and within its memory; compiling included.
#[test]
fn hostile_programs_end_within_their_limits() {
    let world = World::new();
    let base = root().join("toolkits/stark/base").display().to_string();
    world.run(["data", "import", "--name", "example", "--from", &base]).done();
    world.run(["index", "example"]).done();
    let harmless = "fn retrieve(query, candidates, params) { search(query, \"product\", 5) }\n";
    fs::write(world.path("harmless.rhai"), harmless).unwrap();
    // The first start compiles the engine.
    seen(&world, "harmless.rhai", "wasm");
    let lines = ["rhai", "wasm"].map(|engine| seen(&world, "harmless.rhai", engine));
    assert!(lines.iter().all(|line| line.status == Some(0)), "{}", lines[0].stderr);
    assert!(lines.iter().all(|line| line.peak > 0) || !cfg!(target_os = "linux"), "no memory read");

    let programs = hostile_programs();
    let (next, told) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Vec::new())));
    let work = || {
        while let Some((hostile, bytes)) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let is_module = is_module(&hostile.file);
            let file = hostile.file.with_extension(if is_module { "wasm" } else { "rhai" });
            let file = file.display().to_string();
            fs::write(world.path(&file), bytes).unwrap();
            for (engine, expected) in hostile.engines() {
                if !(strict() || Hostile::is_limited(expected)) {
                    continue;
                }
                let mut ended = seen(&world, &file, engine);
                // A machine that gives a process no time says nothing of the program.
                for _ in 0..AGAIN {
                    if ended.kind() != "deadline" || Hostile::may_end(expected, "deadline") {
                        break;
                    }
                    ended = seen(&world, &file, engine);
                }
                let base = &lines[usize::from(engine == "wasm")];
                let (wrong, words) = judge(&ended, expected, base, is_module);
                let mut told = told.lock().unwrap();
                let name = format!("{file} in {engine}");
                told.0.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
                told.1.push((ended.peak, ended.took, format!("{name}: {words}")));
            }
            fs::remove_file(world.path(&file)).unwrap();
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let (wrong, ends) = told.into_inner().unwrap();
    let most = ends.iter().max_by_key(|end| end.0).unwrap();
    let longest = ends.iter().max_by_key(|end| end.1).unwrap();
    let [here, inside] = lines.map(|line| line.peak >> 20);
    eprintln!(
        "{} runs of {} programs; base lines {here} and {inside} MiB",
        ends.len(),
        programs.len()
    );
    eprintln!("most memory: {}\nlongest: {}", most.2, longest.2);
    if std::env::var_os("AGENT_HOSTILE").is_some() {
        ends.iter().for_each(|end| eprintln!("{}", end.2));
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
