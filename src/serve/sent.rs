//! Bounds the size of JSON replies, and the memory for replies and request bodies while they are
//! transferred. Does not depend on the content of replies.

use axum::{
    body::{self, Bytes, HttpBody as _},
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use crate::{
    ApiError, Refused, Result, Server,
    client::{Slot, Slots},
    routes::internal,
};
use agent_ground::locks::locked;

/// Maximum size of a reply, in bytes.
pub(super) const MAX_REPLY: usize = 8 << 20;
/// Maximum size of a small reply, in bytes. Small replies have their own memory, so that large
/// replies that nobody reads do not block them.
pub(super) const SMALL_REPLY: usize = 64 << 10;
/// Memory in bytes for all small replies while they are sent.
pub(super) const SMALL_REPLIES: usize = 32 << 20;
/// Memory in bytes for all larger replies while they are sent.
pub(super) const LARGE_REPLIES: usize = 48 << 20;
/// Number of bytes of each request body that do not count against [`LARGE_BODIES`].
pub(super) const SMALL_BODY: usize = 16 << 10;
/// Memory in bytes for all request bodies in progress; the first [`SMALL_BODY`] bytes of each do
/// not count.
pub(super) const LARGE_BODIES: usize = 32 << 20;
/// `Retry-After` in seconds while too little memory is free.
const RETRY_SECONDS: u64 = 2;

/// A reply that is sent as JSON of at most [`MAX_REPLY`] bytes; a longer reply becomes an error.
pub(super) struct Bounded<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Bounded<T> {
    fn into_response(self) -> Response {
        in_json(&self.0).map(json).into_response()
    }
}

/// Serializes a reply as JSON of at most [`MAX_REPLY`] bytes.
///
/// # Errors
/// If the JSON is longer.
pub(super) fn in_json(reply: &impl Serialize) -> Result<String> {
    json_within(reply, MAX_REPLY)
}

/// Serializes a reply as JSON of at most `max` bytes; stops as soon as the JSON becomes longer.
///
/// # Errors
/// If the JSON is longer.
pub(super) fn json_within(reply: &impl Serialize, max: usize) -> Result<String> {
    let mut text = Within { bytes: Vec::new(), max };
    match serde_json::to_writer(&mut text, reply) {
        // Drops spare capacity, because the memory limits count lengths.
        Ok(()) => String::from_utf8(text.bytes.into_boxed_slice().into())
            .map_err(|error| internal(&serde_json::Error::io(io::Error::other(error)))),
        Err(error) if error.is_io() => Err(too_long(max)),
        Err(error) => Err(internal(&error)),
    }
}

/// Returns the error for a reply of more than `max` bytes.
pub(super) fn too_long(max: usize) -> ApiError {
    let message = format!("the reply has more than {max} bytes");
    let remedy = "use a smaller k or limit, or leave explain out";
    ApiError::new(StatusCode::BAD_REQUEST, "reply_too_long", message, remedy)
}

/// Returns a response whose body is this JSON text.
pub(super) fn json(text: String) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], text)
}

