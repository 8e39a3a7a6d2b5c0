"""What the peer scripts share: a base in neutral format as arrays, timing, digests of results."""
import hashlib
import json
import os
import resource
import sys
import time

SEED = 11


def cpu():
    """Processor seconds of this process so far, of all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(work, n, one_pass, **found):
    """Runs `one_pass`, which does `n` pieces of work, and prints the mean of one piece."""
    began, cpu_began = time.perf_counter(), cpu()
    one_pass()
    wall, used = time.perf_counter() - began, cpu() - cpu_began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(dict(work=work, n=n, wall_us=wall * 1e6 / n, cpu_us=used * 1e6 / n,
                          peak_mib=peak, **found)), flush=True)


def digest(lists):
    """SHA-256 of lists of ids: each its length and its ids, little-endian u32."""
    import numpy as np
    hasher = hashlib.sha256()
    for ids in lists:
        hasher.update(np.uint32(len(ids)).tobytes())
        hasher.update(np.ascontiguousarray(ids, dtype='<u4').tobytes())
    return hasher.hexdigest()


def parse(base):
    """Nodes, relation names and typed rows of a directory: row `node * n_relations + relation`."""
    import numpy as np
    import pandas as pd
    with open(os.path.join(base, 'nodes.jsonl')) as lines:
        nodes = [json.loads(line) for line in lines]
    edges = pd.read_csv(os.path.join(base, 'edges.tsv'), sep='\t', dtype={
        'src_id': np.int64, 'relation': 'category', 'dst_id': np.int64})
    relations = list(edges['relation'].cat.categories)
    row = edges['src_id'].to_numpy() * len(relations) + edges['relation'].cat.codes.to_numpy()
    targets = edges['dst_id'].to_numpy()
    pairs = np.unique(row * len(nodes) + targets)
    row, targets = pairs // len(nodes), (pairs % len(nodes)).astype(np.int32)
    starts = np.zeros(len(nodes) * len(relations) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(starts) - 1), out=starts[1:])
    return nodes, relations, starts, targets


def save(work, nodes, relations, starts, targets):
    """Keeps what `parse` gives in the fastest forms that Python and numpy have."""
    import pickle
    import numpy as np
    with open(os.path.join(work, 'nodes.pickle'), 'wb') as file:
        pickle.dump(nodes, file, protocol=5)
    np.savez(os.path.join(work, 'graph.npz'), starts=starts, targets=targets,
             relations=np.array(relations))


def load_graph(work):
    """Relation names and typed rows as saved."""
    import numpy as np
    with np.load(os.path.join(work, 'graph.npz')) as file:
        return list(file['relations']), file['starts'], file['targets']


def load_nodes(work):
    """Nodes as saved."""
    import pickle
    with open(os.path.join(work, 'nodes.pickle'), 'rb') as file:
        return pickle.load(file)


def read_work(work, name):
    """Lines of a file of work, split at tabs."""
    with open(os.path.join(work, name)) as lines:
        return [line.rstrip('\n').split('\t') for line in lines]


def arguments(usage):
    """The arguments of the script, or how to use it."""
    if len(sys.argv) != len(usage.split()) + 1:
        sys.exit(f'usage: {sys.argv[0]} {usage}')
    return sys.argv[1:]
