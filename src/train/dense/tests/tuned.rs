//! Tests fine-tuning on tiny sentence encoders with random weights.

use std::{collections::HashMap, fs, path::Path};

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;

use super::{
    super::{
        transformer::Transformer,
        tune::{BaseEncoder, Settings, TunedModelInfo},
    },
    *,
};
use agent_embed::{
    BertEncoder, EmbedError, Embedder,
    bert::{Parts, Pooling},
    matrix::dot,
};

/// Writes an encoder with one layer and random weights; its vocabulary is that of the made-up
/// knowledge base.
fn write_encoder(dir: &Path) {
    let concepts = (0..CONCEPTS).flat_map(|concept| (0..SYNONYMS).map(move |at| (concept, at)));
    let words =
        concepts.flat_map(|(concept, at)| ["d", "q"].map(|side| format!("{side}{concept}x{at}")));
    let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned).into_iter().chain(words);
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        pieces.enumerate().map(|(id, piece)| (piece, id.into())).collect();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false, "special": true})
    };
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [special(0, "[PAD]"), special(1, "[UNK]"), special(2, "[CLS]"), special(3, "[SEP]")],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}},
        },
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    let config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 32, "intermediate_size": 32,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 32, "num_attention_heads": 2,
        "num_hidden_layers": 1, "type_vocab_size": 2, "vocab_size": vocabulary.len(),
    });
    let modules = json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]);
    fs::create_dir_all(dir.join("1_Pooling")).unwrap();
    for (file, value) in [
        ("tokenizer.json", &tokenizer),
        ("config.json", &config),
        ("modules.json", &modules),
        ("1_Pooling/config.json", &json!({"pooling_mode_mean_tokens": true})),
    ] {
        fs::write(dir.join(file), value.to_string()).unwrap();
    }
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut tensors: HashMap<String, (Vec<usize>, Vec<f32>)> = HashMap::new();
    let mut add = |name: &str, shape: &[usize], centre: f32, width: f32| {
        let n = shape.iter().product();
        let numbers = (0..n).map(|_| centre + random.random_range(-width..width)).collect();
        tensors.insert(name.to_owned(), (shape.to_vec(), numbers));
    };
    add("embeddings.word_embeddings.weight", &[vocabulary.len(), 32], 0.0, 1.0);
    add("embeddings.position_embeddings.weight", &[32, 32], 0.0, 0.1);
    add("embeddings.token_type_embeddings.weight", &[2, 32], 0.0, 0.1);
    let layer = |name: &str| format!("encoder.layer.0.{name}");
    for name in
        ["embeddings.LayerNorm", &layer("attention.output.LayerNorm"), &layer("output.LayerNorm")]
    {
        add(&format!("{name}.weight"), &[32], 1.0, 0.2);
        add(&format!("{name}.bias"), &[32], 0.0, 0.1);
    }
    for name in [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ] {
        add(&format!("{}.weight", layer(name)), &[32, 32], 0.0, 0.3);
        add(&format!("{}.bias", layer(name)), &[32], 0.0, 0.1);
    }
    let views = tensors.iter().map(|(name, (shape, numbers))| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytemuck::cast_slice(numbers)).unwrap())
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).unwrap();
}

/// A made-up knowledge base and an encoder for it.
struct Planted {
    world: World,
    encoder: BaseEncoder,
}

impl Planted {
    fn new() -> Planted {
        let world = World::new();
        let dir = world.dir.path().join("encoder");
        write_encoder(&dir);
        Planted { encoder: BaseEncoder::open(&dir, 16).unwrap(), world }
    }

    fn settings(&self, negatives: Negatives) -> Settings {
        Settings {
            encoder: self.encoder.fingerprint().to_owned(),
            negatives,
            refresh: 2,
            epochs: 4,
            rate: 5e-3,
            max_tokens: 16,
            pool: 60,
            made: 10,
            ..Settings::default()
        }
    }

