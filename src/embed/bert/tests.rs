//! Compares the vectors of encoders with those of sentence-transformers and with their own vectors
//! in other batches, and tests invalid files.
//!
//! The models of `tests/data/encoder` are random and tiny; `scripts/encoder-fixtures.py` makes
//! them.

use std::fs;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::matrix::dot;
use crate::{given, gpu::Device};

const MODELS: [&str; 3] = ["mean", "first", "plain"];
/// Models of architectures other than BERT.
const OTHERS: [&str; 3] = ["modernbert", "xlm-roberta", "qwen3"];

/// Vectors of norm 1 that sentence-transformers computed, with their texts.
#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    documents: Vec<Vec<f32>>,
    queries: Vec<Vec<f32>>,
    /// Vectors of tokens, for the first texts only.
    tokens: Vec<Vec<Vec<f32>>>,
}

fn dir(model: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/encoder").join(model)
}

/// A copy of a model that a test may damage.
fn copy(model: &str) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    fs::create_dir(to.path().join("1_Pooling")).unwrap();
    for entry in fs::read_dir(dir(model)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let pooling = "1_Pooling/config.json";
    fs::copy(dir(model).join(pooling), to.path().join(pooling)).unwrap();
    to
}

/// Returns the smallest cosine between a vector of the model in `dir` and the reference vector.
fn agreement(dir: &Path) -> f32 {
    let encoder = BertEncoder::open(dir).unwrap();
    let golden: Golden =
        serde_json::from_slice(&fs::read(dir.join("golden.json")).unwrap()).unwrap();
    let texts: Vec<&str> = golden.texts.iter().map(String::as_str).collect();
    let documents = encoder.embed_documents(&texts).unwrap();
    let mut least = 1.0f32;
    let mut compare = |ours: &[f32], theirs: &[f32]| {
        assert!((dot(ours, ours) - 1.0).abs() < 1e-5, "the norm is not 1");
        least = least.min(dot(ours, theirs));
    };
    for (i, text) in texts.iter().enumerate() {
        compare(documents.row(i).unwrap(), &golden.documents[i]);
        compare(&encoder.embed_query(text).unwrap(), &golden.queries[i]);
    }
    let tokens = encoder.embed_tokens(&texts[..golden.tokens.len()]).unwrap();
    for (ours, theirs) in tokens.iter().zip(&golden.tokens) {
        assert_eq!(ours.rows(), theirs.len());
        theirs.iter().enumerate().for_each(|(i, row)| compare(ours.row(i).unwrap(), row));
    }
    least
}

#[test]
fn vectors_are_those_of_sentence_transformers() {
    // A device computes with 16 bits.
    let bound = if Device::first().unwrap().is_some() { 0.9999 } else { 0.99999 };
    for model in MODELS {
        let least = agreement(&dir(model));
        assert!(least > bound, "{model}: {least}");
    }
}

#[test]
#[cfg(feature = "encoders")]
fn vectors_of_other_architectures_are_those_of_sentence_transformers() {
    for model in OTHERS {
        let least = agreement(&dir(model));
        assert!(least > 0.9999, "{model}: {least}");
        let encoder = BertEncoder::open(&dir(model)).unwrap();
        let vectors = encoder.embed_documents(&["", "a", "the drug"]).unwrap();
        assert!(vectors.row(0).unwrap().iter().all(|number| *number == 0.0));
        assert_eq!(vectors.row(2), encoder.embed_documents(&["the drug"]).unwrap().row(0));
    }
}

#[test]
#[cfg(not(feature = "encoders"))]
fn other_architectures_say_what_they_need() {
    for model in OTHERS {
        let error = BertEncoder::open(&dir(model)).err().unwrap().to_string();
        assert!(error.contains("--features encoders"), "{error}");
    }
}

#[test]
fn prefixes_replace_the_prompts_of_the_model() {
    let prefix = |text: &str| Some(text.to_owned());
    let plain = BertEncoder::open(&dir("plain")).unwrap();
    let options = EmbedderOptions {
        query_prefix: prefix(""),
        document_prefix: prefix("the query: "),
        ..EmbedderOptions::default()
    };
    let swapped = BertEncoder::open_with(&dir("plain"), options).unwrap();
    let document = |encoder: &BertEncoder| encoder.embed_documents(&["a drug"]).unwrap();
    let query = |encoder: &BertEncoder| encoder.embed_query("a drug").unwrap();
    assert_ne!(query(&plain), document(&plain).data());
    assert_eq!(query(&swapped), document(&plain).data());
    assert_eq!(document(&swapped).data(), query(&plain));
    assert_ne!(swapped.fingerprint(), plain.fingerprint());
    assert!(swapped.describe().contains("\"the query: \" before documents"));
}

