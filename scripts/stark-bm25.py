"""Compares a run file of `agent eval` with bm25s over the candidates of an installed base.

    pip install bm25s==0.3.16 pyarrow
    agent eval --dataset N --split val --system bm25:stark --run-file bm25.trec
    python3 scripts/stark-bm25.py HOME/bases/N bm25.trec

Documents are the installed ones; k1 1.5, b 0.75 and the words are the defaults of bm25s, as in the
benchmark's own baseline. Of equal scores the smaller id comes first.
"""
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import bm25s
import numpy as np
import pyarrow.ipc

TOP = 20
base, run = Path(sys.argv[1]), Path(sys.argv[2])

manifest = json.loads((base / "kb/manifest.json").read_text())
wanted = {manifest["types"][number] for number in manifest["candidate_types"]}
nodes = pyarrow.ipc.open_file(str(base / "kb/nodes.arrow")).read_all().to_pydict()
rows = [at for at, kind in enumerate(nodes["type"]) if kind in wanted]
ids = np.array([nodes["id"][at] for at in rows])
index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
texts = [nodes["text"][at] for at in rows]
index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

ours = defaultdict(list)
for line in run.read_text().splitlines():
    query, _, node, *_ = line.split()
    if len(ours[query]) < TOP:
        ours[query].append(int(node))
with open(base / "queries/qa.csv", newline="") as lines:
    queries = {row["id"]: row["query"] for row in csv.DictReader(lines)}

overlap, same_order, top = [], 0, 0
for query, found in ours.items():
    words = bm25s.tokenize([queries[query]], return_ids=False, show_progress=False)[0]
    scores = index.get_scores(words)
    order = np.lexsort((ids, -scores))[:TOP]
    theirs = ids[order[scores[order] > 0]].tolist()
    overlap.append(len(set(theirs) & set(found)) / max(len(theirs), 1))
    same_order += theirs == found
    top += theirs[:1] == found[:1]
print(f"{len(rows)} candidates, {len(ours)} queries: overlap@{TOP} {np.mean(overlap):.3f}, "
      f"same order {same_order}, same first {top}")