/// A buffer that takes at most `max` bytes; writing more fails.
struct Within {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Within {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            return Err(io::Error::other("too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Limits the memory for replies and request bodies while they are transferred.
pub(super) struct Memory {
    small: Slots,
    large: Slots,
    bodies: Slots,
}

/// The bytes of a reply, with the memory that is reserved for them.
struct Held {
    bytes: Bytes,
    _place: Slot,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    /// Creates the limits that `clients` clients share.
    pub(super) fn new(clients: usize) -> Memory {
        let places = |bytes| Slots::new(bytes, clients);
        Memory {
            small: places(SMALL_REPLIES),
            large: places(LARGE_REPLIES),
            bodies: places(LARGE_BODIES),
        }
    }

    /// Reserves memory for the bytes of a reply. Returns the same bytes; the memory is free again
    /// once they are dropped.
    ///
    /// # Errors
    /// [`Refused::Busy`] if too little memory is free.
    pub(super) fn hold(&self, bytes: Bytes) -> Result<Bytes, Refused> {
        let places = if bytes.len() <= SMALL_REPLY { &self.small } else { &self.large };
        let place = u32::try_from(bytes.len()).ok().and_then(|n| places.try_take(n));
        let place = place.ok_or(Refused::Busy(RETRY_SECONDS))?;
        Ok(Bytes::from_owner(Held { bytes, _place: place }))
    }

    /// Returns a reservation of memory for one request body; it reserves nothing at first.
    pub(super) fn body(&self) -> BodyMemory {
        BodyMemory { places: self.bodies.clone(), taken: Arc::default() }
    }
}

/// Memory that is reserved for one request body until all clones of this value are dropped.
#[derive(Clone)]
pub(super) struct BodyMemory {
    places: Slots,
    taken: Arc<Mutex<(usize, Vec<Slot>)>>,
}

impl BodyMemory {
    /// Reserves memory for a further part of the body, of `part` bytes.
    ///
    /// # Errors
    /// [`Refused::Busy`] if too little memory is free.
    pub(super) fn take(&self, part: usize) -> Result<(), Refused> {
        let mut taken = locked(&self.taken);
        let before = taken.0;
        taken.0 = before.saturating_add(part);
        let beyond = taken.0.saturating_sub(SMALL_BODY.max(before));
        if beyond > 0 {
            let place = u32::try_from(beyond).ok().and_then(|n| self.places.try_take(n));
            taken.1.push(place.ok_or(Refused::Busy(RETRY_SECONDS))?);
        }
        Ok(())
    }
}

/// Middleware: replaces a reply by an error if it is too long or if too little memory is free for
/// it. Leaves streams alone, since they reserve memory for each of their parts.
pub(super) async fn bounded(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = next.run(request).await.into_parts();
    let Some(size) = body.size_hint().exact() else {
        return Response::from_parts(parts, body);
    };
    if size > MAX_REPLY as u64 {
        return too_long(MAX_REPLY).into_response();
    }
    let Ok(bytes) = body::to_bytes(body, MAX_REPLY).await else {
        return ApiError::from(Refused::Failed).into_response();
    };
    match server.memory.hold(bytes) {
        Ok(bytes) => Response::from_parts(parts, bytes.into()),
        Err(refused) => ApiError::from(refused).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_not_made_beyond_its_limit_and_the_error_names_k() {
        assert_eq!(json_within(&["ab"], 6).unwrap(), r#"["ab"]"#);
        let error = json_within(&["ab"], 5).unwrap_err();
        assert!(error.told().contains("more than 5 bytes") && error.told().contains(" k "));
        // Endless, and yet it ends.
        struct Endless;
        impl Serialize for Endless {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_seq(std::iter::repeat("x"))
            }
        }
        assert!(in_json(&Endless).is_err());
    }

    #[test]
    fn replies_hold_memory_until_they_are_dropped_and_large_ones_leave_room_for_small_ones() {
        let memory = Memory::new(1);
        let large = Bytes::from(vec![0; MAX_REPLY]);
        let n = LARGE_REPLIES / MAX_REPLY;
        let mut held: Vec<Bytes> = (0..n).map(|_| memory.hold(large.clone()).unwrap()).collect();
        assert!(memory.hold(large.clone()).is_err());
        assert!(memory.hold(Bytes::from(vec![0; SMALL_REPLY])).is_ok());
        // A part of one that is still being sent keeps the whole.
        let part = held.pop().map(|bytes| bytes.slice(..1));
        assert!(memory.hold(large.clone()).is_err());
        drop(part);
        assert!(memory.hold(large).is_ok());
    }

    #[test]
    fn small_bodies_come_through_while_large_ones_fill_the_memory() {
        let memory = Memory::new(1);
        let large = memory.body();
        large.take(SMALL_BODY).unwrap();
        large.take(LARGE_BODIES).unwrap();
        let small = memory.body();
        small.take(SMALL_BODY).unwrap();
        assert!(small.take(1).is_err());
        drop(large);
        assert!(memory.body().take(SMALL_BODY + 1).is_ok());
    }
}
