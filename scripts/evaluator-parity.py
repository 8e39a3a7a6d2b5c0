#!/usr/bin/env python3
"""Writes what the reference evaluators say of random rankings.

    pip install --no-deps --target OLD torchmetrics==1.7.3 lightning-utilities
    python3 scripts/evaluator-parity.py tests/data/metrics/reference.json OLD

needs stark-qa 1.1.0, torchmetrics 1.7.4 or later, and pytrec_eval (pytrec-eval-terrier).
torchmetrics changed its rule in 1.7.4: an answer counts only if its score is above 0. So the
`Evaluator` of stark-qa runs twice: `any` with the version in OLD, `positive` with the other.

The reference leaves the order of equal scores to the machine. So a ranking is either
without ties, or its ties are broken by ascending id before the reference is asked (`strict`). Where
the order of unnamed candidates decides a value of the former, it is null. All content is invented.
"""

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

METRICS = ["hit@1", "hit@3", "hit@5", "hit@10", "hit@20", "hit@50", "recall@5", "recall@10", "recall@20",
           "recall@50", "recall@100", "mrr", "map", "rprecision"]
TREC = {"hit@1": "success_1", "hit@5": "success_5", "hit@10": "success_10", "recall@5": "recall_5",
        "recall@10": "recall_10", "recall@20": "recall_20", "recall@100": "recall_100", "mrr": "recip_rank",
        "map": "map", "rprecision": "Rprec"}


def cases():
    draw = random.Random(23)
    for number in range(60):
        n = draw.choice([1, 3, 12, 40, 180])
        start = draw.randrange(5)
        ids = list(range(start, start + n))
        if number % 3 == 0:
            ids = sorted(draw.sample(range(2 * n), n))
        named = draw.sample(ids, draw.randint(1, min(n, 130)))
        # What is no candidate may be named and may be an answer; both are dropped.
        named += [i for i in range(max(ids)) if i not in ids][:1]
        tied = number % 2 == 1
        # Multiples of 1/8 are the same number in every format.
        steps = [draw.randrange(-8, 9) for _ in named] if tied else draw.sample(range(-4 * n, 4 * n), len(named))
        answers = draw.sample(ids, draw.randint(1, min(n, 9)))
        if number % 4 == 0:
            answers.append(max(ids) - 1 if number % 3 == 0 else max(ids))
        yield {"candidates": ids, "ranking": [[i, s / 8] for i, s in zip(named, steps)],
               "answers": sorted(set(answers)), "tied": tied}


def strict(case):
    """The whole ranking without ties: score descending, then id; unnamed candidates last."""
    scores = dict(map(tuple, case["ranking"]))
    lowest = min(scores.values()) - 1
    order = sorted(case["candidates"], key=lambda i: (-scores.get(i, lowest), i))
    return {node: float(len(order) - place) for place, node in enumerate(order)}


def evaluator():
    root = Path(importlib.util.find_spec("stark_qa").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("evaluator", root / "evaluator.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Evaluator


def asked(case):
    """The values of one case under the installed torchmetrics."""
    import torch

    ask = lambda scores, metrics: evaluator()(case["candidates"]).evaluate(
        scores, torch.LongTensor(case["answers"]), metrics)
    scores = dict(map(tuple, case["ranking"]))
    if case["tied"]:
        return ask(strict(case), METRICS)
    values = ask(scores, METRICS)
    # What is the same with the unnamed answers before all other unnamed candidates and behind
    # them does not depend on their order.
    answers = set(case["answers"])
    unnamed = [i for i in case["candidates"] if i not in scores]
    lowest = min(scores.values()) - 1
    extremes = []
    for first in (True, False):
        order = sorted(unnamed, key=lambda i: (i in answers) != first)
        extremes.append(ask({**scores, **{i: lowest - place * 1e-5 for place, i in enumerate(order)}}, METRICS))
    best, worst = extremes
    return {name: None if best[name] != worst[name] else value for name, value in values.items()}


def trec(case):
    import pytrec_eval

    candidates = set(case["candidates"])
    answers = {f"d{i}": 1 for i in case["answers"] if i in candidates}
    if not answers:
        return None
    run = {f"d{i}": score for i, score in strict(case).items()}
    found = pytrec_eval.RelevanceEvaluator({"q": answers}, set(TREC.values())).evaluate({"q": run})["q"]
    return {name: found[measure] for name, measure in TREC.items()}


def main():
    if len(sys.argv) == 2 and sys.argv[1] == "--values":
        import torchmetrics

        json.dump({"version": torchmetrics.__version__, "values": [asked(case) for case in cases()]}, sys.stdout)
        return
    target, old = sys.argv[1:]
    run = lambda path: json.loads(subprocess.run([sys.executable, __file__, "--values"], check=True, capture_output=True,
                                                 env={**os.environ, "PYTHONPATH": path}).stdout)
    first, second = run(old), run("")
    listed = []
    for case, before, after in zip(cases(), first["values"], second["values"]):
        # Breaking ties changes signs, so the newer rule is asked about rankings without ties only.
        after = None if case["tied"] else after
        listed.append({**case, "any": before, "positive": after, "trec": trec(case)})
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    with open(target, "w") as file:
        versions = {"any": first["version"], "positive": second["version"]}
        json.dump({"torchmetrics": versions, "cases": listed}, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
