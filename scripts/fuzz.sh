#!/bin/sh
# Fuzzes all targets of fuzz/, each for an equal share of the time, from what was kept of earlier runs.
#
#   scripts/fuzz.sh MINUTES [TARGET...]
#
# Needs cargo-fuzz (cargo install cargo-fuzz). Prints a line for each target: inputs that were tried, inputs
# kept, and whether it failed; then the sum. Exit status 1 if one failed: its input is in
# fuzz/artifacts/TARGET. What reaches new code is kept in fuzz/corpus/TARGET, as few inputs as reach it all.
# JOBS is the number of targets at a time (default: the number of cores), SECONDS_EACH a time instead of
# a share, CARGO_TARGET_DIR where the targets are built.
set -eu

if [ $# -lt 1 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
minutes=$1
shift
cd "$(dirname "$0")/.."
# The targets need no sanitizer, but coverage, which the stable compiler has behind this.
export RUSTC_BOOTSTRAP=1
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
if [ $# -eq 0 ]; then
    # Word splitting is meant.
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v '^agent-fuzz$')
fi
# The code under test is safe Rust: no sanitizer. pulp cannot be compiled with dead code linked.
export options='--strip-dead-code -s none'
jobs=${JOBS:-$(nproc)}
each=${SECONDS_EACH:-$((minutes * 60 * jobs / $#))}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
cargo fuzz build $options >"$logs/build" 2>&1 || {
    tail -40 "$logs/build" >&2
    exit 1
}

# One target; its last lines say what was tried.
cat >"$logs/one" <<'END'
mkdir -p "fuzz/corpus/$1"
if cargo fuzz run $options "$1" -- -max_total_time="$2" -rss_limit_mb=1024 -timeout=20 \
    -print_final_stats=1 >"$3/$1" 2>&1; then
    echo passed >"$3/$1.end"
    cargo fuzz cmin $options "$1" >"$3/$1.min" 2>&1 || true
else
    echo failed >"$3/$1.end"
fi
tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$3/$1" | tail -1)
kept=$(find "fuzz/corpus/$1" -type f | wc -l | tr -d ' ')
printf '%-10s %14s tried %6s kept  %s\n' "$1" "${tried:-0}" "$kept" "$(cat "$3/$1.end")"
[ "$(cat "$3/$1.end")" = passed ] || tail -20 "$3/$1" >&2
END
printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' sh "$logs/one" '{}' "$each" "$logs"
sed -n 's/^stat::number_of_executed_units: *//p' "$logs"/* | awk '{ n += $1 } END { printf "%-10s %14d tried\n", "all", n }'
! grep -q failed "$logs"/*.end
