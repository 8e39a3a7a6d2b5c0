//! Counts how many nodes of a dataset have each value of a field, relation or neighbour type. Such
//! counts (facets) show which conditions are worth setting.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{App, AppError, Perform, Result, TOP, Top};
use agent_kb::{
    Kb,
    filter::{Condition, Facet, FilterError, facets, matching},
};

/// A dataset, and which values of its nodes to count.
#[derive(Clone, Debug, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset
    #[arg(value_name = "N")]
    pub name: String,
    /// Count only nodes that satisfy this condition, such as type=ticket or created>=2025-03; may
    /// be given several times
    #[arg(long = "where", value_name = "CONDITION")]
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub filter: Vec<Condition>,
    /// Count the values of this field, or the neighbours over this relation or of this type; may be
    /// given several times [default: every field, relation and type with a value or neighbour that
    /// several nodes share]
    #[arg(long, value_name = "FIELD")]
    #[serde(default)]
    pub field: Vec<String>,
    /// List at most this many values of each field, relation or type
    #[arg(short, value_name = "K", default_value_t = TOP)]
    #[serde(default = "crate::top")]
    pub k: Top,
}

/// Values of fields, relations and types, each with the number of nodes that have it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Facets)]
pub struct Reply {
    /// Number of nodes that satisfy the conditions.
    pub nodes: usize,
    /// The counted fields, relations and types, each with its values, in the order of the request.
    /// If the request names none: sorted by the number of nodes that have them, largest first; ties
    /// by name.
    #[schema(value_type = Vec<Object>)]
    pub facets: Vec<Facet>,
}

impl Reply {
    /// Counts, for each field, relation or type in `field`, the values of the nodes that satisfy
    /// all conditions in `filter`; returns at most `k` values of each.
    ///
    /// # Errors
    /// If a condition or name does not fit the base, or a field has too many values.
    pub fn of(
        kb: &Kb,
        filter: &[Condition],
        field: &[String],
        k: usize,
    ) -> Result<Self, FilterError> {
        let nodes = matching(kb, filter)?;
        Ok(Self { nodes: nodes.len(), facets: facets(kb, &nodes, field, k)? })
    }
}

impl Perform for Request {
    const NAME: &'static str = "data_facets";
    const SUMMARY: &'static str =
        "Count the nodes with each value of a field, to find useful conditions";
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        let kb = Kb::open(&app.home.get(&self.name)?.kb_dir())?;
        let reply = Reply::of(&kb, &self.filter, &self.field, self.k.get());
        reply.map_err(|error| AppError::usage(error.into()))
    }
}
