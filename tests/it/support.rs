//! Runs the binary in a home of its own, on a tiny base that the test writes.

pub(crate) mod given;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use agent::{
    dataset::{
        Base, Home,
        sample::{SampleKind, SampleOptions, generate},
    },
    index::IndexedBase,
};
use tempfile::TempDir;

/// Size of the sample of [`World::shop`]: some 900 nodes.
const SHOP_SCALE: f64 = 0.0008;
/// Queries of the sample that are kept, by split, so that a run takes a second or two.
const SHOP_QUERIES: [(&str, usize); 2] = [("train", 50), ("test", 10)];
/// Validation queries likewise.
const SHOP_VALIDATION: usize = 25;

/// The ids of [`World::keyed`] by the number of the node: some are numbers of other nodes.
pub(crate) const KEYS: [&str; 6] = ["D-1", "3", "kite, red", "0", "B%204", "S-5"];

/// A home directory and a dataset directory that vanish with it.
pub(crate) struct World {
    dir: TempDir,
}

/// What a run of the binary left.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// An empty home beside the tiny base of [`write_base`].
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        write_base(&dir.path().join("tiny"));
        World { dir }
    }

    /// A home with the tiny base imported as `tiny` and indexed.
    pub(crate) fn indexed() -> World {
        let world = World::new();
        world.run(["data", "import", "--name", "tiny", "--from", &world.source()]).done();
        world.run(["index", "tiny"]).done();
        world
    }

    /// A home with the tiny base as `keyed`, whose nodes have ids of their own: [`KEYS`].
    pub(crate) fn keyed() -> World {
        let world = World::new();
        let rewritten = |file: &str, write: &dyn Fn(&str) -> String| {
            let path = world.path("tiny").join(file);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.lines().map(|line| write(line) + "\n").collect::<String>())
                .unwrap();
        };
        rewritten("nodes.jsonl", &|line| {
            let mut node: serde_json::Value = serde_json::from_str(line).unwrap();
            node["id"] = KEYS[node["id"].as_u64().unwrap() as usize].into();
            node.to_string()
        });
        let key = |id: &str| id.parse().map_or(id.to_owned(), |at: usize| KEYS[at].to_owned());
        rewritten("edges.tsv", &|line| line.split('\t').map(key).collect::<Vec<_>>().join("\t"));
        let questions = "id,query,answer_ids\n0,a steel dart,[D-1]\n1,a light kite,[0]\n\
            2,a durable kite by Sky Toys,\"['kite, red']\"\n3,a soft dart by Dart World,[3]\n";
        fs::write(world.path("tiny/qa.csv"), questions).unwrap();
        world.run(["data", "import", "--name", "keyed", "--from", &world.source()]).done();
        world.run(["index", "keyed"]).done();
        world
    }

    /// A home with a small generated sample, imported as `shop` and indexed.
    pub(crate) fn shop() -> World {
        World::shop_with(SHOP_VALIDATION)
    }

    /// The same with another number of validation queries.
    pub(crate) fn shop_with(validation: usize) -> World {
        let world = World::new();
        let files = world.path("sample");
        let options = SampleOptions { seed: 0, scale: Some(SHOP_SCALE) };
        generate(SampleKind::Amazon, options, &files, &mut |_| {}).unwrap();
        for (split, n) in SHOP_QUERIES.into_iter().chain([("val", validation)]) {
            let file = files.join(format!("split/{split}.index"));
            let all = fs::read_to_string(&file).unwrap();
            let kept: Vec<&str> = all.lines().take(n).collect();
            fs::write(&file, kept.join("\n")).unwrap();
        }
        let source = files.display().to_string();
        world.run(["data", "import", "--name", "shop", "--from", &source]).done();
        world.run(["index", "shop"]).done();
        world
    }

    /// A path in the world.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory of the tiny base.
    pub(crate) fn source(&self) -> String {
        self.path("tiny").display().to_string()
    }

    /// The binary, to be run in this world with nothing else from the environment that it reads.
    #[allow(clippy::disallowed_methods, reason = "the test runs the binary it is about")]
    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command
            .args(args)
            .env("AGENT_HOME", self.path("home"))
            .env("AGENT_STATE", state())
            .env_remove("AGENT_LOG")
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL")
            .env_remove("OPENAI_ORG_ID")
            .env_remove("AZURE_OPENAI_API_KEY")
            .env_remove("AGENT_MODEL")
            .env("NO_COLOR", "1")
            .env("RAYON_NUM_THREADS", "2")
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Ran {
        Ran {
            status: output.status.code().expect("the process was killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Stdout of a run that ended well.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.status, 0, "stderr: {}", self.stderr);
        self.stdout
    }

    /// The JSON lines of a run that ended well.
    #[track_caller]
    pub(crate) fn json_lines(self) -> Vec<serde_json::Value> {
        let stdout = self.done();
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Checks that it ended with this status, nothing on stdout, and these words on stderr.
    #[track_caller]
    pub(crate) fn fails(self, status: i32, words: &[&str]) {
        assert_eq!((self.status, self.stdout.as_str()), (status, ""), "stderr: {}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in: {}", self.stderr);
        }
    }
}

/// A command of a world on a disk that takes files of so many KiB at most.
#[allow(clippy::disallowed_methods, reason = "the test runs the binary it is about")]
pub(crate) fn on_a_full_disk(world: &World, plain: Command, kib: u64) -> Command {
    let mut full = Command::new("bash");
    full.args(["-c", &format!("ulimit -f {kib}; exec \"$0\" \"$@\"")]);
    full.arg(plain.get_program()).args(plain.get_args());
    full.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    full.current_dir(world.path("")).stdin(Stdio::null());
    full
}

/// Where all worlds keep compiled code and what they made: worlds are made here, all of them.
pub(crate) fn state() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent-state")
}