#[test]
fn unscaled_vectors_have_the_direction_of_scaled_ones_and_the_norm_of_the_model() {
    let raw = || EmbedderOptions { normalize: false, ..EmbedderOptions::default() };
    let vector = |encoder: &BertEncoder| encoder.embed_query("a drug for the heart").unwrap();
    let norm = |vector: &[f32]| dot(vector, vector).sqrt();
    let scaled = BertEncoder::open(&dir("plain")).unwrap();
    let unscaled = BertEncoder::open_with(&dir("plain"), raw()).unwrap();
    let (unit, mean) = (vector(&scaled), vector(&unscaled));
    assert!((norm(&mean) - 1.0).abs() > 1e-3, "{}", norm(&mean));
    assert!((dot(&unit, &mean) / norm(&mean) - 1.0).abs() < 1e-5);
    assert_ne!(scaled.fingerprint(), unscaled.fingerprint());
    assert!(unscaled.describe().contains("not scaled"), "{}", unscaled.describe());
    // The other mean of sentence-transformers is larger by the root of the number of tokens.
    let model = copy("plain");
    let modes = r#"{"pooling_mode": "mean_sqrt_len_tokens"}"#;
    fs::write(model.path().join("1_Pooling/config.json"), modes).unwrap();
    let by_root = BertEncoder::open_with(model.path(), raw()).unwrap();
    let text = "the query: a drug for the heart";
    let n = scaled.count_tokens(&[text]).unwrap()[0] as f32;
    let factor = norm(&vector(&by_root)) / norm(&mean);
    assert!(n > 2.0 && (factor - n.sqrt()).abs() < 1e-3, "{factor} for {n} tokens");
    // A model that scales by itself still does.
    let own = BertEncoder::open_with(&dir("mean"), raw()).unwrap();
    assert!((norm(&vector(&own)) - 1.0).abs() < 1e-5);
}

#[test]
fn vectors_of_a_real_model_are_those_of_sentence_transformers() {
    let Some(dir) = given::variable("AGENT_MINILM_DIR", "model with golden.json") else { return };
    let least = agreement(Path::new(&dir));
    println!("smallest cosine with the reference: {least}");
    assert!(least > 0.9999, "{least}");
}

#[test]
fn queries_and_documents_have_the_prompts_of_the_model() {
    let first = BertEncoder::open(&dir("first")).unwrap();
    let settings = &first.settings;
    assert_eq!([&*settings.query_prompt, &*settings.document_prompt], ["query: ", "passage: "]);
    let plain = BertEncoder::open(&dir("plain")).unwrap();
    assert_eq!(plain.settings.document_prompt, "");
    assert_ne!(plain.embed_query("a").unwrap(), plain.embed_documents(&["a"]).unwrap().data());
    assert!(plain.describe().contains("scaled to norm 1 though"), "{}", plain.describe());
}

#[test]
fn a_text_without_pieces_is_the_zero_vector() {
    for model in MODELS {
        let encoder = BertEncoder::open(&dir(model)).unwrap();
        let vectors = encoder.embed_documents(&["", " \n\t ", "a"]).unwrap();
        assert!(vectors.data()[..2 * 32].iter().all(|number| *number == 0.0));
        assert!(vectors.row(2).unwrap().iter().any(|number| *number != 0.0));
        assert_eq!(encoder.embed_tokens(&[""]).unwrap()[0].rows(), 0);
    }
    let encoder = BertEncoder::open(&dir("mean")).unwrap();
    assert_eq!(encoder.embed_documents(&[]).unwrap().rows(), 0);
}

#[test]
fn a_long_text_is_its_start() {
    let encoder = BertEncoder::open(&dir("mean")).unwrap();
    assert_eq!(encoder.max_tokens(), 20);
    let long = "light house water ".repeat(1000);
    let start = "light house water ".repeat(6);
    let vectors = encoder.embed_documents(&[&long, &start, &long[..60]]).unwrap();
    assert_eq!(vectors.row(0), vectors.row(1));
    assert_ne!(vectors.row(0), vectors.row(2));
    assert_eq!(encoder.count_tokens(&[&long, "light", ""]).unwrap(), [20, 3, 0]);
}

#[test]
fn opening_converts_no_weights_and_the_fingerprint_covers_them() {
    let model = copy("mean");
    let encoder = BertEncoder::open(model.path()).unwrap();
    assert!(encoder.ready.get().is_none());
    let fingerprint = encoder.fingerprint().to_owned();
    encoder.prepare().unwrap();
    assert!(encoder.ready.get().is_some());
    assert_eq!(BertEncoder::open(&dir("mean")).unwrap().fingerprint(), fingerprint);
    encoder.verify().unwrap();
    drop(encoder);
    for file in ["model.safetensors", "tokenizer.json", "1_Pooling/config.json"] {
        let path = model.path().join(file);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        match file {
            "model.safetensors" => *changed.last_mut().unwrap() ^= 1,
            _ => changed.push(b' '),
        }
        fs::write(&path, changed).unwrap();
        assert_ne!(BertEncoder::open(model.path()).unwrap().fingerprint(), fingerprint, "{file}");
        fs::write(&path, bytes).unwrap();
    }
}

