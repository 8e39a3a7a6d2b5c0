"""What CPython needs to compile programs and to run them over candidates, with tools like ours.

The programs do the work of benches/programs. Their tools are as good as plain Python allows:
neighbors are lists, and whatever is asked of a document is kept from the first pass, so the pass
that is timed neither stems nor folds one. Rankings are compared: scores as f32, ties by id.
"""
import inspect
import json
import re
import struct
import unicodedata
from collections import Counter
from functools import lru_cache

import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from common import arguments, digest, load_graph, load_nodes, measure, read_work

kind, work = arguments('compile|empty|relations|text|mixed WORK')
nodes = load_nodes(work)
relations, starts, targets = load_graph(work)
number = {name: at for at, name in enumerate(relations)}
names = [node['name'] for node in nodes]
stemmer = Stemmer.Stemmer('english')

# Edges are followed both ways.
rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
sources, kinds = rows // len(relations), rows % len(relations)
rows = np.concatenate([rows, targets.astype(np.int64) * len(relations) + kinds])
pairs = np.unique(rows * len(nodes) + np.concatenate([targets, sources]))
ends = (pairs % len(nodes)).astype(np.int32)
bounds = np.zeros(len(starts), np.int64)
np.cumsum(np.bincount(pairs // len(nodes), minlength=len(bounds) - 1), out=bounds[1:])
del rows, sources, kinds, pairs


def inline(value):
    if isinstance(value, dict):
        parts = ((key, inline(part)) for key, part in value.items())
        return '; '.join(f'{key}: {text}' for key, text in parts if text)
    if isinstance(value, list):
        return '; '.join(filter(None, map(inline, value)))
    return '' if value is None else value if isinstance(value, str) else json.dumps(value)


@lru_cache(None)
def document(node):
    lines = [f'- name: {names[node]}', f"- type: {nodes[node]['type']}"]
    for field, value in nodes[node]['details'].items():
        items = list(filter(None, map(inline, value))) if isinstance(value, list) else []
        if len(items) > 1 and max(len(item.encode()) for item in items) > 80:
            lines.append('\n  - '.join([f'- {field}:', *items]))
        elif (text := inline(value)) and text != names[node]:
            lines.append(f'- {field}: {text}')
    return '\n'.join(lines) + '\n'


def cut(text):
    return text if len(text) <= 20_000 else text[:20_000] + ' [cut]'


def get_text_info(node):
    return cut(document(node))


def fold(text):
    if not text.isascii():
        text = ''.join(c for c in unicodedata.normalize('NFKD', text)
                       if not unicodedata.combining(c))
    return text.lower()


words_of = re.compile(r'[^\W_]+').findall


def words(text):
    return words_of(fold(text))


def stems(text):
    kept = [word for word in words(text) if len(word) > 1 and word not in STOPWORDS_EN]
    return Counter(stemmer.stemWords(kept))


known_stems = lru_cache(8)(stems)
stems_of = lru_cache(None)(lambda node: stems(document(node)))
folded = lru_cache(None)(lambda node: fold(document(node)))


def get_related_nodes(node, relation):
    row = node * len(relations) + number[relation]
    return ends[bounds[row]:bounds[row + 1]].tolist()


def get_relation_dict(node):
    return {relation: get_related_nodes(node, relation) for relation in relations}


def get_relation_info(node):
    lines = []
    for relation in relations:
        if related := get_related_nodes(node, relation):
            more = ', [cut]' if len(related) > 200 else ''
            named = ', '.join([names[other] for other in related[:200]])
            lines.append(f'  {relation}: {named}{more}\n')
    return cut(''.join(['- relations:\n', *lines]) if lines else '')


def compute_recall_score(text, ids):
    wanted = known_stems(text)
    total = max(sum(wanted.values()), 1)
    scores = []
    for node in ids:
        have = stems_of(node)
        scores.append(sum([min(n, have[stem]) for stem, n in wanted.items() if stem in have])
                      / total)
    return scores


def compute_exact_match_score(text, ids):
    wanted = re.escape(fold(text.strip()))
    found = re.compile(rf'(?<![^\W_]){wanted}(?![^\W_])').search
    return [1.0 if wanted and found(folded(node)) else 0.0 for node in ids]


def program_empty(query, candidates):
    return {}


def program_relations(query, candidates, w_recall=1.0, w_degree=0.25, most=10):
    named = [name for name in get_relation_dict(candidates[0]) if name in query]
    own = compute_recall_score(query, candidates)
    scores = {}
    for node, best in zip(candidates, own):
        degree = 0
        for relation in named:
            related = get_related_nodes(node, relation)
            degree += len(related)
            best = max([best, *compute_recall_score(query, related[:most])])
        scores[node] = w_recall * best + w_degree * degree / (degree + 10.0)
    return scores


def program_text(query, candidates, w_count=0.5, w_first=2.0, w_pair=1.5, least=4):
    wanted = [word for word in words(query) if len(word) >= least]
    scores = {}
    for node in candidates:
        text = get_text_info(node).lower()
        first = text.split('\n')[0]
        counts = {}
        for word in words(text):
            if len(word) >= least:
                counts[word] = counts.get(word, 0) + 1
        score = 0.0
        for i, word in enumerate(wanted):
            if word in counts:
                score += w_count * min(counts[word], 5)
            if word in first:
                score += w_first
            if i > 0 and wanted[i - 1] + ' ' + word in text:
                score += w_pair
        scores[node] = score / max(len(wanted), 1)
    return scores


def program_mixed(query, candidates, w_names=1.0, w_exact=0.75, w_kinds=0.5, w_degree=0.25):
    asked = query.lower()
    keys = [word for word in words(asked) if len(word) > 4]
    exact = [0.0] * len(candidates)
    for key in keys[:6]:
        for i, found in enumerate(compute_exact_match_score(key, candidates)):
            exact[i] += found
    table = []
    for node, matches in zip(candidates, exact):
        info = get_relation_info(node).lower()
        hits = sum([key in info for key in keys])
        kinds = degree = 0
        for relation, related in get_relation_dict(node).items():
            if related:
                kinds += 3 if relation in asked else 1
                degree += len(related)
        table.append((hits, matches, kinds, degree / (degree + 10.0)))
    weights = (w_names, w_exact, w_kinds, w_degree)
    largest = [max(1e-9, *column) for column in zip(*table)]
    scores = {}
    for node, row in zip(candidates, table):
        score = 0.0
        for weight, value, most in zip(weights, row, largest):
            score += weight * value / most
        scores[node] = score
    return scores


def ranking(scores):
    single = struct.Struct('f')
    rounded = {node: single.unpack(single.pack(score))[0] for node, score in scores.items()}
    return sorted(rounded, key=lambda node: (-rounded[node], node))


questions = [(query, list(map(int, candidates.split())))
             for query, candidates in read_work(work, 'questions.tsv')]
if kind == 'compile':
    programs = [program_relations, program_text, program_mixed]
    texts = [inspect.getsource(program) for program in programs] * 100

    def one_pass():
        for text in texts:
            exec(compile(text, 'program', 'exec'), {})
    measure('program_compile', len(texts), one_pass)
else:
    program = globals()[f'program_{kind}']
    results = digest(ranking(program(*question)) for question in questions)

    def one_pass():
        for question in questions:
            program(*question)
    measure(program.__name__, len(questions), one_pass, digest=results)
