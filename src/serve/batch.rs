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

use crate::serve::{
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
/// Every line is a request as that of `/v1/query`, and is answered by a line: its answer, or an
/// error; the others go on. Answers come while lines are sent.
#[utoipa::path(post, path = "/v1/batch", request_body(content = String, content_type = "application/x-ndjson"), responses(
    (status = 200, description = "A line for each question", body = String, content_type = "application/x-ndjson"),
    Common,
))]
pub(super) async fn batch(State(server): State<Arc<Server>>, body: Body) -> impl IntoResponse {
    let answers = lines(body.into_data_stream()).map(move |line| {
        let server = server.clone();
        async move {
            let answer = match line {
                Ok(line) => one(&server, &line).await,
                Err(error) => Err(error),
            };
            let text = match answer {
                Ok(text) => text,
                Err(error) => serde_json::to_string(&error.body()).unwrap_or_default(),
            };
            Ok::<Bytes, std::convert::Infallible>(Bytes::from(text + "\n"))
        }
    });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(answers.buffered(AT_A_TIME)))
}

/// The answer to one line; whoever sends a batch waits for it.
async fn one(server: &Server, line: &[u8]) -> Result<String, ApiError> {
    patiently(PATIENCE, || async {
        let asked: QueryRequest = serde_json::from_slice(line).map_err(|error| {
            ApiError::bad(
                error.to_string(),
                "send a JSON object as /openapi.json describes a query",
            )
        })?;
        answered(server, asked).await
    })
    .await
}

/// The lines of a body, without empty ones. A line that is too long ends it with an error, and so does
/// a body that breaks off.
fn lines<E: std::fmt::Display>(
    body: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> impl Stream<Item = Result<Vec<u8>, ApiError>> {
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
    parts.filter(|line| {
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
        let found: Vec<_> = lines(Box::pin(body)).map(|line| line.unwrap()).collect().await;
        let found: Vec<_> =
            found.iter().map(|line| String::from_utf8_lossy(line).trim().to_owned()).collect();
        assert_eq!(found, ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]);

        let long = vec![b'x'; MAX_LINE + 1];
        let body = stream::iter([Ok::<_, String>(Bytes::from(long)), Ok(Bytes::from("\n{}"))]);
        let found: Vec<_> = lines(Box::pin(body)).collect().await;
        assert!(matches!(found.as_slice(), [Err(_)]), "nothing is read behind it");
    }
}
