//! Measures BM25, this project's and tantivy's in one run: building an index of documents, and
//! finding the best 100.
//!
//! `AGENT_BENCH_DOCS=DIR` names a directory with `docs.jsonl` (objects with `text`) and
//! `queries.jsonl` (objects with `query`); without it both come from the base of the other benches.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench may panic")]

mod support;

use std::{env, fs, hint::black_box, path::Path};

use agent::{
    index::{
        bm25::Bm25,
        postings::{self, Postings},
    },
    kb::Kb,
    words::{Analysis, for_each_reference_word},
};
use criterion::{Criterion, criterion_group, criterion_main};
use tantivy::{
    Index, Searcher, TantivyDocument, Term,
    collector::TopDocs,
    query::{BooleanQuery, Occur, Query, TermQuery},
    schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
};

/// Number of best documents requested.
const K: usize = 100;
/// Memory of tantivy's writer, bytes.
const WRITER_BYTES: usize = 500_000_000;

fn values(path: &Path, key: &str) -> Vec<String> {
    let lines = fs::read_to_string(path).unwrap();
    let value = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()[key].take();
    lines.lines().map(|line| value(line).as_str().unwrap().to_owned()).collect()
}

/// Reads the documents and queries.
fn texts() -> (Vec<String>, Vec<String>) {
    if let Ok(dir) = env::var("AGENT_BENCH_DOCS") {
        let dir = Path::new(&dir);
        return (
            values(&dir.join("docs.jsonl"), "text"),
            values(&dir.join("queries.jsonl"), "query"),
        );
    }
    let world = support::world();
    let kb = Kb::open(&world.base.kb_dir()).unwrap();
    let documents = (0..kb.n_nodes()).map(|node| kb.text(node).to_owned()).collect();
    (documents, world.queries().into_iter().map(|query| query.text).collect())
}

/// Builds tantivy's index with the same content as ours: counts, no positions.
fn tantivy_index(dir: &Path, documents: &[String]) -> (Searcher, Field) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqs);
    let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let index = Index::create_in_dir(dir, schema.build()).unwrap();
    let mut writer = index.writer_with_num_threads::<TantivyDocument>(2, WRITER_BYTES).unwrap();
    for document in documents {
        let mut entry = TantivyDocument::default();
        entry.add_text(text, document);
        writer.add_document(entry).unwrap();
    }
    writer.commit().unwrap();
    writer.wait_merging_threads().unwrap();
    (index.reader().unwrap().searcher(), text)
}

fn tantivy_query(text: &str, field: Field) -> BooleanQuery {
    let mut words = Vec::new();
    for_each_reference_word(text, |word| {
        let term = TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::WithFreqs);
        let query: Box<dyn Query> = Box::new(term);
        words.push((Occur::Should, query));
    });
    BooleanQuery::new(words)
}

fn bm25(criterion: &mut Criterion) {
    let (documents, queries) = texts();
    let temporary = tempfile::tempdir().unwrap();
    let n = documents.len();
    let path = temporary.path().join("postings");
    criterion.bench_function(&format!("build postings of {n} documents"), |b| {
        b.iter(|| postings::build(&path, Analysis::Words, &documents).unwrap())
    });
    criterion.bench_function(&format!("build tantivy's index of {n} documents"), |b| {
        b.iter(|| tantivy_index(tempfile::tempdir().unwrap().path(), &documents))
    });
    let ours = Postings::open(&path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (theirs, field) = tantivy_index(dir.path(), &documents);
    let mut texts = queries.iter().cycle();
    criterion.bench_function("best 100 by postings", |b| {
        b.iter(|| ours.search(black_box(texts.next().unwrap()), Bm25::STARK, None, K))
    });
    let mut texts = queries.iter().cycle();
    criterion.bench_function("best 100 by tantivy", |b| {
        b.iter(|| {
            let query = tantivy_query(black_box(texts.next().unwrap()), field);
            theirs.search(&query, &TopDocs::with_limit(K).order_by_score()).unwrap()
        })
    });
}

criterion_group! { name = benches; config = support::quick(); targets = bm25 }
criterion_main!(benches);
