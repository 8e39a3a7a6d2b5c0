//! Compares a tiny random checkpoint with the reference, and tests invalid checkpoints.
//!
//! `scripts/colbert-fixtures.py` makes `tests/data/colbert`.

use std::fs;

use super::*;
use crate::EmbedError;

/// Texts with the computation of the reference, and the scores of each query.
#[derive(Deserialize)]
struct Golden {
    queries: Vec<Text>,
    documents: Vec<Text>,
    scores: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
    mask: Vec<usize>,
    rows: Vec<Vec<f32>>,
}

fn dir() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/colbert")).to_owned()
}

#[test]
fn vectors_and_scores_are_those_of_the_reference() {
    let encoder = ColbertEncoder::open(&dir()).unwrap();
    let golden: Golden =
        serde_json::from_slice(&fs::read(dir().join("golden.json")).unwrap()).unwrap();
    let cutter = &encoder.encoder.ready().unwrap().cutter;
    let check = |text: &Text, pieces: &WordPieces, matrix: &Matrix| {
        assert_eq!(pieces.ids, text.ids, "{}", text.text);
        assert_eq!(pieces.ids.len() - pieces.masked, text.mask.iter().sum::<usize>());
        assert_eq!((matrix.rows(), matrix.dim()), (text.rows.len(), encoder.dim()));
        for (at, row) in text.rows.iter().enumerate() {
            let cosine = dot(matrix.row(at).unwrap(), row);
            assert!((cosine - 1.0).abs() < 1e-4, "{}: row {at} has cosine {cosine}", text.text);
        }
    };
    let texts: Vec<&str> = golden.documents.iter().map(|text| &*text.text).collect();
    let documents = encoder.embed_documents(&texts).unwrap();
    for (text, matrix) in golden.documents.iter().zip(&documents) {
        check(text, &encoder.document_pieces(&cutter.cut("", &text.text).unwrap()), matrix);
        assert_eq!(encoder.document_tokens(&text.text).unwrap().len(), matrix.rows());
    }
    for (text, expected) in golden.queries.iter().zip(&golden.scores) {
        let matrix = encoder.embed_query(&text.text).unwrap();
        check(text, &encoder.query_pieces(&text.text).unwrap(), &matrix);
        for (document, score) in documents.iter().zip(expected) {
            let best = |row| {
                let tokens = document.data().chunks_exact(encoder.dim());
                tokens.map(|token| dot(token, row)).fold(f32::MIN, f32::max)
            };
            let sum: f32 = matrix.data().chunks_exact(encoder.dim()).map(best).sum();
            assert!((sum - score).abs() < 1e-3, "{}: {sum}, not {score}", text.text);
        }
    }
    assert_eq!(
        encoder.query_tokens("steel dart").unwrap()[1..5],
        ["[unused0]", "steel", "dart", "[SEP]"]
    );
    assert_eq!(encoder.embed_query(" ").unwrap().rows(), 0);
    assert_eq!(encoder.embed_documents(&[""]).unwrap()[0].rows(), 0);
}

/// Returns the result of opening a copy of the checkpoint in which `find` is replaced by `replace`
/// in one file.
fn changed(file: &str, find: &str, replace: &str) -> Result<ColbertEncoder, EmbedError> {
    let copy = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors", METADATA] {
        let mut bytes = fs::read(dir().join(name)).unwrap();
        if name == file {
            let at = bytes.windows(find.len()).position(|part| part == find.as_bytes());
            let at = at.unwrap_or_else(|| panic!("{file} has no {find}"));
            bytes.splice(at..at + find.len(), replace.bytes());
        }
        fs::write(copy.path().join(name), bytes).unwrap();
    }
    ColbertEncoder::open(copy.path())
}

#[test]
fn what_is_not_a_checkpoint_is_said_with_file_and_remedy() {
    for (file, find, replace, expected) in [
        ("model.safetensors", "linear.weight", "linear.height", "use a ColBERT checkpoint"),
        ("model.safetensors", "[24, 32]", "[32, 24]", "config.json requires [dim, 32]"),
        ("tokenizer.json", "[unused1]", "[unused7]", "no token [unused1]"),
        ("tokenizer.json", "[MASK]", "[MOSK]", "no token [MASK]"),
        (METADATA, "\"dim\": 24", "\"dim\": 25", "dim is 25, but linear.weight has 24 rows"),
        (
            METADATA,
            "\"doc_maxlen\": 30",
            "\"doc_maxlen\": 41",
            "doc_maxlen is 41, expected 4 to 40",
        ),
        (METADATA, "\"query_maxlen\": 12", "\"query_maxlen\": 3", "query_maxlen is 3"),
        (METADATA, "{", "{\"similarity\": \"l2\",", "only cosine"),
    ] {
        let error = changed(file, find, replace).err().unwrap().to_string();
        assert!(error.starts_with("model file /") && error.contains(expected), "{error}");
    }
    let encoder = dir().join("../encoder/mean");
    let error = ColbertEncoder::open(&encoder).err().unwrap().to_string();
    assert!(error.contains("linear.weight"), "{error}");
    let error = ColbertEncoder::open(&dir().join("nothing")).err().unwrap().to_string();
    assert!(error.contains("config.json") && error.contains("it is missing"), "{error}");
}

#[test]
fn settings_change_vectors_and_fingerprint() {
    let plain = ColbertEncoder::open(&dir()).unwrap();
    let rows = |encoder: &ColbertEncoder| {
        let query = encoder.embed_query("steel dart").unwrap();
        (query, encoder.embed_documents(&["the dart."]).unwrap().remove(0))
    };
    for (find, replace, [query, document]) in [
        ("tokens\": false", "tokens\": true", [true, false]),
        ("punctuation\": true", "punctuation\": false", [false, true]),
    ] {
        let other = changed(METADATA, find, replace).unwrap();
        assert_ne!(other.fingerprint(), plain.fingerprint());
        let (ours, theirs) = (rows(&plain), rows(&other));
        assert_eq!([ours.0 != theirs.0, ours.1 != theirs.1], [query, document], "{find}");
    }
    assert_eq!(changed("config.json", "{", "{").unwrap().fingerprint(), plain.fingerprint());
}
