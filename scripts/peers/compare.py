"""Runs peers and `agent` in turn and prints a Markdown table.

A ratio is the peer's processor time divided by ours, the median over the pairs. Results are the
same if digests are equal, or values to 1e-5. Goals hold for a base of PRIME's size.
"""
import json
import os
import resource
import statistics
import subprocess
import sys

from common import arguments

agent, peers, base, work, pairs, chosen = arguments('AGENT PEERS BASE WORK PAIRS WORKS')
here = os.path.dirname(os.path.abspath(__file__))
name = 'bench-peers'

IMPORT = [agent, 'data', 'import', '--name', f'{name}-import', '--from', base, '--json']

# work, peer, script, our command, goal in microseconds of the processor or none
ROWS = [
    ('import', 'Python json + pandas', ['load.py', 'import', base, work],
     IMPORT, 1_200_000),
    ('open', 'Python pickle + numpy', ['load.py', 'open', base, work],
     [peers, 'open'], 50_000),
    ('neighbors_typed', 'numpy, slice', ['graph.py', 'neighbors_typed', work],
     [peers, 'neighbors', f'{work}/neighbors.tsv'], 0.02),
    ('neighbors_list', 'numpy, tolist', ['graph.py', 'neighbors_list', work],
     [peers, 'neighbors', f'{work}/neighbors.tsv'], 1.2),
    ('neighbors_any', 'numpy, unique', ['graph.py', 'neighbors_any', work],
     [peers, 'neighbors', f'{work}/neighbors.tsv'], 3),
    ('hop2', 'scipy', ['graph.py', 'hop2', work],
     [peers, 'hop2', f'{work}/hop2.tsv'], 6),
    ('metrics', 'pytrec_eval', ['metrics.py', work],
     [peers, 'metrics', f'{work}/metrics.tsv'], 2.5),
    ('bm25', 'bm25s + numba', ['bm25.py', work],
     [peers, 'bm25', f'{work}/queries.txt'], 100),
    ('dense', 'faiss flat, 384', ['dense.py', work, '384'],
     [peers, 'dense', f'{work}/dense-384.safetensors'], 2_000),
    ('dense_batch', 'faiss flat, 384', ['dense.py', work, '384'],
     [peers, 'dense', f'{work}/dense-384.safetensors'], 150_000 / 256),
    ('dense', 'faiss flat, 1536', ['dense.py', work, '1536'],
     [peers, 'dense', f'{work}/dense-1536.safetensors'], 7_500),
    ('dense_batch', 'faiss flat, 1536', ['dense.py', work, '1536'],
     [peers, 'dense', f'{work}/dense-1536.safetensors'], 500_000 / 256),
    *((f'program_{kind}', 'CPython', ['programs.py', kind, work],
       [peers, 'program', f'{work}/questions.tsv'], goal)
      for kind, goal in [('compile', 50), ('empty', None), ('relations', 2_000), ('text', 2_500),
                         ('mixed', 4_000)]),
]


def run(command):
    """The figures that a command prints, and the processor seconds of its whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # One thread each: waiting threads of some libraries count as work.
    single = dict(os.environ, OMP_NUM_THREADS='1', RAYON_NUM_THREADS='1', AGENT_BENCH_BASE=name)
    done = subprocess.run(command, capture_output=True, text=True, env=single)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f'{" ".join(command)} failed:\n{done.stderr}')
    figures = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {figure.get('work'): figure for figure in figures}, used


def same(theirs, ours):
    """Whether two figures have the same results; none if they say nothing of them."""
    if 'digest' in theirs:
        return theirs['digest'] == ours['digest']
    told = set(theirs) - {'work', 'n', 'wall_us', 'cpu_us', 'peak_mib'}
    return all(abs(theirs[key] - ours[key]) < 1e-5 for key in told) if told else None


def amount(us):
    for unit, size in (('s', 1e6), ('ms', 1e3), ('us', 1)):
        if us >= size:
            return f'{us / size:.3g} {unit}'
    return f'{us * 1e3:.3g} ns'


def yes(value):
    return '-' if value is None else 'yes' if value else '**no**'


print('| work | peer | peer | ours | ratio | same results | goal | reached |')
print('| --- | --- | ---: | ---: | ---: | --- | ---: | --- |')
for work_name, peer, script, command, goal in ROWS:
    if chosen != 'all' and work_name not in chosen.split(','):
        continue
    theirs, ours, ratios, equal = [], [], [], None
    for _ in range(int(pairs)):
        figures, _ = run([sys.executable, os.path.join(here, script[0]), *script[1:]])
        their = figures[work_name]
        figures, used = run(command)
        # Importing is measured as a whole process, ours with its start.
        our = figures.get(work_name) or {'cpu_us': used * 1e6}
        theirs.append(their['cpu_us'])
        ours.append(our['cpu_us'])
        ratios.append(their['cpu_us'] / our['cpu_us'])
        equal = same(their, our) if equal is not False else False
    middle = statistics.median(ours)
    print(f'| {work_name} | {peer} | {amount(statistics.median(theirs))} | {amount(middle)} '
          f'| {statistics.median(ratios):.1f} | {yes(equal)} '
          f'| {amount(goal) if goal else "-"} | {yes(middle <= goal if goal else None)} |', flush=True)
