//! That a run survives whatever happens to its process, its directory and its disk: rows O1 to O8 of
//! the faults, on real processes. What can be shown without a process is tested beside the journal.
//!
//! R: a run that was disturbed and resumed ends with the same journal steps and the same bundle,
//! byte for byte, as one that was not. A run is a command line, [`Scripted`], so that every actor
//! can be put through the same.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use agent::{
    dataset::sample::{SampleKind, SampleOptions, generate},
    optimize::journal::{Journal, StepRecord},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    model::{ModelServer, Mood},
    support::{Ran, World},
};

/// Steps of mutation of the runs here.
const STEPS: &str = "20";
/// Steps of the runs whose programs a model writes too.
const MODEL_STEPS: &str = "200";
/// Size of the sample: some 500 nodes.
const SCALE: f64 = 0.0002;
/// Queries that are kept, by split.
const KEPT: [(&str, usize); 3] = [("train", 16), ("val", 8), ("test", 2)];
/// Kills at random moments; `AGENT_TEST_KILLS` overrides.
const KILLS: usize = 20;
/// Longest wait for anything a run does; reached only when it hangs.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest time from a signal to the end.
const STOPS_WITHIN: Duration = Duration::from_secs(15);

/// A run as a command line, and what it leaves when nothing disturbs it.
pub(crate) struct Scripted {
    world: World,
    /// All but `--run DIR` and `--resume`.
    args: Vec<String>,
    /// The model that is asked, if one is.
    model: Option<ModelServer>,
    bundle: Vec<u8>,
    steps: Vec<StepRecord>,
    /// How long it takes.
    took: Duration,
}

impl Scripted {
    /// The run of the search actor that the tests share while any of them runs.
    fn search() -> Arc<Scripted> {
        static SHARED: Mutex<Weak<Scripted>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let args = ["optimize", "--dataset", "shop", "--steps", STEPS, "--json"];
            let scripted = Arc::new(Scripted::new(small_shop(), &args, None));
            *shared = Arc::downgrade(&scripted);
            scripted
        })
    }

    /// Runs a command line once, undisturbed.
    pub(crate) fn new(world: World, args: &[&str], model: Option<ModelServer>) -> Scripted {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let (bundle, steps, took) = (Vec::new(), Vec::new(), Duration::ZERO);
        let mut scripted = Scripted { world, args, model, bundle, steps, took };
        let dir = scripted.world.path("undisturbed");
        let began = Instant::now();
        finished(scripted.begin(&dir)).done();
        scripted.took = began.elapsed();
        scripted.bundle = fs::read(dir.join("bundle.json")).unwrap();
        scripted.steps = steps_of(&dir);
        let (n, took) = (scripted.steps.len(), scripted.took);
        eprintln!("undisturbed: {n} steps in {took:?}");
        assert!(n >= 20, "{n} steps are too few");
        scripted
    }

    /// The command line in a directory; it resumes what is there.
    fn command(&self, dir: &Path) -> Command {
        let run = dir.display().to_string();
        let resume = dir.join("run.sqlite").exists().then_some("--resume");
        let args = self.args.iter().map(String::as_str);
        let mut command = self.world.command(args.chain(["--run", &run]).chain(resume));
        if let Some(model) = &self.model {
            command.env("OPENAI_BASE_URL", model.url());
        }
        command
    }

    fn begin(&self, dir: &Path) -> Child {
        start(self.command(dir))
    }

    /// Begins and waits until so many steps are done.
    fn begin_until(&self, dir: &Path, n: usize) -> Child {
        let mut child = self.begin(dir);
        let began = Instant::now();
        while !Journal::open_read_only(dir).is_ok_and(|run| run.steps().unwrap().len() >= n) {
            assert!(began.elapsed() < PATIENCE, "{n} steps were not reached");
            assert_eq!(child.try_wait().unwrap(), None, "the run ended before {n} steps");
            thread::sleep(Duration::from_millis(1));
        }
        child
    }

    /// Resumes to the end and checks R.
    #[track_caller]
    fn ends_as_undisturbed(&self, dir: &Path) {
        finished(self.begin(dir)).done();
        self.is_as_undisturbed(dir);
    }

    /// Steps that are kept: the first of those of the undisturbed run, and no fewer than before.
    #[track_caller]
    fn kept(&self, dir: &Path, before: usize) -> usize {
        if !dir.join("run.sqlite").exists() {
            assert_eq!(before, 0, "the journal is gone");
            return 0;
        }
        let steps = steps_of(dir);
        assert!(steps.len() >= before, "{} steps are left of {before}", steps.len());
        assert!(self.steps.starts_with(&steps), "a killed run left another step");
        steps.len()
    }

    #[track_caller]
    fn is_as_undisturbed(&self, dir: &Path) {
        let steps = steps_of(dir);
        let difference = steps.iter().zip(&self.steps).find(|(step, other)| step != other);
        assert_eq!(difference, None, "the journals differ");
        assert_eq!(steps.len(), self.steps.len(), "the journals differ in length");
        assert!(fs::read(dir.join("bundle.json")).unwrap() == self.bundle, "the bundles differ");
    }
}

