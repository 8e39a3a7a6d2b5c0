#!/usr/bin/env bash
# Which system calls does a program cause? Runs one program with tools and one without under strace,
# and fails if the second opens, connects to or starts anything after the first call began.
# Skips where strace is not installed. AGENT names the binary (default: target/release/agent).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v strace >/dev/null; then
    echo "strace is not installed: skipped"
    exit 0
fi
agent="${AGENT:-target/release/agent}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Nothing of the user is used.
export AGENT_STATE="$work/home/state"
"$agent" --home "$work/home" data import --name example --from toolkits/stark/base >/dev/null 2>&1
"$agent" --home "$work/home" index example >/dev/null 2>&1

# Opens a file by every way that a program could try, then answers. `print` marks the start.
cat >"$work/tries.rhai" <<'RHAI'
fn retrieve(query, candidates, params) {
    let n = 0;
    for name in ["open_file", "read_file", "system", "exec", "http_get", "env", "sleep"] {
        try { Fn(name).call("/etc/passwd"); n += 1; } catch { }
    }
    for i in 0..100000 { n += i; }
    #{ "0": 1.0 }
}
RHAI
run() { # ENGINE
    strace -f -qq -e trace=network,process,openat,open,creat,unlink,rename,ptrace -o "$work/trace" \
        "$agent" --home "$work/home" program run "$work/tries.rhai" --dataset example \
        --query "warm socks" --sandbox "$1" --json >"$work/out"
    grep -q '"status":"ok"' "$work/out"
    # Only what is below the home, the program itself, and what the system's loader reads.
    if grep -E 'passwd|connect\(|bind\(|AF_INET|fork\(|vfork\(|ptrace\(' "$work/trace" ||
        grep 'execve(' "$work/trace" | tail -n +2 | grep .; then
        echo "sandbox $1: a program reached the system"
        exit 1
    fi
    echo "sandbox $1: $(wc -l <"$work/trace") calls, none that a program caused"
}
run wasm
run wasm
run rhai
