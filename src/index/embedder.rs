//! Identifies and opens the embedder of an index. No other module depends on all kinds of
//! embedders.
//!
//! The embedder is opened with the index, and its fingerprint is compared with the record's. Both
//! steps read model files on all threads, so they must not happen later, in a thread that others
//! wait for. [`Embedder::prepare`] or the first text loads the weights. If an external embedder
//! cannot be opened, the index remains usable, and embedding a text returns the reason.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    IndexError, Result,
    layout::{MODEL, QUERIES, VECTORS, VectorsRecord},
};
use agent_embed::{
    BertEncoder, CachedEmbedder, EmbedCost, EmbedError, Embedder, EmbedderOptions, LsaEmbedder,
    Matrix, OpenAiEmbedder, QueryTable,
};
use agent_remote::{Account, Limits};

/// The embedder that makes the vectors, written as on the command line, such as `openai:MODEL`;
/// records use the same form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum EmbedderChoice {
    /// The built-in embedder: latent semantic analysis, trained on the base.
    #[default]
    Builtin,
    /// A transformer model in this directory, run locally.
    Candle(PathBuf),
    /// The model with this name, from a service with an OpenAI-compatible API.
    OpenAi(String),
    /// Vectors that were computed elsewhere, imported from this directory.
    Import(PathBuf),
    /// An embedder that the user's settings, `config.toml`, define under this name.
    Named(String),
}

impl FromStr for EmbedderChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "builtin" => Ok(Self::Builtin),
            None if is_name(text) => Ok(Self::Named(text.to_owned())),
            Some(("candle", dir)) if !dir.is_empty() => Ok(Self::Candle(dir.into())),
            Some(("openai", model)) if !model.is_empty() => Ok(Self::OpenAi(model.to_owned())),
            Some(("import", dir)) if !dir.is_empty() => Ok(Self::Import(dir.into())),
            _ => Err("use builtin, candle:DIR, openai:MODEL, import:DIR, or the name of an \
                      embedder in config.toml"
                .to_owned()),
        }
    }
}

/// Whether a text can be the name of an embedder: one or more ASCII letters, digits, `-`, `_` and
/// `.`.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

impl TryFrom<String> for EmbedderChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EmbedderChoice> for String {
    fn from(choice: EmbedderChoice) -> String {
        choice.to_string()
    }
}

impl fmt::Display for EmbedderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::Candle(dir) => write!(f, "candle:{}", dir.display()),
            Self::OpenAi(model) => write!(f, "openai:{model}"),
            Self::Import(dir) => write!(f, "import:{}", dir.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// External resources that opening an embedder may need.
#[derive(Clone)]
pub struct Access {
    /// Directory of cached vectors, so that no text is paid for twice; `None` for no cache.
    pub cache: Option<PathBuf>,
    /// Account of the service for `openai:MODEL`; `None` if none is configured.
    pub service: Option<Account>,
    /// The embedders in the user's settings by name, or the reason why the settings cannot be read.
    pub named: Result<BTreeMap<String, NamedEmbedder>, String>,
}

/// An embedder defined in the user's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEmbedder {
    /// Model of the embedder: `candle:DIR` or `openai:MODEL`.
    pub model: EmbedderChoice,
    /// Settings of the model, such as prefixes of its texts.
    pub options: EmbedderOptions,
}

impl Access {
    /// Returns resources without cache, account or named embedders.
    pub fn none() -> &'static Self {
        static NONE: Access = Access { cache: None, service: None, named: Ok(BTreeMap::new()) };
        &NONE
    }

    /// Finds an embedder by its name in the user's settings.
    ///
    /// # Errors
    /// [`EmbedError::Settings`] if the settings cannot be read, [`EmbedError::Unconfigured`] if
    /// they do not define the name.
    pub fn named(&self, name: &str) -> Result<&NamedEmbedder, EmbedError> {
        let named = self.named.as_ref().map_err(|why| EmbedError::Settings(why.clone()))?;
        named.get(name).ok_or_else(|| EmbedError::Unconfigured { name: name.to_owned() })
    }

    /// Wraps an embedder with the cache of vectors; returns it unchanged if there is no cache.
    pub fn cached(&self, embedder: Box<dyn Embedder>) -> Box<dyn Embedder> {
        match &self.cache {
            Some(dir) => Box::new(CachedEmbedder::new(embedder, dir)),
            None => embedder,
        }
    }
}

