//! Reads, checks and bounds the configuration files of a sentence encoder.
//!
//! The layout is that of Hugging Face and sentence-transformers:
//!
//! | file | setting | if absent |
//! | --- | --- | --- |
//! | `modules.json` | the modules and their folders | transformer, then mean pooling |
//! | `config.json` | architecture and shape of the transformer | an error |
//! | `1_Pooling/config.json` | pooling: mean, first or last token | error if in `modules.json` |
//! | `sentence_bert_config.json` | maximum number of tokens; lowercasing | the next file; no |
//! | `tokenizer_config.json` | maximum number of tokens | the number of positions |
//! | `config_sentence_transformers.json` | prompts of queries and documents | none |
//!
//! A prompt precedes the text. The prompt of queries is named `query`. The prompt of documents is
//! the first of `document`, `passage` and `corpus` that the file has.
//!
//! | limit | value | reason |
//! | --- | --- | --- |
//! | [`MAX_CONFIG_BYTES`] | 1 MiB | a configuration is a page long |
//! | [`MAX_WIDTH`] | 16 384 numbers | rows of BERT-large have 1024 numbers, its inner rows 4096 |
//! | [`MAX_LAYERS`] | 64 | BERT-large has 24 |
//! | [`MAX_VOCABULARY`] | 1 048 576 word pieces | bounds the memory of their embeddings |
//! | [`MAX_POSITIONS`] | 8192 tokens | the work of attention grows with the square of this number |
//! | [`MAX_PROMPT_BYTES`] | 4 KiB | a prompt is put before every text |

use std::{
    collections::HashMap,
    io::{ErrorKind, Read},
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    EmbedError, Result,
    bert::{kernels::Activation, lanes::WIDTH},
};
use agent_ground::files;

/// Maximum size of a configuration file, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Maximum number of values in a row of a layer.
pub const MAX_WIDTH: usize = 16_384;
/// Maximum number of layers.
pub const MAX_LAYERS: usize = 64;
/// Maximum number of word pieces.
pub const MAX_VOCABULARY: usize = 1 << 20;
/// Maximum number of positions, and thus of tokens read of a text.
pub const MAX_POSITIONS: usize = 8192;
/// Maximum length of a prompt, in bytes.
pub const MAX_PROMPT_BYTES: usize = 4 << 10;
/// Names under which a model may list its document prompt, preferred first.
const DOCUMENT_PROMPTS: [&str; 3] = ["document", "passage", "corpus"];

/// Pooling of the rows of a text's tokens into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The vector is the mean of all rows.
    Mean,
    /// The vector is the row of the first token.
    First,
    /// The vector is the row of the last token.
    Last,
}

/// Architecture of the layers, with the parameters that [`Shape`] does not hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Architecture {
    /// Devlin et al., "BERT", NAACL 2019.
    Bert,
    /// Warner et al., "Smarter, Better, Faster, Longer", ACL 2025.
    ModernBert {
        /// Layers whose index (from 0) is a multiple of this number attend to the whole text.
        whole_every: usize,
        /// Attention window of the other layers, in tokens.
        local: usize,
        /// Bases of the rotary positions: in layers that attend to the whole text, and in the
        /// others.
        theta: [f64; 2],
    },
    /// Conneau et al., "Unsupervised cross-lingual representation learning at scale", ACL 2020;
    /// used by multilingual E5 and BGE-M3.
    XlmRoberta {
        /// Id of the padding token; positions start after it.
        padding: u32,
    },
    /// Zhang et al., "Qwen3 Embedding", 2025: a token attends to earlier tokens only.
    Qwen3 {
        /// Number of heads of keys and values.
        key_heads: usize,
        /// Dimension of an attention head.
        head: usize,
        /// Base of the rotary positions.
        theta: f64,
        /// Whether the linear layers of attention have a bias.
        bias: bool,
    },
}

impl Architecture {
    /// Returns the name of the architecture for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bert => "BERT",
            Self::ModernBert { .. } => "ModernBERT",
            Self::XlmRoberta { .. } => "XLM-RoBERTa",
            Self::Qwen3 { .. } => "Qwen3",
        }
    }
}

