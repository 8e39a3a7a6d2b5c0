#!/bin/sh
# Kills a run of `agent optimize` at random moments, resumes it until it is done, and compares its
# journal and its bundle with those of a run that nothing disturbed.
#
#   scripts/kill-runs.sh N --dataset D [more arguments of agent optimize]
#
# N is the number of kills; with fewer runs than kills needed, further runs are begun. Prints one
# line per run: kills, steps, whether journal and bundle are the same, seconds. Exit status 1 when
# one differs. AGENT names the binary, SEED the moments (default 1), WORK a directory for the runs
# (default a new one, removed at the end).
set -eu

if [ $# -lt 3 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
kills=$1
shift
agent=${AGENT:-target/release/agent}
work=${WORK:-}
if [ -z "$work" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

# Steps of a run, one JSON line each.
steps() {
    "$agent" run log "$1" --json
}

milliseconds() {
    echo $(($(date +%s%N) / 1000000))
}

begun=$(milliseconds)
"$agent" --quiet optimize --json --run "$work/undisturbed" "$@" >"$work/undisturbed.json"
took=$(($(milliseconds) - begun))
steps "$work/undisturbed" >"$work/undisturbed.log"
printf 'undisturbed: %s steps in %s ms\n' "$(wc -l <"$work/undisturbed.log" | tr -d ' ')" "$took"
printf '%5s %6s %6s %8s %8s %8s\n' run kills steps journal bundle ms

# One random moment per kill, from nothing to half the time of an undisturbed run.
awk -v seed="${SEED:-1}" -v n="$kills" -v most="$took" \
    'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%.3f\n", rand() * most / 2000 }' >"$work/moments"

run=0
killed=0
status=0
while [ "$killed" -lt "$kills" ]; do
    run=$((run + 1))
    dir=$work/run-$run
    of_run=0
    begun=$(milliseconds)
    while :; do
        resume=
        if [ -e "$dir/run.sqlite" ]; then
            resume=--resume
        fi
        # shellcheck disable=SC2086
        "$agent" --quiet optimize --json --run "$dir" $resume "$@" >"$dir.json" 2>"$dir.err" &
        pid=$!
        if [ "$killed" -lt "$kills" ]; then
            sleep "$(sed -n "$((killed + 1))p" "$work/moments")"
            if kill -KILL "$pid" 2>/dev/null; then
                killed=$((killed + 1))
                of_run=$((of_run + 1))
            fi
        fi
        if wait "$pid" 2>/dev/null; then
            break
        elif [ $? -ne 137 ]; then
            cat "$dir.err" >&2
            exit 1
        fi
    done
    steps "$dir" >"$dir.log"
    journal=same
    bundle=same
    cmp -s "$dir.log" "$work/undisturbed.log" || journal=OTHER
    cmp -s "$dir/bundle.json" "$work/undisturbed/bundle.json" || bundle=OTHER
    if [ "$journal$bundle" != samesame ]; then
        status=1
    fi
    printf '%5s %6s %6s %8s %8s %8s\n' "$run" "$of_run" "$(wc -l <"$dir.log" | tr -d ' ')" \
        "$journal" "$bundle" "$(($(milliseconds) - begun))"
done
exit "$status"
