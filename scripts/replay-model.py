#!/usr/bin/env python3
"""Runs a command with the replies of an earlier run in the place of a language model, and says what
each kind of request sent then and sends now: what a change of the prompts is worth on the same state.

    scripts/replay-model.py RUN NEW -- agent --home HOME optimize --dataset N ... --run NEW

RUN and NEW are run directories; NEW is made by the command, from a home without kept replies. A reply
is found by the kind of its request, its category and how many of this kind came before. As long as
prompts alone have changed, programs and so the state are those of RUN. Tokens are a quarter of the
characters.
"""

import collections
import http.server
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

KINDS = {
    "You find kinds": "categories found",
    "You sort queries": "categories assigned",
    "You write retrieval programs": "first program",
    "You repair retrieval programs": "repair",
    "You compare queries": "contrast",
    "You improve retrieval programs": "improved program",
}
TRIED_OUT = "This is your first program, tried out"


def key(texts):
    """The kind of a request, and its category or the first query that it asks about."""
    if len(texts) < 2:
        return "greeting", ""
    system, user = texts[0], texts[1]
    kind = next((kind for start, kind in KINDS.items() if system.startswith(start)), "other")
    if kind == "improved program" and TRIED_OUT in user:
        kind = "revised after a try-out"
    heading = "# Queries" if kind == "categories assigned" else "# The category"
    found = re.search(heading + r"[^\n]*\n<data[^>]*>\n([^\n]*)", user)
    return kind, found.group(1) if found else ""


def requests(run):
    """Key, characters and reply of every request of a run, in their order."""
    journal = sqlite3.connect(f"file:{Path(run) / 'run.sqlite'}?mode=ro", uri=True)
    for request, reply in journal.execute("SELECT request, reply FROM reply ORDER BY rowid"):
        texts = [message["text"] for message in json.loads(request)["messages"]]
        yield key(texts), sum(map(len, texts)), json.loads(reply)["text"]


class Replies:
    """The replies of a run, each given once."""

    def __init__(self, run):
        self.left = collections.defaultdict(list)
        for of, _, reply in requests(run):
            self.left[of].append(reply)
        self.lock = threading.Lock()
        self.unknown = 0

    def take(self, texts):
        with self.lock:
            left = self.left[key(texts)]
            self.unknown += not left
            return left.pop(0) if left else "There is no reply to this."


def served(replies):
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = replies.take([message["content"] for message in request["messages"]])
            choice = {"index": 0, "finish_reason": "stop",
                      "message": {"role": "assistant", "content": text}}
            body = json.dumps({"choices": [choice], "model": request["model"]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def sent(run):
    """Requests and tokens of each by kind; of improvements, contrast and program together."""
    by_kind = collections.defaultdict(list)
    improvements, contrasts = [], collections.defaultdict(list)
    for (kind, category), chars, _ in requests(run):
        by_kind[kind].append(chars / 4)
        if kind == "contrast":
            contrasts[category].append(chars / 4)
        elif kind == "improved program" and contrasts[category]:
            improvements.append(chars / 4 + contrasts[category].pop())
    by_kind["improvement"] = improvements
    return by_kind


def main():
    if len(sys.argv) < 5 or sys.argv[3] != "--":
        sys.exit(__doc__)
    run, new, command = sys.argv[1], sys.argv[2], sys.argv[4:]
    replies = Replies(run)
    server = served(replies)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = dict(os.environ, OPENAI_API_KEY="none", AGENT_MODEL="replayed",
                       OPENAI_BASE_URL=f"http://127.0.0.1:{server.server_port}/v1")
    status = subprocess.run(command, env=environment).returncode
    server.shutdown()
    if status != 0:
        sys.exit(status)
    before, after = sent(run), sent(new)
    print(f"{'':26}{'requests':>16}{'tokens, mean':>16}{'largest':>16}")
    for kind in before:
        old, now = before[kind], after[kind]
        if old and now:
            mean = [round(sum(of) / len(of)) for of in (old, now)]
            most = [round(max(of)) for of in (old, now)]
            cells = [f"{len(old)} -> {len(now)}", *(f"{a} -> {b}" for a, b in (mean, most))]
            print(f"{kind:26}" + "".join(f"{cell:>16}" for cell in cells))
    if replies.unknown:
        print(f"{replies.unknown} requests had no reply of the earlier run: the states differ")


if __name__ == "__main__":
    main()
