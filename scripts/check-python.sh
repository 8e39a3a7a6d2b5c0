#!/usr/bin/env bash
# Installs a wheel into a clean environment of each PYTHON (default: python3), and there runs its
# tests, the types of its stubs and the notebook. The first PYTHON also gets LangChain, LlamaIndex,
# DSPy, MLflow, ranx, pytrec_eval and ir_datasets, so that the adapters run through the real libraries,
# and Ray, so that units run on a cluster of three nodes on this machine while its workers are killed.
#
#   scripts/check-python.sh [--wheel FILE] [--agent FILE] [PYTHON ...]
#
# Without --wheel or --agent, what is missing is built. The tests compare ids, score bits, records,
# run files and figures with the binary. Needs the package index.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wheel= agent= pythons=()
while [ $# -gt 0 ]; do
    case "$1" in
        --wheel) wheel="$(realpath "$2")"; shift ;;
        --agent) agent="$(realpath "$2")"; shift ;;
        -*) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
        *) pythons+=("$1") ;;
    esac
    shift
done
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if [ -z "$wheel" ]; then
    scripts/build-wheel.sh --out "$work/dist"
    wheel="$(echo "$work"/dist/*.whl)"
fi
if [ -z "$agent" ]; then
    cargo build --release --locked
    agent="${CARGO_TARGET_DIR:-$PWD/target}/release/agent"
fi
# Beside the sources, so that what was installed is what is imported.
cp -r python/tests python/pyproject.toml docs/how-to/python.ipynb "$work/"
mkdir "$work/bin"
ln -s "$agent" "$work/bin/agent"
export PATH="$work/bin:$PATH" AGENT_BINARY="$work/bin/agent"
export AGENT_ENCODER="$PWD/tests/data/encoder/mean"

extras=test,langchain,llama-index,dspy,mlflow,ir,ray modules=(langchain llama_index mlflow ray)
for python in "${pythons[@]}"; do
    env="$work/env"
    "$python" -m venv "$env"
    "$env/bin/pip" install --quiet "$wheel[$extras]"
    printf '\n== %s with %s\n' "$("$env/bin/python" --version)" "$extras"
    cd "$work"
    "$env/bin/python" -m pytest -q tests
    "$env/bin/python" -m mypy --strict -m agent_retriever -m agent_retriever._native \
        "${modules[@]/#/-magent_retriever.}"
    AGENT_HOME="$work/home" AGENT_STATE="$work/state" "$env/bin/python" -m jupyter execute \
        --timeout=600 --inplace python.ipynb
    cd "$OLDPWD"
    rm -rf "$env" "$work/home" "$work/state"
    extras=test modules=()
done
