//! `agent index --embedder`: a service, vectors from elsewhere, and what is kept of them.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Ran, World};

const KEY: &str = "sk-never-shown";

/// A service that gives each text a vector of its first letters, and counts texts.
pub(crate) struct Service {
    address: SocketAddr,
    n_texts: Arc<Mutex<usize>>,
}

impl Service {
    pub(crate) fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let n_texts = Arc::new(Mutex::new(0));
        let counted = n_texts.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &counted);
            }
        });
        Service { address, n_texts }
    }

    /// Texts asked for since the last call.
    fn asked(&self) -> usize {
        std::mem::take(&mut self.n_texts.lock().unwrap())
    }

    /// Gives a command the address and the key.
    pub(crate) fn offer(&self, command: &mut Command) {
        command.env("OPENAI_BASE_URL", format!("http://{}/v1", self.address));
        command.env("OPENAI_API_KEY", KEY);
    }

    /// Runs the binary with this service.
    fn run<'a>(&self, world: &World, args: impl IntoIterator<Item = &'a str>) -> Ran {
        let mut command = world.command(args);
        self.offer(&mut command);
        let ran = Ran::of(command.output().unwrap());
        assert!(!ran.stderr.contains(KEY) && !ran.stdout.contains(KEY), "{}", ran.stderr);
        ran
    }
}

fn answer(mut stream: &TcpStream, n_texts: &Mutex<usize>) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut is_allowed) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_allowed |= line.trim_end().ends_with(&format!("Bearer {KEY}"));
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (status, body) = if is_allowed {
        let body: Value = serde_json::from_slice(&body).unwrap();
        let texts = body["input"].as_array().unwrap();
        *n_texts.lock().unwrap() += texts.len();
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| {
                let mut vector = [0.0; 26];
                for byte in text.as_str().unwrap().bytes().filter(u8::is_ascii_lowercase) {
                    vector[usize::from(byte - b'a')] += 1.0;
                }
                json!({"object": "embedding", "index": at, "embedding": vector})
            })
            .collect();
        let usage = json!({"prompt_tokens": 3, "total_tokens": 3});
        (200, json!({"object": "list", "model": "m", "data": data, "usage": usage}))
    } else {
        (401, json!({"error": {"message": "who are you?"}}))
    };
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
}

/// When the words were written.
fn words_written(world: &World) -> std::time::SystemTime {
    let record = world.path("home/bases/tiny/index/words/record.json");
    fs::metadata(record).unwrap().modified().unwrap()
}

/// All bytes of all files below a directory.
fn all_bytes(dir: &Path) -> Vec<u8> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let bytes = |path: std::path::PathBuf| {
        if path.is_dir() { all_bytes(&path) } else { fs::read(path).unwrap() }
    };
    paths.flat_map(bytes).collect()
}

#[test]
fn a_service_replaces_the_vectors_alone_and_no_text_is_paid_for_twice() {
    let (world, service) = (World::indexed(), Service::start());
    let index = ["index", "tiny", "--embedder", "openai:letters"];
    // Four candidates and the text that tells the length; then the other two nodes.
    let candidates = service.run(&world, index.into_iter().chain(["--candidates-only"]));
    assert!(candidates.stderr.contains("paid tokens"), "{}", candidates.stderr);
    assert_eq!(service.asked(), 4 + 1);
    // Building again keeps embedder and scope.
    let again = service.run(&world, ["index", "tiny", "--force"]);
    assert!(again.stderr.contains("4 vectors from the cache"), "{}", again.stderr);
    assert_eq!(service.asked(), 1);
    let written = words_written(&world);
    service.run(&world, index).done();
    assert_eq!(service.asked(), 2 + 1);
    assert_eq!(words_written(&world), written);
    // It stays as it is unless another embedder, or --force, asks for more.
    assert!(service.run(&world, ["index", "tiny"]).stderr.contains("openai:letters"));
    assert_eq!(service.asked(), 0);
    let forced = service.run(&world, ["index", "tiny", "--force"]);
    assert!(forced.stderr.contains("6 vectors from the cache"), "{}", forced.stderr);
    assert_eq!(service.asked(), 1);
    service.run(&world, ["index", "tiny", "--force", "--drop-cache"]).done();
    assert_eq!(service.asked(), 6 + 1);

    let search = ["search", "tiny", "blue kite", "--system", "dense", "--json"];
    let hits = service.run(&world, search).json_lines();
    assert_eq!((hits.len(), service.asked()), (4, 1));
    // The query is kept too, so that an answer needs no service any more, but an account.
    assert_eq!(service.run(&world, search).json_lines(), hits);
    assert_eq!(service.asked(), 0);
    world.run(search).fails(1, &["openai:letters needs OPENAI_API_KEY"]);
    world.run(["search", "tiny", "blue kite", "--system", "bm25"]).done();
    world.run(["doctor"]).done();
    let home = all_bytes(&world.path("home"));
    assert!(!home.windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()));

    let written = words_written(&world);
    world.run(["index", "tiny", "--embedder", "builtin"]).done();
    assert_eq!(words_written(&world), written);
    world.run(search).done();
}

