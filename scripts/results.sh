#!/bin/sh
# Measures every retriever that needs no training on every base of a directory; Markdown to stdout.
#
#   AGENT_HOME=HOME scripts/results.sh DATA [SPLIT...]      splits: val and test unless given
#
# DATA holds one directory in neutral format for each base. Bases and parts of indexes that are not
# in HOME are imported and built first. AGENT names the binary, BASES the bases (default: products
# biomed papers), EMBEDDER what embeds texts (default: what the index has).
set -eu
data=${1:?give the directory with the bases}
shift
[ $# -gt 0 ] || set -- val test
agent=${AGENT:-target/release/agent}
for base in ${BASES:-products biomed papers}; do
    "$agent" data show "$base" >/dev/null 2>&1 ||
        "$agent" --quiet data import --name "$base" --from "$data/$base"
    "$agent" --quiet index "$base" --with ann,multi,late ${EMBEDDER:+--embedder "$EMBEDDER"}
    for split in "$@"; do
        printf '\n## %s, %s\n\n' "$base" "$split"
        # Means alone: the table ends where that of differences begins.
        "$agent" --quiet eval --dataset "$base" --split "$split" --where kind=llm --format markdown \
            --system bm25 --system bm25+names --system dense --system dense:ann \
            --system multi --system multi:mean --system multi:top3 --system late \
            --system hybrid --system hybrid:weighted | sed "/^$/,\$d"
    done
done
