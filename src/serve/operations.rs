//! Runs operations by name, for requests over HTTP and for MCP tools.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::IntoResponse,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use agent_app::{
    AppError, Watch,
    operation::{OPERATIONS, Operation},
};

use crate::{
    ApiError, Body, Bounded, Common, MAX_REPLY, OfBody, OfPath, OfWork, Result, Server, json,
    routes::LONGEST_CHANGE,
};

/// Writes the notices, warnings and details of operations to the log.
pub(super) struct Log;

impl Watch for Log {
    fn notice(&self, message: &str) {
        tracing::info!("{message}");
    }

    fn warning(&self, message: &str) {
        tracing::warn!("{message}");
    }

    fn detail(&self, message: &str) {
        tracing::debug!("{message}");
    }
}

impl From<AppError> for ApiError {
    fn from(error: AppError) -> ApiError {
        let (hints, message) = (error.hints().join("; "), error.message());
        let or = |usual: &str| if hints.is_empty() { usual.to_owned() } else { hints.clone() };
        if error.is_usage() {
            let remedy = or("correct the request; GET /v1/operations has its schema");
            return ApiError::bad(message, remedy);
        }
        let remedy = or("fix the problem in the message, then send the request again");
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "not_done", message, remedy)
    }
}

/// An operation that clients can run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AboutOperation {
    /// Name of the operation.
    name: &'static str,
    /// What the operation does, in one sentence.
    summary: &'static str,
    /// JSON schema of the operation's request.
    request: Value,
}

/// List the operations, each with the schema of its request.
#[utoipa::path(get, path = "/v1/operations", responses(
    (status = 200, description = "The operations, in the order of the reference documentation", body = Vec<AboutOperation>),
    Common,
))]
pub(super) async fn operations() -> Bounded<Vec<AboutOperation>> {
    let about = |operation: &Operation| AboutOperation {
        name: operation.name,
        summary: operation.summary,
        request: (operation.schema)(),
    };
    Bounded(OPERATIONS.iter().map(about).collect())
}

/// Perform an operation as the command line does, on any installed base.
///
/// Operations run one at a time, separately from questions. A request cannot name files of the
/// server.
#[utoipa::path(post, path = "/v1/operations/{operation}", params(
    ("operation" = String, Path, description = "Name of the operation"),
), request_body = Value, responses(
    (status = 200, description = "The reply, as the command line prints it with --json", body = Value),
    Common, OfBody, OfPath, OfWork,
))]
pub(super) async fn perform(
    State(server): State<Arc<Server>>,
    Path(name): Path<String>,
    Body(request): Body<Value>,
) -> Result<impl IntoResponse> {
    Ok(json(performed(&server, &name, request, MAX_REPLY).await?))
}

/// Runs an operation in its pool and returns its reply as JSON.
///
/// # Errors
/// If there is no such operation, if it fails, or if its reply exceeds `max` bytes.
pub(super) async fn performed(
    server: &Arc<Server>,
    name: &str,
    request: Value,
    max: usize,
) -> Result<String> {
    let operation = Operation::find(name).ok_or_else(|| {
        let names: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        ApiError::not_found("there is no such operation", names.join(", "))
    })?;
    let shared = server.clone();
    let work = move || operation.call(&shared.app, request);
    let reply = server.operations.run(Instant::now() + LONGEST_CHANGE, work).await??;
    match reply.len() {
        n if n <= max => Ok(reply),
        n => {
            let message = format!("the reply has {n} bytes, more than {max}");
            Err(ApiError::bad(message, "request less, for example with a smaller k"))
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_app::Explain as _;

    use super::*;

    #[test]
    fn every_error_of_an_operation_has_a_remedy() {
        let failed = || std::io::Error::other("the bundle is damaged");
        for (error, remedy) in [
            (
                AppError::usage(failed().into()),
                "correct the request; GET /v1/operations has its schema",
            ),
            (failed().into(), "fix the problem in the message, then send the request again"),
            (Err::<(), _>(failed()).hint("make it again").unwrap_err(), "make it again"),
        ] {
            let told = ApiError::from(error).told();
            assert_eq!(told, format!("the bundle is damaged: {remedy}"));
        }
    }
}
