//! Answers many questions in one request. The body has one line of JSON per question; the reply has
//! one line of JSON per answer, in the same order. Answers are sent while questions still arrive.
//! Does not depend on how a question is answered.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::IntoResponse,
};
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Map, Value};
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};

use crate::{
    ApiError, Client, Common, OfWork, Refused, Result, Server,
    reply::{QueryRequest, patiently},
    routes::answered,
    sent::too_long,
};

/// Maximum number of batches in progress at the same time.
pub(super) const MAX_BATCHES: usize = 64;
/// Maximum length in bytes of a line together with the blank lines before it.
pub(super) const MAX_LINE: usize = 64 << 10;
/// Maximum length of the reply to a line, in bytes.
pub(super) const MAX_LINE_REPLY: usize = 1 << 20;
/// Maximum time for which the server waits until the next line is complete.
pub(super) const LINE_TIME: Duration = Duration::from_secs(60);
/// Maximum number of lines of a batch that are answered at the same time.
pub(super) const AT_A_TIME: usize = 4;
/// Time for which answering a line is retried while the server is busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// `Retry-After` for a batch that is refused, in seconds.
const RETRY_SECONDS: u64 = 10;

/// Answer many questions: one line of JSON for each, in order.
///
/// Each line is a request of `/v1/query`, with an optional `id` of any JSON type. Its reply is a
/// line with `line` (the number of the line, from 1), the `id`, and the answer or an error. After
/// an error in a question, the other lines are still answered. Answers are sent while lines arrive.
#[utoipa::path(post, path = "/v1/batch", request_body(content = String, content_type = "application/x-ndjson"), responses(
    (status = 200, description = "A line for each question", body = String, content_type = "application/x-ndjson"),
    Common, OfWork,
))]
pub(super) async fn batch(
    State(server): State<Arc<Server>>,
    body: Body,
) -> Result<impl IntoResponse> {
    let place = server.batches.try_take(1).ok_or(Refused::Busy(RETRY_SECONDS))?;
    let client = Client::now();
    let answers = lines(body.into_data_stream(), LINE_TIME).map(move |(number, line)| {
        let server = server.clone();
        client.asks(async move { line_of(&server, number, line).await })
    });
    // The batch holds its slot until the last line is answered.
    let answers = answers.buffered(AT_A_TIME).map(move |line| {
        let _place = &place;
        Ok::<_, Infallible>(line)
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(answers)))
}

/// Answers line `number` of the request and returns the reply line.
async fn line_of(server: &Server, number: u64, line: Result<Bytes>) -> Bytes {
    let (id, answer) = match line.and_then(|line| asked(&line)) {
        Ok((id, Ok(asked))) => (id, patiently(PATIENCE, || answered(server, asked.clone())).await),
        Ok((id, Err(error))) => (id, Err(error)),
        Err(error) => (None, Err(error)),
    };
    let failed = |error: ApiError| {
        let text = serde_json::to_string(&error.body()).unwrap_or_default();
        Bytes::from(numbered(number, id.as_ref(), &server.without_home(text)))
    };
    let held = answer.and_then(|text| {
        let text = numbered(number, id.as_ref(), &text);
        if text.len() > MAX_LINE_REPLY {
            return Err(too_long(MAX_LINE_REPLY));
        }
        Ok(server.memory.hold(Bytes::from(text))?)
    });
    held.unwrap_or_else(failed)
}

/// Parses a line. Returns the `id` in it, if any, and the question.
fn asked(line: &[u8]) -> Result<(Option<Value>, Result<QueryRequest>)> {
    let wrong = |error: serde_json::Error| {
        let remedy = "send a JSON object as /openapi.json describes a query";
        ApiError::bad(error.to_string(), remedy)
    };
    let mut line: Map<String, Value> = serde_json::from_slice(line).map_err(wrong)?;
    let id = line.remove("id");
    Ok((id, serde_json::from_value(Value::Object(line)).map_err(wrong)))
}

/// Returns a reply line: the JSON `object` with the keys `line` and `id` before its own.
fn numbered(number: u64, id: Option<&Value>, object: &str) -> String {
    let id = id.map_or(String::new(), |id| format!("\"id\":{id},"));
    let rest = object.strip_prefix('{').unwrap_or("}");
    format!("{{\"line\":{number},{id}{rest}\n")
}

