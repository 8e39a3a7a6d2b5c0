//! Measures single operations that other software offers too; `scripts/bench-peers.sh` compares
//! them.
//!
//! `AGENT_HOME=DIR AGENT_BENCH_BASE=N cargo bench --bench peers -- KIND [WORK]` prints a JSON line
//! per measurement: mean wall and processor time of one operation, and a digest of the results. The
//! file WORK has one operation per line, with columns separated by tabs:
//!
//! | kind | work |
//! | --- | --- |
//! | `open` | none |
//! | `neighbors` | node, relation |
//! | `hop2` | node, first relation, second relation |
//! | `metrics` | ranked nodes, answers, each separated by spaces |
//! | `bm25` | words |
//! | `program` | query, candidates separated by spaces |
//! | `dense` | a safetensors file with F32 tensors `rows` and `queries`; needs no base |
//!
//! Processor time is that of the whole process, as Linux counts it.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench may panic and print"
)]

mod support;

use std::{
    collections::BTreeMap,
    env, fs,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{
    embed::Matrix,
    eval::ranks::{AnswerRanks, Candidates},
    index::{
        TextPart,
        vectors::{Precision, VectorIndex, VectorWriter},
    },
    kb::{Direction, Kb, NodeId, RelationId, distinct},
    retrieve::Ranking,
    sandbox::{Code, Input, Limits, RhaiSandbox, Sandbox, Workers},
    tools::Session,
};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Minimum time for which work is repeated, seconds; Linux counts processor time in units of 10 ms.
const MIN_SECONDS: f64 = 1.0;
/// Units per second in which Linux reports processor time, on every architecture.
const TICKS_PER_SECOND: u64 = 100;
/// Number of nodes that a search returns.
const K: usize = 100;
/// Number of query vectors that are searched one at a time.
const SINGLE: usize = 20;
/// Number of pairs in the slowest look-up, over all relations: the first ones of the file.
const MAX_ANY: usize = 10_000;
const METRICS: [&str; 6] = ["mrr", "hit@1", "hit@5", "recall@20", "recall@100", "rprecision"];
/// Names of the measured programs, and their sources.
const PROGRAMS: [(&str, &str); 4] = [
    ("program_empty", "fn retrieve(query, candidates, params) { #{} }"),
    ("program_relations", include_str!("programs/relations.rhai")),
    ("program_text", include_str!("programs/text.rhai")),
    ("program_mixed", include_str!("programs/mixed.rhai")),
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|of| !of.starts_with("--")).collect();
    let file = arguments.get(1).map_or("", String::as_str);
    match arguments.first().map(String::as_str) {
        Some("open") => open(),
        Some("neighbors") => neighbors(file),
        Some("hop2") => hop2(file),
        Some("metrics") => metrics(file),
        Some("bm25") => bm25(file),
        Some("program") => program(file),
        Some("dense") => dense(file),
        _ => println!("skipped: name a kind of work and its file"),
    }
}

