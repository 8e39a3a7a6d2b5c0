//! Lets clients follow a run by server-sent events: one event per step of the run's journal, and
//! events with the state of the run. The run may belong to another process. Does not depend on the
//! meaning of steps.

#![allow(unused_qualifications, reason = "a macro of utoipa generates qualified paths")]

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, header},
    response::IntoResponse,
};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::{
    ApiError, Client, Common, MAX_REPLY, OfPath, OfWork, Params, Refused, Result, Server,
    client::Slot,
    deadline,
    reply::ErrorBody,
    runs::{bad_id, directory},
    sent::json_within,
};
use agent_app::report::recorded::{RunNow, now};
use agent_optimize::{
    journal::{self, DATABASE_FILE, Journal},
    record::line::Lines,
};

/// Maximum number of clients that follow runs at the same time.
pub(super) const MAX_FOLLOWERS: usize = 32;
/// `Retry-After` in seconds for a client that may not follow a run now.
const RETRY_SECONDS: u64 = 10;
/// Time between two reads of the journal.
const LOOK: Duration = Duration::from_millis(500);
/// Minimum pause between two `state` events.
const BETWEEN_STATES: Duration = Duration::from_secs(1);
/// The pause between two `state` events is at least this multiple of the time taken to compute such
/// an event.
const STATE_SHARE: u32 = 10;
/// After this time without an event, a comment is sent, which keeps the connection open.
pub(super) const QUIET: Duration = Duration::from_secs(15);
/// Maximum number of steps in one read of the journal.
pub(super) const MAX_STEPS: usize = 200;

/// The step after which the events of a run begin.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    /// Send only the steps after this one; 0 by default. The header `Last-Event-ID` takes
    /// precedence.
    #[param(maximum = 9_223_372_036_854_775_807_u64)]
    after: Option<u64>,
}

