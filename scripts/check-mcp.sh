#!/usr/bin/env bash
# Asks a server as the official MCP clients of two generations do, over a pipe and over HTTP.
# usage: scripts/check-mcp.sh [AGENT]     (needs python3 and a package index; keeps nothing)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
agent=${1:-$root/target/release/agent}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

home=$work/home
"$agent" --home "$home" optimize --dataset amazon --steps 1 --run "$home/runs/one" >"$work/log" 2>&1
"$agent" --home "$home" serve --bundle one --listen 127.0.0.1:0 2>"$work/serve" &
server=$!
until grep -q 'listening on' "$work/serve"; do
    kill -0 "$server"
    sleep 0.2
done
url=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$work/serve")

for client in mcp==1.30.0 mcp==2.3.0; do
    python3 -m venv "$work/$client"
    "$work/$client/bin/pip" -q install "$client"
    "$work/$client/bin/python" "$root/scripts/check-mcp.py" "$agent" "$home" one "$url/mcp"
done
