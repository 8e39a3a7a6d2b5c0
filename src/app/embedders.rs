//! Reads embedders from the settings file. Each has a name, which `--embedder` accepts, and is a
//! model with text prefixes, normalization and vector length.

use std::{collections::BTreeMap, path::Path};

use crate::{App, Result, llm};
use agent_embed::EmbedderOptions;
use agent_index::{EmbedderChoice, NamedEmbedder};
use agent_llm::settings::EmbedderSettings;

/// Reads the embedders under `[embedders]` in the settings file; the keys are their names. Relative
/// paths of model directories start at the directory of the settings file.
///
/// # Errors
/// If the settings cannot be read or are invalid.
pub(crate) fn configured(app: &App) -> Result<BTreeMap<String, NamedEmbedder>> {
    let settings = llm::read_settings(app)?;
    let path = llm::settings_path(app);
    let dir = path.parent().unwrap_or(Path::new(""));
    let named = settings.embedders.into_iter();
    Ok(named.filter_map(|(name, settings)| Some((name, embedder(settings, dir)?))).collect())
}

/// Converts the settings of one embedder, which were checked before. `dir` is the directory of the
/// settings file. Returns `None` if the model is invalid.
fn embedder(settings: EmbedderSettings, dir: &Path) -> Option<NamedEmbedder> {
    let EmbedderSettings { model, query_prefix, document_prefix, normalize, dimensions } = settings;
    let model = match model.parse().ok()? {
        EmbedderChoice::Candle(model) => EmbedderChoice::Candle(dir.join(model)),
        choice => choice,
    };
    let normalize = normalize.unwrap_or(true);
    let options = EmbedderOptions { query_prefix, document_prefix, normalize, dimensions };
    Some(NamedEmbedder { model, options })
}
