#!/usr/bin/env python3
"""Draws docs/figure.svg of the README from what the program printed; standard library only.

    agent optimize --dataset amazon --seed 1
    agent query latest "QUESTION" --json > answer.json
    agent eval --dataset amazon --split val --json --system bm25 --system bm25+names --system dense \\
        --system hybrid --system bundle:latest > systems.jsonl
    scripts/readme-figure.py answer.json systems.jsonl > docs/figure.svg

Above: the question, the metapath that its first answers were reached by, and these. Below: mean
reciprocal rank with 95 % intervals. Colours follow the reader's setting, light or dark.
"""

import json
import sys
from html import escape

WIDTH, LINE, SHOWN = 760, 24, 3
STYLE = """
    text { font: 14px system-ui, sans-serif; fill: #1f2328 }
    .mono { font-family: ui-monospace, monospace; font-size: 13px }
    .soft { fill: #59636e }
    .bar { fill: #afb8c1 }
    .best { fill: #2f6fdb }
    line { stroke: #1f2328 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .soft { fill: #9198a1 }
      .bar { fill: #4b535c }
      .best { fill: #4184e4 }
      line { stroke: #e6edf3 }
    }
"""
parts, y = [], 8


def text(x, at, words, kind="", anchor="start"):
    parts.append(f'<text x="{x}" y="{at}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')


def way(path):
    """The path of a hit as `agent query` writes it."""
    told = [path[0]["name"]]
    for step in path[1:]:
        told.append(f"{step['relation']}->" if step["direction"] == "out" else f"<-{step['relation']}-")
        told.append("this" if step is path[-1] else step["name"])
    return " ".join(told)


answer = json.load(open(sys.argv[1]))
systems = [json.loads(line) for line in open(sys.argv[2])]

y += LINE
text(8, y, f"“{answer['query']}”")
route = answer["route"][0]
y += LINE
text(8, y, f"program  {route['category']}", "mono soft")
for hit in answer["hits"][:SHOWN]:
    y += LINE
    text(8, y, f"{hit['rank']}", "mono soft")
    text(28, y, hit["name"])
    text(WIDTH - 8, y, way(hit["path"]) if hit["path"] else "found by words", "mono soft", "end")

y += LINE + 16
n, dataset = systems[0]["n"], systems[0]["dataset"]
text(8, y, f"Mean reciprocal rank, %, {n} validation questions of the sample “{dataset}”", "soft")
left, room = 120, WIDTH - 120 - 56
for one in systems:
    y += LINE
    is_bundle = one["system"].startswith("bundle:")
    mrr, (low, high) = one["metrics"]["mrr"], one["ci95"]["mrr"]
    text(8, y, "agent" if is_bundle else one["system"])
    kind = "best" if is_bundle else "bar"
    parts.append(f'<rect x="{left}" y="{y - 13}" width="{room * mrr:.1f}" height="17" rx="2" class="{kind}"/>')
    parts.append(f'<line x1="{left + room * low:.1f}" x2="{left + room * high:.1f}" y1="{y - 4.5}" y2="{y - 4.5}"/>')
    text(WIDTH - 8, y, f"{100 * mrr:.1f}", anchor="end")

y += 14
body = "\n  ".join(parts)
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" '
      f'aria-label="A question, its answers with their paths, and how five systems compare">\n'
      f"  <style>{STYLE}  </style>\n  {body}\n</svg>")
