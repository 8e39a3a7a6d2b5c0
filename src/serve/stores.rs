//! Searches in the form of OpenAI's vector stores, so that its clients can ask. Must not know how
//! answers are found.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    Server,
    reply::{ApiError, Common, OfBody, OfWork},
    routes::{Body, deadline},
    sent::{Bounded, MAX_REPLY, too_long},
};
use agent_infer as infer;
use agent_retrieve::{Answer, Detail, Retriever};

/// A search in the form of OpenAI's vector stores.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreSearch {
    /// The question, or several: each is answered, and the results follow one another.
    query: StoreQuery,
    /// Most results, 1 to 50.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 50, default = 10)]
    max_num_results: Option<usize>,
    /// Refused: questions are answered as they are.
    #[serde(default)]
    rewrite_query: bool,
    /// Refused: nodes are not filtered.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    /// Refused: there is one ranking.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    ranking_options: Option<Value>,
}

impl StoreSearch {
    /// # Errors
    /// That something is asked for that would not be done.
    fn check(&self) -> Result<(), ApiError> {
        for (name, is_given) in [
            ("rewrite_query", self.rewrite_query),
            ("filters", self.filters.is_some()),
            ("ranking_options", self.ranking_options.is_some()),
        ] {
            if is_given {
                let remedy =
                    "leave it out, and choose among the results by their attributes and scores";
                return Err(ApiError::bad(format!("{name} is not offered"), remedy));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum StoreQuery {
    One(String),
    Many(Vec<String>),
}

/// The results, in the form of OpenAI's vector stores.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StorePage {
    object: &'static str,
    search_query: Vec<String>,
    data: Vec<StoreResult>,
    has_more: bool,
    next_page: Option<String>,
}

/// A node as a file of a vector store.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StoreResult {
    file_id: String,
    filename: String,
    score: f32,
    attributes: BTreeMap<&'static str, String>,
    content: Vec<StoreText>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StoreText {
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
}

/// Questions of one request of a vector store.
pub(super) const MAX_STORE_QUERIES: usize = 10;
/// Results of one such request.
pub(super) const MAX_STORE_RESULTS: usize = 50;

/// Answer with the active bundle, in the form of OpenAI's vector store search.
///
/// A node is a file: `file_id` is its id, `filename` its name, `content` its document.
#[utoipa::path(post, path = "/v1/vector_stores/{base}/search", params(("base" = String, Path, description = "Name of the base")),
    request_body = StoreSearch, responses(
    (status = 200, description = "The results", body = StorePage),
    Common, OfBody, OfWork,
))]
pub(super) async fn vector_store_search(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Body(asked): Body<StoreSearch>,
) -> Result<Bounded<StorePage>, ApiError> {
    asked.check()?;
    let served = server.base(Some(&name))?;
    let queries = match asked.query {
        StoreQuery::One(query) => vec![query],
        StoreQuery::Many(queries) => queries,
    };
    let k = asked.max_num_results.unwrap_or(10);
    if !(1..=MAX_STORE_RESULTS).contains(&k) || !(1..=MAX_STORE_QUERIES).contains(&queries.len()) {
        let remedy =
            format!("send 1 to {MAX_STORE_QUERIES} questions, 1 to {MAX_STORE_RESULTS} results");
        return Err(ApiError::bad("too many questions or results, or none", remedy));
    }
    let now = served.now();
    let active = now.active().ok_or_else(|| {
        ApiError::not_found(format!("no bundle answers on {name:?}"), "start with --bundle")
    })?;
    // One time for all of them.
    let deadline = deadline(None)?;
    let (mut data, mut left) = (Vec::new(), MAX_REPLY);
    for query in queries.clone() {
        let base = now.base.clone();
        let ask = {
            let base = base.clone();
            move |bundle: &dyn Retriever| infer::answer(&base, bundle, &query, k, Detail::default())
        };
        let tell = move |answer: Answer| {
            let bytes = answer.ranking().iter().map(|&(node, _)| base.kb.text(node).len());
            let left = left.checked_sub(bytes.sum()).ok_or_else(|| too_long(MAX_REPLY))?;
            let results = answer.ranking().iter().map(|&(node, score)| StoreResult {
                file_id: node.to_string(),
                filename: base.kb.name(node).to_owned(),
                score,
                attributes: [("type", base.kb.type_name(base.kb.node_type(node)).to_owned())]
                    .into(),
                content: vec![StoreText { kind: "text", text: base.kb.text(node).to_owned() }],
            });
            Ok((results.collect::<Vec<_>>(), left))
        };
        let effort = server.effort(None)?;
        let (results, behind) = server.told(&active, effort, deadline, ask, tell).await?;
        data.extend(results);
        left = behind;
    }
    let object = "vector_store.search_results.page";
    Ok(Bounded(StorePage { object, search_query: queries, data, has_more: false, next_page: None }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_not_be_done_is_refused() {
        let check = |search| {
            serde_json::from_value::<StoreSearch>(search).ok().map(|search| search.check().is_ok())
        };
        assert_eq!(check(json!({"query": "steel", "rewrite_query": false})), Some(true));
        assert_eq!(check(json!({"query": "steel", "filters": null})), Some(true));
        for (name, value) in [
            ("rewrite_query", json!(true)),
            ("filters", json!({"type": "eq", "key": "type", "value": "brand"})),
            ("ranking_options", json!({"score_threshold": 0.5})),
        ] {
            assert_eq!(check(json!({"query": "steel", name: value})), Some(false), "{name}");
        }
        assert_eq!(check(json!({"query": "steel", "limit": 5})), None);
    }
}
