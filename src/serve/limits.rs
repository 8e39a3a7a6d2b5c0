//! Renders the documentation page of all limits of the server: each limit with the response to a
//! request that exceeds it, and each route with the threads that do its work. Does not depend on
//! how limits are enforced.

use std::{fmt::Write as _, time::Duration};

use agent_kb::table;
use agent_retrieve::MAX_QUERY_BYTES;
use agent_sandbox::Limits;

use crate::{
    LONGEST_TIME, MAX_COMPARISONS, MAX_PROGRAMS, MAX_READS, MAX_TABLES, apart, asked, batch,
    compare, connections, describe, engine, events, guard,
    mcp::{self, calls, fit, pipe, resources},
    nodes, programs, queue, routes, runs, sent, socket, splits, stores,
};

const BEGIN: &str = "<!-- Written by `UPDATE=1 cargo test --release generated`: do not edit. -->

# Limits

Everything that `agent serve` and `agent mcp` accept, keep or wait for has a limit. Errors name the limit.
If several keys exist, each key uses at most half of the places or bytes that requests share, and keys take turns in
the queue.
";

/// A route, the threads that do its work, and the maximum content of one reply, such as
/// `1000 nodes`.
type Route = (&'static str, String, String);

/// A row of the page: the limited quantity, the limit, and the response if it is exceeded.
type Row = (&'static str, String, &'static str);

/// Returns the page of all limits, in Markdown.
pub fn reference_page() -> String {
    let mut page = BEGIN.to_owned();
    for (title, rows) in [
        ("Connections", connection_rows()),
        ("Requests and replies", request_rows()),
        ("Waiting and working", work_rows()),
        ("Batches and events", stream_rows()),
        ("Assistants", assistant_rows()),
        ("Programs and statements of clients", program_rows()),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n| quantity | limit | if exceeded |\n| --- | ---: | --- |\n"
        );
        for (of, limit, beyond) in rows {
            let _ = writeln!(page, "| {of} | {limit} | {beyond} |");
        }
    }
    page += "\n## Routes\n\nBodies and replies have the limits above, unless a row names another.\n\n\
             | route | runs on | maximum reply |\n| --- | --- | --- |\n";
    for (path, work, holds) in by_route() {
        let _ = writeln!(page, "| `{path}` | {work} | {holds} |");
    }
    page
}

fn bytes(n: usize) -> String {
    match n {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} kB", n >> 10),
        n => format!("{n} bytes"),
    }
}

