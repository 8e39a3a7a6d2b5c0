"""Writes tests/data/bm25/golden.json: a fixed corpus, queries, and every score bm25s gives them.

    pip install bm25s==0.3.16 && python3 scripts/bm25_golden.py
"""
import json, random
from pathlib import Path

import bm25s

OUT = Path(__file__).parent.parent / "tests/data/bm25/golden.json"
RARE = "Köln naïve Straße ΣΊΣΥΦΟΣ İstanbul x_y 42 3D co-op don't Ünïcode_7 東京都 हिन्दी ﬁne É ß² Ⅻ".split()
COMMON = "Graph drug the protein of gene and bound river a model".split()
SETTINGS = {"stark": (1.5, 0.75), "mfar": (1.2, 0.75)}

random.seed(7)
documents = ["", "the of and", "graph " * 300]
for at in range(80):
    words = random.choices(COMMON, k=random.randint(1, 40)) + random.choices(RARE, k=at % 4)
    random.shuffle(words)
    documents.append(" ".join(words) + random.choice(["", ".", " (a; b)", "\n- it's: 5"]))
queries = [" ".join(random.sample(COMMON, 4) + random.choices(RARE, k=2)) for _ in range(12)]
queries += ["graph graph drug", "unheard words only", "the of and", *RARE]

golden = {"documents": documents, "queries": queries}
for name, (k1, b) in SETTINGS.items():
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(queries, return_ids=False, show_progress=False)
    scores = [index.get_scores(words) if words else [0.0] * len(documents) for words in tokens]
    golden[name] = [{i: round(float(s), 6) for i, s in enumerate(row) if s > 0} for row in scores]
OUT.write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")