/// Follow a run with server-sent events.
///
/// Events are of four kinds. `step`: a step of the run's journal, with the number of the step as
/// id. `state`: the state of the run as in `/v1/runs/{id}`, sent first and after changes. `end`: no
/// process writes the run any more. `error`: the run cannot be read.
#[utoipa::path(get, path = "/v1/runs/{id}/events", params(("id" = String, Path, description = "Name of the run, or latest"), After), responses(
    (status = 200, description = "The events", body = String, content_type = "text/event-stream"),
    (status = 500, description = "The run cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn events(
    State(server): State<Arc<Server>>,
    id: Result<Path<String>, PathRejection>,
    after: Result<Params<After>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse> {
    let (Path(id), Params(after)) = (id.map_err(bad_id)?, after?);
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.or(after.after).unwrap_or(0);
    if i64::try_from(after).is_err() {
        let remedy = format!("give a step number from 0 to {}", i64::MAX);
        return Err(ApiError::bad(format!("after is {after}"), remedy));
    }
    let place = server.followers.try_take(1).ok_or(Refused::Busy(RETRY_SECONDS))?;
    let shared = server.clone();
    let open = move || {
        let dir = directory(&shared, &id, DATABASE_FILE)?;
        let journal = Journal::open_read_only(&dir)?;
        Ok::<_, ApiError>((dir, journal))
    };
    let (dir, journal) = server.reads.run(deadline(None)?, open).await??;
    let follower = Follower {
        dir,
        journal,
        after,
        lines: Lines::default(),
        categories: HashMap::new(),
        told: None,
        next_state: Instant::now(),
        over: false,
    };
    let begun = Following {
        follower: Some(follower),
        ready: VecDeque::new(),
        quiet_since: Instant::now(),
        server: server.clone(),
        client: Client::now(),
        _place: place,
    };
    let parts = stream::unfold(begun, |mut following| async move {
        let part = following.next().await?;
        // If there is no memory for an event, the stream ends. The client reconnects and continues
        // after the last event that it received.
        let held =
            following.client.asks(async { following.server.memory.hold(part) }).await.ok()?;
        Some((Ok::<Bytes, std::convert::Infallible>(held), following))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((kind, Body::from_stream(parts)))
}

/// The stream of events that one client follows.
struct Following {
    /// How far the client has followed the run; `None` while the journal is read, and after the
    /// end.
    follower: Option<Follower>,
    /// Events that are ready to be sent.
    ready: VecDeque<Bytes>,
    quiet_since: Instant,
    server: Arc<Server>,
    client: Client,
    _place: Slot,
}

impl Following {
    /// Returns the next event or comment to send; `None` after the end of the run, after an error,
    /// or when the server ends.
    async fn next(&mut self) -> Option<Bytes> {
        let mut ending = self.server.ending.clone();
        loop {
            if let Some(part) = self.ready.pop_front() {
                self.quiet_since = Instant::now();
                return Some(part);
            }
            let mut follower = self.follower.take().filter(|follower| !follower.over)?;
            let looked = tokio::task::spawn_blocking(move || {
                let events = follower.look();
                (follower, events)
            });
            let (follower, events) = looked.await.ok()?;
            self.follower = Some(follower);
            match events {
                Ok(events) if !events.is_empty() => self.ready.extend(events),
                Ok(_) => {
                    if self.quiet_since.elapsed() >= QUIET {
                        self.ready.push_back(Bytes::from_static(b": still here\n\n"));
                    }
                    tokio::select! {
                        () = tokio::time::sleep(LOOK) => {}
                        _ = ending.wait_for(|ends| *ends) => return None,
                    }
                }
                Err(error) => {
                    self.follower = None;
                    let error = json_within(&error.body(), MAX_REPLY).unwrap_or_default();
                    let error = self.server.without_home(error);
                    self.ready.push_back(Bytes::from(format!("event: error\ndata: {error}\n\n")));
                }
            }
        }
    }
}

/// How far one client has followed a run.
struct Follower {
    dir: PathBuf,
    journal: Journal,
    /// Number of the last step that became an event.
    after: u64,
    lines: Lines,
    /// Category of each program, by the id of the program.
    categories: HashMap<String, String>,
    /// The state in the last `state` event; `None` before the first one.
    told: Option<RunNow>,
    /// Time before which no further `state` event is sent.
    next_state: Instant,
    over: bool,
}

impl Follower {
    /// Reads the new steps of the journal and returns the events to send.
    fn look(&mut self) -> Result<Vec<Bytes>> {
        let mut events = Vec::new();
        if self.told.is_none() {
            events.extend(self.state()?);
        }
        // Read before the steps, so that no step is missed if the run ends in between.
        let writer = journal::writer_pid(&self.dir);
        let steps = self.journal.steps_after(self.after, MAX_STEPS)?;
        for step in &steps {
            for program in &step.programs {
                let found = self.journal.program(program)?;
                let category = found.as_ref().and_then(|program| program.category());
                self.categories.insert(program.clone(), category.unwrap_or_default().to_owned());
            }
            let of = |program: &str| self.categories.get(program).cloned().unwrap_or_default();
            let line = self.lines.line(step, of);
            events.extend(event("step", Some(step.n), &line));
            self.after = step.n;
        }
        let over = writer.is_none() && steps.len() < MAX_STEPS;
        let behind = self.told.as_ref().is_none_or(|told| {
            (told.steps as u64) < self.after || told.state == "running" && writer.is_none()
        });
        if behind && (over || Instant::now() >= self.next_state) {
            events.extend(self.state()?);
        }
        if over {
            let state = self.told.as_ref().map_or("unknown", |told| told.state);
            // Another process may have resumed the run just now.
            self.over = state != "running";
            if self.over {
                events.extend(event("end", None, &serde_json::json!({ "state": state })));
            }
        }
        Ok(events)
    }

    /// Returns a `state` event; `None` if the state has not changed since the last one.
    fn state(&mut self) -> Result<Option<Bytes>> {
        let began = Instant::now();
        let now = now(&self.dir)?;
        let pause = BETWEEN_STATES.max(began.elapsed().saturating_mul(STATE_SHARE));
        self.next_state = Instant::now() + pause;
        if self.told.as_ref() == Some(&now) {
            return Ok(None);
        }
        let told = event("state", None, &now);
        self.told = Some(now);
        Ok(told)
    }
}

/// Formats a server-sent event; `None` if its data, as JSON, exceeds [`MAX_REPLY`] bytes. The data
/// is one line, since this JSON has no line breaks.
fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> Option<Bytes> {
    let data = json_within(data, MAX_REPLY).ok()?;
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Some(Bytes::from(format!("event: {name}\n{id}data: {data}\n\n")))
}
