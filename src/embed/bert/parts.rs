//! Gives training access to the parts of a BERT encoder (shape, word pieces, weights), and writes
//! the encoder with new weights.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{
    EmbedError, Result,
    bert::{
        MappedFile,
        config::{self, Architecture, Pooling, Settings, Shape, unusable},
        fingerprint,
        weights::{MAX_WEIGHTS_BYTES, Tensors, names},
        word_pieces::{Cutter, MAX_TOKENIZER_BYTES, WordPieces},
    },
};

/// A BERT encoder in a local directory, opened to train its weights.
pub struct Parts {
    dir: PathBuf,
    settings: Settings,
    tokenizer: MappedFile,
    weights: MappedFile,
    cutter: Cutter,
    fingerprint: String,
}

impl Parts {
    /// Opens the encoder in `dir`. Texts are cut to `max_tokens` tokens, or to the encoder's own
    /// maximum if that is lower.
    ///
    /// # Errors
    /// The errors of [`BertEncoder::open`](super::BertEncoder::open), and [`EmbedError::Model`] for
    /// an architecture other than BERT.
    pub fn open(dir: &Path, max_tokens: usize) -> Result<Parts> {
        let mut settings = config::read(dir)?;
        let file = |name: &str| settings.folder.join(name);
        if settings.architecture != Architecture::Bert {
            let reason = format!(
                "{} cannot be trained; use an encoder of the architecture BERT",
                settings.architecture.name()
            );
            return Err(unusable(&file("config.json"), reason));
        }
        let tokenizer = MappedFile::open(file("tokenizer.json"), MAX_TOKENIZER_BYTES)?;
        let weights = MappedFile::open(file("model.safetensors"), MAX_WEIGHTS_BYTES)?;
        Tensors::new(&weights.map, &weights.path, &settings.shape)?;
        let fingerprint = fingerprint(&settings, &tokenizer, &weights);
        settings.max_tokens = settings.max_tokens.min(max_tokens);
        let cutter = Cutter::new(&tokenizer.map, &tokenizer.path, &settings)?;
        Ok(Parts { dir: dir.to_owned(), settings, tokenizer, weights, cutter, fingerprint })
    }

    /// Returns the shape of the transformer.
    pub fn shape(&self) -> &Shape {
        &self.settings.shape
    }

    /// Returns how the encoder pools the rows of a text's tokens into one vector.
    pub fn pooling(&self) -> Pooling {
        self.settings.pooling
    }

    /// Returns the fingerprint, a digest of the encoder's configuration, tokenizer and weights.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the names and shapes of the weight tensors, in the order of the forward pass.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        names(&self.settings.shape)
    }

    /// Returns all weights, concatenated in the order of [`tensors`](Self::tensors). O(weights).
    ///
    /// # Errors
    /// [`EmbedError::Model`] if a tensor cannot be read.
    pub fn numbers(&self) -> Result<Vec<f32>> {
        let file = Tensors::new(&self.weights.map, &self.weights.path, &self.settings.shape)?;
        let tensors = self.tensors();
        let n = tensors.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        let mut numbers = Vec::with_capacity(n);
        for (name, _) in tensors {
            numbers.extend(file.numbers(&name)?);
        }
        Ok(numbers)
    }

    /// Splits documents into word pieces, with the document prompt in front.
    ///
    /// # Errors
    /// [`EmbedError::Model`] if the tokenizer fails.
    pub fn cut_documents(&self, texts: &[&str]) -> Result<Vec<WordPieces>> {
        self.cutter.cut_all(&self.settings.document_prompt, texts)
    }

    /// Splits queries into word pieces, with the query prompt in front.
    ///
    /// # Errors
    /// As [`cut_documents`](Self::cut_documents).
    pub fn cut_queries(&self, texts: &[&str]) -> Result<Vec<WordPieces>> {
        self.cutter.cut_all(&self.settings.query_prompt, texts)
    }

    /// Writes a copy of this encoder into `dir`, with other weights: `numbers`, concatenated in the
    /// order of [`tensors`](Self::tensors). Syncs the files and returns their paths relative to
    /// `dir`.
    ///
    /// # Errors
    /// [`EmbedError::Io`]; [`EmbedError::Model`] if the weights cannot be written.
    pub fn write(&self, dir: &Path, numbers: &[f32]) -> Result<Vec<String>> {
        let mut written = Vec::new();
        let mut place = |path: &Path| -> Result<PathBuf> {
            let name = path.strip_prefix(&self.dir).unwrap_or(path);
            let to = dir.join(name);
            let folder = to.parent().unwrap_or(dir);
            let failed = |source| EmbedError::Io { path: folder.to_owned(), source };
            fs::create_dir_all(folder).map_err(failed)?;
            written.push(name.to_string_lossy().into_owned());
            Ok(to)
        };
        let mut texts: Vec<(&Path, &[u8])> = vec![(&self.tokenizer.path, &self.tokenizer.map)];
        let there = self.settings.sources.iter().filter(|(_, bytes)| !bytes.is_empty());
        texts.extend(there.map(|(path, bytes)| (path.as_path(), bytes.as_slice())));
        let mut paths = Vec::new();
        for (path, bytes) in texts {
            let to = place(path)?;
            fs::write(&to, bytes).map_err(|source| EmbedError::Io { path: to.clone(), source })?;
            paths.push(to);
        }
        let to = place(&self.weights.path)?;
        let file = Tensors::new(&self.weights.map, &self.weights.path, &self.settings.shape)?;
        file.write_with(&to, numbers)?;
        // `safetensors` creates a private file; it gets the mode of the other files.
        let mode =
            fs::metadata(&paths[0]).and_then(|other| fs::set_permissions(&to, other.permissions()));
        mode.map_err(|source| EmbedError::Io { path: to.clone(), source })?;
        paths.push(to);
        for path in paths {
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(|source| EmbedError::Io { path, source })?;
        }
        Ok(written)
    }
}