#[test]
fn a_named_embedder_has_settings_that_its_index_depends_on() {
    let (world, service) = (World::indexed(), Service::start());
    let config = |settings: &str| {
        let text = format!("[embedders.letters]\nmodel = \"openai:letters\"\n{settings}");
        fs::write(world.path("home/config.toml"), text).unwrap();
    };
    let index = ["index", "tiny", "--embedder", "letters"];
    service.run(&world, index).fails(2, &["unknown embedder \"letters\"", "[embedders.letters]"]);
    config("query_prefix = \"zzz \"\nnormalize = false\n");
    service.run(&world, index).done();
    let search = |query| ["search", "tiny", query, "--system", "dense", "--json"];
    let score = |query| {
        let hits = service.run(&world, search(query)).json_lines();
        hits[0]["score"].as_f64().unwrap()
    };
    // Counts of letters, not cosines.
    assert!(score("kite") > 2.0);
    // With other settings, vectors of queries would not fit those of the index.
    config("query_prefix = \"yyy \"\n");
    let changed = service.run(&world, search("kite"));
    changed.fails(
        1,
        &[
            "letters differs from the model of the index",
            "agent index N --embedder letters --force",
        ],
    );
    service.run(&world, index.into_iter().chain(["--force"])).done();
    assert!(score("kite") < 1.001);
    config("query_prefx = \"yyy \"\n");
    service.run(&world, search("kite")).fails(1, &["config.toml:3", "did you mean query_prefix?"]);
    // Words need no embedder.
    fs::remove_file(world.path("home/config.toml")).unwrap();
    world.run(["search", "tiny", "kite", "--system", "bm25"]).done();
    service.run(&world, search("kite")).fails(1, &["unknown embedder \"letters\""]);
}

#[test]
fn what_an_embedder_lacks_is_named_and_the_old_vectors_stay() {
    let (world, service) = (World::indexed(), Service::start());
    let index = |embedder| ["index", "tiny", "--embedder", embedder];
    world.run(index("openai:m")).fails(1, &["openai:m needs OPENAI_API_KEY"]);
    let mut wrong = world.command(index("openai:m"));
    wrong.env("OPENAI_BASE_URL", format!("http://{}/v1", service.address));
    let wrong = Ran::of(wrong.env("OPENAI_API_KEY", "sk-wrong").output().unwrap());
    wrong.fails(1, &["does not accept the key", "who are you?"]);
    world.run(index("candle:nowhere")).fails(1, &["cannot open the directory nowhere"]);
    fs::create_dir(world.path("empty")).unwrap();
    world.run(index("candle:empty")).fails(1, &["empty"]);
    world.run(index("import:empty")).fails(1, &["candidate_emb_dict.pt", "hint:"]);
    world.run(["search", "tiny", "dart", "--system", "dense"]).done();
}