/// Times `pass`, which does `n` operations, after one pass to warm up; prints a line with `found`.
fn measure(work: &str, n: usize, found: Value, mut pass: impl FnMut()) {
    pass();
    let (began, cpu_began) = (Instant::now(), cpu());
    let mut passes = 0u32;
    while passes == 0 || began.elapsed().as_secs_f64() < MIN_SECONDS {
        pass();
        passes += 1;
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (f64::from(passes) * n.max(1) as f64);
    let mut line = json!({
        "work": work, "n": n, "passes": passes,
        "wall_us": each(began.elapsed()), "cpu_us": each(cpu() - cpu_began),
    });
    line.as_object_mut().unwrap().extend(found.as_object().cloned().unwrap());
    println!("{line}");
}

/// Returns the processor time of this process so far, of all its threads.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // The name of the program may contain any characters, but ends at the last parenthesis.
    let fields = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// Computes the hex SHA-256 of lists of ids: of each its length and its ids, little-endian `u32`.
fn digest(lists: impl IntoIterator<Item = impl AsRef<[u32]>>) -> String {
    let mut hasher = Sha256::new();
    for ids in lists {
        let ids = ids.as_ref();
        hasher.update((ids.len() as u32).to_le_bytes());
        ids.iter().for_each(|id| hasher.update(id.to_le_bytes()));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses the lines of a file of work; an invalid line ends the bench.
fn lines<T>(file: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let text = fs::read_to_string(file).unwrap();
    let parse = |(line, number): (&str, usize)| {
        parse(line).unwrap_or_else(|| panic!("{file}:{number}: unknown relation or wrong columns"))
    };
    text.lines().zip(1..).map(parse).collect()
}

fn ids(text: &str) -> Option<Vec<NodeId>> {
    text.split(' ').map(|id| id.parse().ok()).collect()
}

fn metapaths<const N: usize>(file: &str, kb: &Kb) -> Vec<(NodeId, [RelationId; N])> {
    lines(file, |line| {
        let (node, relations) = line.split_once('\t')?;
        let relations: Option<Vec<RelationId>> =
            relations.split('\t').map(|name| kb.relation_id(name)).collect();
        Some((node.parse().ok()?, relations?.try_into().ok()?))
    })
}

fn kb() -> Kb {
    Kb::open(&support::world().base.kb_dir()).unwrap()
}

fn open() {
    let world = support::world();
    let dir = world.base.kb_dir();
    let kb = Kb::open(&dir).unwrap();
    let found = json!({"nodes": kb.n_nodes(), "edges": kb.n_edges()});
    measure("open", 1, found, || drop(black_box(Kb::open(&dir).unwrap())));
}

fn neighbors(file: &str) {
    let kb = kb();
    let pairs = metapaths::<1>(file, &kb);
    let found = |lists: &[Vec<NodeId>]| {
        let n: usize = lists.iter().map(Vec::len).sum();
        json!({"mean_ids": n as f64 / lists.len().max(1) as f64, "digest": digest(lists)})
    };
    let typed = |&(node, [relation]): &(NodeId, [RelationId; 1])| {
        kb.neighbors(node, relation, Direction::Out)
    };
    let lists: Vec<Vec<NodeId>> = pairs.iter().map(|pair| typed(pair).into_owned()).collect();
    measure("neighbors_typed", pairs.len(), found(&lists), || {
        pairs.iter().for_each(|pair| drop(black_box(typed(pair))));
    });
    measure("neighbors_list", pairs.len(), found(&lists), || {
        pairs.iter().for_each(|pair| drop(black_box(typed(pair).into_owned())));
    });
    let pairs = &pairs[..pairs.len().min(MAX_ANY)];
    let any = |&(node, _): &(NodeId, [RelationId; 1])| {
        let mut nodes: Vec<NodeId> = Vec::new();
        for relation in 0..kb.relations().len() as u16 {
            nodes.extend_from_slice(&kb.neighbors(node, RelationId(relation), Direction::Out));
        }
        distinct(nodes)
    };
    let lists: Vec<Vec<NodeId>> = pairs.iter().map(any).collect();
    measure("neighbors_any", pairs.len(), found(&lists), || {
        pairs.iter().for_each(|pair| drop(black_box(any(pair))));
    });
}

fn hop2(file: &str) {
    let kb = kb();
    let metapaths = metapaths::<2>(file, &kb);
    let hop2 = |&(node, [first, second]): &(NodeId, [RelationId; 2])| {
        let mut nodes: Vec<NodeId> = Vec::new();
        for &middle in kb.neighbors(node, first, Direction::Out).iter() {
            nodes.extend_from_slice(&kb.neighbors(middle, second, Direction::Out));
        }
        distinct(nodes)
    };
    let found = json!({"digest": digest(metapaths.iter().map(hop2))});
    measure("hop2", metapaths.len(), found, || {
        metapaths.iter().for_each(|metapath| drop(black_box(hop2(metapath))));
    });
}

fn metrics(file: &str) {
    let kb = kb();
    let candidates = Candidates::of_base(&kb);
    let rankings: Vec<(Ranking, Vec<NodeId>)> = lines(file, |line| {
        let (ranked, answers) = line.split_once('\t')?;
        let scores = (1..).map(|rank| 1.0 / rank as f32);
        Some((ids(ranked)?.into_iter().zip(scores).collect(), ids(answers)?))
    });
    let six = |(ranking, answers): &(Ranking, Vec<NodeId>)| {
        let ranks = AnswerRanks::new(ranking, answers, candidates);
        [
            ranks.reciprocal_rank(),
            ranks.hit_at(1),
            ranks.hit_at(5),
            ranks.recall_at(20),
            ranks.recall_at(100),
            ranks.r_precision(),
        ]
    };
    let mean = |at: usize| {
        let sum: f64 = rankings.iter().map(|query| f64::from(six(query)[at])).sum();
        json!(sum / rankings.len().max(1) as f64)
    };
    let found = METRICS.iter().enumerate().map(|(at, &name)| (name.to_owned(), mean(at))).collect();
    measure("metrics", rankings.len(), Value::Object(found), || {
        rankings.iter().for_each(|query| {
            black_box(six(query));
        });
    });
}

fn bm25(file: &str) {
    let base = support::world().open();
    let queries = lines(file, |line| Some(line.to_owned()));
    measure("bm25", queries.len(), json!({}), || {
        queries.iter().for_each(|query| {
            drop(black_box(base.text.search(query, TextPart::Document, &[], K)));
        });
    });
}

fn program(file: &str) {
    let base = support::world().shared();
    let questions = lines(file, |line| {
        let (query, candidates) = line.split_once('\t')?;
        Some((query.to_owned(), ids(candidates)?))
    });
    let (sandbox, limits) =
        (RhaiSandbox::new(Arc::new(Workers::new(1).unwrap())), Limits::default());
    let compile = |source: &str| sandbox.compile(Code::Rhai(source), &limits).unwrap();
    measure("program_compile", PROGRAMS.len() - 1, json!({}), || {
        PROGRAMS[1..].iter().for_each(|(_, source)| drop(black_box(compile(source))));
    });
    let (params, n_nodes) = (BTreeMap::new(), base.kb.n_nodes() as usize);
    for (work, source) in PROGRAMS {
        let program = compile(source);
        let answer = |(query, candidates): &(String, Vec<NodeId>)| {
            let input = Input { query, candidates, params: &params, n_nodes };
            let session = Session::new(base.clone(), None);
            sandbox.run(&program, Box::new(session), input, &limits).0.unwrap()
        };
        let nodes = |question| -> Vec<NodeId> {
            answer(question).ranking.iter().map(|pair| pair.0).collect()
        };
        let found = json!({"digest": digest(questions.iter().map(nodes))});
        measure(work, questions.len(), found, || {
            questions.iter().for_each(|question| drop(black_box(answer(question))));
        });
    }
}

fn dense(file: &str) {
    let bytes = fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let matrix = |name: &str| {
        let tensor = tensors.tensor(name).unwrap();
        let numbers = tensor.data().chunks_exact(4).filter_map(|bytes| bytes.first_chunk());
        let numbers = numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Matrix::new(tensor.shape()[0], tensor.shape()[1], numbers).unwrap()
    };
    let (rows, queries) = (matrix("rows"), matrix("queries"));
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("vectors");
    let mut writer = VectorWriter::create(&dir, rows.dim(), Precision::F32, "").unwrap();
    writer.append(&rows).unwrap();
    writer.finish().unwrap();
    let index = VectorIndex::open(&dir).unwrap();
    // The order of equal scores depends on how products are summed.
    let sorted = |ranking: Vec<(NodeId, f32)>| {
        let mut ids: Vec<NodeId> = ranking.into_iter().map(|(node, _)| node).collect();
        ids.sort_unstable();
        ids
    };
    let found = |lists: Vec<Vec<(NodeId, f32)>>| {
        let digest = digest(lists.into_iter().map(sorted));
        json!({"rows": index.n(), "dim": index.dim(), "digest": digest})
    };
    // A GPU gets the rows only after some queries; from then on it does all the work.
    let all = || index.top_k_batch(&queries, K, None).unwrap();
    drop((all(), all()));
    measure("dense_batch", queries.rows(), found(all()), || drop(black_box(all())));
    let single: Vec<&[f32]> = (0..SINGLE).filter_map(|row| queries.row(row)).collect();
    let one = |query: &&[f32]| index.top_k(query, K, None).unwrap();
    measure("dense", single.len(), found(single.iter().map(one).collect()), || {
        single.iter().for_each(|query| drop(black_box(one(query))));
    });
}
