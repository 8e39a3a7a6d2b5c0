"""A base that is imported and indexed by the command line, which everything is compared with."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import agent_retriever as ar

PRODUCTS = ["steel bottle", "glass bottle", "wool scarf", "steel kettle", "quiet kettle", "wool hat"]
BRANDS = ["Northpeak", "Tidewell", "Zorblax"]


def write_base(source: Path) -> None:
    """Sixty products of three brands, with questions that name a brand and a thing."""
    nodes: list[dict[str, Any]] = [
        {"type": "brand", "name": name, "details": {"description": "Makes things."}}
        for name in BRANDS
    ]
    edges = ["src_id\trelation\tdst_id"]
    for at in range(60):
        what, brand = PRODUCTS[at % len(PRODUCTS)], at % len(BRANDS)
        text = f"A {what} number {at}, {'durable' if at % 2 else 'light'} and good."
        nodes.append({"type": "product", "name": f"{what} {at}", "details": {"description": text}})
        edges.append(f"{len(nodes) - 1}\thas_brand\t{brand}")
    lines = (json.dumps({"id": at, **node}) for at, node in enumerate(nodes))
    (source / "split").mkdir(parents=True)
    (source / "nodes.jsonl").write_text("".join(line + "\n" for line in lines))
    (source / "edges.tsv").write_text("".join(line + "\n" for line in edges))
    (source / "dataset.toml").write_text(
        'title = "Shop"\nlicence = "CC0"\ncandidate_types = ["product"]\n'
    )
    rows = ["id,query,answer_ids"]
    for at in range(40):
        product = 3 + (at * 7) % 60
        name = nodes[product]["name"]
        brand = BRANDS[(product - 3) % len(BRANDS)]
        rows.append(f'{at},a {name} by {brand},"[{product}]"')
    (source / "qa.csv").write_text("".join(row + "\n" for row in rows))
    for split, ids in [("train", range(24)), ("val", range(24, 40))]:
        text = "".join(f"{at}\n" for at in ids)
        (source / "split" / f"{split}.index").write_text(text)


class World:
    """A home directory, and the command line in it."""

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
