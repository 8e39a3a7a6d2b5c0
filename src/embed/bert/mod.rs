//! Sentence encoders: the BERT family (MiniLM, BGE, E5, GTE, Contriever and similar models). The
//! feature `encoders` adds ModernBERT, XLM-RoBERTa (multilingual E5, BGE-M3) and Qwen3 Embedding.
//!
//! The method is that of Reimers and Gurevych, "Sentence-BERT", EMNLP 2019; the reference
//! implementation is the Python package sentence-transformers. A model is a local directory in the
//! layout of Hugging Face; [`config`] lists the files that are read. Nothing is downloaded.
//!
//! # Differences from the reference
//! - Every vector has norm 1, even if the model's modules do not normalise (Contriever): rankings
//!   by cosine are unchanged, rankings by dot product are not. Turn [`EmbedderOptions::normalize`]
//!   off to get the vectors of the model.
//! - The prompt of documents may also be named `passage` or `corpus`, as the documentation of
//!   sentence-transformers says; release 6.2 of that package ignores both names.
//! - A text without word pieces, such as an empty text, gets the zero vector.
//! - Tokens are never padded, so a vector does not depend on its batch, bit for bit. A CUDA device,
//!   used if available, adds rounding differences; `CUDA_VISIBLE_DEVICES=` forces the CPU.
//!
//! # Cost
//! Opening reads all files once, for the fingerprint. [`Embedder::prepare`] or the first text loads
//! the tokenizer and the weights; the word-piece embeddings stay in the mapped file. On the CPU,
//! texts are sorted by length and split into batches of at most [`BATCH_TOKENS`] tokens; rayon's
//! threads process the batches, one thread per batch.
//!
//! | file | content |
//! | --- | --- |
//! | [`config`] | configuration files, checked for supported settings |
//! | [`word_pieces`] | tokenization of a text into word pieces |
//! | `weights` | the file of weights: checked, converted and packed |
//! | `forward` | the forward pass of BERT on the CPU: one row per word piece |
//! | `device` | the forward pass of BERT on a CUDA device |
//! | `architectures` | the forward pass of other architectures (feature `encoders`) |
//! | [`colbert`] | ColBERT checkpoints: a projected vector for each token |
//! | `parts` | the parts of a BERT encoder, for training its weights |
//! | `kernels`, `lanes` | products, norms and softmax, on sixteen numbers at once |

pub mod colbert;
pub mod config;
pub mod word_pieces;

#[cfg(feature = "encoders")]
mod architectures;
mod device;
mod forward;
mod kernels;
mod lanes;
mod parts;
mod weights;

use std::{
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use memmap2::Mmap;
use rayon::prelude::*;

use crate::{
    EmbedError, Embedder, EmbedderOptions, Matrix, Result, batches,
    bert::{
        config::{Architecture, Settings, unusable},
        device::DeviceModel,
        forward::Scratch,
        kernels::Isa,
        weights::{Tensors, Weights, Words},
        word_pieces::{Cutter, MAX_TOKENIZER_BYTES},
    },
    gpu::{self, Device},
    matrix::{dot, normalise},
};
use agent_ground::files;

pub use config::{Pooling, Shape};
pub use kernels::Activation;
pub use parts::Parts;
pub use weights::MAX_WEIGHTS_BYTES;
pub use word_pieces::WordPieces;

/// Maximum number of tokens of a batch on the CPU; a single text with more tokens is a batch by
/// itself.
///
/// Larger batches read the weights from memory less often; smaller ones keep the rows in the CPU
/// cache.
pub const BATCH_TOKENS: usize = 512;
/// Maximum number of texts that a caller should pass at a time; bounds the delay after a request to
/// stop.
const BLOCK_TEXTS: usize = 128;
/// Maximum number of texts whose word pieces are in memory at once.
const GROUP_TEXTS: usize = 4096;
/// Number of bytes that one thread hashes at a time for the fingerprint.
const HASH_BYTES: usize = 4 << 20;

/// A sentence encoder in a local directory.
pub struct BertEncoder {
    settings: Settings,
    options: EmbedderOptions,
    tokenizer: MappedFile,
    weights: MappedFile,
    isa: Isa,
    fingerprint: String,
    /// Tokenizer and weights, loaded at first use.
    ready: OnceLock<LoadedModel>,
}

struct LoadedModel {
    cutter: Cutter,
    device: Option<DeviceModel>,
    /// The model's layers on the CPU, loaded if there is no CUDA device or it failed.
    host: OnceLock<Host>,
}

/// Layers of a model on the CPU, run by this crate or by `candle-transformers`.
enum Host {
    Own(Weights, Words),
    #[cfg(feature = "encoders")]
    Candle(Box<architectures::Layers>),
}

impl LoadedModel {
    /// Returns the model on the CUDA device; `None` if there is no device or it failed.
    fn device(&self) -> Result<Option<&DeviceModel>> {
        match &self.device {
            Some(model) if Device::first()?.is_some() => Ok(Some(model)),
            _ => Ok(None),
        }
    }
}

/// A file mapped into memory.
struct MappedFile {
    map: Mmap,
    path: PathBuf,
}

impl MappedFile {
    fn open(path: PathBuf, max_bytes: u64) -> Result<MappedFile> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => {
                unusable(&path, "it is missing; copy the whole directory of the model")
            }
            _ => EmbedError::Io { path: path.clone(), source },
        };
        let file = files::open(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length > max_bytes {
            let reason = format!("it has {length} bytes, more than {max_bytes}");
            return Err(unusable(&path, reason));
        }
        // SAFETY: a model's files are installed once and not written in place afterwards, so the
        // mapped bytes do not change while they are borrowed.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(MappedFile { map, path })
    }
}

