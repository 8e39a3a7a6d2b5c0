#!/usr/bin/env python3
"""Kills the commands that write, at random moments, and compares what they come to with undisturbed ones.

    kill-commands.py AGENT KILLS [COMMAND...]

Commands: import, update, index, optimize, run (of units), collect, take-in (of a home), serve; default all, with
an equal share of the kills each. A command is killed again and again until it ends by itself, or some kills were
made, and is then run to its end. Then answers, bundle or results are those of an undisturbed run, byte for byte. After
each kill the home can be listed, and what was there before answers as before: after a killed update the base gives
the old answers or the new ones. The server is killed while it indexes another base; what it said was done stays.
SEED chooses the moments (default 1). Exit status 1 if anything differs. Keeps nothing.
"""
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

AGENT, KILLS = os.path.abspath(sys.argv[1]), int(sys.argv[2])
WORK = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
HOME = WORK / "home"
RANDOM = random.Random(int(os.environ.get("SEED", "1")))
# Kills of one command before it is run to its end.
IN_A_ROW = 8
QUERIES = ["a quiet kettle", "steel by Lark", "Umbra 7", "blue"]


def run(*args, fails=False):
    """What a command prints; it must end well."""
    done = subprocess.run([AGENT, "--quiet", "--home", str(HOME), *map(str, args)], capture_output=True)
    if done.returncode and not fails:
        sys.exit(f"{args}: status {done.returncode}\n{done.stderr.decode()[-2000:]}")
    return done.stdout


def tables(to, n, extra):
    """Products of four brands, with questions; `extra` makes another version."""
    to.mkdir(parents=True)
    brands, colors = ["Lark", "Umbra", "Arvelle", "Zorblax"], ["red", "blue", "green"]
    rows = [f"P{i},{colors[i % 3]} kettle {i},{['quiet', 'loud'][i % 2]} and of steel {extra},B{i % 4}" for i in range(n)]
    (to / "products.csv").write_text("id,name,text,brand_id\n" + "\n".join(rows) + "\n")
    (to / "brands.csv").write_text("id,name\n" + "\n".join(f"B{i},{name}" for i, name in enumerate(brands)) + "\n")
    (to / "dataset.toml").write_text('candidate_types = ["product"]\n')
    asked = [f"{i},a {['quiet', 'loud'][i % 2]} {colors[i % 3]} kettle by {brands[i % 4]},\"[\"\"product:P{i}\"\"]\"" for i in range(40)]
    (to / "qa.csv").write_text("id,query,answer_ids\n" + "\n".join(asked) + "\n")
    (to / "split").mkdir()
    for name, own in [("train", range(20)), ("val", range(20, 40)), ("test", [])]:
        (to / "split" / f"{name}.index").write_text("".join(f"{i}\n" for i in own))


def answers(of="shop"):
    """The answers of a base; nothing where it has no index."""
    return b"".join(run("search", of, query, "-k", 20, "--json", fails=True) for query in QUERIES)


def bundle(dir):
    return (dir / "bundle.json").read_bytes()


def fresh(template, at=HOME):
    shutil.rmtree(at, ignore_errors=True)
    if template is not None:
        shutil.copytree(template, at)


class Command:
    """A command that is killed: what it starts from, how it is begun, and what it comes to."""

    def __init__(self, template, args, result, between=None):
        self.template, self.args, self.result, self.between = template, args, result, between

    def begin(self):
        args = [AGENT, "--quiet", "--home", str(HOME), *map(str, self.args())]
        return subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def undisturbed(self):
        fresh(self.template)
        clean()
        began = time.monotonic()
        process = self.begin()
        error = process.communicate()[1]
        if process.returncode:
            sys.exit(f"undisturbed: {error.decode()[-2000:]}")
        return time.monotonic() - began, self.result()

    def killed(self, kills):
        took, expected = self.undisturbed()
        total = wrong = 0
        while total < kills:
            fresh(self.template)
            clean()
            for left in range(IN_A_ROW, -1, -1):
                process = self.begin()
                if left:
                    try:
                        process.wait(RANDOM.random() * took)
                    except subprocess.TimeoutExpired:
                        process.kill()
                error = process.communicate()[1]
                if process.returncode == 0:
                    break
                if process.returncode != -9:
                    wrong += 1
                    print(f"status {process.returncode}: {error.decode()[-500:]}")
                    break
                total += 1
                if not RANDOM.randrange(4):
                    run("data", "list", "--json")
                    wrong += bool(self.between) and not self.between()
            if process.returncode == 0 and self.result() != expected:
                wrong += 1
                print(f"it comes to something else: {str(self.result())[:500]}")
        return total, wrong


def clean():
    for name in ["run", "out.jsonl"]:
        path = WORK / name
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
    shutil.rmtree(WORK / "units", ignore_errors=True)
    if (WORK / "planned").exists():
        shutil.copytree(WORK / "planned", WORK / "units")


