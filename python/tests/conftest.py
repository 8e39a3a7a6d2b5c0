"""A base that the command line imports and indexes; the tests compare the package with it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import agent_retriever as ar

KINDS = ["steel bottle", "glass bottle", "wool scarf", "steel kettle", "quiet kettle", "wool hat"]
BRANDS = ["Northpeak", "Tidewell", "Zorblax", "Arvelle", "Corvane"]
QUALITIES = ["durable", "light", "cheap", "small"]


def write_base(source: Path) -> None:
    """Writes sixty products, each unique in kind, brand and quality, which its question names."""
    nodes: list[dict[str, Any]] = [
        {"type": "brand", "name": name, "details": {"description": "Makes things."}}
        for name in BRANDS
    ]
    edges = ["src_id\trelation\tdst_id"]
    rows = ["id,query,answer_ids"]
    for at in range(60):
        kind, brand = KINDS[at % len(KINDS)], at % len(BRANDS)
        quality = QUALITIES[at % len(QUALITIES)]
        text = f"A {quality} {kind}, good for a day out."
        node = len(nodes)
        nodes.append({"type": "product", "name": f"Model {at}", "details": {"description": text}})
        edges.append(f"{node}\thas_brand\t{brand}")
        if at < 40:
            rows.append(f"{at},a {quality} {kind} by {BRANDS[brand]},[{node}]")
    lines = (json.dumps({"id": at, **node}) for at, node in enumerate(nodes))
    (source / "split").mkdir(parents=True)
    (source / "nodes.jsonl").write_text("".join(line + "\n" for line in lines))
    (source / "edges.tsv").write_text("".join(line + "\n" for line in edges))
    (source / "dataset.toml").write_text(
        'title = "Shop"\nlicence = "CC0"\ncandidate_types = ["product"]\n'
    )
    (source / "qa.csv").write_text("".join(row + "\n" for row in rows))
    for split, ids in [("train", range(24)), ("val", range(24, 40))]:
        text = "".join(f"{at}\n" for at in ids)
        (source / "split" / f"{split}.index").write_text(text)


class World:
    """A home directory with the command line that runs in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.binary = os.environ.get("AGENT_BINARY", "agent")

    def run(self, *args: str | Path) -> str:
        done = subprocess.run(
            [self.binary, "--home", str(self.home), *map(str, args)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, *args: str | Path) -> str:
        done = subprocess.run(
            [self.binary, "--home", str(self.home), *map(str, args)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        return done.stderr


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    dir = tmp_path_factory.mktemp("world")
    os.environ["AGENT_STATE"] = str(dir / "state")
    write_base(dir / "shop")
    world = World(dir / "home")
    world.run("data", "import", "--name", "shop", "--from", dir / "shop")
    world.run("index", "shop")
    return world


@pytest.fixture(scope="session")
def base(world: World) -> ar.Base:
    return ar.open("shop", home=world.home)


@pytest.fixture(scope="session")
def bundle(world: World) -> Path:
    """A bundle that the command line froze."""
    run = world.home / "cli-run"
    world.run("optimize", "--dataset", "shop", "--seed", "1", "--steps", "2", "--run", run)
    return run / "bundle.json"