fn time(time: Duration) -> String {
    match time.as_millis() {
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}

const BUSY: &str = "429 with `Retry-After`";
const BAD: &str = "400 that names the limit";
const NEXT: &str = "the next is read when one is answered";
const LAST: &str = "an error as the last line";
const IN_LINE: &str = "an error in its line";
const DROPPED: &str = "some are dropped";

fn connection_rows() -> Vec<Row> {
    let slow = format!("{} in {}", bytes(socket::WRITE_BYTES), time(socket::WRITE_TIME));
    vec![
        (
            "connections, if the system allows that many open files",
            connections::MAX_CONNECTIONS.to_string(),
            "503, then closed; probes of `/health/live` are still answered",
        ),
        ("requests per connection that begins with `GET /health/live`", "1".to_owned(), "closed"),
        (
            "time for the head of a request, including the wait between two requests",
            time(connections::HEADER_TIME),
            "closed",
        ),
        ("size of the head of a request", bytes(connections::HEADER_BYTES), "431 and closed"),
        ("minimum rate at which a client reads a reply", slow, "closed"),
        (
            "time for requests in progress when the server ends",
            time(connections::DRAIN_TIME),
            "cut off",
        ),
    ]
}

fn request_rows() -> Vec<Row> {
    vec![
        ("size of a body", bytes(routes::MAX_BODY), "413"),
        ("time for a body", time(guard::BODY_TIME), "408"),
        ("size of a question", bytes(MAX_QUERY_BYTES), BAD),
        ("size of a reply", bytes(sent::MAX_REPLY), "400 `reply_too_long`; a smaller `k` helps"),
        ("memory for replies of up to 64 kB while they are sent", bytes(sent::SMALL_REPLIES), BUSY),
        ("memory for longer replies while they are sent", bytes(sent::LARGE_REPLIES), BUSY),
        ("memory for bodies in progress, beyond 16 kB each", bytes(sent::LARGE_BODIES), BUSY),
        ("nodes per answer (`k`)", routes::MAX_K.to_string(), BAD),
        ("`timeout_ms`", time(LONGEST_TIME), BAD),
        ("time for an answer if the request has no `timeout_ms`", time(routes::TIME), "503"),
    ]
}

fn work_rows() -> Vec<Row> {
    vec![
        ("waiting questions", queue::MAX_WAITING.to_string(), BUSY),
        ("expected wait of a question", time(queue::LONGEST_WAIT), BUSY),
        ("wait of a job in a pool", time(apart::WAIT), BUSY),
        ("waiting jobs per pool", apart::MAX_WAITING.to_string(), BUSY),
        (
            "time to replace a base or bundle, or to run an operation",
            time(routes::LONGEST_CHANGE),
            "503",
        ),
        ("open systems of a base", engine::MAX_OPEN.to_string(), "all are closed"),
        (
            "open bundles of a base besides the active bundle",
            engine::MAX_OPEN_BUNDLES.to_string(),
            "the oldest is closed",
        ),
    ]
}

fn stream_rows() -> Vec<Row> {
    vec![
        ("concurrent batches", batch::MAX_BATCHES.to_string(), BUSY),
        ("size of a batch line, with the blank lines before it", bytes(batch::MAX_LINE), LAST),
        ("time for a batch line", time(batch::LINE_TIME), LAST),
        ("concurrent lines of a batch", batch::AT_A_TIME.to_string(), NEXT),
        ("wait of a batch line for a busy server", time(batch::PATIENCE), IN_LINE),
        ("size of the answer to a batch line", bytes(batch::MAX_LINE_REPLY), IN_LINE),
        ("clients that follow runs", events::MAX_FOLLOWERS.to_string(), BUSY),
        ("steps of a run per read", events::MAX_STEPS.to_string(), "the rest is read next"),
        ("time without an event", time(events::QUIET), "a comment is sent"),
        ("number of a step (`after`)", i64::MAX.to_string(), BAD),
    ]
}

fn assistant_rows() -> Vec<Row> {
    vec![
        ("size of a request at `/mcp`", bytes(mcp::MAX_BODY), "413"),
        ("size of a line over a pipe", bytes(pipe::MAX_LINE), "error -32700"),
        ("concurrent requests over a pipe", pipe::AT_A_TIME.to_string(), NEXT),
        ("time for requests in progress when the pipe ends", time(pipe::END_TIME), "dropped"),
        ("size of a tool's reply", bytes(fit::REPLY_BYTES), "`next_cursor`, or an error"),
        ("size of the text of an error", bytes(fit::ERROR_BYTES), "its middle is cut out"),
        ("characters of a name, path or word in a reply", fit::NAME_CHARS.to_string(), "cut"),
        ("nodes of an answer, over all pages", calls::MAX_K.to_string(), "an error"),
        ("neighbours per reply", calls::MAX_NEIGHBORS.to_string(), "`next_cursor`"),
        ("calls of a program per reply", calls::TRACED.to_string(), "left out"),
        ("time for an answer", time(Duration::from_millis(calls::TIME_MS)), "an error"),
        ("wait for a busy server", time(calls::PATIENCE), "an error"),
        ("size of a resource", bytes(resources::MAX_BYTES), "cut"),
    ]
}

fn program_rows() -> Vec<Row> {
    let of = Limits::default();
    let sql = table::Limits::default();
    let heap = usize::try_from(table::MAX_HEAP).unwrap_or(usize::MAX);
    let memory = usize::try_from(engine::LAB_MEMORY).unwrap_or(usize::MAX);
    vec![
        ("size of the source", bytes(of.source_bytes), "failure `parse`"),
        ("tokens of the source", of.source_tokens.to_string(), "failure `parse`"),
        ("processor time of parsing", time(of.parse_deadline), "failure `parse`"),
        (
            "processor time of a call of the program; wall-clock time may be ten times as long",
            time(of.deadline),
            "failure `deadline`",
        ),
        ("steps of the interpreter", of.operations.to_string(), "failure `operations`"),
        ("memory of a call of the program", bytes(memory), "failure `memory`"),
        ("tool calls", of.tool_calls.to_string(), "failure `tool_budget`"),
        ("size of a text", bytes(of.text_bytes), "failure `memory`"),
        ("items of a list", of.list_items.to_string(), "failure `memory`"),
        ("size of the printed output", bytes(of.output_bytes), "failure `output`"),
        ("nodes of a result", of.max_answers.to_string(), "failure `result`"),
        ("parameters", of.parameters.to_string(), "failure `parse`"),
        ("memory for cached tool results of a bundle", bytes(agent_systems::CACHE_BYTES), DROPPED),
        (
            "memory for cached tool results of all programs of a base",
            bytes(engine::LAB_CACHE_BYTES),
            DROPPED,
        ),
        (
            "time for the SQL statement of a question over many nodes",
            time(sql.time),
            "the statement is stopped",
        ),
        ("memory of the statement, not counting its tables", bytes(heap), "an error"),
        (
            "numbers that the statement's functions hold at the same time",
            table::MAX_NUMBERS.to_string(),
            "an error",
        ),
        ("rows of the statement's result", sql.rows.to_string(), "an error"),
        ("rows of the statement's table", table::MAX_ROWS.to_string(), "an error"),
        ("columns of the statement's table", table::MAX_COLUMNS.to_string(), "an error"),
        ("size of the columns of the statement's table", bytes(table::MAX_BYTES), "an error"),
        ("processor time for building the statement's table", time(table::MAX_TIME), "an error"),
    ]
}

/// For routes whose work runs on the thread that reads the request.
const AT_ONCE: &str = "the thread that reads the request";
/// For routes whose work runs on the threads of the queue, which answer questions.
const QUESTIONS: &str = "the query threads";

fn by_route() -> Vec<Route> {
    let pool = |of: &str, n: usize| format!("a pool for {of}, {n} at a time");
    let reads = &pool("disk reads", MAX_READS);
    let changes = &pool("replacements", 1);
    let (tables, sandboxes) = (&pool("tables", MAX_TABLES), &pool("programs", MAX_PROGRAMS));
    let (comparisons, operations) = (&pool("comparisons", MAX_COMPARISONS), &pool("operations", 1));
    let route = |path, work: &str, holds: &str| (path, work.to_owned(), holds.to_owned());
    let some = |path, work: &str, n: usize, of: &str| route(path, work, &format!("{n} {of}"));
    let views = crate::explorer::VIEWS.iter().map(|&path| route(path, AT_ONCE, "a built-in page"));
    let (queries, results) = (stores::MAX_STORE_QUERIES, stores::MAX_STORE_RESULTS);
    let by_store = format!("{queries} questions, {results} nodes each");
    let (nodes, chars) = (describe::MAX_LIMIT, describe::VALUE_CHARS);
    let listed = format!("{nodes} nodes, {chars} characters per field");
    let mut all: Vec<Route> = views.collect();
    all.extend([
        route("/assets/{name}", AT_ONCE, "a built-in file"),
        route("/icon.svg", AT_ONCE, "a built-in file"),
        route("/licences.md", AT_ONCE, "a built-in file"),
        route("/health/live", AT_ONCE, "one word; a separate thread answers"),
        route("/health/ready", AT_ONCE, "one word"),
        route("/metrics", AT_ONCE, "counters by route and status"),
        route("/openapi.json", AT_ONCE, "the description, built once"),
        route("/mcp", QUESTIONS, "see Assistants; programs and operations run in pools"),
        some("/v1/query", QUESTIONS, routes::MAX_K, "nodes"),
        some("/v1/search", QUESTIONS, routes::MAX_K, "nodes"),
        route("/v1/batch", QUESTIONS, "see Batches and events"),
        some("/v1/ask", tables, asked::MAX_ROWS, "rows per table"),
        route("/v1/vector_stores/{base}/search", QUESTIONS, &by_store),
        some("/v1/compare", comparisons, compare::MAX_LIMIT, "questions"),
        some("/v1/programs/run", sandboxes, programs::MAX_SAMPLE, "labelled questions"),
        route("/v1/operations", AT_ONCE, "all operations"),
        route("/v1/operations/{operation}", operations, "the reply of the command"),
        route("/v1/nodes/{id}", AT_ONCE, "a node"),
        some("/v1/nodes/{id}/neighbors", AT_ONCE, nodes::MAX_LIMIT, "neighbours"),
        route("/v1/nodes", AT_ONCE, &listed),
        route("/v1/base", AT_ONCE, "all bases"),
        route("/v1/base/active", changes, "a base"),
        route("/v1/bundles", AT_ONCE, "one bundle per base"),
        route("/v1/bundles/active", changes, "a bundle"),
        route("/v1/bundles/active/programs", AT_ONCE, "the programs of a bundle"),
        route("/v1/tools", AT_ONCE, "all tools"),
        route("/v1/systems", AT_ONCE, "all systems"),
        route("/v1/schema", reads, "a summary, computed once"),
        some("/v1/facets", reads, describe::MAX_VALUES, "values for each of 30 facets"),
        route("/v1/splits", AT_ONCE, "all splits"),
        some("/v1/splits/{split}/queries", reads, splits::MAX_LIMIT, "questions"),
        some("/v1/runs", reads, runs::MAX_RUNS, "runs"),
        route("/v1/runs/{id}", reads, "a run"),
        some("/v1/runs/{id}/programs", reads, runs::MAX_PROGRAMS, "programs"),
        some("/v1/runs/{id}/events", reads, events::MAX_STEPS, "steps at a time"),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use agent_app::{App, Unwatched};
    use agent_dataset::Home;
    use tokio::sync::watch;

    use super::*;
    use crate::{Hosts, Keys, Options, Server};

    /// Routes that are not in the OpenAPI description.
    const FURTHER: [&str; 4] = ["/assets/{name}", "/icon.svg", "/licences.md", "/mcp"];

    fn described() -> serde_json::Value {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            bases: Vec::new(),
            threads: 1,
            app: App::new(Home::new(dir.path()), Arc::new(Unwatched)),
            programs: true,
            changes: true,
        };
        let (_end, ending) = watch::channel(false);
        let server = Server::new(options, Keys::default(), Hosts::default(), ending).unwrap();
        let (_, described) = routes::described(&server).split_for_parts();
        serde_json::to_value(described).unwrap()
    }

    #[test]
    fn every_route_has_a_row_and_every_row_a_route() {
        let described = described();
        let paths = described["paths"].as_object().unwrap();
        let routes: BTreeSet<&str> =
            paths.keys().map(String::as_str).chain(crate::explorer::VIEWS).chain(FURTHER).collect();
        let rows = by_route();
        let rows: BTreeSet<&str> = rows.iter().map(|route| route.0).collect();
        assert_eq!(rows, routes);
    }

    #[test]
    fn the_parameters_of_a_path_are_those_in_it() {
        for (path, methods) in described()["paths"].as_object().unwrap() {
            let in_path: BTreeSet<&str> =
                path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            for method in methods.as_object().unwrap().values() {
                let parameters = method["parameters"].as_array().cloned().unwrap_or_default();
                let named: BTreeSet<&str> = parameters
                    .iter()
                    .filter(|one| one["in"] == "path")
                    .filter_map(|one| one["name"].as_str())
                    .collect();
                assert_eq!(named, in_path, "{path}");
            }
        }
    }

    #[test]
    fn every_operation_has_an_id_of_its_own() {
        let described = described();
        let paths = described["paths"].as_object().unwrap().values();
        let ids: Vec<&serde_json::Value> = paths
            .flat_map(|methods| methods.as_object().unwrap().values())
            .map(|method| &method["operationId"])
            .collect();
        let different: BTreeSet<&str> = ids.iter().filter_map(|id| id.as_str()).collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn both_replies_of_a_program_are_described() {
        let described = described();
        for schema in ["Ran", "Sampled", "OfQuery"] {
            assert!(described["components"]["schemas"][schema].is_object(), "{schema}");
        }
    }

    #[test]
    fn sizes_are_written_with_their_units() {
        assert_eq!(
            [bytes(8 << 20), bytes(64 << 10), bytes(1_000)],
            ["8 MB", "64 kB", "1000 bytes"]
        );
        assert_eq!([250, 30_000].map(|ms| time(Duration::from_millis(ms))), ["250 ms", "30 s"]);
    }
}