/// Shape of the transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Number of values in a token's row; for BERT `hidden`, `heads` and `inner` are multiples of
    /// `WIDTH`.
    pub hidden: usize,
    /// Number of layers, at least 1.
    pub layers: usize,
    /// Number of attention heads; in BERT each has dimension `hidden / heads`.
    pub heads: usize,
    /// Number of values in the inner row of a layer.
    pub inner: usize,
    /// Number of word pieces in the vocabulary.
    pub vocabulary: usize,
    /// Number of positions, which is the maximum number of tokens of a text.
    pub positions: usize,
    /// Number of token types.
    pub types: usize,
    /// Number added to the variance in layer norms.
    pub epsilon: f32,
    /// Activation function of a layer's feed-forward network.
    pub activation: Activation,
}

/// Settings from the configuration files.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) architecture: Architecture,
    pub(super) shape: Shape,
    pub(super) pooling: Pooling,
    /// Whether mean pooling divides the sum of the rows by the square root of the number of tokens,
    /// instead of by their number; this changes only the norm of the vector.
    pub(super) by_root: bool,
    /// Whether the model's own modules scale vectors to norm 1.
    pub(super) normalises: bool,
    /// Maximum number of tokens read of a text, including special tokens; at least 3.
    pub(super) max_tokens: usize,
    /// Whether texts are lowercased before tokenization.
    pub(super) lower_case: bool,
    /// Text put before every query.
    pub(super) query_prompt: String,
    /// Text put before every document.
    pub(super) document_prompt: String,
    /// Folder with the transformer's files.
    pub(super) folder: PathBuf,
    /// Paths and bytes of the configuration files, in the order of reading; no bytes if a file is
    /// absent.
    pub(super) sources: Sources,
}

/// Paths and bytes of files.
pub(super) type Sources = Vec<(PathBuf, Vec<u8>)>;

#[derive(Deserialize)]
struct Module {
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Transformer {
    model_type: Option<String>,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "small", alias = "norm_eps", alias = "rms_norm_eps")]
    layer_norm_eps: f32,
    #[serde(default = "gelu", alias = "hidden_activation")]
    hidden_act: String,
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
    pad_token_id: Option<u32>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    local_attention: Option<usize>,
    global_attn_every_n_layers: Option<usize>,
    /// Kind of each layer, such as `full_attention`; newer files have this list instead of
    /// `global_attn_every_n_layers`.
    #[serde(default)]
    layer_types: Vec<String>,
    rope_theta: Option<f64>,
    global_rope_theta: Option<f64>,
    local_rope_theta: Option<f64>,
    /// Newer form of the three preceding settings: an object such as `{"rope_theta": 10000}`, or
    /// such an object for each kind of layer.
    #[serde(default)]
    rope_parameters: serde_json::Value,
    #[serde(default)]
    rope_scaling: serde_json::Value,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    norm_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
}

fn two() -> usize {
    2
}

fn small() -> f32 {
    1e-12
}

fn gelu() -> String {
    "gelu".to_owned()
}

#[derive(Deserialize, Default)]
struct Sentences {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize, Default)]
struct Tokenizer {
    /// Maximum number of tokens; a large float stands for "no limit".
    model_max_length: Option<f64>,
}

