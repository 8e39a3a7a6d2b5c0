//! Transports MCP messages over a pipe, each as a line of JSON. Answers with an error if a line
//! cannot be parsed, or if a request has the id of a request in progress. At most [`AT_A_TIME`]
//! requests are in progress at a time; at the end of the input, they have [`END_TIME`] to finish.
//! Does not depend on what requests do.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, MutexGuard},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader, duplex,
    },
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};

use crate::mcp::fit::short;
use agent_ground::locks::locked;

/// Maximum number of requests in progress. Further requests are read as soon as some are answered.
pub(crate) const AT_A_TIME: usize = 64;
/// Maximum length of a line, in bytes.
pub(crate) const MAX_LINE: usize = super::MAX_BODY;
/// Maximum time to finish requests in progress when the input ends.
pub(crate) const END_TIME: Duration = Duration::from_secs(30);
/// Error code of JSON-RPC for a line that is too long or not JSON; `INVALID` is the code for JSON
/// that is not a valid message, or a request whose id is in use.
const UNPARSABLE: i32 = -32_700;
const INVALID: i32 = -32_600;

/// Transports MCP messages over a pipe.
pub(super) struct Pipe<W> {
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    replies: Arc<Replies<W>>,
}

/// The output to which replies are written, and the requests in progress.
struct Replies<W> {
    to: Mutex<W>,
    /// Permits that the requests in progress hold, by request id. The library keeps one request per
    /// id, and would never answer a second one.
    under_way: std::sync::Mutex<HashMap<RequestId, OwnedSemaphorePermit>>,
    places: Arc<Semaphore>,
}

/// Error for a line: its code and text, and the id of the request, or null.
type Wrong = (i32, String, Value);

impl<W: AsyncWrite + Send + Unpin + 'static> Pipe<W> {
    /// Transports messages between `from` and `to`. Starts a task that reads lines as fast as their
    /// messages are taken.
    pub(super) fn new(from: impl AsyncRead + Send + Unpin + 'static, to: W) -> Pipe<W> {
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        let replies =
            Arc::new(Replies { to: Mutex::new(to), under_way: Default::default(), places });
        let (send, messages) = mpsc::channel(1);
        tokio::spawn(read(BufReader::new(from), replies.clone(), send));
        Pipe { messages, replies }
    }
}

/// Reads all lines, then waits up to [`END_TIME`] for the last replies.
async fn read<W: AsyncWrite + Send + Unpin>(
    mut from: BufReader<impl AsyncRead + Send + Unpin>,
    replies: Arc<Replies<W>>,
    messages: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
) {
    while let Ok(Some(line)) = next_line(&mut from).await {
        let too_long =
            || (UNPARSABLE, format!("a line has more than {MAX_LINE} bytes"), Value::Null);
        let (code, why, id) = match line.ok_or_else(too_long).and_then(|line| parse(&line)) {
            Ok(None) => continue,
            Ok(Some(message)) => match replies.begin(&message).await {
                Ok(()) => {
                    if messages.send(message).await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(id) => {
                    let why = format!("the id {} is in use", short(&id.to_string()));
                    (INVALID, format!("{why}; give each request its own id"), id.into_json_value())
                }
            },
            Err(wrong) => wrong,
        };
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}});
        if replies.write(error.to_string().into_bytes()).await.is_err() {
            return;
        }
    }
    let all = u32::try_from(AT_A_TIME).unwrap_or(u32::MAX);
    let _ = timeout(END_TIME, replies.places.acquire_many(all)).await;
}

/// Reads the next line, with its line feed. Returns `Some(None)` for a line of more than
/// [`MAX_LINE`] bytes, and `None` at the end of the input.
async fn next_line(
    from: &mut BufReader<impl AsyncRead + Unpin>,
) -> io::Result<Option<Option<Vec<u8>>>> {
    let (mut line, mut bytes) = (Vec::new(), 0);
    loop {
        let part = from.fill_buf().await?;
        let end = part.iter().position(|byte| *byte == b'\n');
        let n = end.map_or(part.len(), |end| end + 1);
        let over = part.is_empty();
        bytes += n;
        if bytes <= MAX_LINE {
            line.extend_from_slice(part.get(..n).unwrap_or_default());
        }
        from.consume(n);
        if over && bytes == 0 {
            return Ok(None);
        }
        if over || end.is_some() {
            return Ok(Some((bytes <= MAX_LINE).then_some(line)));
        }
    }
}