/// Runs a command to its end; kills it, and fails with what it said, when that takes longer.
#[track_caller]
pub(crate) fn ended_within(command: &mut Command, limit: Duration) -> Ran {
    let files = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let [stdout, stderr] = files.each_ref().map(|file| file.reopen().unwrap());
    let mut child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            let said = fs::read_to_string(files[1].path()).unwrap();
            panic!("no end within {limit:?}: {command:?}\n{said}");
        }
        thread::sleep(Duration::from_millis(10));
    };
    let [stdout, stderr] = files.each_ref().map(|file| fs::read(file.path()).unwrap());
    Ran::of(Output { status, stdout, stderr })
}

/// Writes a base of six nodes: four products, of which 0 and 1 are made by brand 4 and 2 and 3
/// by brand 5; one query in train, two in val, one in test.
fn write_base(dir: &Path) {
    fs::create_dir_all(dir.join("split")).unwrap();
    let nodes = r#"{"id":0,"type":"product","name":"steel dart","details":{"feature":"durable steel barrel"}}
{"id":1,"type":"product","name":"soft dart","details":{"feature":"soft tip for electronic boards"}}
{"id":2,"type":"product","name":"red kite","details":{"feature":"durable nylon sail"}}
{"id":3,"type":"product","name":"blue kite","details":{"feature":"light sail for beginners"}}
{"id":4,"type":"brand","name":"Dart World","details":{}}
{"id":5,"type":"brand","name":"Sky Toys","details":{}}
"#;
    let edges = "src_id\trelation\tdst_id\n0\thas_brand\t4\n1\thas_brand\t4\n2\thas_brand\t5\n3\thas_brand\t5\n";
    let queries = "id,query,answer_ids,kind\n\
        0,a steel dart,[0],template\n\
        1,a light kite,[3],llm\n\
        2,a durable kite by Sky Toys,[2],template\n\
        3,a soft dart by Dart World,[1],llm\n";
    let toml = "title = \"Tiny\"\nlicence = \"CC0\"\ncandidate_types = [\"product\"]\n";
    for (file, text) in [
        ("nodes.jsonl", nodes),
        ("edges.tsv", edges),
        ("qa.csv", queries),
        ("dataset.toml", toml),
        ("split/train.index", "0\n"),
        ("split/val.index", "1\n2\n"),
        ("split/test.index", "3\n"),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
}

/// `products`, `biomed` and `papers` of the home that `AGENT_TEST_HOME` names with their indexes;
/// none, with a message, where it names none.
pub(crate) fn real_bases() -> impl Iterator<Item = (Base, IndexedBase)> {
    let what = "home with products, biomed and papers";
    let home = given::variable("AGENT_TEST_HOME", what).map(Home::new);
    home.into_iter().flat_map(|home| {
        ["products", "biomed", "papers"].map(|name| {
            let base = home.get(name).unwrap();
            let indexed = IndexedBase::open(&base.kb_dir(), &base.index_dir(), &base.name).unwrap();
            (base, indexed)
        })
    })
}