    fn task<'a>(&'a self, given: &'a Given, settings: &'a Settings) -> Task<'a, Settings> {
        Task {
            base: &self.world.base,
            source: &given.source,
            train: &given.train,
            val: &given.val,
            settings,
            dir: &given.dir,
            checkpoint: &given.checkpoint,
            resume: false,
        }
    }

    fn tune(
        &self,
        task: &Task<'_, Settings>,
        report: &(dyn Fn(Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<Record<TunedModelInfo>, TrainError> {
        tune(task, &self.encoder, report, stop)
    }

    /// Returns [`World::hit`] for searches with the encoder in the directory `dir`.
    fn hit(&self, dir: &Path) -> f64 {
        let encoder = BertEncoder::open(dir).unwrap();
        let kb = &self.world.base.kb;
        let texts: Vec<&str> = kb.candidates().iter().map(|&node| kb.text(node)).collect();
        let rows = encoder.embed_documents(&texts).unwrap();
        self.world.hit(|query| {
            let vector = encoder.embed_query(query).unwrap();
            let scores = kb.candidates().iter().enumerate();
            let scores = scores.map(|(at, &node)| (node, dot(rows.row(at).unwrap(), &vector)));
            agent_kb::best(scores.collect::<Vec<_>>(), 1)
        })
    }
}

#[test]
fn an_encoder_learns_which_words_go_together_and_is_opened_like_any_other() {
    let planted = Planted::new();
    let from = planted.world.dir.path().join("encoder");
    assert!(planted.hit(&from) <= 0.1);
    for negatives in [Negatives::Bm25, Negatives::Own] {
        let given = planted.world.given(negatives.name());
        let settings = Settings { epochs: 30, patience: 30, ..planted.settings(negatives) };
        let task = planted.task(&given, &settings);
        let record = planted.tune(&task, &|_| {}, &AtomicBool::new(false)).unwrap();
        let (first, last) = (record.curve[1], record.curve[record.curve.len() - 1]);
        assert!(last.loss < first.loss / 2.0, "{negatives:?}: {:?}", record.curve);
        assert!(record.best().unwrap().mrr > record.curve[0].mrr + 0.3, "{:?}", record.curve);
        let hit = planted.hit(&given.dir);
        assert!(hit >= 0.5, "{negatives:?}: {hit}");
        for file in ["config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json"] {
            assert_eq!(fs::read(given.dir.join(file)).unwrap(), fs::read(from.join(file)).unwrap());
        }
        let error = Encoder::open(&planted.world.base, &given.dir).err().unwrap().to_string();
        assert!(error.contains("agent index N --embedder candle:"), "{error}");
    }
}

#[test]
fn tuned_on_one_thread_two_and_after_an_interruption_the_bytes_are_the_same() {
    let planted = Planted::new();
    let settings = Settings { epochs: 2, ..planted.settings(Negatives::Own) };
    let files = |given: &Given| {
        ["record.json", "model.safetensors"].map(|file| fs::read(given.dir.join(file)).unwrap())
    };
    let bytes = |threads: usize, name: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let given = planted.world.given(name);
        let task = planted.task(&given, &settings);
        pool.install(|| planted.tune(&task, &|_| {}, &AtomicBool::new(false))).unwrap();
        files(&given)
    };
    let whole = bytes(1, "one");
    assert!(whole == bytes(2, "two"));
    let given = planted.world.given("stopped");
    let mut task = planted.task(&given, &settings);
    let (stop, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    let report = |at: Progress| {
        let is_batch = matches!(at, Progress::Learning { .. });
        if is_batch && batches.fetch_add(1, Ordering::Relaxed) == 19 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    assert!(matches!(planted.tune(&task, &report, &stop), Err(TrainError::Stopped)));
    assert!(!given.dir.exists() && given.checkpoint.exists());
    task.resume = true;
    let other = Settings { encoder: "another".to_owned(), ..settings.clone() };
    let changed = Task { resume: true, ..planted.task(&given, &other) };
    let refused = planted.tune(&changed, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(refused, TrainError::NoCheckpoint { .. }), "{refused}");
    planted.tune(&task, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(whole == files(&given));
    assert!(!given.checkpoint.exists());
}

#[test]
fn the_forward_pass_is_that_of_the_embedder() {
    let fixtures =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/encoder");
    for (model, pooling) in
        [("mean", Pooling::Mean), ("first", Pooling::First), ("plain", Pooling::Mean)]
    {
        let dir = fixtures.join(model);
        let (encoder, parts) =
            (BertEncoder::open(&dir).unwrap(), Parts::open(&dir, usize::MAX).unwrap());
        assert_eq!(parts.pooling(), pooling);
        let texts = ["the gene causes", "", "kinase light house the drug light gene", "a"];
        let shapes: Vec<Vec<usize>> = parts.tensors().into_iter().map(|pair| pair.1).collect();
        let transformer = Transformer { shape: parts.shape(), pooling, tensors: &shapes };
        let numbers = parts.numbers().unwrap();
        let variables = transformer.variables(&numbers).unwrap();
        let pieces = parts.cut_documents(&texts).unwrap();
        let pieces: Vec<_> = pieces.iter().collect();
        let found = transformer.embed::<f32>(&variables, &pieces).unwrap();
        let ours = encoder.embed_documents(&texts).unwrap();
        for (at, vector) in found.iter().enumerate() {
            let cosine = dot(vector, ours.row(at).unwrap());
            let expected = if texts[at].is_empty() { 0.0 } else { 1.0 };
            assert!((cosine - expected).abs() < 1e-5, "{model} {at}: {cosine}");
        }
        let dir = tempfile::tempdir().unwrap();
        parts.write(dir.path(), &numbers).unwrap();
        let again = BertEncoder::open(dir.path()).unwrap();
        assert_eq!(again.embed_documents(&texts).unwrap(), ours);
    }
}

#[test]
fn the_derivative_of_the_forward_pass_is_that_of_finite_differences() {
    let dir =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/encoder/mean");
    let parts = Parts::open(&dir, 8).unwrap();
    let shapes: Vec<Vec<usize>> = parts.tensors().into_iter().map(|pair| pair.1).collect();
    let transformer =
        Transformer { shape: parts.shape(), pooling: parts.pooling(), tensors: &shapes };
    let pieces = parts.cut_documents(&["the gene causes", "kinase light", "a the drug"]).unwrap();
    let pieces: Vec<_> = pieces.iter().collect();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let by_vector: Vec<Vec<f64>> = pieces
        .iter()
        .map(|_| (0..parts.shape().hidden).map(|_| random.random_range(-1.0..1.0)).collect())
        .collect();
    let by_vector: Vec<&[f64]> = by_vector.iter().map(Vec::as_slice).collect();
    let mut numbers: Vec<f64> = parts.numbers().unwrap().into_iter().map(f64::from).collect();
    let variables = transformer.variables(&numbers).unwrap();
    let gradient = transformer.gradient::<f64>(&variables, &pieces, &by_vector).unwrap();
    assert_eq!(gradient.len(), numbers.len());
    let value = |numbers: &[f64]| -> f64 {
        let variables = transformer.variables(numbers).unwrap();
        let vectors = transformer.embed::<f64>(&variables, &pieces).unwrap();
        let product =
            |(v, d): (&Vec<f64>, &&[f64])| v.iter().zip(*d).map(|(v, d)| v * d).sum::<f64>();
        vectors.iter().zip(&by_vector).map(product).sum()
    };
    let (mut start, step) = (0, 1e-5);
    for shape in &shapes {
        let n: usize = shape.iter().product();
        // The largest derivative of each tensor, and some others.
        let largest =
            (start..start + n).max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs()));
        let others: Vec<usize> =
            (start..start + n).collect::<Vec<_>>().sample(&mut random, 3).copied().collect();
        for at in largest.into_iter().chain(others) {
            let before = numbers[at];
            let [up, down] = [step, -step].map(|by| {
                numbers[at] = before + by;
                value(&numbers)
            });
            numbers[at] = before;
            let measured = (up - down) / (2.0 * step);
            let difference = (gradient[at] - measured).abs();
            assert!(
                difference < 1e-5 * (1.0 + measured.abs()),
                "{at}: {} {measured}",
                gradient[at]
            );
        }
        start += n;
    }
}

#[test]
fn what_cannot_be_tuned_is_told() {
    let fixtures =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/data/encoder");
    let error = BaseEncoder::open(&fixtures.join("modernbert"), 16).err().unwrap().to_string();
    // The encoder opens only if the feature for other architectures is compiled in.
    let expected = ["use an encoder of the architecture BERT", "ModernBERT"];
    assert!(expected.iter().any(|text| error.contains(text)), "{error}");
    let planted = Planted::new();
    let dir = planted.world.dir.path().join("encoder");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let bytes = fs::read(dir.join(file)).unwrap();
        fs::remove_file(dir.join(file)).unwrap();
        let error = BaseEncoder::open(&dir, 16).err().unwrap();
        let TrainError::Index(index::IndexError::Embed(EmbedError::Model { path, reason })) = error
        else {
            panic!("{error}");
        };
        assert!(path.ends_with(file) && reason.contains("it is missing"), "{reason}");
        fs::write(dir.join(file), bytes).unwrap();
    }
    let error = BaseEncoder::open(&dir, 2).err().unwrap().to_string();
    assert!(error.contains("leave no room for text within 2"), "{error}");
    let settings = planted.settings(Negatives::Bm25);
    let mut given = planted.world.given("model");
    let wild = Settings { rate: 1e6, ..settings.clone() };
    let task = planted.task(&given, &wild);
    let error = planted.tune(&task, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("smaller --rate"), "{error}");
    assert!(!given.dir.exists());
    given.val.clear();
    let task = planted.task(&given, &settings);
    let none = planted.tune(&task, &|_| {}, &AtomicBool::new(false));
    assert!(matches!(none, Err(TrainError::NoQueries("val"))));
}
