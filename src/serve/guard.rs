//! Middleware that all requests pass: checks keys, host names and body sizes, and counts requests.
//! Does not depend on what requests do.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{self, Body, Bytes, HttpBody as _},
    extract::{MatchedPath, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::StreamExt as _;
use tokio::time::timeout;

use crate::{
    ApiError, MAX_REPLY, Result, Server,
    access::{Scope, bearer, names_a_host},
    connections::TwoLengths,
    sent::BodyMemory,
};

/// Maximum time until the body of a request is complete; batches have their own limits.
pub(super) const BODY_TIME: Duration = Duration::from_secs(30);
/// Maximum number of bytes of an oversized body that are read and discarded: clients read no reply
/// before they have sent the whole body.
const MAX_DISCARDED: usize = 1 << 20;

/// Passes on only requests that send a known key whose scope is at least `needed`; refuses others.
/// If the server has no keys, passes on all requests.
pub(super) async fn allowed(
    State((server, needed)): State<(Arc<Server>, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    if server.keys.keys.is_empty() {
        return next.run(request).await;
    }
    let refused = |status, code, message, remedy| {
        ApiError::new(status, code, message, remedy).into_response()
    };
    match bearer(request.headers()).and_then(|key| server.keys.find(key)) {
        None => {
            let remedy = "send a key as `Authorization: Bearer KEY`; `agent key add` creates one";
            let message = "the key is missing or unknown";
            refused(StatusCode::UNAUTHORIZED, "unauthorized", message, remedy)
        }
        Some((scope, _)) if scope < needed => {
            let remedy = "use a key of scope admin";
            refused(
                StatusCode::FORBIDDEN,
                "forbidden",
                "the key does not permit this request",
                remedy,
            )
        }
        Some((scope, client)) => {
            // MCP handlers read the scope and the client from the extensions.
            request.extensions_mut().insert(scope);
            request.extensions_mut().insert(client);
            client.asks(next.run(request)).await
        }
    }
}

/// Refuses malformed requests and requests meant for another server; counts and logs every request.
pub(super) async fn noted(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "other".to_owned());
    let method = request.method().clone();
    // A proxy may disagree about the end of a chunked body, so the connection closes after such a
    // request.
    let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = if request.extensions().get::<TwoLengths>().is_some() {
        let remedy = "send either Content-Length or Transfer-Encoding";
        ApiError::bad("the request gives the length of its body twice", remedy).into_response()
    } else if !names_a_host(&request) {
        ApiError::bad("the request has no Host header, or several", "send one Host header")
            .into_response()
    } else if !server.hosts.accept(&request) {
        let remedy = "use the server's own name, or start it with --host and this name";
        let message = "the request names another server";
        ApiError::new(StatusCode::FORBIDDEN, "other_host", message, remedy).into_response()
    } else {
        next.run(request).await
    };
    if is_last {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (status, took) = (response.status().as_u16(), began.elapsed());
    server.metrics.note(&route, status, took);
    let ms = took.as_secs_f64() * 1e3;
    tracing::info!(target: "agent::access", %method, route, status, ms, "request");
    if status < 400 { response } else { without_home(&server, response).await }
}

/// Removes the path of the home directory from the body of an error response.
async fn without_home(server: &Server, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    if body.size_hint().exact().is_none() {
        return Response::from_parts(parts, body);
    }
    let bytes = body::to_bytes(body, MAX_REPLY).await.unwrap_or_default();
    match String::from_utf8(bytes.into()) {
        Ok(text) => Response::from_parts(parts, Body::from(server.without_home(text))),
        Err(error) => Response::from_parts(parts, Body::from(error.into_bytes())),
    }
}

/// Reads the whole body of a request before the request's handler runs; refuses a body of more than
/// `max` bytes.
pub(super) async fn collected(
    State((server, max)): State<(Arc<Server>, usize)>,
    request: Request,
    next: Next,
) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    // Held until the response is ready.
    let memory = server.memory.body();
    match collect(body, max, BODY_TIME, &memory).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(error) => error.into_response(),
    }
}

async fn collect(body: Body, max: usize, time: Duration, memory: &BodyMemory) -> Result<Bytes> {
    let too_large = || {
        let (message, remedy) =
            ("the body is too large", format!("send at most {max} bytes; a batch takes more"));
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message, remedy)
    };
    if body.size_hint().lower() > MAX_DISCARDED as u64 {
        return Err(too_large());
    }
    let read = async {
        let (mut parts, mut whole, mut size) = (body.into_data_stream(), Vec::new(), 0);
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| ApiError::bad(error.to_string(), "send it again"))?;
            size += part.len();
            if size > MAX_DISCARDED {
                break;
            }
            if size <= max {
                memory.take(part.len())?;
                whole.extend_from_slice(&part);
            }
        }
        if size > max { Err(too_large()) } else { Ok(Bytes::from(whole)) }
    };
    timeout(time, read).await.unwrap_or_else(|_| {
        let message = format!("the body did not arrive within {} s", time.as_secs());
        let status = StatusCode::REQUEST_TIMEOUT;
        Err(ApiError::new(status, "late_body", message, "send it faster"))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;
    use crate::sent::Memory;

    #[tokio::test]
    async fn a_body_that_is_late_or_too_large_is_an_error_of_its_own() {
        let memory = Memory::new(1);
        let read = |body, max, time| {
            let memory = memory.body();
            async move { collect(body, max, time, &memory).await.map_err(|error| error.told()) }
        };
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(1));
        assert_eq!(read(Body::from("whole"), 5, long).await.unwrap(), "whole");
        assert!(read(Body::from("whole"), 4, long).await.unwrap_err().contains("too large"));
        let first = || stream::iter([Ok::<_, axum::Error>("part")]);
        let parts = || Body::from_stream(first().chain(stream::pending()));
        let endless = Body::from_stream(stream::repeat_with(|| Ok::<_, axum::Error>("part")));
        assert!(read(endless, 3, long).await.unwrap_err().contains("too large"));
        assert!(read(parts(), 5, short).await.unwrap_err().contains("did not arrive within"));
    }
}