def serve(kills):
    """The server is killed while it indexes a base; what it acknowledged is there, and it serves as before."""
    total = wrong = acknowledged = 0
    fresh(WORK / "indexed")
    run("data", "import", "--name", "other", "--from", WORK / "v1")
    template = WORK / "two"
    shutil.copytree(HOME, template)
    run("index", "other")
    expected = {name: answers(name) for name in ["shop", "other"]}
    while total < kills:
        fresh(template)
        args = [AGENT, "--home", str(HOME), "serve", "--base", "shop", "--listen", "127.0.0.1:0", "--allow-changes"]
        server = subprocess.Popen(args, stderr=subprocess.PIPE, text=True)
        line = next(line for line in server.stderr if "listening on" in line)
        url = re.search(r"http[^ ]*", line).group().rstrip("/\n")
        body, kind = json.dumps({"dataset": "other"}).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/v1/operations/index", body, kind)
        killer = subprocess.Popen(["sh", "-c", f"sleep {RANDOM.random() / 30:.3f}; kill -9 {server.pid}"])
        done = False
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                done = reply.status == 200
        except urllib.error.HTTPError as refused:
            sys.exit(f"the server refuses: {refused.read().decode()[:500]}")
        except (OSError, http.client.HTTPException):
            pass
        killer.wait()
        server.communicate()
        total, acknowledged = total + 1, acknowledged + done
        if not done:
            run("index", "other")
        if {name: answers(name) for name in expected} != expected:
            wrong += 1
            print(f"acknowledged {done}: a base gives other answers")
    print(f"serve: {acknowledged} acknowledged before they were killed")
    return total, wrong


def main():
    chosen = sys.argv[3:] or ["import", "update", "index", "optimize", "run", "collect", "take-in", "serve"]
    tables(WORK / "v1", 400, "")
    tables(WORK / "v2", 420, "and of copper")
    run("data", "import", "--name", "shop", "--from", WORK / "v1")
    shutil.copytree(HOME, WORK / "imported")
    run("index", "shop")
    shutil.copytree(HOME, WORK / "indexed")
    old = answers()
    run("home", "export", WORK / "home.tar")
    plan = ["unit", "plan", "--dataset", "shop", "--split", "train,val", "--system", "bm25f", "--units", 4]
    run(*plan, WORK / "planned")
    optimize = ["optimize", "--dataset", "shop", "--run", WORK / "run", "--steps", 2]
    out = WORK / "out.jsonl"

    fresh(WORK / "indexed")
    run("data", "update", "shop", "--from", WORK / "v2")
    new = answers()

    def resumed():
        return optimize + (["--resume"] if (WORK / "run" / "run.sqlite").exists() else [])

    def units():
        # What a killed process leaves unpublished begins with a dot, and is never read.
        results = sorted((WORK / "units" / "out").glob("[!.]*"))
        return [(path.name, path.read_bytes()) for path in results]

    def files():
        return answers() + run("data", "show", "shop", "--json")

    commands = {
        "import": Command(None, lambda: ["data", "import", "--name", "shop", "--from", WORK / "v1"], lambda: run("data", "show", "shop", "--json")),
        "update": Command(WORK / "indexed", lambda: ["data", "update", "shop", "--from", WORK / "v2"], answers, lambda: answers() in (old, new)),
        "index": Command(WORK / "imported", lambda: ["index", "shop"], answers),
        "optimize": Command(WORK / "indexed", resumed, lambda: bundle(WORK / "run"), lambda: answers() == old),
        "run": Command(WORK / "indexed", lambda: ["unit", "run", WORK / "units", 0, 1, 2, 3], units),
        "collect": Command(WORK / "indexed", lambda: ["unit", "collect", WORK / "units", "--out", out], out.read_bytes),
        "take-in": Command(None, lambda: ["home", "import", WORK / "home.tar", "--replace"], files),
    }
    share = -(-KILLS // len(chosen))
    all_killed = all_wrong = 0
    for name in chosen:
        if name == "collect":
            shutil.copytree(WORK / "planned", WORK / "done")
            fresh(WORK / "indexed")
            run("unit", "run", WORK / "done", 0, 1, 2, 3)
            shutil.rmtree(WORK / "planned")
            (WORK / "done").rename(WORK / "planned")
        began = time.monotonic()
        total, wrong = serve(share) if name == "serve" else commands[name].killed(share)
        print(f"{name:9} {total:6} kills {wrong:4} wrong {time.monotonic() - began:7.0f} s", flush=True)
        all_killed, all_wrong = all_killed + total, all_wrong + wrong
    print(f"{'all':9} {all_killed:6} kills {all_wrong:4} wrong")
    return 1 if all_wrong else 0


try:
    status = main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
sys.exit(status)