#[derive(Deserialize, Default)]
struct Prompts {
    #[serde(default)]
    prompts: HashMap<String, Option<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Modes {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct PoolingFile {
    pooling_mode: Option<Modes>,
    #[serde(default = "yes")]
    include_prompt: bool,
    /// Other settings; the older form of `pooling_mode` is one Boolean per mode.
    #[serde(flatten)]
    others: HashMap<String, serde_json::Value>,
}

fn yes() -> bool {
    true
}

/// Reads and checks the configuration of the model in `dir`.
///
/// # Errors
/// [`EmbedError::Io`], and [`EmbedError::Model`] for a missing, unsupported or out-of-range
/// setting.
pub(super) fn read(dir: &Path) -> Result<Settings> {
    let mut sources = Sources::new();
    let modules_path = dir.join("modules.json");
    let modules: Option<Vec<Module>> = read_optional(&modules_path, &mut sources)?;
    let mut folder = dir.to_owned();
    let (mut pooling, mut by_root) = (Pooling::Mean, false);
    let mut normalises = false;
    for module in modules.unwrap_or_default() {
        let inside = folder_of(dir, &module.path).ok_or_else(|| {
            let reason =
                format!("module path {:?} leads out of the model's directory", module.path);
            unusable(&modules_path, reason)
        })?;
        match module.kind.rsplit('.').next().unwrap_or_default() {
            "Transformer" => folder = inside,
            "Pooling" => {
                (pooling, by_root) = read_pooling(&inside.join("config.json"), &mut sources)?;
            }
            "Normalize" => normalises = true,
            other => {
                let reason = format!(
                    "module {other} is not supported; use a model with only Transformer, Pooling \
                     and Normalize modules"
                );
                return Err(unusable(&modules_path, reason));
            }
        }
    }
    let (architecture, shape) = read_transformer(&folder.join("config.json"), &mut sources)?;
    let sentences_path = folder.join("sentence_bert_config.json");
    let sentences: Sentences = read_optional(&sentences_path, &mut sources)?.unwrap_or_default();
    let tokenizer_path = folder.join("tokenizer_config.json");
    let tokenizer: Tokenizer = read_optional(&tokenizer_path, &mut sources)?.unwrap_or_default();
    let limit = tokenizer.model_max_length.map_or(usize::MAX, |limit| limit as usize);
    let max_tokens = sentences.max_seq_length.unwrap_or(limit).min(shape.positions);
    if max_tokens < 3 {
        let reason = format!("the limit of {max_tokens} tokens per text is below the minimum of 3");
        return Err(unusable(&tokenizer_path, reason));
    }
    let prompts_path = dir.join("config_sentence_transformers.json");
    let prompts: Prompts = read_optional(&prompts_path, &mut sources)?.unwrap_or_default();
    let named = |name: &str| prompts.prompts.get(name).cloned().flatten();
    let query_prompt = named("query").unwrap_or_default();
    let document_prompt = DOCUMENT_PROMPTS.into_iter().find_map(named).unwrap_or_default();
    if query_prompt.len().max(document_prompt.len()) > MAX_PROMPT_BYTES {
        let reason = format!("a prompt is longer than {MAX_PROMPT_BYTES} bytes");
        return Err(unusable(&prompts_path, reason));
    }
    Ok(Settings {
        architecture,
        shape,
        pooling,
        by_root,
        normalises,
        max_tokens,
        lower_case: sentences.do_lower_case,
        query_prompt,
        document_prompt,
        folder,
        sources,
    })
}

/// Returns `dir/path`; `None` if `path` may lead out of `dir`, because it is absolute or has a
/// component `.` or `..`.
fn folder_of(dir: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let stays = path.components().all(|part| matches!(part, Component::Normal(_)));
    stays.then(|| dir.join(path))
}

/// Reads the kind of pooling, and whether mean pooling divides by the square root of the number of
/// tokens.
fn read_pooling(path: &Path, sources: &mut Sources) -> Result<(Pooling, bool)> {
    let file: PoolingFile = read_required(path, sources)?;
    let modes = match file.pooling_mode {
        Some(Modes::One(mode)) => vec![mode],
        Some(Modes::Several(modes)) => modes,
        None => {
            let set = |(name, value): (&String, &serde_json::Value)| {
                let mode = name.strip_prefix("pooling_mode_")?;
                value.as_bool().unwrap_or(false).then(|| mode.to_owned())
            };
            file.others.iter().filter_map(set).collect()
        }
    };
    if !file.include_prompt {
        let reason = "pooling without the prompt (include_prompt) is not supported".to_owned();
        return Err(unusable(path, reason));
    }
    match modes.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["mean" | "mean_tokens"] => Ok((Pooling::Mean, false)),
        ["mean_sqrt_len_tokens"] => Ok((Pooling::Mean, true)),
        ["cls" | "cls_token"] => Ok((Pooling::First, false)),
        ["lasttoken"] => Ok((Pooling::Last, false)),
        _ => {
            let reason = format!(
                "pooling by {} is not supported; use a model that pools by mean, cls or lasttoken",
                modes.join(" and ")
            );
            Err(unusable(path, reason))
        }
    }
}

fn read_transformer(path: &Path, sources: &mut Sources) -> Result<(Architecture, Shape)> {
    let file: Transformer = read_required(path, sources)?;
    architecture_and_shape(&file).map_err(|reason| unusable(path, reason))
}

/// Returns the architecture and shape that the file describes; `Err` holds the reason if a setting
/// is not supported.
fn architecture_and_shape(file: &Transformer) -> Result<(Architecture, Shape), String> {
    let architecture = read_architecture(file)?;
    let bert = architecture == Architecture::Bert;
    let positions = file.position_embedding_type.as_deref().unwrap_or("absolute");
    if positions != "absolute" {
        return Err(format!(
            "positions of kind {positions:?} are not supported, only absolute positions"
        ));
    }
    let activation = match file.hidden_act.as_str() {
        "gelu" if !matches!(architecture, Architecture::Qwen3 { .. }) => Activation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" if bert => Activation::GeluTanh,
        "relu" if bert => Activation::Relu,
        // Qwen3 always uses this activation, so the value here is not read.
        "silu" if matches!(architecture, Architecture::Qwen3 { .. }) => Activation::Identity,
        other => {
            return Err(format!(
                "activation {other:?} is not supported for {}; use gelu (BERT: also gelu_new, relu; Qwen3: silu)",
                architecture.name()
            ));
        }
    };
    // Rotary positions have no rows in the weights, so a lower limit is possible.
    let positions = match architecture {
        Architecture::Bert => file.max_position_embeddings,
        Architecture::XlmRoberta { padding } => {
            file.max_position_embeddings.saturating_sub(padding as usize + 1)
        }
        _ => file.max_position_embeddings.min(MAX_POSITIONS),
    };
    let width = if bert { WIDTH } else { 1 };
    let bounds = [
        ("hidden_size", file.hidden_size, MAX_WIDTH, width),
        ("intermediate_size", file.intermediate_size, MAX_WIDTH, width),
        ("num_hidden_layers", file.num_hidden_layers, MAX_LAYERS, 1),
        ("num_attention_heads", file.num_attention_heads, MAX_WIDTH, 1),
        ("vocab_size", file.vocab_size, MAX_VOCABULARY, 1),
        ("max_position_embeddings", positions, MAX_POSITIONS, 1),
        ("type_vocab_size", file.type_vocab_size, MAX_VOCABULARY, 1),
    ];
    for (name, value, most, step) in bounds {
        if value == 0 || value > most || !value.is_multiple_of(step) {
            return Err(format!("{name} is {value}, expected a multiple of {step} up to {most}"));
        }
    }
    if !file.hidden_size.is_multiple_of(width * file.num_attention_heads) {
        return Err(format!(
            "hidden_size {} is not a multiple of {width} times num_attention_heads, which is {}",
            file.hidden_size, file.num_attention_heads
        ));
    }
    if !(0.0..=1.0).contains(&file.layer_norm_eps) {
        return Err(format!("layer_norm_eps is {}, expected 0 to 1", file.layer_norm_eps));
    }
    let shape = Shape {
        hidden: file.hidden_size,
        layers: file.num_hidden_layers,
        heads: file.num_attention_heads,
        inner: file.intermediate_size,
        vocabulary: file.vocab_size,
        positions,
        types: file.type_vocab_size,
        epsilon: file.layer_norm_eps,
        activation,
    };
    Ok((architecture, shape))
}

/// Returns the architecture that the file describes; `Err` holds the reason if it is not supported.
fn read_architecture(file: &Transformer) -> Result<Architecture, String> {
    let kind = file.model_type.as_deref().unwrap_or("bert");
    let missing = |name: &str| format!("{name} is missing or is not a positive number");
    // The base of the rotary positions is a separate setting in older files, and part of an object
    // in newer files.
    let theta = |older: Option<f64>, layers: &str| {
        let newer = file.rope_parameters.get(layers).unwrap_or(&file.rope_parameters);
        let theta = older.or_else(|| newer.get("rope_theta")?.as_f64());
        theta.filter(|theta| *theta > 0.0).ok_or_else(|| missing("rope_theta"))
    };
    let turned = |parameters: &serde_json::Value| {
        let kind = parameters.get("rope_type").and_then(serde_json::Value::as_str);
        kind.is_some_and(|kind| kind != "default")
    };
    let scaled = !file.rope_scaling.is_null()
        || turned(&file.rope_parameters)
        || file.rope_parameters.as_object().is_some_and(|kinds| kinds.values().any(turned));
    let architecture = match kind {
        "bert" if !file.is_decoder => Architecture::Bert,
        _ if scaled => return Err("scaled rotary positions are not supported".to_owned()),
        "modernbert" if file.attention_bias || file.mlp_bias || file.norm_bias => {
            return Err("ModernBERT with biases is not supported".to_owned());
        }
        "modernbert" => Architecture::ModernBert {
            whole_every: whole_every(file)?,
            local: file.local_attention.ok_or_else(|| missing("local_attention"))?,
            theta: [
                theta(file.global_rope_theta, "full_attention")?,
                theta(file.local_rope_theta, "sliding_attention")?,
            ],
        },
        "xlm-roberta" if !file.is_decoder => {
            Architecture::XlmRoberta { padding: file.pad_token_id.unwrap_or(1) }
        }
        "qwen3" if file.use_sliding_window => {
            return Err("Qwen3 with a sliding window is not supported".to_owned());
        }
        "qwen3" => Architecture::Qwen3 {
            key_heads: file
                .num_key_value_heads
                .filter(|&heads| heads > 0 && file.num_attention_heads.is_multiple_of(heads))
                .ok_or_else(|| missing("num_key_value_heads"))?,
            head: file
                .head_dim
                .filter(|head| (1..=MAX_WIDTH).contains(head))
                .ok_or_else(|| missing("head_dim"))?,
            theta: theta(file.rope_theta, "full_attention")?,
            bias: file.attention_bias,
        },
        _ => {
            return Err(format!(
                "architecture {kind:?} is not supported; use an encoder of BERT, ModernBERT, \
                 XLM-RoBERTa or Qwen3"
            ));
        }
    };
    if architecture != Architecture::Bert && !cfg!(feature = "encoders") {
        return Err(format!(
            "{} needs a build with `--features encoders`; rebuild, or use a BERT encoder",
            architecture.name()
        ));
    }
    Ok(architecture)
}

/// Returns the distance, in layers, between the ModernBERT layers that attend to the whole text;
/// `Err` holds the reason if these layers are not evenly spaced.
fn whole_every(file: &Transformer) -> Result<usize, String> {
    let whole: Vec<bool> = file.layer_types.iter().map(|kind| kind == "full_attention").collect();
    let every = match file.global_attn_every_n_layers {
        Some(every) => every,
        None => whole.iter().skip(1).position(|whole| *whole).map_or(whole.len(), |at| at + 1),
    };
    let regular =
        every > 0 && whole.iter().enumerate().all(|(at, whole)| *whole == at.is_multiple_of(every));
    regular.then_some(every).ok_or_else(|| {
        "layers with global attention must be evenly spaced (layer_types)".to_owned()
    })
}

/// Returns an [`EmbedError::Model`] for the file at `path`.
pub(super) fn unusable(path: &Path, reason: impl Into<String>) -> EmbedError {
    EmbedError::Model { path: path.to_owned(), reason: reason.into() }
}

/// Reads a JSON file and adds its path and bytes to `sources`; `None` if it is absent.
///
/// # Errors
/// [`EmbedError::Io`]; [`EmbedError::Model`] if the file is too long or not the expected JSON.
pub(super) fn read_optional<T: DeserializeOwned>(
    path: &Path,
    sources: &mut Sources,
) -> Result<Option<T>> {
    let failed = |source| EmbedError::Io { path: path.to_owned(), source };
    let file = match files::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            sources.push((path.to_owned(), Vec::new()));
            return Ok(None);
        }
        opened => opened.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(unusable(path, format!("it is longer than {MAX_CONFIG_BYTES} bytes")));
    }
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| unusable(path, format!("it is not the expected JSON: {error}")))?;
    sources.push((path.to_owned(), bytes));
    Ok(Some(value))
}

/// As [`read_optional`], for a file that must be there.
fn read_required<T: DeserializeOwned>(path: &Path, sources: &mut Sources) -> Result<T> {
    let missing = || unusable(path, "it is missing; copy the whole directory of the model");
    read_optional(path, sources)?.ok_or_else(missing)
}
