#!/bin/sh
# Compares `agent` with other software that does the same work; prints a Markdown table.
#
#   scripts/bench-peers.sh [--base DIR] [--pairs N] [--works LIST]
#
# --base DIR    a directory in neutral format; without it a prime sample of full size is generated
# --pairs N     run peer and agent so many times in turn (5)
# --works LIST  only these, separated by commas (all)
#
# Needs python3 with venv, the network for PyPI at the first run, and target/release/agent (or
# AGENT=FILE); builds benches/peers.rs, unless PEERS=FILE is its binary. Embedding is compared by
# scripts/bench-embed.sh. Everything is kept in target/bench-peers (or WORK=DIR): 4 GB with a full sample.
set -eu
cd "$(dirname "$0")/.."
base= pairs=5 works=all
while [ $# -gt 0 ]; do
    case $1 in
        --base) base=$(cd "$2" && pwd) ;;
        --pairs) pairs=$2 ;;
        --works) works=$2 ;;
        *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift 2
done
agent=${AGENT:-target/release/agent}
work=${WORK:-target/bench-peers}
peers=${PEERS:-$(cargo bench --no-run --bench peers 2>&1 | sed -n 's/.*(\(.*peers-[^)]*\)).*/\1/p')}
[ -x "$peers" ] || { echo "cargo bench --no-run --bench peers fails" >&2; exit 1; }
mkdir -p "$work"
work=$(cd "$work" && pwd)
python=${PYTHON:-$work/venv/bin/python}
export AGENT_HOME="$work/home" PYTHONDONTWRITEBYTECODE=1

if [ ! -x "$python" ]; then
    python3 -m venv "$work/venv"
    "$python" -m pip install --quiet -r scripts/peers/requirements.txt
fi
if [ -z "$base" ]; then
    base=$work/prime
    [ -f "$base/dataset.toml" ] || "$agent" data sample prime --scale 1 --to "$base"
fi
# What was prepared from another base is of no use.
if [ "$(cat "$work/base" 2>/dev/null)" != "$base" ]; then
    "$python" scripts/peers/prepare.py "$base" "$work"
    "$agent" --quiet data import --name bench-peers --from "$base"
    rm -rf "$work/bm25s"
    echo "$base" > "$work/base"
fi
case ,$works, in
    *,all,* | *,bm25,* | *,program_*) "$agent" --quiet index bench-peers ;;
esac
exec "$python" scripts/peers/compare.py "$agent" "$peers" "$base" "$work" "$pairs" "$works"