impl BertEncoder {
    /// Opens the model in `dir`: checks its configuration and, for BERT, the header of its weights.
    /// Reads all its files, on all threads, to compute the fingerprint.
    ///
    /// # Errors
    /// [`EmbedError::Io`] if a file cannot be read; [`EmbedError::Model`] if a file is missing,
    /// damaged or too large, or if a setting is not supported. The message names the file, the
    /// tensor and the remedy.
    pub fn open(dir: &Path) -> Result<BertEncoder> {
        Self::open_with(dir, EmbedderOptions::default())
    }

    /// Opens a model as [`BertEncoder::open`] does, with options. The prefixes in `options` replace
    /// the prompts of the model; [`EmbedderOptions::dimensions`] is ignored.
    ///
    /// # Errors
    /// As [`BertEncoder::open`].
    pub fn open_with(dir: &Path, options: EmbedderOptions) -> Result<BertEncoder> {
        let settings = config::read(dir)?;
        let file = |name: &str| settings.folder.join(name);
        let tokenizer = MappedFile::open(file("tokenizer.json"), MAX_TOKENIZER_BYTES)?;
        let weights = MappedFile::open(file("model.safetensors"), MAX_WEIGHTS_BYTES)?;
        if settings.architecture == Architecture::Bert {
            Tensors::new(&weights.map, &weights.path, &settings.shape)?;
        }
        let fingerprint = fingerprint(&settings, &tokenizer, &weights) + &options.fingerprint();
        let (isa, ready) = (Isa::best(), OnceLock::new());
        Ok(BertEncoder { settings, options, tokenizer, weights, isa, fingerprint, ready })
    }

    /// Returns the maximum number of tokens of a text, including special tokens and the prompt.
    pub fn max_tokens(&self) -> usize {
        self.settings.max_tokens
    }

    /// Counts the tokens of each text without a prompt, including special tokens, up to
    /// [`max_tokens`](Self::max_tokens).
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the model cannot be loaded or the tokenizer fails.
    pub fn count_tokens(&self, texts: &[&str]) -> Result<Vec<usize>> {
        let cutter = &self.ready()?.cutter;
        texts.par_iter().map(|text| Ok(cutter.cut("", text)?.ids.len())).collect()
    }

    fn embed_pooled(&self, prompt: &str, texts: &[&str]) -> Result<Matrix> {
        let dim = self.dim();
        let ready = self.ready()?;
        // The device always scales to norm 1.
        let scales = self.scales();
        if let Some(device) = ready.device()?.filter(|_| scales) {
            let cut = |texts: &[&str]| ready.cutter.cut_all(prompt, texts);
            match device.embed_pooled(texts, cut) {
                Err(EmbedError::Gpu(error)) => gpu::give_up(error)?,
                vectors => return Matrix::new(texts.len(), dim, vectors?),
            }
        }
        let pooled = |_: &WordPieces, rows: &[f32]| {
            let mut vector = vec![0.0; dim];
            let all = rows.len() / dim;
            let pooled = match self.settings.pooling {
                Pooling::Mean => 0..all,
                Pooling::First => 0..all.min(1),
                Pooling::Last => all.saturating_sub(1)..all,
            };
            for row in rows.chunks_exact(dim).take(pooled.end).skip(pooled.start) {
                vector.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
            }
            if scales {
                self.scale(&mut vector)?;
            } else {
                self.divide(&mut vector, pooled.len())?;
            }
            Ok(vector)
        };
        let vectors = self.embed(prompt, texts, pooled)?;
        Matrix::new(texts.len(), dim, vectors.concat())
    }

