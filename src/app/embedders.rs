//! Embedders of the settings: models with prefixes, scaling and length of vectors, each under a name
//! that `--embedder` takes.

use std::{collections::BTreeMap, path::Path};

use crate::{App, Result, llm};
use agent_embed::EmbedderOptions;
use agent_index::{EmbedderChoice, NamedEmbedder};
use agent_llm::settings::EmbedderSettings;

/// The embedders under `[embedders]`, by name. A relative directory of a model is below that of the
/// settings file.
///
/// # Errors
/// If the settings cannot be read or are wrong.
pub(crate) fn configured(app: &App) -> Result<BTreeMap<String, NamedEmbedder>> {
    let settings = llm::read_settings(app)?;
    let path = llm::settings_path(app);
    let dir = path.parent().unwrap_or(Path::new(""));
    let named = settings.embedders.into_iter();
    Ok(named.filter_map(|(name, settings)| Some((name, embedder(settings, dir)?))).collect())
}

/// The embedder of settings that were checked.
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
