"""Writes tests/data/metrics/trec.json: what pytrec_eval says of small run files.

    pip install numpy pytrec_eval-terrier
    python scripts/trec-golden.py

The run is written as `agent eval --run-file` writes it: a score that ties with the one before is
the next smaller single-precision number.
"""

import json
import random
from pathlib import Path

import numpy as np
import pytrec_eval

CUTS = {"success": [1, 3, 5, 10, 20, 50], "recall": [5, 10, 20, 50, 100]}
NAMES = {"success": "hit", "recall": "recall"}
PLAIN = {"recip_rank": "mrr", "map": "map", "Rprec": "rprecision"}


def written(scores):
    ceiling = np.float32(np.inf)
    for score in scores:
        score = min(np.float32(score), ceiling)
        yield score
        ceiling = np.nextafter(score, np.float32(-np.inf))


def main():
    draw = random.Random(7)
    queries, run, qrels = [], [], []
    for number in range(16):
        length = [0, 1, 120][number] if number < 3 else draw.randrange(2, 60)
        nodes = draw.sample(range(200), length)
        scores = [draw.choice([-1.5, 0.125, 0.25, 1.0, 2.5, 7.0]) for _ in nodes]
        ranking = sorted(zip(nodes, scores), key=lambda pair: (-pair[1], pair[0]))
        answers = draw.sample(range(200), draw.randrange(1, 12))
        answers += draw.sample(nodes, min(len(nodes), draw.randrange(4)))
        answers = sorted(set(answers))
        queries.append({"ranking": ranking, "answers": answers})
        scores = written(score for _, score in ranking)
        for rank, ((node, _), score) in enumerate(zip(ranking, scores), 1):
            run.append(f"{number} Q0 {node} {rank} {float(str(score))!r} tag\n")
        qrels += [f"{number} 0 {node} 1\n" for node in answers]
    measures = {f"{name}.{','.join(map(str, cuts))}" for name, cuts in CUTS.items()} | set(PLAIN)
    judged = pytrec_eval.parse_qrel(qrels)
    values = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(pytrec_eval.parse_run(run))
    for number, query in enumerate(queries):
        found = values.get(str(number), {})
        named = {f"{name}_{k}": f"{NAMES[name]}@{k}" for name in CUTS for k in CUTS[name]} | PLAIN
        query["values"] = {ours: found[theirs] for theirs, ours in named.items() if found}
    path = Path(__file__).parent.parent / "tests/data/metrics/trec.json"
    golden = {"queries": queries, "run": "".join(run), "qrels": "".join(qrels)}
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