impl EmbedderChoice {
    /// Opens an external embedder; `None` for the built-in embedder and for imports, which are
    /// stored with the index. `dim` is the number of values in a vector, if known.
    ///
    /// # Errors
    /// Errors of the embedder; also an error if the embedder's account is missing or the user's
    /// settings do not define the embedder.
    pub fn open(
        &self,
        access: &Access,
        dim: Option<usize>,
    ) -> Result<Option<Box<dyn Embedder>>, EmbedError> {
        let (choice, options) = match self {
            Self::Named(name) => {
                let NamedEmbedder { model, options } = access.named(name)?;
                (model, options.clone())
            }
            own => (own, EmbedderOptions::default()),
        };
        Ok(match choice {
            // The model of a named embedder is never `Named` itself.
            Self::Builtin | Self::Import(_) | Self::Named(_) => None,
            Self::Candle(dir) => Some(Box::new(BertEncoder::open_with(dir, options)?)),
            Self::OpenAi(model) => {
                let service = access.service.as_ref();
                let service = service.ok_or_else(|| EmbedError::NoAccess {
                    embedder: choice.to_string(),
                    what: "OPENAI_API_KEY, or OPENAI_BASE_URL for a service that needs no key",
                })?;
                let limits = Limits::default();
                Some(Box::new(OpenAiEmbedder::open(model, options, service, dim, limits)?))
            }
        })
    }
}

/// The embedder of an index, or the error from opening it.
pub(super) struct IndexEmbedder {
    record: VectorsRecord,
    opened: Result<Box<dyn Embedder>, Arc<EmbedError>>,
}

impl IndexEmbedder {
    /// Opens the embedder that made the vectors in the index directory `index`.
    ///
    /// # Errors
    /// If an embedder stored with the vectors is damaged or is not the recorded one. If an external
    /// embedder cannot be opened, only embedding a text fails, with that error.
    pub(super) fn new(index: &Path, record: VectorsRecord, access: &Access) -> Result<Self> {
        let opened = match open_own(index, &record)? {
            Some(own) => Ok(own),
            None => open_other(&record, access).map_err(Arc::new),
        };
        Ok(Self { record, opened })
    }

    /// The record of the vectors that the embedder made.
    pub(super) fn record(&self) -> &VectorsRecord {
        &self.record
    }

    fn opened(&self) -> Result<&dyn Embedder, EmbedError> {
        match &self.opened {
            Ok(embedder) => Ok(&**embedder),
            Err(error) => Err(EmbedError::Unopened(error.clone())),
        }
    }
}

/// Opens the embedder stored with the vectors of an index; `None` if the embedder is external.
///
/// # Errors
/// If the stored embedder is damaged or is not the recorded one.
pub(super) fn open_own(index: &Path, record: &VectorsRecord) -> Result<Option<Box<dyn Embedder>>> {
    let dir = index.join(VECTORS);
    let own: Box<dyn Embedder> = match record.embedder {
        EmbedderChoice::Builtin => Box::new(LsaEmbedder::open(&dir.join(MODEL))?),
        EmbedderChoice::Import(_) => {
            Box::new(QueryTable::open(&dir.join(QUERIES), &record.fingerprint)?)
        }
        EmbedderChoice::Candle(_) | EmbedderChoice::OpenAi(_) | EmbedderChoice::Named(_) => {
            return Ok(None);
        }
    };
    if !is_of(&*own, record) {
        return Err(IndexError::damaged(&dir, "its embedder does not match its record"));
    }
    Ok(Some(own))
}

/// Opens an external embedder and checks that its fingerprint and vector length are the recorded
/// ones; wraps it with the cache of vectors.
fn open_other(record: &VectorsRecord, access: &Access) -> Result<Box<dyn Embedder>, EmbedError> {
    let choice = &record.embedder;
    let changed = || EmbedError::Changed { embedder: choice.to_string() };
    let embedder = choice.open(access, Some(record.dim))?.ok_or_else(changed)?;
    if is_of(&*embedder, record) { Ok(access.cached(embedder)) } else { Err(changed()) }
}

fn is_of(embedder: &dyn Embedder, record: &VectorsRecord) -> bool {
    embedder.fingerprint() == record.fingerprint && embedder.dim() == record.dim
}

impl Embedder for IndexEmbedder {
    fn dim(&self) -> usize {
        self.record.dim
    }

    fn fingerprint(&self) -> &str {
        &self.record.fingerprint
    }

    fn describe(&self) -> String {
        self.record.description.clone()
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix, EmbedError> {
        self.opened()?.embed_documents(texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        self.opened()?.embed_query(text)
    }

    fn embed_tokens(&self, texts: &[&str]) -> Result<Vec<Matrix>, EmbedError> {
        self.opened()?.embed_tokens(texts)
    }

    fn token_names(&self, text: &str) -> Result<Vec<String>, EmbedError> {
        self.opened()?.token_names(text)
    }

    fn window(&self) -> Option<usize> {
        self.opened().ok()?.window()
    }

    fn prepare(&self) -> Result<(), EmbedError> {
        self.opened()?.prepare()
    }

    fn verify(&self) -> Result<(), EmbedError> {
        match (&self.record.embedder, &self.opened) {
            // Not checked, because requests to a service cost money.
            (EmbedderChoice::OpenAi(_), _) => Ok(()),
            (EmbedderChoice::Named(_), Err(error))
                if matches!(**error, EmbedError::NoAccess { .. }) =>
            {
                Ok(())
            }
            _ => self.opened()?.verify(),
        }
    }

    fn spent(&self) -> EmbedCost {
        self.opened.as_ref().map(|embedder| embedder.spent()).unwrap_or_default()
    }
}
