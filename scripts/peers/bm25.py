"""What bm25s with numba needs for the best 100 documents of each query.

Documents are the fields of a node; words are those of bm25s, so results are not compared here.
"""
import json
import os

import bm25s

from common import arguments, load_nodes, measure

work, = arguments('WORK')
with open(os.path.join(work, 'queries.txt')) as lines:
    queries = lines.read().splitlines()
place = os.path.join(work, 'bm25s')
if not os.path.exists(place):
    texts = [f"{node['name']} {node['type']} {json.dumps(node['details'])}"
             for node in load_nodes(work)]
    index = bm25s.BM25(backend='numba')
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    index.save(place)
index = bm25s.BM25.load(place)


def search(query):
    words = bm25s.tokenize([query], return_ids=False, show_progress=False)
    # bm25s refuses a query of stop words alone; it finds nothing.
    if words[0]:
        index.retrieve(words, k=100, show_progress=False, n_threads=1)


for query in queries[:20]:
    search(query)


def one_pass():
    for query in queries:
        search(query)


measure('bm25', len(queries), one_pass)