    /// Calls `of_text` for each text with its word pieces and their rows, `[word pieces, dim]`;
    /// returns the results in the order of the texts.
    fn embed<T: Send>(
        &self,
        prompt: &str,
        texts: &[&str],
        of_text: impl Fn(&WordPieces, &[f32]) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let ready = self.ready()?;
        let mut results = Vec::with_capacity(texts.len());
        for group in texts.chunks(GROUP_TEXTS) {
            let pieces = ready.cutter.cut_all(prompt, group)?;
            results.extend(self.embed_pieces(ready, &pieces, &of_text)?);
        }
        Ok(results)
    }

    /// Does the work of [`embed`](Self::embed) for texts that are already split into word pieces.
    fn embed_pieces<T: Send>(
        &self,
        ready: &LoadedModel,
        pieces: &[WordPieces],
        of_text: &(impl Fn(&WordPieces, &[f32]) -> Result<T> + Sync),
    ) -> Result<Vec<T>> {
        // On a device every token attends to every token of its text.
        let masked = pieces.iter().any(|pieces| pieces.masked > 0);
        if let Some(device) = ready.device()?.filter(|_| !masked) {
            let one = |pieces: &WordPieces| of_text(pieces, &device.rows(pieces)?);
            match pieces.iter().map(one).collect::<Result<Vec<T>>>() {
                Err(EmbedError::Gpu(error)) => gpu::give_up(error)?,
                embedded => return embedded,
            }
        }
        let (weights, words) = match self.host(ready)? {
            Host::Own(weights, words) => (weights, words),
            #[cfg(feature = "encoders")]
            Host::Candle(layers) => {
                let one = |pieces: &WordPieces| of_text(pieces, &layers.rows(pieces)?);
                return pieces.par_iter().map(one).collect();
            }
        };
        // Long texts first, so that no thread gets a long text at the end.
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|text| std::cmp::Reverse(pieces[*text].ids.len()));
        let limits = (usize::MAX, BATCH_TOKENS);
        let batches = batches(&order, limits, |text| pieces[*text].ids.len());
        let embedded: Vec<Vec<T>> = batches
            .par_iter()
            .map_init(Scratch::default, |scratch, batch| {
                let batch: Vec<&WordPieces> = batch.iter().map(|text| &pieces[*text]).collect();
                let words = (words, &self.weights.map[..]);
                let shape = &self.settings.shape;
                let rows = forward::encode(self.isa, shape, weights, words, &batch, scratch)
                    .ok_or_else(|| unusable(&self.weights.path, "a token has no row"))?;
                let mut start = 0;
                let of_text = |pieces: &&WordPieces| {
                    let end = start + pieces.ids.len() * self.dim();
                    let rows = &rows[start..end];
                    start = end;
                    of_text(pieces, rows)
                };
                batch.iter().map(of_text).collect::<Result<_, _>>()
            })
            .collect::<Result<_, _>>()?;
        let mut in_order: Vec<(usize, T)> =
            order.into_iter().zip(embedded.into_iter().flatten()).collect();
        in_order.sort_by_key(|(text, _)| *text);
        Ok(in_order.into_iter().map(|(_, result)| result).collect())
    }

    /// Whether pooled vectors are scaled to norm 1.
    fn scales(&self) -> bool {
        self.options.normalize || self.settings.normalises
    }

    /// Divides `vector`, a sum of `n` rows, by `n`, or by the square root of `n` if the model's
    /// configuration says so.
    fn divide(&self, vector: &mut [f32], n: usize) -> Result<()> {
        let divisor = if self.settings.by_root { (n as f32).sqrt() } else { n as f32 };
        vector.iter_mut().for_each(|number| *number /= divisor.max(1.0));
        self.check_norm(dot(vector, vector).sqrt())
    }

    /// Scales `vector` to norm 1; a zero vector stays zero.
    fn scale(&self, vector: &mut [f32]) -> Result<()> {
        self.check_norm(normalise(vector))
    }

    /// Returns an error if the norm of a vector is not finite.
    fn check_norm(&self, norm: f32) -> Result<()> {
        if norm.is_finite() {
            return Ok(());
        }
        let reason = "its weights give numbers that are not finite; use undamaged weights";
        Err(unusable(&self.weights.path, reason))
    }

    fn ready(&self) -> Result<&LoadedModel> {
        if let Some(ready) = self.ready.get() {
            return Ok(ready);
        }
        let MappedFile { map, path } = &self.weights;
        let cutter = Cutter::new(&self.tokenizer.map, &self.tokenizer.path, &self.settings)?;
        #[cfg(feature = "encoders")]
        if let Some(layers) = architectures::Layers::load(&self.settings, map, path)? {
            let host = OnceLock::from(Host::Candle(Box::new(layers)));
            return Ok(self.ready.get_or_init(|| LoadedModel { cutter, device: None, host }));
        }
        let Settings { shape, pooling, .. } = &self.settings;
        let device = DeviceModel::load(&Tensors::new(map, path, shape)?, shape, *pooling)?;
        let ready = LoadedModel { cutter, device, host: OnceLock::new() };
        if ready.device.is_none() {
            self.host(&ready)?;
        }
        Ok(self.ready.get_or_init(|| ready))
    }

    fn host<'a>(&self, ready: &'a LoadedModel) -> Result<&'a Host> {
        if let Some(host) = ready.host.get() {
            return Ok(host);
        }
        let MappedFile { map, path } = &self.weights;
        let tensors = Tensors::new(map, path, &self.settings.shape)?;
        let host = Host::Own(tensors.load()?, tensors.words()?);
        Ok(ready.host.get_or_init(|| host))
    }
}

