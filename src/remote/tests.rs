//! Faults of connections and services, tested on the loopback interface. If a fault has a number,
//! the names of its tests begin with the number: l1 waits, l2 final errors, l3 outages, l4
//! connections, l5 deadlines, l6 forms of replies, l8 concurrency, l9 secrets.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    scripted::{Act, Scripted, refused_url, reply, reply_with},
    *,
};

/// Delay by which a loaded machine may exceed any expected time.
const SLACK: Duration = Duration::from_secs(3);

/// Returns limits that keep tests short.
fn quick() -> Limits {
    Limits {
        attempt: Duration::from_millis(500),
        attempts: 3,
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_secs(1),
        reply_bytes: 1_000,
        ..Limits::default()
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn open(base_url: String, limits: Limits) -> Service {
    let key = Some("sk-secret".to_owned());
    Service::new(&Account { base_url, key, ..Account::default() }, limits).unwrap()
}

fn post(service: &Service) -> Result<Vec<u8>, RemoteError> {
    service.post("/x", b"{}".to_vec(), 0)
}

fn ask(script: Vec<Vec<u8>>) -> (Result<Vec<u8>, RemoteError>, usize) {
    let server = Scripted::new(script);
    let reply = post(&open(server.url(), quick()));
    (reply, server.requests().len())
}

/// Returns the message of a request that failed in all its attempts.
#[track_caller]
fn message(failed: Result<Vec<u8>, RemoteError>) -> String {
    match failed.unwrap_err() {
        RemoteError::Failed { message, .. } => message,
        other => panic!("{other}"),
    }
}

fn fine() -> Vec<u8> {
    reply(200, "fine")
}

#[test]
fn what_may_pass_is_repeated_and_what_is_final_is_not() {
    assert_eq!(ask(vec![fine()]), (Ok(b"fine".to_vec()), 1));
    for status in [408, 409, 425, 429, 500, 502, 503, 529] {
        let script = vec![reply(status, "busy"), reply(status, "busy"), fine()];
        assert_eq!(ask(script), (Ok(b"fine".to_vec()), 3), "{status}");
    }
    let (failed, asked) = ask(vec![reply(503, "busy"), reply(429, "x"), reply(500, "down")]);
    let RemoteError::Failed { attempts, message, .. } = failed.unwrap_err() else { panic!() };
    assert_eq!((attempts, message.as_str(), asked), (3, "status 500: down", 3));
}

#[test]
fn l1_the_wait_that_the_service_names_is_kept_unless_too_long() {
    let named = |wait: &[&str]| reply_with(429, wait, "slow down");
    let date =
        ["date: Sun, 06 Nov 1994 08:49:36 GMT", "retry-after: Sun, 06 Nov 1994 08:49:37 GMT"];
    for (wait, at_least) in [
        (&["retry-after-ms: 300"][..], ms(300)),
        (&["retry-after: 0.3"], ms(300)),
        (&["retry-after: 1"], ms(1_000)),
        (&date, ms(1_000)),
        (&["retry-after: -7"], ms(0)),
        (&["x: y"], ms(0)),
    ] {
        let began = Instant::now();
        assert_eq!(ask(vec![named(wait), fine()]), (Ok(b"fine".to_vec()), 2), "{wait:?}");
        let took = began.elapsed();
        assert!(took >= at_least && took < at_least + SLACK, "{wait:?}: {took:?}");
    }
    for wait in ["retry-after: 31536000", "retry-after: Tue, 01 Jan 2999 00:00:00 GMT"] {
        let (failed, asked) = ask(vec![named(&[wait]), fine()]);
        let message = message(failed);
        assert!(
            message.contains("the service asks to wait") && message.contains("limit is 1 s"),
            "{message}"
        );
        assert_eq!(asked, 1);
    }
    let (failed, _) = ask(vec![named(&["retry-after: 86400"]), fine()]);
    assert!(failed.unwrap_err().to_string().contains("wait 86400 s"));
}

#[test]
fn l2_what_is_final_is_asked_once() {
    let body = r#"{"error":{"message":"bad key sk-secret\n","type":"x","code":null}}"#;
    for status in [401, 403] {
        let (failed, asked) = ask(vec![reply(status, body), fine()]);
        let RemoteError::Key { message, .. } = failed.unwrap_err() else { panic!() };
        assert_eq!((message.as_str(), asked), ("bad key ... ", 1));
    }
    for (status, code) in [(429, "insufficient_quota"), (402, ""), (403, "billing_not_active")] {
        let body = format!(r#"{{"error":{{"message":"pay","code":"{code}"}}}}"#);
        let (failed, asked) = ask(vec![reply(status, &body), fine()]);
        let RemoteError::Quota { message, .. } = failed.unwrap_err() else { panic!() };
        assert_eq!((message.as_str(), asked), ("pay", 1));
    }
    let long = r#"{"error":{"message":"maximum context length is 8192 tokens"}}"#;
    for (status, body, says) in [
        (400, "what?", "what?"),
        (400, long, "use a model with a longer context"),
        (404, r#"{"error":{"message":"no model m"}}"#, "no model m; check the name of the model"),
        (422, "", "no message"),
        // A redirect could carry the key elsewhere.
        (307, "", "redirects are not followed"),
    ] {
        let redirect = reply_with(status, &["location: http://127.0.0.1:9/"], body);
        let (failed, asked) = ask(vec![redirect, fine()]);
        let error = failed.unwrap_err();
        assert!(matches!(error, RemoteError::Refused { status: is, .. } if is == status));
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(asked, 1);
    }
}

#[test]
fn l3_bursts_are_survived_up_to_the_attempts_and_the_service_may_return() {
    let limits = Limits { attempts: 11, longest_wait: ms(5), ..quick() };
    for burst in [1, 10] {
        let mut script = vec![reply(503, "busy"); burst];
        script.push(fine());
        let server = Scripted::new(script);
        assert_eq!(post(&open(server.url(), limits)), Ok(b"fine".to_vec()));
        assert_eq!(server.requests().len(), burst + 1);
    }
    let is_up = Arc::new(AtomicBool::new(false));
    let seen = is_up.clone();
    let server = Scripted::answering(move |_| {
        Some(if seen.load(Ordering::Relaxed) { fine() } else { reply(529, "overloaded") })
    });
    let service = open(server.url(), limits);
    assert_eq!(message(post(&service)), "status 529: overloaded");
    assert_eq!(server.requests().len(), 11);
    is_up.store(true, Ordering::Relaxed);
    assert_eq!(post(&service), Ok(b"fine".to_vec()));
}

#[test]
fn l3_an_outage_costs_the_attempts_of_few_requests_however_many_wait() {
    let server = Scripted::answering(|_| Some(reply(500, "down")));
    let limits = Limits { attempts: 6, at_a_time: 4, first_wait: ms(100), ..quick() };
    let service = open(server.url(), limits);
    let errors: Vec<RemoteError> = thread::scope(|scope| {
        let requesters: Vec<_> =
            (0..64).map(|_| scope.spawn(|| post(&service).unwrap_err())).collect();
        requesters.into_iter().map(|requester| requester.join().unwrap()).collect()
    });
    let n_outages =
        errors.iter().filter(|error| matches!(error, RemoteError::Outage { .. })).count();
    assert!(n_outages > 32, "{n_outages} of {errors:?}");
    let outage = errors.iter().find(|error| matches!(error, RemoteError::Outage { .. }));
    assert!(outage.unwrap().to_string().contains("status 500: down"), "{outage:?}");
    // Requests are sent freely until the circuit breaker opens, then one at a time; a few may
    // arrive after others gave up.
    let asked = server.requests().len();
    assert!(asked <= 64, "{asked} requests for 64 with 6 attempts each");
}

#[test]
fn l3_all_who_wait_go_on_when_the_trial_succeeds() {
    let mut asked = 0;
    let server = Scripted::answering(move |body| {
        asked += 1;
        Some(if asked <= 12 { reply(503, "down") } else { reply(200, body) })
    });
    let limits = Limits { attempts: 20, at_a_time: 4, longest_wait: ms(20), ..quick() };
    let service = open(server.url(), limits);
    thread::scope(|scope| {
        for n in 0..32 {
            let service = &service;
            scope.spawn(move || {
                let body = format!("{n}").into_bytes();
                assert_eq!(service.post("/x", body.clone(), 0), Ok(body));
            });
        }
    });
}

#[test]
fn l4_connections_that_fail_are_tried_again() {
    let limits = Limits { attempt: Duration::from_secs(10), ..quick() };
    for address in [refused_url(), "http://x.invalid".to_owned()] {
        let service = open(address.clone(), limits);
        let error = post(&service).unwrap_err();
        assert!(matches!(error, RemoteError::Failed { attempts: 3, .. }), "{address}: {error}");
        assert!(error.to_string().contains("no connection"), "{address}: {error}");
        assert_eq!(service.retries(), 2);
    }
}

#[test]
fn l4_a_local_service_that_is_absent_is_tried_three_times() {
    let port = refused_url().rsplit(':').next().unwrap().to_owned();
    let limits = Limits { attempts: 10, ..quick() };
    for host in ["127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let error = post(&open(format!("http://{host}:{port}"), limits)).unwrap_err();
        assert!(matches!(error, RemoteError::Failed { attempts: 3, .. }), "{host}: {error}");
        assert!(error.to_string().contains("start the service"), "{host}: {error}");
        if host == "127.0.0.1" {
            let begin = format!("127.0.0.1:{port} gave no reply");
            assert!(error.to_string().starts_with(&begin), "{error}");
        }
    }
}

#[test]
fn names_of_this_machine_are_known() {
    let is_local = |host: &str| account::is_local(&format!("http://{host}/v1").parse().unwrap());
    assert!(
        ["localhost", "LOCALHOST.", "llm.localhost", "127.8.0.1", "[::1]", "[::]"]
            .map(is_local)
            .iter()
            .all(|is| *is)
    );
    assert!(
        !["localhost.example", "notlocalhost", "10.0.0.1", "[::2]"]
            .map(is_local)
            .iter()
            .any(|is| *is)
    );
}

#[test]
fn l4_a_service_without_encryption_is_told_at_once() {
    let server = Scripted::new(vec![fine()]);
    let service = open(server.url().replace("http", "https"), quick());
    let error = post(&service).unwrap_err();
    assert!(error.to_string().contains("begin its address with http://"), "{error}");
    assert_eq!(service.retries(), 0);
}

#[test]
fn l4_replies_that_break_off_are_never_taken_as_whole() {
    let head = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}").into_bytes();
    let chunked = "transfer-encoding: chunked\r\n\r\n";
    for broken in [
        // A reset before the headers, in them, and in the body.
        vec![Act::Reset],
        vec![Act::Reset, Act::Send(head("content-le"))],
        vec![Act::Reset, Act::Send(head("content-length: 10\r\n\r\nhalf"))],
        // The connection is closed before the reply is complete.
        vec![],
        vec![Act::Send(head(""))],
        vec![Act::Send(head("content-length: 10\r\n\r\nhalf"))],
        vec![Act::Send(head(&format!("{chunked}4\r\nhalf\r\n")))],
        vec![Act::Send(head(&format!("{chunked}9\r\nhalf")))],
        vec![Act::Send(b"no HTTP at all".to_vec())],
    ] {
        let script = vec![broken.clone(), broken, vec![Act::Send(reply(200, "whole"))]];
        let server = Scripted::acting(script);
        assert_eq!(post(&open(server.url(), quick())), Ok(b"whole".to_vec()));
        assert_eq!(server.requests().len(), 3);
    }
}

/// Posts to a service that follows these steps, and checks when the request fails and with what
/// message.
#[track_caller]
fn times_out(acts: Vec<Act>, limits: Limits, after: Duration, says: &str) {
    let server = Scripted::acting(vec![acts]);
    let service = open(server.url(), Limits { attempts: 1, ..limits });
    let began = Instant::now();
    let message = message(post(&service));
    let took = began.elapsed();
    assert!(message.contains(says), "{message}");
    assert!(took >= after && took < after.mul_f64(1.1) + SLACK, "{took:?} for {after:?}");
}

#[test]
fn l5_each_deadline_ends_an_attempt() {
    let long = Duration::from_secs(60);
    let limits = Limits { first_byte: long, idle: long, attempt: long, ..quick() };
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    let begun = || Act::Send([&head[..], b"begun"].concat());
    let first_byte = Limits { first_byte: ms(400), ..limits };
    times_out(vec![Act::Pause(None)], first_byte, ms(400), "no reply within 0.4 s");
    let idle = Limits { idle: ms(400), ..limits };
    times_out(vec![begun(), Act::Pause(None)], idle, ms(400), "the reply stalled for 0.4 s");
    // Slow bytes keep the reply from being idle, but not from exceeding the time of an attempt.
    let attempt = Limits { attempt: ms(600), ..limits };
    let drip = Act::Drip(vec![b'x'; 100], ms(100));
    times_out(vec![begun(), drip], attempt, ms(600), "incomplete after 0.6 s");
    // Chunks that never end, with silence after the last one.
    let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n".to_vec();
    times_out(vec![Act::Send(chunks), Act::Pause(None)], idle, ms(400), "stalled for 0.4 s");
    // All bytes arrive and the connection stays open: the reply is complete.
    let server = Scripted::acting(vec![vec![
        Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec()),
        Act::Pause(None),
    ]]);
    assert_eq!(post(&open(server.url(), limits)), Ok(b"ok".to_vec()));
}

#[test]
fn l5_a_connection_that_is_not_made_ends_too() {
    // The server accepts connections, but never answers the TLS greeting.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let long = Duration::from_secs(60);
    let limits =
        Limits { connect: ms(400), attempt: long, first_byte: long, attempts: 1, ..quick() };
    let began = Instant::now();
    assert_eq!(message(post(&open(address, limits))), "no connection within 0.4 s");
    let took = began.elapsed();
    assert!(took >= ms(400) && took < ms(440) + SLACK, "{took:?}");
}

#[test]
fn l5_the_total_bounds_all_attempts() {
    let server = Scripted::answering(|_| Some(reply(503, "busy")));
    let limits = Limits {
        attempts: u32::MAX,
        first_wait: ms(50),
        longest_wait: ms(50),
        total: ms(500),
        ..quick()
    };
    let began = Instant::now();
    let message = message(post(&open(server.url(), limits)));
    // On a busy machine, the last attempt may be cut short before its reply.
    assert!(message.contains("; no time is left"), "{message}");
    assert!(began.elapsed() < ms(550) + SLACK);
    // An attempt that is under way at the end of the total time is cut short.
    let hanging = Scripted::new(vec![Vec::new()]);
    let limits = Limits { attempt: Duration::from_secs(60), total: ms(300), ..limits };
    let began = Instant::now();
    let message = self::message(post(&open(hanging.url(), limits)));
    assert!(message.contains("no reply within 0.3 s; no time is left"), "{message}");
    assert!(began.elapsed() < ms(330) + SLACK);
}

#[test]
fn l5_a_stale_connection_is_replaced() {
    let kept = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nkept".to_vec();
    // The server closes the connection, or stops replying, after a reply that kept it open.
    let closes = vec![Act::Send(kept.clone())];
    let silent = vec![Act::Send(kept.clone()), Act::KeepAlive];
    for (first, second) in
        [(closes, vec![Act::Send(kept.clone())]), (silent, vec![Act::Pause(None)])]
    {
        let server = Scripted::acting(vec![first, second, vec![Act::Send(kept.clone())]]);
        let service = open(server.url(), quick());
        for _ in 0..2 {
            assert_eq!(post(&service), Ok(b"kept".to_vec()));
            thread::sleep(ms(20));
        }
    }
}

#[test]
fn l6_forms_that_were_not_asked_for_are_one_typed_error() {
    for (header, says) in [
        ("content-encoding: gzip", "content encoding \"gzip\""),
        ("content-encoding: br", "content encoding \"br\""),
        ("content-type: text/html; charset=utf-8", "a web page"),
        ("content-type: application/json; charset=\"utf-16\"", "not in UTF-8"),
        ("content-type: application/json;charset=ISO-8859-1", "not in UTF-8"),
    ] {
        let (failed, asked) = ask(vec![reply_with(200, &[header], "{}"), fine()]);
        let error = failed.unwrap_err();
        assert!(matches!(error, RemoteError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(says) && asked == 1, "{error}");
    }
    for header in ["content-encoding: identity", "content-type: application/json; charset=UTF-8"] {
        assert!(ask(vec![reply_with(200, &[header], "{}")]).0.is_ok(), "{header}");
    }
}

#[test]
fn l6_long_replies_end_early() {
    let (failed, asked) = ask(vec![reply(200, &"x".repeat(1_001))]);
    assert!(matches!(failed.unwrap_err(), RemoteError::TooLong { limit: 1_000, .. }));
    assert_eq!(asked, 1);
    assert_eq!(ask(vec![reply(200, &"x".repeat(1_000))]).0.unwrap().len(), 1_000);
    // A reply of a gigabyte, in chunks or with its length: little more than the limit is read.
    let long = Duration::from_secs(60);
    let limits = Limits { reply_bytes: 8 << 20, attempt: long, ..quick() };
    let chunk = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
    for head in ["transfer-encoding: chunked", "content-length: 1073741824", "connection: close"] {
        let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").into_bytes();
        let server =
            Scripted::acting(vec![vec![Act::Send(head), Act::Repeat(chunk.clone(), 1_024)]]);
        let error = post(&open(server.url(), limits)).unwrap_err();
        assert!(matches!(error, RemoteError::TooLong { .. }), "{error}");
        assert!(server.written() < 48 << 20, "{}", server.written());
    }
    // The same holds for a long error message.
    let head = b"HTTP/1.1 400 X\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let server = Scripted::acting(vec![vec![Act::Send(head), Act::Repeat(chunk, 1_024)]]);
    let error = post(&open(server.url(), limits)).unwrap_err();
    assert!(matches!(error, RemoteError::Refused { status: 400, .. }), "{error}");
    assert!(server.written() < 48 << 20, "{}", server.written());
}

#[test]
fn l8_replies_belong_to_their_requests_whatever_the_order() {
    let seen = Mutex::new(Vec::<String>::new());
    // The first request with each body fails. The second gets its body back, small numbers last.
    let server = Scripted::doing(move |body| {
        let mut seen = seen.lock().unwrap();
        if !seen.iter().any(|earlier| earlier == body) {
            seen.push(body.to_owned());
            return Some(vec![Act::Send(reply(503, "busy"))]);
        }
        let n: u64 = body.parse().unwrap();
        Some(vec![Act::Pause(Some(ms(64 - 2 * n))), Act::Send(reply(200, body))])
    });
    let limits = Limits { at_a_time: 32, attempts: 20, ..quick() };
    let service = open(server.url(), limits);
    thread::scope(|scope| {
        for n in 0..32 {
            let service = &service;
            scope.spawn(move || {
                let body = n.to_string().into_bytes();
                assert_eq!(service.post("/x", body.clone(), 0), Ok(body));
            });
        }
    });
    let bodies: Vec<Vec<u8>> = (0..20).map(|n| n.to_string().into_bytes()).collect();
    let replies = service.post_all("/x", bodies.clone());
    assert_eq!(replies.into_iter().map(Result::unwrap).collect::<Vec<_>>(), bodies);
}

#[test]
fn one_bound_holds_for_all_who_ask_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (entered, highest) = (now.clone(), most.clone());
    let server = Scripted::doing(move |body| {
        let n = entered.fetch_add(1, Ordering::SeqCst) + 1;
        highest.fetch_max(n, Ordering::SeqCst);
        let leave = entered.clone();
        // The request is counted out before its reply is sent, so before the next one can arrive.
        thread::spawn(move || {
            thread::sleep(ms(20));
            leave.fetch_sub(1, Ordering::SeqCst);
        });
        Some(vec![Act::Pause(Some(ms(200))), Act::Send(reply(200, body))])
    });
    let limits = Limits { at_a_time: 3, attempt: Duration::from_secs(30), ..quick() };
    let service = open(server.url(), limits);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert!(post(&service).is_ok());
                let all = service.post_all("/x", vec![b"1".to_vec(); 4]);
                assert!(all.iter().all(Result::is_ok));
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
}

#[test]
fn requests_are_spaced_and_their_waiting_counts() {
    let server = Scripted::answering(|_| Some(fine()));
    let limits = Limits { requests_per_minute: Some(600), ..quick() };
    let service = open(server.url(), limits);
    let began = Instant::now();
    for _ in 0..4 {
        assert!(post(&service).is_ok());
    }
    assert!(began.elapsed() >= ms(300), "{:?}", began.elapsed());
    let limits = Limits { tokens_per_minute: Some(60), total: ms(500), ..quick() };
    let service = open(server.url(), limits);
    assert!(service.post("/x", b"{}".to_vec(), 60).is_ok());
    let message = message(service.post("/x", b"{}".to_vec(), 60));
    assert!(message.contains("the limits per minute") && message.contains("60 s"), "{message}");
}

#[test]
fn a_stop_ends_whatever_waits() {
    let hanging = Scripted::answering(|_| Some(Vec::new()));
    let busy = Scripted::answering(|_| Some(reply_with(429, &["retry-after: 50"], "busy")));
    let long = Duration::from_secs(60);
    let limits = Limits { attempt: long, longest_wait: long, ..quick() };
    for server in [hanging, busy] {
        let stop = Arc::new(AtomicBool::new(false));
        let account = Account { base_url: server.url(), ..Account::default() };
        let service = Service::stoppable(&account, limits, stop.clone()).unwrap();
        let began = Instant::now();
        thread::scope(|scope| {
            let requesters: Vec<_> = (0..8).map(|_| scope.spawn(|| post(&service))).collect();
            while server.requests().is_empty() {
                thread::sleep(ms(5));
            }
            stop.store(true, Ordering::Relaxed);
            for requester in requesters {
                assert_eq!(requester.join().unwrap(), Err(RemoteError::Stopped));
            }
        });
        assert!(began.elapsed() < Duration::from_secs(1) + SLACK);
        assert_eq!(post(&service), Err(RemoteError::Stopped));
    }
}

#[test]
fn headers_and_parameters_are_those_of_the_account() {
    let server = Scripted::echo();
    let account = Account {
        base_url: server.url() + "/openai/?a=1",
        key: Some("sk-secret".to_owned()),
        key_header: Some("api-key".to_owned()),
        headers: vec![("OpenAI-Organization".to_owned(), "org-1234".to_owned())],
        query: vec![("api-version".to_owned(), "2024 x".to_owned())],
    };
    let service = Service::new(&account, quick()).unwrap();
    assert!(post(&service).is_ok());
    let request = server.requests().remove(0);
    assert!(request.starts_with("POST /openai/x?a=1&api-version=2024+x HTTP/1.1"), "{request}");
    for header in ["api-key: sk-secret", "openai-organization: org-1234", "application/json"] {
        assert!(request.contains(header), "{request}");
    }
    let lower = request.to_lowercase();
    assert!(!lower.contains("authorization") && !lower.contains("accept-encoding"), "{request}");
    let shown = format!("{account:?}");
    assert!(shown.contains("api-version") && shown.contains("OpenAI-Organization"), "{shown}");
    assert!(!shown.contains("sk-secret") && !shown.contains("org-1234"), "{shown}");
}

#[test]
fn l9_a_wrong_account_is_told_without_its_secrets() {
    let long = format!("http://127.0.0.1/{}", "x".repeat(2_000));
    for base_url in ["", "nonsense", "file:///etc", "http://me:sk-1@127.0.0.1", &long] {
        let account = Account { base_url: base_url.to_owned(), ..Account::default() };
        let Err(error) = Service::new(&account, quick()) else { panic!("{base_url}") };
        assert!(matches!(error, RemoteError::Setup(_)));
        assert!(!format!("{error:?} {error} {account:?}").contains("sk-"), "{error:?} {account:?}");
    }
    let base_url = "http://127.0.0.1".to_owned();
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    for account in [
        Account { key: Some("sk-\n1".to_owned()), ..Account::default() },
        Account { headers: header("x", "sk-\n1"), ..Account::default() },
        Account { headers: header("x y", "sk-1"), ..Account::default() },
    ] {
        let account = Account { base_url: base_url.clone(), ..account };
        let Err(error) = Service::new(&account, quick()) else { panic!() };
        assert!(!format!("{error:?} {error} {account:?}").contains("sk-"), "{error:?} {account:?}");
    }
}
