//! Many questions in one request: a line of JSON each way for every question, in order, while they
//! come. Must not know how one is answered.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::IntoResponse,
};
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Map, Value};

use crate::{
    Server,
    reply::{ApiError, Common, QueryRequest, patiently},
    routes::answered,
};

/// Longest line, bytes.
const MAX_LINE: usize = 64 << 10;
/// Lines that are being answered at a time.
const AT_A_TIME: usize = 4;
/// How long a line that is refused for too much work is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answer many questions: a line of JSON for each, in order.
///
/// Every line is a request as that of `/v1/query`, with an `id` of any kind at will, and is answered by
/// a line: its number from 1, as `line`, its `id`, and its answer or an error; the others go on.
/// Answers come while lines are sent.
#[utoipa::path(post, path = "/v1/batch", request_body(content = String, content_type = "application/x-ndjson"), responses(
    (status = 200, description = "A line for each question", body = String, content_type = "application/x-ndjson"),
    Common,
))]
pub(super) async fn batch(State(server): State<Arc<Server>>, body: Body) -> impl IntoResponse {
    let answers = lines(body.into_data_stream()).map(move |(number, line)| {
        let server = server.clone();
        async move {
            let (id, answer) = match line.and_then(|line| asked(&line)) {
                Ok((id, Ok(asked))) => (id, one(&server, asked).await),
                Ok((id, Err(error))) => (id, Err(error)),
                Err(error) => (None, Err(error)),
            };
            let text = match answer {
                Ok(text) => text,
                Err(error) => serde_json::to_string(&error.body()).unwrap_or_default(),
            };
            let text = numbered(number, id.as_ref(), &text);
            Ok::<Bytes, std::convert::Infallible>(Bytes::from(text))
        }
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(answers.buffered(AT_A_TIME)))
}

/// The id of a line, and what it asks.
fn asked(line: &[u8]) -> Result<(Option<Value>, Result<QueryRequest, ApiError>), ApiError> {
    let wrong = |error: serde_json::Error| {
        let remedy = "send a JSON object as /openapi.json describes a query";
        ApiError::bad(error.to_string(), remedy)
    };
    let mut line: Map<String, Value> = serde_json::from_slice(line).map_err(wrong)?;
    let id = line.remove("id");
    Ok((id, serde_json::from_value(Value::Object(line)).map_err(wrong)))
}

/// A line of the reply: its number and id before what else the object has.
fn numbered(number: u64, id: Option<&Value>, object: &str) -> String {
    let id = id.map_or(String::new(), |id| format!("\"id\":{id},"));
    let rest = object.strip_prefix('{').unwrap_or("}");
    format!("{{\"line\":{number},{id}{rest}\n")
}

/// The answer to one line; whoever sends a batch waits for it.
async fn one(server: &Server, asked: QueryRequest) -> Result<String, ApiError> {
    patiently(PATIENCE, || answered(server, asked.clone())).await
}

/// The lines of a body with their numbers from 1, without empty ones. A line that is too long ends it
/// with an error, and so does a body that breaks off.
fn lines<E: std::fmt::Display>(
    body: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> impl Stream<Item = (u64, Result<Vec<u8>, ApiError>)> {
    let begun = (body, Vec::<u8>::new(), false);
    let parts = stream::unfold(begun, |(mut body, mut rest, ended)| async move {
        if ended {
            return None;
        }
        loop {
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let behind = rest.split_off(at + 1);
                return Some((Ok(rest), (body, behind, false)));
            }
            if rest.len() > MAX_LINE {
                let error =
                    ApiError::bad("a line is too long", format!("send at most {MAX_LINE} bytes"));
                return Some((Err(error), (body, Vec::new(), true)));
            }
            match body.next().await {
                Some(Ok(bytes)) => rest.extend_from_slice(&bytes),
                Some(Err(error)) => {
                    let error = ApiError::bad(error.to_string(), "send the rest again");
                    return Some((Err(error), (body, Vec::new(), true)));
                }
                None => return Some((Ok(rest), (body, Vec::new(), true))),
            }
        }
    });
    let numbers = stream::iter(1..);
    numbers.zip(parts).filter(|(_, line)| {
        let blank = line.as_ref().is_ok_and(|line| line.trim_ascii().is_empty());
        std::future::ready(!blank)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_wherever_the_parts_of_a_body_end() {
        let parts = ["{\"a\"", ":1}\n\n{\"b\":2}\r", "\n{\"c\"", ":3}"];
        let body = stream::iter(parts.map(|part| Ok::<_, String>(Bytes::from(part))));
        let found: Vec<_> = lines(Box::pin(body)).collect().await;
        let found: Vec<_> = found
            .iter()
            .map(|(at, line)| {
                (*at, String::from_utf8_lossy(line.as_ref().unwrap()).trim().to_owned())
            })
            .collect();
        let told = [(1, "{\"a\":1}"), (3, "{\"b\":2}"), (4, "{\"c\":3}")];
        assert_eq!(found, told.map(|(at, line)| (at, line.to_owned())));

        let long = vec![b'x'; MAX_LINE + 1];
        let body = stream::iter([Ok::<_, String>(Bytes::from(long)), Ok(Bytes::from("\n{}"))]);
        let found: Vec<_> = lines(Box::pin(body)).collect().await;
        assert!(matches!(found.as_slice(), [(1, Err(_))]), "nothing is read behind it");
    }
}
