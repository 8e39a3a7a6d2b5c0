//! Removes a dataset with its indexes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, Perform, Result};

/// A dataset to remove.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset
    #[arg(value_name = "N")]
    pub name: String,
}

/// Confirms that a dataset was removed.
#[derive(Debug, Serialize)]
pub struct Reply {
    /// Name of the removed dataset.
    pub name: String,
}

impl Perform for Request {
    const NAME: &'static str = "data_remove";
    const SUMMARY: &'static str = "Remove a dataset with its indexes";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        app.home.remove(&self.name)?;
        app.watch.notice(&format!("removed \"{}\" and its indexes", self.name));
        Ok(Reply { name: self.name.clone() })
    }
}