/// Returns the fingerprint of a model: `bert1-` and 32 hexadecimal digits of a BLAKE3 hash of its
/// configuration, tokenizer and weights.
fn fingerprint(settings: &Settings, tokenizer: &MappedFile, weights: &MappedFile) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        let parts: Vec<_> = bytes.par_chunks(HASH_BYTES).map(blake3::hash).collect();
        for part in parts {
            hasher.update(part.as_bytes());
        }
    };
    settings.sources.iter().for_each(|(_, bytes)| add(bytes));
    add(&tokenizer.map);
    add(&weights.map);
    format!("bert1-{}", &hasher.finalize().to_hex()[..32])
}

impl Embedder for BertEncoder {
    fn dim(&self) -> usize {
        self.settings.shape.hidden
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn describe(&self) -> String {
        let Settings { shape, pooling, max_tokens, normalises, .. } = &self.settings;
        let options = self.options.describe();
        let pooling = match pooling {
            Pooling::Mean => "mean",
            Pooling::First => "first token",
            Pooling::Last => "last token",
        };
        let scaled = match self.scales() && !normalises {
            true => ", scaled to norm 1 though the model does not scale",
            false => "",
        };
        format!(
            "{} encoder {}: {} dimensions, {} layers, {} word pieces, {max_tokens} tokens of a text, \
             pooled by {pooling}{scaled}{options}; runs on {}",
            self.settings.architecture.name(),
            self.settings.folder.display(),
            shape.hidden,
            shape.layers,
            shape.vocabulary,
            match self.ready.get().map(|ready| (ready.device(), ready.host.get())) {
                Some((Ok(Some(device)), _)) => device.name(),
                #[cfg(feature = "encoders")]
                Some((_, Some(Host::Candle(_)))) => "the CPU",
                _ => self.isa.name(),
            }
        )
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix> {
        let prompt = self.options.document_prefix.as_ref();
        self.embed_pooled(prompt.unwrap_or(&self.settings.document_prompt), texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let prompt = self.options.query_prefix.as_ref();
        let prompt = prompt.unwrap_or(&self.settings.query_prompt);
        Ok(self.embed_pooled(prompt, &[text])?.into_data())
    }

    /// Embeds the tokens of each text for late interaction. Special tokens are left out, and no
    /// prompt is added.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the model cannot be loaded or gives numbers that are not finite.
    fn embed_tokens(&self, texts: &[&str]) -> Result<Vec<Matrix>> {
        let dim = self.dim();
        let of_text = |pieces: &WordPieces, rows: &[f32]| {
            let tokens = rows.chunks_exact(dim).zip(&pieces.special);
            let own = tokens.filter(|(_, special)| !**special).map(|(row, _)| row);
            let mut data: Vec<f32> = own.flatten().copied().collect();
            for row in data.chunks_exact_mut(dim) {
                self.scale(row)?;
            }
            Matrix::new(data.len() / dim, dim, data)
        };
        self.embed("", texts, of_text)
    }

    fn token_names(&self, text: &str) -> Result<Vec<String>> {
        let cutter = &self.ready()?.cutter;
        let pieces = cutter.cut("", text)?;
        let own = pieces.ids.iter().zip(&pieces.special).filter(|(_, special)| !**special);
        Ok(own.map(|(id, _)| cutter.name(*id)).collect())
    }

    /// Returns the maximum number of tokens minus two special tokens.
    fn window(&self) -> Option<usize> {
        Some(self.max_tokens().saturating_sub(2))
    }

    fn prepare(&self) -> Result<()> {
        self.ready().map(drop)
    }

    fn block_texts(&self) -> usize {
        BLOCK_TEXTS
    }

    /// Loads the tokenizer and all layers, and embeds one word. Model files have no checksum that
    /// could be compared.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the model cannot be loaded or gives numbers that are not finite.
    fn verify(&self) -> Result<()> {
        self.embed_query("word").map(drop)
    }
}

#[cfg(test)]
mod tests;
