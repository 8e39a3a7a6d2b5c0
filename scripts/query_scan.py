"""Compares `agent search --query` with a scan of all nodes, on random queries over a dataset in
neutral format: phrases with and without slop, prefixes, typos, ranges, must and not.

    python3 scripts/query_scan.py AGENT HOME NAME DIR [QUERIES]

AGENT is the binary, NAME the dataset in HOME that was imported from DIR and indexed with part query.
Prints how many queries agree, the first that do not, and what a query takes with the start of the
process. Details that are texts or numbers are asked for, with words of random nodes.
"""

import gzip, json, random, subprocess, sys, time, unicodedata

agent, home, name, directory = sys.argv[1:5]
wanted = int(sys.argv[5]) if len(sys.argv) > 5 else 200
MOST = 10_000


def folded(word):
    parts = unicodedata.normalize("NFKD", word.lower())
    return "".join(c for c in parts if not unicodedata.combining(c))


def words(text):
    inside = lambda c: c.isalnum() or unicodedata.combining(c)
    return [folded(w) for w in "".join(c if inside(c) else " " for c in text).split()]


def distance(a, b):
    before, last = None, list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[-1] = min(row[-1], before[j - 2] + 1)
        before, last = last, row
    return last[-1]


nodes = []
with gzip.open(f"{directory}/nodes.jsonl.gz", "rt") as file:
    for line in file:
        details = json.loads(line)["details"]
        texts = {k: v for k, v in details.items() if isinstance(v, (str, int, float)) and v is not True}
        nodes.append({k: (words(str(v)), str(v)) for k, v in texts.items() if v is not False and k.isidentifier()})


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def phrase(field, wanted, slop):
    def fits(node):
        found = node.get(field, ((), ""))[0]
        for at, word in enumerate(found):
            if word == wanted[0] and all(
                any(found[p] == w for p in range(max(0, at + i - slop), min(len(found), at + i + slop + 1)))
                for i, w in enumerate(wanted[1:], 1)
            ):
                return True
        return False

    return f'{field}:"{" ".join(wanted)}"' + (f"~{slop}" if slop else ""), fits


def word(field, sign, fits):
    return f"{field}:{sign}", lambda node: any(fits(w) for w in set(node.get(field, ((), ""))[0]))


def between(field, low, high):
    def fits(node):
        value = number(node[field][1]) if field in node else None
        return value is not None and low <= value <= high

    return f"{field}:[{low} TO {high}]", fits


def draw(rng):
    while True:
        node = rng.choice(nodes)
        if not node:
            continue
        field = rng.choice(sorted(node))
        found, text = node[field]
        found = [w for w in found if w.isascii()]
        kind = rng.randrange(5)
        if number(text) is not None and number(text) == number(text):
            value = int(float(text)) if abs(float(text)) < 1e9 else 0
            return between(field, value - rng.randrange(4), value + rng.randrange(4))
        if len(found) < 4 or len(node[field][0]) != len(found):
            continue
        at = rng.randrange(len(found) - 2)
        if kind == 0:
            return phrase(field, found[at : at + rng.randrange(2, 4)], 0)
        if kind == 1 and found[at] != found[at + 2]:
            return phrase(field, [found[at], found[at + 2]], rng.randrange(1, 3))
        w = found[at]
        if kind == 2 and len(w) > 2:
            return word(field, w[:-1] + "*", lambda other, w=w[:-1]: other.startswith(w))
        if kind == 3 and len(w) > 4:
            typos = rng.randrange(1, 3)
            near = lambda other: abs(len(other) - len(w)) <= typos and distance(w, other) <= typos
            return word(field, f"{w}~{typos}", near)
        if kind == 4 and not w.isupper():
            return word(field, w, lambda other: other == w)


rng, agree, asked, times = random.Random(1), 0, 0, []
while asked < wanted:
    parts = [(rng.choice(["+", "+", "-", ""]), *draw(rng)) for _ in range(rng.randrange(1, 4))]
    must = [fits for sign, _, fits in parts if sign == "+"]
    may = [fits for sign, _, fits in parts if sign == ""]
    never = [fits for sign, _, fits in parts if sign == "-"]
    query = " ".join(sign + text for sign, text, _ in parts)
    expected = {
        at
        for at, node in enumerate(nodes)
        if (all(f(node) for f in must) if must else any(f(node) for f in may) if may else True)
        and not any(f(node) for f in never)
    }
    if len(expected) >= MOST:
        continue
    began = time.perf_counter()
    command = [agent, "--home", home, "-q", "search", name, f"--query={query}", "-k", str(MOST), "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    times.append(time.perf_counter() - began)
    found = {json.loads(line)["id"] for line in run.stdout.splitlines()}
    asked += 1
    agree += found == expected
    if found != expected and asked - agree <= 3:
        print(f"differs: {query}: {len(found)} found, {len(expected)} expected {run.stderr.strip()}")
        print("  only found", sorted(found - expected)[:3], "only expected", sorted(expected - found)[:3])
times.sort()
print(f"{name}: {agree} of {asked} queries agree; a process takes {times[len(times) // 2] * 1e3:.0f} ms, median")
