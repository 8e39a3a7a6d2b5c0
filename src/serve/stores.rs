//! Search requests in the form of OpenAI's vector store API, for clients of that API. Does not
//! depend on how answers are found.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    ApiError, Body, Bounded, Common, MAX_REPLY, OfBody, OfWork, Result, Server, deadline,
    sent::too_long,
    within::{self, Question},
};
use agent_kb::filter::{Condition, MAX_CONDITIONS, MAX_VALUES, Operator};
use agent_retrieve::{Answer, Detail};

/// A search request in the form of OpenAI's vector store API.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreSearch {
    /// One question, or a list of 1 to 10 questions, whose results follow one another.
    query: StoreQuery,
    /// Maximum number of results for each question, 1 to 50; 10 by default.
    #[schema(minimum = 1, maximum = 50, default = 10)]
    max_num_results: Option<usize>,
    /// Must be `false` or omitted: questions are never rewritten.
    #[serde(default)]
    rewrite_query: bool,
    /// Condition that every result must meet, on a field or relation of nodes, of type `eq`, `ne`,
    /// `gt`, `gte`, `lt`, `lte`, `in` or `nin`; or several conditions in an `and`.
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    /// Not supported; must be omitted or null.
    #[schema(value_type = Option<Object>)]
    ranking_options: Option<Value>,
}

impl StoreSearch {
    /// Checks that the request sets no option that is not supported.
    ///
    /// # Errors
    /// If `rewrite_query` or `ranking_options` is set.
    fn check(&self) -> Result<()> {
        for (name, is_given) in [
            ("rewrite_query", self.rewrite_query),
            ("ranking_options", self.ranking_options.is_some()),
        ] {
            if is_given {
                let remedy = "omit it, and filter the results by attributes and scores";
                return Err(ApiError::bad(format!("{name} is not supported"), remedy));
            }
        }
        Ok(())
    }
}

/// Converts a filter, in the form of `filters` in a request, to conditions that must all hold.
///
/// # Errors
/// If the filter is malformed, or has an `and` inside an `and`.
fn conditions(filter: &Value) -> Result<Vec<Condition>> {
    let bad = || {
        let remedy = "send {\"type\": \"eq\", \"key\": FIELD, \"value\": VALUE}, where type may also be ne, \
                      gt, gte, lt, lte, in or nin, or {\"type\": \"and\", \"filters\": [...]}";
        ApiError::bad("the filter is malformed", remedy)
    };
    let kind = filter["type"].as_str().ok_or_else(bad)?;
    if kind == "and" {
        let all = filter["filters"].as_array().filter(|all| all.len() <= MAX_CONDITIONS);
        let all = all.ok_or_else(bad)?.iter().map(|one| match one["type"] == "and" {
            true => Err(bad()),
            false => conditions(one),
        });
        return Ok(all.collect::<Result<Vec<_>, _>>()?.concat());
    }
    let operator = match kind {
        "eq" | "in" => Operator::Is,
        "ne" | "nin" => Operator::IsNot,
        "gt" => Operator::More,
        "gte" => Operator::AtLeast,
        "lt" => Operator::Less,
        "lte" => Operator::AtMost,
        _ => return Err(bad()),
    };
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    let values: Option<Vec<String>> = match (&filter["value"], kind) {
        (Value::Array(values), "in" | "nin") => values.iter().map(text).collect(),
        (value, _) => text(value).map(|value| vec![value]),
    };
    let values = values.filter(|values| (1..=MAX_VALUES).contains(&values.len()));
    let key = filter["key"].as_str().ok_or_else(bad)?;
    Ok(vec![Condition::new(key, operator, values.ok_or_else(bad)?)])
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged, expecting = "it must be a text or a list of texts")]
pub(super) enum StoreQuery {
    One(String),
    Many(Vec<String>),
}

/// Search results in the form of OpenAI's vector store API.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StorePage {
    object: &'static str,
    search_query: Vec<String>,
    data: Vec<StoreResult>,
    has_more: bool,
    next_page: Option<String>,
}

/// A node, in the form of a file of a vector store.
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

/// Maximum number of questions in a search request.
pub(super) const MAX_STORE_QUERIES: usize = 10;
/// Maximum number of results for each question of a search request.
pub(super) const MAX_STORE_RESULTS: usize = 50;

/// Search with the active bundle, in the form of OpenAI's vector store API.
///
/// Each result is a node: `file_id` is its id, `filename` its name, `content` its document.
#[utoipa::path(post, path = "/v1/vector_stores/{base}/search", params(("base" = String, Path, description = "Name of the base")),
    request_body = StoreSearch, responses(
    (status = 200, description = "The results", body = StorePage),
    Common, OfBody, OfWork,
))]
pub(super) async fn vector_store_search(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Body(asked): Body<StoreSearch>,
) -> Result<Bounded<StorePage>> {
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
        return Err(ApiError::bad("the number of questions or results is out of bounds", remedy));
    }
    let now = served.now();
    let active = now.active().ok_or_else(|| {
        ApiError::not_found(format!("no bundle is active on {name:?}"), "start with --bundle")
    })?;
    // One deadline for all questions.
    let deadline = deadline(None)?;
    let filter = asked.filters.as_ref().map(conditions).transpose()?;
    let nodes = within::nodes(&server, &now, filter.unwrap_or_default(), deadline).await?;
    let (mut data, mut left) = (Vec::new(), MAX_REPLY);
    for query in queries.clone() {
        let (base, nodes, detail) = (now.base.clone(), nodes.clone(), Detail::default());
        let question = Question { base: base.clone(), query, nodes, k, detail };
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
        let (results, behind) = server.told(&active, effort, deadline, question, tell).await?;
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
        for (name, value) in
            [("rewrite_query", json!(true)), ("ranking_options", json!({"score_threshold": 0.5}))]
        {
            assert_eq!(check(json!({"query": "steel", name: value})), Some(false), "{name}");
        }
        assert_eq!(check(json!({"query": "steel", "limit": 5})), None);
    }

    #[test]
    fn filters_are_conditions_or_refused() {
        let read = |filter| {
            let conditions = conditions(&filter).ok()?;
            Some(conditions.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let one = json!({"type": "gte", "key": "price", "value": 5});
        let several = json!({"type": "in", "key": "brand", "value": ["Lark", "Umbra, Inc."]});
        assert_eq!(read(one.clone()).unwrap(), ["price>=5"]);
        let both = json!({"type": "and", "filters": [one, several]});
        assert_eq!(read(both.clone()).unwrap(), ["price>=5", "brand=Lark,\"Umbra, Inc.\""]);
        for wrong in [
            json!({}),
            json!({"type": "or", "filters": [one]}),
            json!({"type": "and", "filters": [both]}),
            json!({"type": "eq", "key": "price"}),
            json!({"type": "eq", "key": "price", "value": [1, 2]}),
            json!({"type": "in", "key": "price", "value": []}),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }
}
