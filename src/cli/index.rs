//! `agent index`: builds the indexes of a dataset.

use std::str::FromStr;

use anyhow::anyhow;

use crate::{
    cli::{
        Context, Exit, dataset,
        failure::{Explain, Result},
    },
    index::IndexError,
};

/// Build the indexes of a dataset
///
/// An index that is there and fits the dataset is kept unless --force is given.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, or a directory in neutral format
    #[arg(value_name = "N")]
    dataset: String,
    /// Embed texts with builtin, candle:DIR or openai:MODEL
    #[arg(long, value_name = "EMBEDDER", default_value = "builtin")]
    embedder: EmbedderName,
    /// Build again what is there already
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum EmbedderName {
    Builtin,
    Candle(String),
    OpenAi(String),
}

impl FromStr for EmbedderName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<EmbedderName, String> {
        match text.split_once(':') {
            None if text == "builtin" => Ok(EmbedderName::Builtin),
            Some(("candle", dir)) if !dir.is_empty() => Ok(EmbedderName::Candle(dir.to_owned())),
            Some(("openai", model)) if !model.is_empty() => {
                Ok(EmbedderName::OpenAi(model.to_owned()))
            }
            _ => Err("use builtin, candle:DIR or openai:MODEL".to_owned()),
        }
    }
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let unavailable = match &args.embedder {
        EmbedderName::Builtin => None,
        EmbedderName::Candle(dir) => Some(format!("candle:{dir}")),
        EmbedderName::OpenAi(model) => Some(format!("openai:{model}")),
    };
    if let Some(name) = unavailable {
        return Err(anyhow!("the embedder {name} is not built into this version"))
            .hint("use --embedder builtin");
    }
    let dataset = dataset::find(&args.dataset, ctx)?;
    let name = &dataset.base.name;
    if !args.force {
        match dataset::open_index(&dataset.base) {
            Ok(_) => {
                ctx.printer.notice(&format!("\"{name}\" is indexed; --force builds it again"));
                return Ok(Exit::Done);
            }
            Err(IndexError::Missing { .. }) => {}
            Err(IndexError::Kb(error)) => return Err(error.into()),
            Err(error) => ctx.printer.notice(&format!("building the index again: {error}")),
        }
    }
    dataset::build_index(&dataset.base, ctx)?;
    Ok(Exit::Done)
}
