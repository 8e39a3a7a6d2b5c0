#!/usr/bin/env bash
# Builds the Python package as one wheel for Python 3.10 and later into DIR (default: dist/), and,
# with --test, installs it into a clean environment of each PYTHON (default: python3) and runs its
# tests, doctests and types there.
#
#   scripts/build-wheel.sh [--out DIR] [--portable] [--test [PYTHON ...]]
#
# --portable links against glibc 2.28 by the linker of zig, for manylinux_2_28; without it the wheel
# fits systems as new as this one. Needs the Rust toolchain, a C++ compiler and the package registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=dist portable=() test=0 pythons=()
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out="$2"; shift ;;
        --portable) portable=(--zig --compatibility manylinux_2_28) ;;
        --test) test=1 ;;
        -*) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
        *) pythons+=("$1") ;;
    esac
    shift
done
mkdir -p "$out"
out="$(cd "$out" && pwd)"
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# The builder, in an environment of its own.
python3 -m venv "$work/build"
builders=("maturin>=1.16,<2")
[ ${#portable[@]} -eq 0 ] || builders+=(ziglang)
"$work/build/bin/pip" install --quiet "${builders[@]}"
PATH="$work/build/bin:$PATH" maturin build --release --locked --manifest-path python/Cargo.toml \
    --out "$out" "${portable[@]}"

[ "$test" = 1 ] || exit 0
wheel="$(ls -t "$out"/agent_retriever-*.whl | head -n 1)"
# The command line that the package is compared with.
cargo build --release --locked
AGENT_BINARY="${CARGO_TARGET_DIR:-$PWD/target}/release/agent"
export AGENT_BINARY
for python in "${pythons[@]}"; do
    env="$work/$(basename "$python")"
    "$python" -m venv "$env"
    "$env/bin/pip" install --quiet "$wheel[test]"
    printf '\n== %s\n' "$("$env/bin/python" --version)"
    # Beside the sources, so that what was installed is what is imported.
    cp -r python/tests "$work/tests"
    (cd "$work" && "$env/bin/python" -m pytest -q tests)
    "$env/bin/python" -m mypy --strict -m agent_retriever -m agent_retriever._native
    rm -rf "$work/tests"
done
