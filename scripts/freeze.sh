#!/usr/bin/env bash
# Writes down what a binary does on the built-in sample, as digests and texts, so that two binaries can be
# compared: a change that moves code must leave all of it as it was.
#
#   scripts/freeze.sh BINARY DIR      then  diff -r DIR OTHER
#
# DIR gets: bytes of the samples and of the index, the frozen bundle, the answers of `optimize`, `eval`,
# `query`, `search` and `ask` as JSON without times, the help of every command, OpenAPI, the systems.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
mkdir -p "$2"
out="$(realpath "$2")"
home="$(mktemp -d)"
# Help names the binary.
agent="$home/agent"
cp "$1" "$agent"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$home"' EXIT
export AGENT_HOME="$home" COLUMNS=100 NO_COLOR=1

digests() { # DIRECTORY
    (cd "$1" && find . -type f ! -name '*.lock' ! -name base.json | LC_ALL=C sort | xargs -d '\n' sha256sum)
}
# Times and the home directory differ from run to run.
untimed() {
    sed "s|$home|HOME|g" | jq -cS 'walk(if type == "object" then
        del(.timings, .phases, .first_better, .seconds_to_first_better, .latency_ms, .ms, .seconds, .run, .bundle, .peak_bytes, .path_on_disk) else . end)'
}

cd "$home"
for kind in amazon mag prime; do
    "$agent" data sample "$kind" --scale 0.2 --name "small-$kind" >/dev/null 2>&1
    digests "$home/bases/small-$kind" >"$out/sample-$kind"
done
"$agent" optimize --dataset amazon --seed 1 --run "$home/run" --json 2>/dev/null | untimed >"$out/optimize.json"
digests "$home/bases/amazon" >"$out/base-and-index"
sha256sum <"$home/run/bundle.json" >"$out/bundle"
bundle="$home/run/bundle.json"
"$agent" eval --dataset amazon --split val --system bm25 --system bm25+names --system "bundle:$bundle" \
    --json 2>/dev/null | untimed >"$out/eval.json"
"$agent" query --bundle "$bundle" --dataset amazon "a light racket for beginners" --explain --json \
    2>/dev/null | untimed >"$out/query.json"
"$agent" search amazon "light racket" --json 2>/dev/null | untimed >"$out/search.json"
"$agent" ask amazon "how many products are there per brand?" --json 2>/dev/null | untimed >"$out/ask.json" || true
"$agent" systems --json >"$out/systems.json"

# The help of every command, found by following the help.
walk() { # COMMAND...
    "$agent" "$@" --help 2>&1 | sed "s|$home|HOME|g" >>"$out/help"
    for next in $("$agent" "$@" --help 2>&1 | sed -n '/^Commands:/,/^$/s/^  \([a-z-]\+\) .*/\1/p'); do
        [ "$next" = help ] || walk "$@" "$next"
    done
}
: >"$out/help"
walk

"$agent" serve --base amazon --bundle "$bundle" --listen 127.0.0.1:0 >/dev/null 2>"$home/serve.log" &
server=$!
for _ in $(seq 100); do
    address="$(grep -oE '127\.0\.0\.1:[0-9]+' "$home/serve.log" | head -1 || true)"
    [ -n "$address" ] && curl -fsS "http://$address/openapi.json" -o "$home/openapi.json" 2>/dev/null && break
    sleep 0.1
done
jq -S . "$home/openapi.json" >"$out/openapi.json"