/// A home with a generated shop with few queries, imported and indexed.
fn small_shop() -> World {
    let world = World::new();
    let source = world.path("shop");
    write_shop(&source);
    let source = source.display().to_string();
    world.run(["data", "import", "--name", "shop", "--from", &source]).done();
    world.run(["index", "shop"]).done();
    world
}

/// Writes a generated shop with few queries, so that a step takes an instant.
fn write_shop(dir: &Path) {
    let options = SampleOptions { seed: 0, scale: Some(SCALE) };
    generate(SampleKind::Amazon, options, dir, &mut |_| {}).unwrap();
    for (split, n) in KEPT {
        let file = dir.join(format!("split/{split}.index"));
        let all = fs::read_to_string(&file).unwrap();
        fs::write(&file, all.lines().take(n).collect::<Vec<_>>().join("\n")).unwrap();
    }
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finished(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

fn steps_of(dir: &Path) -> Vec<StepRecord> {
    Journal::open_read_only(dir).unwrap().steps().unwrap()
}

/// Runs a shell line with the command as its arguments, so that limits of the system apply to it.
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "limits are set by the shell that becomes the binary")]
fn limited(shell: &str, command: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("{shell} exec \"$0\" \"$@\"")]).arg(command.get_program());
    limited.args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// Sends a signal, such as `-TERM`, to a process.
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "the standard library sends no signal but SIGKILL")]
fn send(signal: &str, child: &Child) {
    assert!(
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success()
    );
}

/// Copies the files of a directory as they are.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // A file may vanish meanwhile.
        let _ = fs::copy(entry.path(), to.join(entry.file_name()));
    }
}

/// Kills runs at random moments, so many times, resumes each to its end, and checks R.
pub(crate) fn survives_kills(run: &Scripted, kills: usize) -> usize {
    let mut random = ChaCha8Rng::seed_from_u64(21);
    // Some kills come before anything is written, some in the midst, whatever the machine does.
    let most = run.took.as_millis() as u64 / 2;
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        runs += 1;
        let dir = run.world.path(&format!("killed-{runs}"));
        let mut kept = 0;
        let ran = loop {
            let mut child = run.begin(&dir);
            if killed < kills {
                thread::sleep(Duration::from_millis(random.random_range(0..=most)));
                if child.try_wait().unwrap().is_none() {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    killed += 1;
                    kept = run.kept(&dir, kept);
                    continue;
                }
            }
            break finished(child);
        };
        ran.done();
        run.is_as_undisturbed(&dir);
        fs::remove_dir_all(&dir).unwrap();
    }
    eprintln!("{killed} kills in {runs} runs");
    runs
}

#[test]
fn o1_kills_of_a_run_of_both_actors_change_nothing_and_no_reply_is_paid_for_twice() {
    let kills = std::env::var("AGENT_TEST_KILLS").map_or(KILLS, |n| n.parse().unwrap());
    let args = [
        "optimize",
        "--dataset",
        "shop",
        "--steps",
        MODEL_STEPS,
        "--actor",
        "search,llm",
        "--model",
        "scripted",
        "--no-cache",
        "--json",
    ];
    let model = ModelServer::start(Mood::Works);
    let run = Scripted::new(small_shop(), &args, Some(model));
    let asked = || run.model.as_ref().map_or(0, ModelServer::asked);
    let once = asked();
    let runs = survives_kills(&run, kills);
    // Each kill may lose what was under way, which is eight requests at most.
    let (most, asked) = (once * (runs + 1) + 8 * kills, asked());
    assert!(asked <= most, "{asked} requests are more than {most}");
    let per_run = (asked - once) as f64 / runs as f64;
    eprintln!("{once} requests undisturbed, {per_run:.1} in a run that was killed");
}

