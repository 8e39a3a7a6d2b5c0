#!/usr/bin/env bash
# Builds the Python package as one wheel for Python 3.10 and later into DIR (default: dist/), and says
# which systems it fits: at least as new as this one, as auditwheel finds by the symbols it needs.
#
#   scripts/build-wheel.sh [--out DIR] [--portable]
#
# --portable links against glibc 2.28 by the linker of zig, for manylinux_2_28, and compiles all
# dependencies anew. Needs the Rust toolchain, a C compiler and the package registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=dist portable=()
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out="$2"; shift ;;
        --portable) portable=(--zig --compatibility manylinux_2_28) ;;
        *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift
done

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# The builder, in an environment of its own.
python3 -m venv "$work/build"
"$work/build/bin/pip" install --quiet "maturin>=1.16,<2" auditwheel ${portable:+ziglang}
PATH="$work/build/bin:$PATH" maturin build --release --locked --manifest-path python/Cargo.toml \
    --out "$work/wheel" "${portable[@]}"
"$work/build/bin/auditwheel" show "$work"/wheel/*.whl
mkdir -p "$out"
mv "$work"/wheel/*.whl "$out/"
