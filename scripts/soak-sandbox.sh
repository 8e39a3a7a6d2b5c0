#!/usr/bin/env bash
# A million calls inside WebAssembly, a twentieth of them hostile: all answers equal, memory grows
# by less than 10 MB. `scripts/soak-sandbox.sh 50000` makes fewer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

AGENT_SOAK_CALLS="${1:-1000000}" cargo test --release --test it \
    sandbox::many_calls_leave_nothing_behind -- --exact --nocapture
