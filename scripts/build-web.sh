#!/usr/bin/env bash
# Builds the explorer from web/ into web/dist, lists its files for the binary, and notes what it was
# built from. `--check` builds elsewhere and says whether the same bytes come out.
#
# Needs Node 20 or later with npm; cargo needs neither, as what is built is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

table=src/serve/explorer/files.rs
digest=web/dist.digest

# The sources, in one order everywhere.
sources() {
    find web -type f -not -path 'web/dist/*' -not -path 'web/node_modules/*' -not -path $digest |
        LC_ALL=C sort
}

built() { # DIRECTORY
    (cd "$1" && find . -type f | sed 's|^\./||' | LC_ALL=C sort)
}

out="$PWD/web/dist"
if [ "${1:-}" = --check ]; then
    out="$(mktemp -d)"
    trap 'rm -rf "$out"' EXIT
fi

(cd web && npm ci --silent --ignore-scripts && npm run --silent check &&
    npx --no-install vite build --outDir "$out" --emptyOutDir &&
    npx --no-install vite build --config vite.report.config.js --outDir "$out")

if [ "$out" != "$PWD/web/dist" ]; then
    diff -r web/dist "$out"
    echo "web/dist is what its sources give"
    exit
fi

{
    echo '//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.'
    echo
    echo '/// Paths below `web/dist`, with what is in the files.'
    echo '#[rustfmt::skip]'
    echo 'pub(super) static FILES: &[(&str, &[u8])] = &['
    built web/dist | sed 's|.*|    ("&", include_bytes!("../../../web/dist/&")),|'
    echo '];'
} >$table

{ sources; built web/dist | sed 's|^|web/dist/|'; echo $table; } | xargs sha256sum >$digest
