#!/usr/bin/env python3
"""Measures answers to a help desk by kind of question, beside SQLite's full-text search.

    make-helpdesk.py DIR && helpdesk-table.py DIR [--agent PATH] [--system bm25f ...] [--bundle FILE] [--failures]

Imports and indexes DIR/data as the base "helpdesk" of AGENT_HOME, asks the questions of DIR/held.jsonl and prints
mean reciprocal rank x 100 by kind. FTS5 has one row a node, of all its texts, by porter and by trigram; "joined"
rows hold the columns of their neighbours too. --failures lists the questions whose first answer is wrong.
"""

import argparse, collections, csv, json, pathlib, re, sqlite3, subprocess, sys

LINKS = {"manager_id", "requested_by", "assigned_to", "author_id", "product_id"}


def rows_of(data):
    rows = {}
    for file in ("products", "employees", "tickets", "articles"):
        raw = (data / f"{file}.csv").read_bytes()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("cp1252")
        delimiter = ";" if ";" in text.splitlines()[0] else ","
        for row in csv.DictReader(text.splitlines(), delimiter=delimiter):
            rows[row["id"]] = row
    return rows


def fts(rows, tokenize, joined):
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE VIRTUAL TABLE t USING fts5(id UNINDEXED, text, tokenize='{tokenize}')")
    for key, row in rows.items():
        cells = [cell for column, cell in row.items() if column not in LINKS]
        if joined:
            near = [rows[row[column]] for column in LINKS if row.get(column) in rows]
            cells += [cell for other in near for column, cell in other.items() if column not in LINKS]
        base.execute("INSERT INTO t VALUES (?, ?)", (key, " ".join(cells)))

    def ask(text):
        least = 3 if tokenize == "trigram" else 1
        words = [word for word in re.findall(r"\w+", text) if len(word) >= least]
        match = " OR ".join(f'"{word}"' for word in words)
        return [key for key, in base.execute("SELECT id FROM t WHERE t MATCH ? ORDER BY rank LIMIT 50", (match,))]

    return ask


def asked(command):
    def ask(text):
        run = subprocess.run([*command, text], capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        replies = [json.loads(line) for line in run.stdout.splitlines()]
        return [hit["key"] for reply in replies for hit in reply.get("hits", [reply])]

    return ask


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--agent", default="target/release/agent")
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--bundle", action="append", default=[])
    parser.add_argument("--installed", action="store_true", help="do not import")
    parser.add_argument("--failures", action="store_true")
    options = parser.parse_args()
    if not options.installed:
        subprocess.run([options.agent, "data", "import", "--name", "helpdesk", "--from", options.dir / "data"], check=True)
        subprocess.run([options.agent, "index", "helpdesk"], check=True)
    rows = rows_of(options.dir / "data")
    ways = {
        "fts porter": fts(rows, "porter", False), "fts trigram": fts(rows, "trigram", False),
        "fts porter joined": fts(rows, "porter", True), "fts trigram joined": fts(rows, "trigram", True)}
    for system in options.system:
        ways[system] = asked([options.agent, "search", "helpdesk", "--system", system, "-k", "50", "--json"])
    for bundle in options.bundle:
        ways[pathlib.Path(bundle).stem] = asked([options.agent, "query", "--bundle", bundle, "-k", "50", "--json"])
    held = [json.loads(line) for line in (options.dir / "held.jsonl").read_text().splitlines()]
    kinds = list(dict.fromkeys(question["kind"] for question in held))
    print(f"{'':24}" + "".join(f"{kind:>9}" for kind in kinds) + f"{'all':>9}")
    for name, ask in ways.items():
        scores = collections.defaultdict(list)
        for question in held:
            found = ask(question["query"])
            ranks = [rank for rank, key in enumerate(found, 1) if key in question["answers"]]
            score = 100 / ranks[0] if ranks else 0
            scores[question["kind"]].append(score)
            scores["all"].append(score)
            if options.failures and score < 100 and not name.startswith("fts"):
                print(f"  {name} {question['kind']}: {question['query']!r}, first answer at {ranks[:1]}: {found[:3]}")
        print(f"{name:24}" + "".join(f"{sum(scores[k]) / len(scores[k]):9.1f}" for k in [*kinds, "all"]))


if __name__ == "__main__":
    main()
