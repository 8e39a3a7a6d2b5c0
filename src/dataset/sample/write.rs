//! Writes a sample in the neutral dataset format.
//!
//! ```text
//! nodes.jsonl    {"id": 0, "type": "product", "name": "...", "details": {...}}   ids 0..n in order
//! edges.tsv      src_id TAB relation TAB dst_id, header first
//! qa.csv         id,query,answer_ids,template          answer_ids as in "[3, 17]"
//! split/X.index  one question id per line, ascending; X is train, val or test
//! dataset.toml   title, licence, candidate_types, and a [sample] table with kind, seed and scale
//! ```
//!
//! `dataset.toml` is written last: a folder without it is incomplete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::sample::SampleError;
use crate::sample::graph::{Graph, World, draw_edges};
use crate::sample::queries::{Question, Source, splits};
use crate::sample::random::Stream;
use crate::sample::schema::{SCHEMAS, candidate_types};
use crate::sample::texts;
use crate::sample::wording::TEMPLATES;

/// Size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Number of nodes or edges between two progress reports.
const REPORT_EVERY: u64 = 50_000;

fn failed(path: &Path) -> impl FnOnce(io::Error) -> SampleError {
    let path = path.to_owned();
    move |source| SampleError::Write { path, source }
}

fn create(path: &Path) -> Result<BufWriter<File>, SampleError> {
    let file = File::create(path).map_err(failed(path))?;
    Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
}

/// Draws all edges and writes them to `edges.tsv`; returns the graph and the number of stored
/// edges.
pub(super) fn edges(
    world: &World,
    out_dir: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Graph, u64), SampleError> {
    let path = out_dir.join("edges.tsv");
    let mut file = create(&path)?;
    writeln!(file, "src_id\trelation\tdst_id").map_err(failed(&path))?;
    let plans = &SCHEMAS[&world.kind].edges;
    let mut graph = Graph::default();
    let mut n_edges = 0u64;
    for (done, plan) in plans.iter().enumerate() {
        progress(done as u64, plans.len() as u64);
        let source = world.type_of(&plan.source);
        let target = world.type_of(&plan.target);
        let pairs = draw_edges(world, plan);
        n_edges += pairs.len() as u64;
        for &(from, to) in &pairs {
            let (from, to) = (world.id(source, from), world.id(target, to));
            writeln!(file, "{from}\t{}\t{to}", plan.relation).map_err(failed(&path))?;
        }
        graph.add(world, plan, pairs);
    }
    progress(plans.len() as u64, plans.len() as u64);
    file.flush().map_err(failed(&path))?;
    Ok((graph, n_edges))
}

/// Composes all nodes and writes them to `nodes.jsonl`, in the order of their ids.
pub(super) fn nodes(
    source: &Source<'_>,
    out_dir: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), SampleError> {
    let path = out_dir.join("nodes.jsonl");
    let mut file = create(&path)?;
    let world = source.world;
    let n_nodes = world.n_nodes();
    for (node_type, type_name) in world.kind.types().iter().enumerate() {
        let purpose = ["text ", type_name].concat();
        for index in 0..world.counts[node_type] {
            let id = world.id(node_type, index);
            if u64::from(id).is_multiple_of(REPORT_EVERY) {
                progress(u64::from(id), n_nodes);
            }
            let name = source.name(node_type, index);
            let facts = source.facts[node_type].of(index);
            let mut stream = Stream::new(world.seed, &purpose, u64::from(index));
            let n_links =
                |relation: &'static str, to: &str| source.degree(node_type, index, relation, to);
            let counted = |key: &str, relation: &'static str, to: &str| {
                Map::from_iter([(key.to_owned(), Value::from(n_links(relation, to)))])
            };
            let details = match *type_name {
                "product" => texts::product(facts, &mut stream),
                "paper" => {
                    let n_cited = n_links("paper___cites___paper", "paper");
                    texts::paper(facts, n_cited, &mut stream)
                }
                "author" => counted("PaperCount", "author___writes___paper", "paper"),
                "institution" => {
                    counted("AuthorCount", "author___affiliated_with___institution", "author")
                }
                "field_of_study" => {
                    counted("PaperCount", "paper___has_topic___field_of_study", "paper")
                }
                "brand" | "category" | "color" => Map::new(),
                other => texts::biomedical(other, &name.name, &name.aliases, facts, &mut stream),
            };
            let line =
                json!({ "id": id, "type": type_name, "name": name.name, "details": details });
            serde_json::to_writer(&mut file, &line)
                .map_err(|error| failed(&path)(io::Error::from(error)))?;
            file.write_all(b"\n").map_err(failed(&path))?;
        }
    }
    progress(n_nodes, n_nodes);
    file.flush().map_err(failed(&path))
}

/// Writes the questions and splits; returns the numbers of questions in train, val and test.
pub(super) fn questions(
    world: &World,
    questions: &[Question],
    out_dir: &Path,
) -> Result<[usize; 3], SampleError> {
    let path = out_dir.join("qa.csv");
    let mut file = csv::Writer::from_writer(create(&path)?);
    let wrong = |error: csv::Error| failed(&path)(io::Error::from(error));
    file.write_record(["id", "query", "answer_ids", "template"]).map_err(wrong)?;
    for (id, question) in questions.iter().enumerate() {
        let template = &TEMPLATES[question.template];
        let target = world.type_of(&template.target);
        let ids: Vec<String> =
            question.answers.iter().map(|&index| world.id(target, index).to_string()).collect();
        let answers = format!("[{}]", ids.join(", "));
        let row = [&id.to_string(), &question.text, &answers, &template.id];
        file.write_record(row).map_err(wrong)?;
    }
    file.flush().map_err(failed(&path))?;
    let folder = out_dir.join("split");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let assigned = splits(questions);
    let mut counts = [0; 3];
    for (split, name) in ["train", "val", "test"].iter().enumerate() {
        let path = folder.join(format!("{name}.index"));
        let ids: Vec<String> = (assigned.iter().enumerate())
            .filter(|(_, assigned)| **assigned == split)
            .map(|(id, _)| id.to_string())
            .collect();
        counts[split] = ids.len();
        fs::write(&path, ids.join("\n")).map_err(failed(&path))?;
    }
    Ok(counts)
}

/// Writes `dataset.toml`, which shows that the folder is complete.
pub(super) fn description(world: &World, out_dir: &Path) -> Result<(), SampleError> {
    let path = out_dir.join("dataset.toml");
    let description = json!({
        "title": format!("{} sample", world.kind.name()),
        "licence": "MIT OR Apache-2.0",
        "candidate_types": candidate_types(world.kind),
        // The seed is a string, because TOML integers end at 2^63 - 1.
        "sample": {
            "kind": world.kind.name(),
            "seed": world.seed.to_string(),
            "scale": world.scale,
        },
    });
    let text = toml::to_string(&description)
        .map_err(|error| failed(&path)(io::Error::other(error.to_string())))?;
    fs::write(&path, text).map_err(failed(&path))
}

/// Creates the output folder if it is missing, and checks that it is empty.
pub(super) fn prepare(out_dir: &Path) -> Result<(), SampleError> {
    fs::create_dir_all(out_dir).map_err(failed(out_dir))?;
    let mut entries = fs::read_dir(out_dir).map_err(failed(out_dir))?;
    if entries.next().is_some() {
        return Err(SampleError::NotEmpty { path: PathBuf::from(out_dir) });
    }
    Ok(())
}
