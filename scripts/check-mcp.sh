#!/usr/bin/env bash
# Asks a server as the official MCP clients of two generations do, over a pipe and over HTTP.
# usage: scripts/check-mcp.sh [AGENT]     (needs python3 and a package index; keeps nothing)
set -euo pipefail
source "$(dirname "$0")/served.sh"

for client in mcp==1.30.0 mcp==2.3.0; do
    python3 -m venv "$work/$client"
    "$work/$client/bin/pip" -q install "$client"
    "$work/$client/bin/python" "$root/scripts/check-mcp.py" "$agent" "$home" one "$url/mcp"
done
