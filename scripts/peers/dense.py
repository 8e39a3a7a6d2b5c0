"""What faiss needs for the exact best 100 rows; 32-bit rows, as 16-bit ones lose some."""
import os

import faiss
import numpy as np
from safetensors.numpy import load_file, save_file

from common import SEED, arguments, digest, measure

work, dim = arguments('WORK DIM')
dim, place = int(dim), os.path.join(work, f'dense-{dim}.safetensors')
if not os.path.exists(place):
    random = np.random.default_rng(SEED)
    rows = random.standard_normal((129_375, dim), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    noise = random.standard_normal((256, dim), dtype=np.float32) / dim ** 0.5
    queries = rows[random.integers(0, len(rows), 256)] + 0.5 * noise
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    save_file({'rows': rows, 'queries': queries.astype(np.float32)}, place)
file = load_file(place)
queries = file['queries']
index = faiss.IndexFlatIP(dim)
index.add(file['rows'])


def search(some):
    return np.sort(index.search(some, 100)[1], axis=1)


def one_by_one():
    for at in range(20):
        index.search(queries[at:at + 1], 100)


shape = dict(rows=len(file['rows']), dim=dim)
found = digest(search(queries[at:at + 1])[0] for at in range(20))
measure('dense', 20, one_by_one, digest=found, **shape)
found = digest(search(queries))
measure('dense_batch', len(queries), lambda: index.search(queries, 100), digest=found, **shape)