/// Parses a line; `None` for a blank line or an unknown notification, which gets no reply.
fn parse(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Wrong> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| (UNPARSABLE, error.to_string(), Value::Null))?;
    let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    let is_request_id = |id: &Value| serde_json::from_value::<RequestId>(id.clone()).is_ok();
    // A request with an invalid id would be read as a notification, which gets no reply.
    if value.get("method").is_some() && value.get("id").is_some_and(|id| !is_request_id(id)) {
        let why = "the id of a request must be a string or a whole number";
        return Err((INVALID, why.to_owned(), id.unwrap_or(Value::Null)));
    }
    let is_notification = id.is_none() && value.get("method").is_some_and(Value::is_string);
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        Err(_) if is_notification => Ok(None),
        Err(error) => Err((INVALID, error.to_string(), id.unwrap_or(Value::Null))),
    }
}

impl<W: AsyncWrite + Send + Unpin> Replies<W> {
    /// Waits until fewer than [`AT_A_TIME`] requests are in progress, then counts a new request
    /// among them. If the message cancels a request, ends that request, which gets no reply.
    ///
    /// # Errors
    /// The id of the request, at once, if a request with this id is in progress.
    async fn begin(&self, message: &RxJsonRpcMessage<RoleServer>) -> Result<(), RequestId> {
        match message {
            JsonRpcMessage::Request(request) => {
                if self.under_way().contains_key(&request.id) {
                    return Err(request.id.clone());
                }
                let Ok(place) = self.places.clone().acquire_owned().await else { return Ok(()) };
                self.under_way().insert(request.id.clone(), place);
            }
            JsonRpcMessage::Notification(_) => {
                let value = serde_json::to_value(message).unwrap_or_default();
                let is_cancel = value["method"] == "notifications/cancelled";
                let id = serde_json::from_value::<RequestId>(value["params"]["requestId"].clone());
                if let (true, Ok(id)) = (is_cancel, id) {
                    self.under_way().remove(&id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<RequestId, OwnedSemaphorePermit>> {
        locked(&self.under_way)
    }

    async fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut to = self.to.lock().await;
        to.write_all(&line).await?;
        to.flush().await
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Pipe<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let replies = self.replies.clone();
        async move {
            let id = match &message {
                JsonRpcMessage::Response(response) => Some(response.id.clone()),
                JsonRpcMessage::Error(error) => error.id.clone(),
                _ => None,
            };
            // The id becomes free now, before the client has the reply. The permit becomes free
            // once the reply is written.
            let _place = id.and_then(|id| replies.under_way().remove(&id));
            replies.write(serde_json::to_vec(&message)?).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.messages.close();
        Ok(())
    }
}

/// Feeds `lines` to a pipe and answers every request with an error. Returns the number of messages
/// read, and the bytes of all replies. For the fuzzer.
pub(crate) async fn refused(lines: Vec<u8>) -> (usize, Vec<u8>) {
    /// Maximum total size in bytes of all replies; writing more would block, since replies are read
    /// only at the end.
    const MAX_REPLIES: usize = 64 << 20;
    let (mut ours, theirs) = duplex(MAX_REPLIES);
    let mut pipe = Pipe::new(io::Cursor::new(lines), theirs);
    let mut messages = 0;
    while let Some(message) = pipe.receive().await {
        messages += 1;
        if let JsonRpcMessage::Request(request) = message {
            let refused = ErrorData::internal_error("refused", None);
            let _ = pipe.send(JsonRpcMessage::error(refused, Some(request.id))).await;
        }
    }
    drop(pipe);
    let mut replies = Vec::new();
    let _ = ours.read_to_end(&mut replies).await;
    (messages, replies)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    fn ping(id: usize) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
    }

    fn pong(id: i64) -> TxJsonRpcMessage<RoleServer> {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
    }

    #[tokio::test]
    async fn lines_that_cannot_be_read_are_answered_with_errors() {
        let deep = "[".repeat(2_000);
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_LINE));
        let text = format!("{{\n{deep}\n{long}\n[]\n{{\"id\":7,\"method\":3}}\n\n{}", ping(1));
        let (to, mut from) = duplex(1 << 16);
        let mut pipe = Pipe::new(io::Cursor::new(text), to);
        assert!(matches!(pipe.receive().await, Some(JsonRpcMessage::Request(_))));
        pipe.send(pong(1)).await.unwrap();
        assert!(pipe.receive().await.is_none());
        drop(pipe);
        let mut written = String::new();
        from.read_to_string(&mut written).await.unwrap();
        let written: Vec<Value> =
            written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let errors: Vec<_> =
            written.iter().map(|one| (one["error"]["code"].as_i64(), one["id"].as_i64())).collect();
        let expected = [
            (Some(-32_700), None),
            (Some(-32_700), None),
            (Some(-32_700), None),
            (Some(-32_600), None),
            (Some(-32_600), Some(7)),
            (None, Some(1)),
        ];
        assert_eq!(errors, expected);
    }

    #[tokio::test]
    async fn requests_with_an_invalid_id_are_answered_with_errors() {
        let lines: String = ["null", "{}", "[1]", "true", "1.5"]
            .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n"))
            .concat();
        let (messages, replies) = refused(lines.into_bytes()).await;
        let replies = String::from_utf8(replies).unwrap();
        assert_eq!((messages, replies.lines().count()), (0, 5), "{replies}");
        for reply in replies.lines() {
            let reply: Value = serde_json::from_str(reply).unwrap();
            assert_eq!(reply["error"]["code"], -32_600, "{reply}");
        }
        // Notifications have no id, and get no reply.
        let told = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        assert_eq!(refused(told.as_bytes().to_vec()).await, (1, Vec::new()));
    }

    #[tokio::test]
    async fn a_request_with_an_id_in_use_is_answered_at_once_and_not_passed_on() {
        let (mut to, from) = duplex(1 << 10);
        let (ours, theirs) = duplex(1 << 10);
        let mut pipe = Pipe::new(from, theirs);
        let mut replies = BufReader::new(ours).lines();
        let mut id_of_next = async || {
            let reply = replies.next_line().await.unwrap().unwrap();
            let reply: Value = serde_json::from_str(&reply).unwrap();
            (reply["id"].clone(), reply["error"]["message"].as_str().map(str::to_owned))
        };
        // A text is another id than the number.
        let text = ping(1).replace(":1,", ":\"1\",");
        to.write_all([ping(1), ping(1), text].concat().as_bytes()).await.unwrap();
        let mut passed_on = Vec::new();
        for _ in 0..2 {
            let Some(JsonRpcMessage::Request(request)) = pipe.receive().await else { panic!() };
            passed_on.push(request.id.into_json_value());
        }
        assert_eq!(passed_on, [json!(1), json!("1")]);
        let (id, why) = id_of_next().await;
        assert_eq!((id, why.unwrap().starts_with("the id 1 is in use")), (json!(1), true));
        // Once it is answered, the id may be used again.
        pipe.send(pong(1)).await.unwrap();
        assert_eq!(id_of_next().await, (json!(1), None));
        to.write_all(ping(1).as_bytes()).await.unwrap();
        assert!(matches!(pipe.receive().await, Some(JsonRpcMessage::Request(_))));
        pipe.send(pong(1)).await.unwrap();
        pipe.send(
            serde_json::from_value(json!({"jsonrpc": "2.0", "id": "1", "result": {}})).unwrap(),
        )
        .await
        .unwrap();
        drop(to);
        assert!(timeout(END_TIME / 2, pipe.receive()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn requests_wait_for_a_place_and_the_last_ones_are_finished() {
        let text: String = (0..200).map(ping).collect();
        let mut pipe = Pipe::new(io::Cursor::new(text), tokio::io::sink());
        for _ in 0..AT_A_TIME {
            assert!(pipe.receive().await.is_some());
        }
        let more = timeout(Duration::from_millis(50), pipe.receive()).await;
        assert!(more.is_err(), "none before one is answered");
        pipe.send(pong(3)).await.unwrap();
        assert!(pipe.receive().await.is_some());
        // All others are answered as they come; at the end of the input the last ones are waited
        // for.
        let mut under_way: Vec<i64> = (0..=AT_A_TIME as i64).filter(|id| *id != 3).collect();
        let mut next = AT_A_TIME as i64 + 1;
        while next < 200 {
            pipe.send(pong(under_way.remove(0))).await.unwrap();
            assert!(pipe.receive().await.is_some());
            under_way.push(next);
            next += 1;
        }
        assert!(timeout(Duration::from_millis(50), pipe.receive()).await.is_err());
        for id in under_way {
            pipe.send(pong(id)).await.unwrap();
        }
        assert!(pipe.receive().await.is_none());
    }
}
