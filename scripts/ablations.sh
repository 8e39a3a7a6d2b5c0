#!/bin/sh
# What each part of `agent optimize` is worth: runs without it, measured on validation queries with
# intervals and the paired difference to the whole. Markdown to stdout, seconds of every run last.
#
#   scripts/ablations.sh HOME
#
# HOME holds the indexed bases. AGENT names the binary, BASES the bases (default: products biomed
# papers), SEEDS the seeds (default: 1 2 3), PARTS the parts (default: all).
set -eu
home=${1:?give the home directory with the indexed bases}
agent=${AGENT:-target/release/agent}
parts=${PARTS:-mining tuning relaxation router cache mutation}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

# Runs without the given part, or whole; keeps the bundle and the seconds.
optimize() {
    base=$1 seed=$2 part=$3
    run=$runs/run-$base-$seed-$part
    without=
    [ "$part" = nothing ] || without="--without $part"
    # shellcheck disable=SC2086
    "$agent" --quiet --home "$home" optimize --dataset "$base" --seed "$seed" --run "$run" --json \
        $without >"$run.json"
    took=$(sed 's/.*"seconds":\([0-9.]*\).*/\1/' "$run.json")
    printf '| %s | %s | %s | %.1f |\n' "$base" "$seed" "$part" "$took" >>"$runs/seconds"
    mkdir -p "$runs/$base-$seed"
    mv "$run/bundle.json" "$runs/$base-$seed/$part"
    rm -rf "$run"
}

for base in ${BASES:-products biomed papers}; do
    for seed in ${SEEDS:-1 2 3}; do
        printf '\n## %s, seed %s: without nothing, then without %s\n\n' "$base" "$seed" "$parts"
        optimize "$base" "$seed" nothing
        systems="--system bundle:$runs/$base-$seed/nothing"
        for part in $parts; do
            optimize "$base" "$seed" "$part"
            systems="$systems --system bundle:$runs/$base-$seed/$part"
        done
        # shellcheck disable=SC2086
        "$agent" --quiet --home "$home" eval --dataset "$base" --split val --format markdown \
            $systems | sed "s|bundle:$runs/$base-$seed/||g"
    done
done
printf '\n| base | seed | without | seconds |\n| --- | --- | --- | ---: |\n'
cat "$runs/seconds"
