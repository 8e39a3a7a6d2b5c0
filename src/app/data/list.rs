//! Lists the installed datasets.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, Perform, Result, dataset};
use agent_dataset::Base;
use agent_index::IndexError;

/// A request to list the installed datasets; has no options.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {}

/// The installed datasets.
#[derive(Debug, Serialize)]
pub struct Reply {
    /// The installed datasets, by ascending name.
    pub datasets: Vec<Listed>,
}

/// An installed dataset.
#[derive(Debug, Serialize)]
pub struct Listed {
    /// Name of the dataset.
    pub name: String,
    /// Title of the dataset, for display.
    pub title: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Number of edges.
    pub edges: u64,
    /// Number of labelled questions.
    pub queries: u64,
    /// State of the dataset's index: `ready`, `none`, `outdated` (made from other data) or
    /// `damaged`.
    pub index: &'static str,
}

impl Perform for Request {
    const NAME: &'static str = "data_list";
    const SUMMARY: &'static str = "List the installed datasets";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let listed = |base: Base| Listed {
            index: index_state(&base, app),
            name: base.name,
            title: base.record.title,
            nodes: base.record.n_nodes,
            edges: base.record.n_edges,
            queries: base.record.n_queries,
        };
        Ok(Reply { datasets: app.home.list()?.into_iter().map(listed).collect() })
    }
}

/// Returns the state of the base's index: `ready`, `none`, `outdated` (made from other data) or
/// `damaged`.
pub(super) fn index_state(base: &Base, app: &App) -> &'static str {
    match dataset::open_index(base, app) {
        Ok(_) => "ready",
        Err(IndexError::Missing { .. }) => "none",
        Err(IndexError::OtherBase { .. }) => "outdated",
        Err(_) => "damaged",
    }
}
