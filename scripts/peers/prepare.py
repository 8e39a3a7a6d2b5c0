"""Prepares a comparison: the base in the peers' forms, and the work that both sides do.

BASE is a directory in neutral format. Writes into WORK:
  nodes.pickle graph.npz     the base
  neighbors.tsv hop2.tsv     nodes with relations to follow
  metrics.tsv                ranked nodes and answers
  queries.txt                two to ten words of documents
  questions.tsv              a name, four relations and five words, and 50 candidates
"""
import os
import re

import numpy as np

from common import SEED, arguments, parse, save

base, work = arguments('BASE WORK')
nodes, relations, starts, targets = parse(base)
save(work, nodes, relations, starts, targets)
random = np.random.default_rng(SEED)
n_relations, n_nodes = len(relations), len(nodes)
lengths = np.diff(starts)
filled = np.nonzero(lengths)[0]


def write(name, lines):
    with open(os.path.join(work, name), 'w') as file:
        file.writelines('\t'.join(map(str, line)) + '\n' for line in lines)


def row_of_edge(edges):
    return np.searchsorted(starts, edges, side='right') - 1


# Half of the rows by themselves, half by their edges: popular nodes come up as programs meet them.
rows = np.concatenate([random.choice(filled, 50_000),
                       row_of_edge(random.integers(0, len(targets), 50_000))])
random.shuffle(rows)
write('neighbors.tsv', ((row // n_relations, relations[row % n_relations]) for row in rows))

metapaths = []
while len(metapaths) < 2_000:
    row = random.choice(filled)
    # A metapath over thousands of middle nodes is no question that people ask.
    if lengths[row] > 300:
        continue
    middle = random.choice(targets[starts[row]:starts[row + 1]])
    onward = np.nonzero(lengths[middle * n_relations:(middle + 1) * n_relations])[0]
    if len(onward):
        metapaths.append((row // n_relations, relations[row % n_relations],
                      relations[random.choice(onward)]))
write('hop2.tsv', metapaths)

rankings = []
for _ in range(10_000):
    ranked = np.unique(random.integers(0, n_nodes, 130))[:100]
    random.shuffle(ranked)
    answers = set(random.choice(ranked, random.integers(1, 11), replace=False).tolist())
    answers |= set(random.integers(0, n_nodes, random.integers(0, 11)).tolist())
    rankings.append((' '.join(map(str, ranked)), ' '.join(map(str, sorted(answers)))))
write('metrics.tsv', rankings)

queries = []
while len(queries) < 500:
    words = re.findall(r'\w\w+', str(nodes[random.integers(n_nodes)]['details']))
    if len(words) > 20:
        queries.append((' '.join(random.choice(words, random.integers(2, 11))),))
write('queries.txt', queries)

# Candidates are drawn as the rows of neighbors.
questions = []
while len(questions) < 100:
    rows = np.concatenate([random.choice(filled, 25),
                           row_of_edge(random.integers(0, len(targets), 25))])
    candidates = list(dict.fromkeys((random.permutation(rows) // n_relations).tolist()))
    words = re.findall(r'\w\w+', str(nodes[candidates[0]]['details']))
    if len(words) > 20:
        named = [relations[row % n_relations] for row in rows[-4:]]
        text = ' '.join([nodes[candidates[0]]['name'], *named, *random.choice(words, 5)])
        questions.append((' '.join(text.split()), ' '.join(map(str, candidates))))
write('questions.tsv', questions)
