//! Fuzzes the lines that an assistant sends over a pipe: every reply is a line of JSON-RPC.

#![no_main]

use agent::serve::fuzz::mcp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|lines: Vec<u8>| {
    let (_, replies) = mcp(lines);
    for reply in replies.split(|byte| *byte == b'\n').filter(|reply| !reply.is_empty()) {
        let reply: serde_json::Value = serde_json::from_slice(reply).expect("a reply is JSON");
        assert_eq!(reply["jsonrpc"], "2.0");
    }
});