/// Returns the error of opening the model, or of embedding, after `find` was replaced by `replace`
/// in one of its files.
fn complaint(model: &str, file: &str, find: &str, replace: &str) -> String {
    let model = copy(model);
    let path = model.path().join(file);
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(find.len()).position(|window| window == find.as_bytes());
    let at = at.unwrap_or_else(|| panic!("{file} has no {find}"));
    let rest = &bytes[at + find.len()..];
    fs::write(&path, [&bytes[..at], replace.as_bytes(), rest].concat()).unwrap();
    let outcome = BertEncoder::open(model.path()).and_then(|encoder| encoder.verify());
    let error = outcome.expect_err(&format!("{file}: {find} -> {replace}")).to_string();
    assert!(error.starts_with("model file /"), "{error}");
    error
}

#[test]
fn what_cannot_be_run_is_said_with_file_and_remedy() {
    for (file, find, replace, expected) in [
        ("config.json", "\"bert\"", "\"t5\"", "architecture \"t5\" is not supported"),
        ("config.json", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"silu\"", "\"silu\""),
        ("config.json", "\"num_attention_heads\": 2", "\"num_attention_heads\": 4", "which is 4"),
        ("config.json", "\"hidden_size\": 32", "\"hidden_size\": 40", "hidden_size is 40"),
        ("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 65", "up to 64"),
        ("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "encoder.layer.2"),
        (
            "config.json",
            "\"max_position_embeddings\": 48",
            "\"max_position_embeddings\": 49",
            "[49, 32]",
        ),
        ("modules.json", "models.Normalize", "models.Dense", "module Dense is not supported"),
        ("modules.json", "\"1_Pooling\"", "\"../mean\"", "leads out of the model"),
        ("1_Pooling/config.json", "mean_tokens", "max_tokens", "pooling by max_tokens"),
        ("sentence_bert_config.json", "20", "2.5", "not the expected JSON"),
        (
            "model.safetensors",
            "layer.1.output.dense.bias",
            "layer.1.output.dense.bits",
            "dense.bias",
        ),
        ("model.safetensors", "\"F32\"", "\"I32\"", "expected F32, F16 or BF16"),
        ("tokenizer.json", "{", "[", "not a tokenizer"),
        ("config.json", "\"vocab_size\": 36", "\"vocab_size\": 35", "[36, 32]"),
    ] {
        let error = complaint("mean", file, find, replace);
        assert!(error.contains(expected), "{error}");
    }
    let model = copy("mean");
    for file in ["config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json"] {
        let path = model.path().join(file);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let error = BertEncoder::open(model.path()).err().unwrap().to_string();
        assert!(error.contains("it is missing; copy the whole directory"), "{error}");
        fs::write(&path, bytes).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_vector_depends_on_its_text_alone(
        texts in prop::collection::vec("((light|house|kinase|a|unknown|é|, ){1,3} ?){0,40}", 1..24),
        model in 0..3usize,
    ) {
        let encoder = BertEncoder::open(&dir(MODELS[model])).unwrap();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let together = encoder.embed_documents(&texts).unwrap();
        let rows = encoder.embed_tokens(&texts).unwrap();
        for (i, text) in texts.iter().enumerate() {
            let alone = encoder.embed_documents(&[text]).unwrap();
            prop_assert_eq!(together.row(i).unwrap(), alone.data());
            prop_assert_eq!(&rows[i], &encoder.embed_tokens(&[text]).unwrap()[0]);
        }
    }

    #[test]
    fn the_start_of_a_text_gives_its_first_pieces(
        words in "([a-z]{1,30}|é|\\.|kin|[ \t\n]{1,40}| ){0,200}",
    ) {
        let encoder = BertEncoder::open(&dir("mean")).unwrap();
        let cutter = &encoder.ready().unwrap().cutter;
        prop_assert_eq!(cutter.cut("", &words).unwrap(), cutter.cut_whole(&words).unwrap());
    }

    #[test]
    fn no_bytes_make_it_panic(
        file in prop::sample::select(vec![
            "config.json", "tokenizer.json", "model.safetensors", "modules.json",
            "sentence_bert_config.json", "tokenizer_config.json", "1_Pooling/config.json",
        ]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let model = copy("mean");
        let path = model.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        // The first bytes of the weights are their header, where damage has the most effects.
        let reach = bytes.len().min(6000);
        for (at, byte) in changes {
            bytes[at.index(reach)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(reach));
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(encoder) = BertEncoder::open(model.path())
            && let Ok(vectors) = encoder.embed_documents(&["the gene causes", "kinase"])
        {
            prop_assert!(vectors.data().iter().all(|number| number.is_finite()));
        }
    }
}