/// Splits a body into its lines, each with its number from 1. Leaves out blank lines, but counts
/// them. The stream ends with an error if a line is too long or not complete within `time`, or if
/// the body breaks off.
pub(super) fn lines<E: std::fmt::Display>(
    body: impl Stream<Item = Result<Bytes, E>> + Unpin,
    time: Duration,
) -> impl Stream<Item = (u64, Result<Bytes>)> {
    let begun = Lines { body: Some(body), part: Bytes::new(), number: 0 };
    stream::unfold(begun, move |mut lines| async move {
        let line = match timeout_at(Instant::now() + time, lines.next()).await {
            Ok(line) => line?,
            Err(_) => {
                lines.number += 1;
                let message = format!("no line arrived within {} s", time.as_secs());
                Err(ApiError::bad(message, "send the remaining lines as another batch"))
            }
        };
        if line.is_err() {
            lines.body = None;
        }
        // Buffered lines never wait, so other tasks would get no turn.
        yield_now().await;
        Some(((lines.number, line), lines))
    })
}

/// State of splitting a body into lines.
struct Lines<B> {
    /// The body; `None` once it has ended.
    body: Option<B>,
    /// Unread rest of the latest part of the body. Each byte is scanned once.
    part: Bytes,
    /// Number of the last line that was read, blank lines included.
    number: u64,
}

impl<E: std::fmt::Display, B: Stream<Item = Result<Bytes, E>> + Unpin> Lines<B> {
    /// Reads the next line that is not blank; `None` at the end of the body.
    async fn next(&mut self) -> Option<Result<Bytes>> {
        // The beginning of a line that ends in a later part. Lines within one part are not copied.
        let (mut begun, mut bytes) = (Vec::new(), 0);
        loop {
            let end = self.part.iter().position(|byte| *byte == b'\n');
            let mut line = self.part.split_to(end.map_or(self.part.len(), |end| end + 1));
            bytes += line.len();
            if bytes > MAX_LINE {
                self.number += 1;
                let remedy = format!("send at most {MAX_LINE} bytes, blank lines included");
                return Some(Err(ApiError::bad("a line is too long", remedy)));
            }
            if end.is_none() || !begun.is_empty() {
                begun.extend_from_slice(&line);
            }
            if end.is_none() {
                match self.body.as_mut()?.next().await {
                    Some(Ok(part)) => {
                        self.part = part;
                        continue;
                    }
                    Some(Err(error)) => {
                        self.number += 1;
                        return Some(Err(ApiError::bad(error.to_string(), "send the rest again")));
                    }
                    None => self.body = None,
                }
            }
            if !begun.is_empty() {
                line = Bytes::from(std::mem::take(&mut begun));
            }
            self.number += 1;
            if !line.trim_ascii().is_empty() {
                return Some(Ok(line));
            }
            self.body.as_ref()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_wherever_the_parts_of_a_body_end() {
        let parts = ["{\"a\"", ":1}\n\n{\"b\":2}\r", "\n{\"c\"", ":3}"];
        let body = stream::iter(parts.map(|part| Ok::<_, String>(Bytes::from(part))));
        let found: Vec<_> = lines(Box::pin(body), LINE_TIME).collect().await;
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
        let found: Vec<_> = lines(Box::pin(body), LINE_TIME).collect().await;
        assert!(matches!(found.as_slice(), [(1, Err(_))]), "nothing is read behind it");
    }

    #[tokio::test]
    async fn line_feeds_are_read_once_and_count_towards_the_next_line() {
        let feeds = Bytes::from(vec![b'\n'; MAX_LINE - 2]);
        let line = Bytes::from("{}");
        let body = stream::iter([Ok::<_, String>(feeds.clone()), Ok(line.clone())]);
        let found: Vec<_> = lines(Box::pin(body), LINE_TIME).collect().await;
        let at = MAX_LINE as u64 - 1;
        assert!(matches!(found.as_slice(), [(n, Ok(found))] if *n == at && *found == line));

        // As many as a connection reads at a time: 80 GB of copying, once.
        let body = stream::iter([Ok::<_, String>(Bytes::from(vec![b'\n'; 400_000])), Ok(line)]);
        let began = Instant::now();
        let found: Vec<_> = lines(Box::pin(body), LINE_TIME).collect().await;
        assert!(matches!(found.as_slice(), [(_, Err(_))]));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_line_that_does_not_come_in_time_ends_the_batch() {
        let first = stream::iter([Ok::<_, String>(Bytes::from("{}\n{"))]);
        let body = Box::pin(first.chain(stream::pending()));
        let found: Vec<_> = lines(body, Duration::from_millis(1)).collect().await;
        assert!(matches!(found.as_slice(), [(1, Ok(_)), (_, Err(_))]));
    }
}