#[test]
fn o1_three_kills_in_a_row_while_recovering_change_nothing() {
    let run = Scripted::search();
    let dir = run.world.path("recovering");
    let mut child = run.begin_until(&dir, run.steps.len() / 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = steps_of(&dir);
    for wait in [0, 3, 9, 20] {
        let mut child = run.begin(&dir);
        thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = steps_of(&dir);
        assert!(kept.len() >= before.len() && kept[..before.len()] == before[..]);
    }
    run.ends_as_undisturbed(&dir);
}

/// A disk of a few MiB in memory, for as long as this lives.
#[cfg(target_os = "linux")]
struct SmallDisk(PathBuf);

#[cfg(target_os = "linux")]
impl SmallDisk {
    /// None where this user may not mount one.
    #[allow(clippy::disallowed_methods, reason = "the standard library mounts nothing")]
    fn mount(at: PathBuf, mib: usize) -> Option<SmallDisk> {
        fs::create_dir_all(&at).unwrap();
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("ballast")).unwrap();
        while std::io::Write::write_all(&mut file, &[1; 1 << 10]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    #[allow(clippy::disallowed_methods, reason = "the standard library mounts nothing")]
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn o4_a_run_on_a_full_disk_stops_and_goes_on_when_there_is_room() {
    let run = Scripted::search();
    let Some(disk) = SmallDisk::mount(run.world.path("small"), 16) else {
        eprintln!("skipped: this user may not mount a small disk");
        return;
    };
    let dir = disk.0.join("run");
    let child = run.begin_until(&dir, run.steps.len() / 4);
    send("-STOP", &child);
    disk.fill();
    send("-CONT", &child);
    // What is at hand takes the room kept for it.
    finished(child).fails(1, &["disk is full", "free some space", "--resume"]);
    disk.make_room();
    disk.fill();
    let kept = steps_of(&dir);
    assert!(kept.len() >= run.steps.len() / 4);
    finished(run.begin(&dir)).fails(1, &["disk is full", "free some space"]);
    assert_eq!(steps_of(&dir), kept);
    disk.make_room();
    run.ends_as_undisturbed(&dir);
    let begun = disk.0.join("another");
    disk.fill();
    finished(run.begin(&begun)).fails(1, &["full"]);
}

#[cfg(unix)]
#[test]
fn o4_a_limit_of_file_sizes_is_an_error_before_anything_is_done() {
    let run = Scripted::search();
    let dir = run.world.path("limited");
    // In blocks of 512 bytes; without the signal that would end the process.
    let command = limited("ulimit -f 4000;", &run.command(&dir));
    finished(start(command)).fails(1, &["cannot write", "reserve"]);
    run.ends_as_undisturbed(&dir);
}

#[cfg(unix)]
#[test]
fn o5_a_directory_that_cannot_be_used_is_an_error_before_anything_is_done() {
    let run = Scripted::search();
    let file = run.world.path("file");
    fs::write(&file, "not a directory").unwrap();
    for (dir, word) in [
        (file.clone(), "file"),
        (file.join("below"), "file"),
        ("/proc/agent-run".into(), "/proc/agent-run"),
    ] {
        if dir.starts_with("/proc") && !cfg!(target_os = "linux") {
            continue;
        }
        finished(run.begin(&dir)).fails(1, &["cannot", word]);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "not a directory");
}

#[cfg(unix)]
#[test]
fn o5_a_directory_that_vanishes_stops_the_run_and_goes_on_when_it_is_back() {
    let run = Scripted::search();
    let (dir, aside) = (run.world.path("vanishing"), run.world.path("aside"));
    let child = run.begin_until(&dir, run.steps.len() / 3);
    send("-STOP", &child);
    fs::rename(&dir, &aside).unwrap();
    send("-CONT", &child);
    finished(child).fails(1, &["removed or replaced", "vanishing", "--resume"]);
    assert!(!dir.exists(), "a run wrote where it was removed");
    fs::rename(&aside, &dir).unwrap();
    run.ends_as_undisturbed(&dir);

    let dir = run.world.path("removed");
    let child = run.begin_until(&dir, run.steps.len() / 3);
    send("-STOP", &child);
    fs::remove_dir_all(&dir).unwrap();
    send("-CONT", &child);
    finished(child).fails(1, &["removed"]);
}

#[test]
fn o6_a_journal_of_another_run_or_of_nothing_is_refused() {
    let run = Scripted::search();
    let dir = run.world.path("other");
    copy(&run.world.path("undisturbed"), &dir);
    fs::remove_file(dir.join("bundle.json")).unwrap();
    let args = run.args.iter().map(String::as_str);
    let path = dir.display().to_string();
    let other = run.world.command(args.chain(["--run", &path, "--resume", "--seed", "77"]));
    finished(start(other)).fails(1, &["was started with seed", "--run DIR"]);
    for (content, word) in
        [(&b""[..], "empty"), (b"not a database", "damaged"), (&[0; 4_096], "damaged")]
    {
        fs::write(dir.join("run.sqlite"), content).unwrap();
        finished(run.begin(&dir)).fails(1, &[word, "run.sqlite"]);
        assert_eq!(
            fs::read(dir.join("run.sqlite")).unwrap(),
            content,
            "a refused file was changed"
        );
    }
}

#[cfg(unix)]
#[test]
fn o7_one_writes_a_copy_is_free_and_a_stale_lock_is_taken_over() {
    let run = Scripted::search();
    let (dir, copied) = (run.world.path("held"), run.world.path("copied"));
    let mut child = run.begin_until(&dir, run.steps.len() / 3);
    send("-STOP", &child);
    let holder = format!("process {}", child.id());
    let others: Vec<Child> = (0..4).map(|_| run.begin(&dir)).collect();
    for other in others {
        finished(other).fails(1, &["in use", &holder]);
    }
    copy(&dir, &copied);
    run.ends_as_undisturbed(&copied);
    child.kill().unwrap();
    child.wait().unwrap();
    let pid = fs::read_to_string(dir.join("lock")).unwrap();
    assert_eq!(pid, child.id().to_string(), "the lock is stale");
    run.ends_as_undisturbed(&dir);
}

#[test]
fn o7_of_many_that_begin_at_once_one_writes() {
    let run = Scripted::search();
    let dir = run.world.path("crowded");
    let children: Vec<Child> = (0..6).map(|_| run.begin(&dir)).collect();
    let mut done = 0;
    for child in children {
        let ran = finished(child);
        if ran.status == 0 {
            done += 1;
        } else {
            let refused = ["in use", "already holds a run", "is not empty"];
            assert_eq!(ran.status, 1, "{}", ran.stderr);
            assert!(refused.iter().any(|word| ran.stderr.contains(word)), "{}", ran.stderr);
        }
    }
    // One that began late may have resumed what was finished.
    assert!(done >= 1, "nobody got the directory");
    run.is_as_undisturbed(&dir);
}

#[cfg(unix)]
#[test]
fn o8_every_signal_to_stop_stops_soon_and_changes_nothing() {
    let run = Scripted::search();
    for signal in ["-INT", "-TERM", "-HUP"] {
        let dir = run.world.path(&format!("stopped{signal}"));
        let child = run.begin_until(&dir, run.steps.len() / 3);
        let sent = Instant::now();
        send(signal, &child);
        finished(child).fails(130, &["interrupted", "--resume"]);
        assert!(sent.elapsed() < STOPS_WITHIN, "{signal}: stopped after {:?}", sent.elapsed());
        assert!(!dir.join("bundle.json").exists());
        run.ends_as_undisturbed(&dir);
    }
    let dir = run.world.path("twice");
    let mut child = run.begin_until(&dir, run.steps.len() / 3);
    send("-INT", &child);
    send("-INT", &child);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    run.ends_as_undisturbed(&dir);
}

#[test]
fn o8_a_closed_stdout_changes_nothing() {
    let run = Scripted::search();
    let dir = run.world.path("unread");
    let mut child = run.begin(&dir);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    run.is_as_undisturbed(&dir);
}

/// Nothing of a run reads the clock but the budget of minutes and the progress; both use time that
/// never jumps. What could carry times are the files: here they are a day old and a day early.
#[test]
fn o8_times_of_files_that_jump_change_nothing() {
    let run = Scripted::search();
    let dir = run.world.path("jumped");
    let mut child = run.begin_until(&dir, run.steps.len() / 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let day = Duration::from_secs(86_400);
    for (at, entry) in fs::read_dir(&dir).unwrap().enumerate() {
        let file = fs::File::options().append(true).open(entry.unwrap().path()).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(if at % 2 == 0 { now - day } else { now + day }).unwrap();
    }
    run.ends_as_undisturbed(&dir);
}

#[cfg(unix)]
#[test]
fn o8_too_few_file_descriptors_end_a_run_cleanly() {
    let run = Scripted::search();
    let dir = run.world.path("few");
    for files in [6, 9, 12, 16, 20, 24, 32] {
        let command = limited(&format!("ulimit -n {files};"), &run.command(&dir));
        let ran = finished(start(command));
        if ran.status == 0 {
            break;
        }
        assert_eq!(ran.status, 1, "with {files} descriptors: {}", ran.stderr);
        assert!(ran.stderr.contains("error: "), "{}", ran.stderr);
    }
    run.ends_as_undisturbed(&dir);
}