/// A file as `torch.save` writes a dict of `[1, 2]` tensors.
pub(crate) fn write_dict(path: &Path, rows: &[(u32, [f32; 2])]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut pickle = b"\x80\x02}(".to_vec();
    let text = |text: &str| {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        [b"X", &length[..], text.as_bytes()].concat()
    };
    for (at, (id, _)) in rows.iter().enumerate() {
        pickle.extend([b"J", &id.to_le_bytes()[..]].concat());
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        pickle.extend([text("storage"), b"ctorch\nFloatStorage\n".to_vec()].concat());
        pickle.extend([text(&at.to_string()), text("cpu")].concat());
        pickle.extend(b"K\x02tQK\0K\x01K\x02\x86K\x02K\x01\x86\x89ccollections\nOrderedDict\n)RtR");
    }
    pickle.extend(b"u.");
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    let plain =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut add = |name: String, bytes: &[u8]| {
        zip.start_file(format!("archive/{name}"), plain).unwrap();
        zip.write_all(bytes).unwrap();
    };
    add("data.pkl".to_owned(), &pickle);
    for (at, (_, row)) in rows.iter().enumerate() {
        add(format!("data/{at}"), &row.map(f32::to_le_bytes).concat());
    }
    zip.finish().unwrap();
}

#[test]
fn imported_vectors_rank_by_their_dot_product_and_answer_known_queries_only() {
    let world = World::indexed();
    let nodes = world.path("emb/doc/candidate_emb_dict.pt");
    // In no order; longer vectors count for more, as in the source.
    let rows = [(3, [0.0, 1.0]), (0, [1.0, 0.0]), (2, [3.0, 0.5]), (1, [0.5, 0.5])];
    write_dict(&nodes, &rows);
    let queries = [(0, [1.0, 0.0]), (1, [0.0, 2.0]), (3, [0.5, 0.0])];
    write_dict(&world.path("emb/query/query_emb_dict.pt"), &queries);
    let index = ["index", "tiny", "--embedder", "import:emb"];
    let ran = world.run(index);
    assert!(ran.stderr.contains("4 nodes and 3 queries"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 queries of the base have no vector"), "{}", ran.stderr);
    // What was imported is in the index.
    fs::remove_dir_all(world.path("emb")).unwrap();
    let search = |query| world.run(["search", "tiny", query, "--system", "dense", "--json"]);
    let ranked = |query| -> Vec<(Value, Value)> {
        let hits = search(query).json_lines();
        hits.iter().map(|hit| (hit["id"].clone(), hit["score"].clone())).collect()
    };
    let expected = [(2, 3.0), (0, 1.0), (1, 0.5), (3, 0.0)];
    assert_eq!(ranked("a steel dart"), expected.map(|(id, score)| (id.into(), score.into())));
    let expected = [(3, 2.0), (1, 1.0), (2, 1.0), (0, 0.0)];
    assert_eq!(ranked("a light kite"), expected.map(|(id, score)| (id.into(), score.into())));
    search("a durable kite by Sky Toys").fails(1, &["no vector was imported", "durable kite"]);
    assert_eq!(world.run(["doctor"]).status, 0);

    // The same words with another vector are told.
    write_dict(&nodes, &rows);
    let qa = "id,query,answer_ids\n0,a dart,[0]\n1,a kite,[1]\n2,a dart,[2]\n";
    let (twice, file) = (world.path("twice"), |name: &str| world.path("twice").join(name));
    fs::create_dir_all(twice.join("split")).unwrap();
    for name in ["nodes.jsonl", "edges.tsv", "dataset.toml"] {
        fs::copy(world.path("tiny").join(name), file(name)).unwrap();
    }
    fs::write(file("qa.csv"), qa).unwrap();
    fs::write(file("split/train.index"), "0\n1\n2\n").unwrap();
    world.run(["data", "import", "--name", "twice", "--from", "twice"]).done();
    write_dict(&world.path("emb/query/query_emb_dict.pt"), &[(0, [1.0, 0.0]), (2, [0.0, 1.0])]);
    let ran = world.run(["index", "twice", "--embedder", "import:emb"]);
    let told = "1 queries have the text of another query but a different vector (first: 2)";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);

    let refused = |rows: &[(u32, [f32; 2])], words: &[&str]| {
        write_dict(&nodes, rows);
        world.run(index.into_iter().chain(["--force"])).fails(1, words);
    };
    refused(&rows[1..], &["1 of 4 candidates have no vector; the first is node 3"]);
    refused(
        &[&rows[..], &[(4, [1.0, 0.0])]].concat(),
        &["1 vectors do not belong to candidates", "id 4"],
    );
    refused(&[&rows[..], &[(0, [1.0, 0.0])]].concat(), &["node 0 has two vectors"]);
    refused(&[&rows[1..], &[(3, [f32::NAN, 0.0])]].concat(), &["finite"]);
}
