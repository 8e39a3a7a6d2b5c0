"""What numpy and scipy need for neighbors and for metapaths of two steps."""
import numpy as np
import scipy.sparse as sparse

from common import arguments, digest, load_graph, measure, read_work

kind, work = arguments('neighbors_typed|neighbors_list|neighbors_any|hop2 WORK')
relations, starts, targets = load_graph(work)
n_relations, number = len(relations), {name: at for at, name in enumerate(relations)}
n_nodes = (len(starts) - 1) // n_relations

if kind == 'hop2':
    metapaths = [(int(node), number[a], number[b]) for node, a, b in read_work(work, 'hop2.tsv')]
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    matrices = []
    for relation in range(n_relations):
        chosen = rows % n_relations == relation
        ones = np.ones(chosen.sum(), np.float32)
        matrices.append(sparse.csr_matrix((ones, (rows[chosen] // n_relations, targets[chosen])),
                                          shape=(n_nodes, n_nodes)))

    def neighbors(node, relation):
        matrix = matrices[relation]
        return matrix.indices[matrix.indptr[node]:matrix.indptr[node + 1]]

    def one(metapath):
        node, first, second = metapath
        return np.unique(np.concatenate([neighbors(middle, second)
                                         for middle in neighbors(node, first)]))
    pieces = metapaths
else:
    pieces = [(int(node), number[name]) for node, name in read_work(work, 'neighbors.tsv')]
    if kind == 'neighbors_any':
        pieces = pieces[:10_000]

        def one(piece):
            node = piece[0] * n_relations
            return np.unique(targets[starts[node]:starts[node + n_relations]])
    else:
        def one(piece):
            row = piece[0] * n_relations + piece[1]
            return targets[starts[row]:starts[row + 1]]

results = digest(map(one, pieces))
if kind == 'neighbors_list':
    def one_pass():
        for piece in pieces:
            one(piece).tolist()
else:
    def one_pass():
        for piece in pieces:
            one(piece)
measure(kind, len(pieces), one_pass, digest=results)
