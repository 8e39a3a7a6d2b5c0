#!/bin/sh
# Checks and measures what runs on a CUDA device, on the machine that has one; Markdown to OUT.
#
#   scripts/gpu-check.sh PEERS EMBED EMBED_TESTS INDEX_TESTS MODEL [OUT]
#
# PEERS and EMBED are the binaries of these benches (`cargo bench --no-run` prints their paths), the next
# two those of the unit tests of these crates (`cargo test --release --no-run -p agent-embed -p agent-index`
# prints their paths), MODEL the directory of a sentence encoder such as all-MiniLM-L6-v2. Nothing is
# compiled or fetched here. Peers are the PyTorch and sentence-transformers of `python3`
# (PYTHON names another); CUDA's libraries are taken from there where the system has none.
# OUT is docs/benchmarks/gpu.md unless given.
set -eu
peers=${1:?give the binary of the bench peers}
embed=${2:?give the binary of the bench embed}
embed_tests=${3:?give the binary of the unit tests of agent-embed}
index_tests=${4:?give the binary of the unit tests of agent-index}
model=${5:?give the directory of a sentence encoder}
out=${6:-docs/benchmarks/gpu.md}
python=${PYTHON:-python3}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

libraries=$("$python" - <<'PY'
import glob, os, sysconfig
site = sysconfig.get_paths()['purelib']
found = glob.glob(os.path.join(site, 'nvidia', '*', 'lib')) + glob.glob('/usr/local/cuda/lib64')
print(':'.join(found))
PY
)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"

"$python" - "$work" <<'PY'
import os, sys
import torch
from safetensors.torch import save_file
torch.manual_seed(7)
for dim in (384, 1536):
    rows = torch.nn.functional.normalize(torch.randn(129_375, dim), dim=1)
    picked = rows[torch.randint(len(rows), (256,))]
    noise = 0.5 * torch.randn(256, dim) / dim ** 0.5
    queries = torch.nn.functional.normalize(picked + noise, dim=1)
    save_file(dict(rows=rows, queries=queries), os.path.join(sys.argv[1], f'dense-{dim}.safetensors'))
words = ('river stone paper light market garden doctor window summer engine music forest planet '
         'silver bridge winter letter kitchen animal school').split()
with open(os.path.join(sys.argv[1], 'texts-gpu.txt'), 'w') as file:
    for _ in range(16_384):
        file.write(' '.join(words[i] for i in torch.randint(len(words), (62,))) + '\n')
PY

# The processor's answers are the reference: without a device, and with it.
echo "unit tests without a device" >&2
CUDA_VISIBLE_DEVICES= AGENT_MINILM_DIR="$model" "$embed_tests" gpu:: bert:: >&2
CUDA_VISIBLE_DEVICES= "$index_tests" vectors:: >&2
echo "unit tests with a device" >&2
{ AGENT_MINILM_DIR="$model" "$embed_tests" gpu:: bert:: --nocapture && "$index_tests" vectors:: --nocapture; } \
    >"$work/tests" 2>&1 || { cat "$work/tests" >&2; exit 1; }
if grep -q 'skipped: no CUDA device' "$work/tests"; then
    echo "no CUDA device, or one of its libraries is missing" >&2
    exit 1
fi

ours() {
    for dim in 384 1536; do
        "$peers" dense "$work/dense-$dim.safetensors"
    done
    AGENT_MINILM_DIR="$model" "$embed" 3 "$work/texts-gpu.txt"
}
ours >"$work/device"
CUDA_VISIBLE_DEVICES= ours >"$work/processor"
PYTHONPATH="$here/peers" "$python" "$here/peers/gpu.py" "$work" "$model" >"$work/peers"
"$python" "$here/peers/gpu_page.py" "$work" >"$out"
echo "wrote $out" >&2
