"""Tests units and runs on a local Ray cluster of three nodes, while processes are killed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import World

import agent_retriever as ar

ray = pytest.importorskip("ray")

KILLS = 4
DRIVER = """
import sys, ray
from agent_retriever.ray import run_units
ray.init(address=sys.argv[1], log_to_driver=False)
run_units(sys.argv[2], agent=sys.argv[3], home=sys.argv[4], retries=50)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for _ in range(2):
        made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    disconnect: Any = ray.shutdown
    disconnect()
    made.shutdown()


@pytest.fixture
def slow(world: World, tmp_path: Path) -> Path:
    """Wraps the command line so that each unit is delayed and can be killed."""
    script = tmp_path / "agent"
    script.write_text(f'#!/bin/sh\ncase "$*" in *"unit run"*) sleep 0.7 ;; esac\nexec "{world.binary}" "$@"\n')
    script.chmod(0o755)
    return script


@pytest.fixture(scope="module")
def questions(base: ar.Base, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("asked") / "questions.jsonl"
    texts = [query.text for query in base.queries("train") + base.queries("val")]
    file.write_text("".join(f'{{"query": "{text}"}}\n' for text in texts))
    return file


def planned(world: World, dir: Path, bundle: Path, questions: Path, units: int) -> Path:
    world.run("unit", "plan", dir, "--bundle", bundle, "--batch", questions, "--units", str(units))
    return dir


def collected(world: World, dir: Path) -> bytes:
    out = dir.with_suffix(".jsonl")
    world.run("unit", "collect", dir, "--out", out)
    return out.read_bytes()


@pytest.fixture(scope="module")
def alone(
    world: World, bundle: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    """The answers in one unit, without Ray."""
    dir = planned(world, tmp_path_factory.mktemp("alone") / "jobs", bundle, questions, 1)
    world.run("unit", "run", dir, "0")
    return collected(world, dir)


def processes(is_one: Callable[[bytes], bool]) -> list[int]:
    """Returns the ids of the processes whose command line fulfils ``is_one``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and is_one((entry / "cmdline").read_bytes()):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def workers() -> list[int]:
    """Returns the ids of the processes in which Ray is running a unit."""
    return processes(lambda command: command.startswith(b"ray::agent unit"))


@contextlib.contextmanager
def killing(found: Callable[[], list[int]], every: float) -> Iterator[list[int]]:
    """Kills found processes one after another; yields the ids of those killed so far."""
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        while len(killed) < KILLS and not done.wait(every):
            for one in found()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
                    killed.append(one)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        done.set()
        killer.join()


@pytest.mark.parametrize("units", [1, 3, 7])
def test_units_whose_workers_are_killed_give_the_bytes_of_one_machine(
    world: World,
    cluster: Any,
    slow: Path,
    bundle: Path,
    questions: Path,
    alone: bytes,
    tmp_path: Path,
    units: int,
) -> None:
    from agent_retriever.ray import run_units

    dir = planned(world, tmp_path / "jobs", bundle, questions, units)
    with killing(workers, 0.2) as killed:
        assert run_units(dir, agent=slow, home=world.home, retries=50) == units
    assert len(killed) == KILLS
    assert collected(world, dir) == alone
    assert run_units(dir, agent=slow, home=world.home) == 0


@pytest.fixture(scope="module")
def embedder() -> str:
    given = os.environ.get("AGENT_ENCODER")
    encoder = Path(given or Path(__file__).parents[2] / "tests" / "data" / "encoder" / "mean")
    return f"candle:{encoder}"


def index_of(world: World, base: str) -> dict[str, str]:
    """Returns the digests of all files of an index."""
    dir = world.home / "bases" / base / "index"
    files = (file for file in dir.rglob("*") if file.is_file())
    return {str(file.relative_to(dir)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def index_alone(world: World, embedder: str) -> dict[str, str]:
    """Builds the index without Ray; returns the digests of its files."""
    world.run("data", "import", "--name", "embedded", "--from", world.home.parent / "shop")
    world.run("index", "embedded", "--embedder", embedder)
    return index_of(world, "embedded")


@pytest.mark.parametrize("part", ["vectors", "words"])
@pytest.mark.parametrize("units", [1, 3, 7])
def test_parts_of_an_index_that_are_made_while_workers_are_killed_are_those_of_one_machine(
    world: World,
    cluster: Any,
    slow: Path,
    embedder: str,
    index_alone: dict[str, str],
    tmp_path: Path,
    units: int,
    part: str,
) -> None:
    from agent_retriever.ray import run_units

    world.run("index", "embedded", "--embedder", embedder)
    shutil.rmtree(world.home / "bases" / "embedded" / "index" / part)
    assert index_of(world, "embedded") != index_alone
    dir = tmp_path / "jobs"
    what = ["--index", "embedded", *{"vectors": ["--embedder", embedder], "words": ["--words"]}[part]]
    world.run("unit", "plan", dir, *what, "--units", str(units))
    with killing(workers, 0.2) as killed:
        assert run_units(dir, agent=slow, home=world.home, retries=50) == units
    assert len(killed) == KILLS
    world.run("unit", "collect", dir)
    assert {"vectors/vectors", "words/names"} <= index_alone.keys()
    assert index_of(world, "embedded") == index_alone


@pytest.mark.parametrize("n", [1, 3])
def test_a_run_whose_workers_are_killed_freezes_the_bundle_of_one_machine(
    world: World, cluster: Any, bundle: Path, tmp_path: Path, n: int
) -> None:
    from agent_retriever.ray import work

    pool, run = tmp_path / "pool", tmp_path / "run"
    where = str(pool).encode()

    def working() -> list[int]:
        return processes(lambda command: b"\0work\0" + where in command)

    kept = threading.Thread(
        target=work,
        args=(pool, n),
        kwargs={"agent": world.binary, "home": world.home, "idle": 5},
    )
    kept.start()
    while not any(pool.glob("workers/worker-*")):
        assert kept.is_alive()
    what = ["--dataset", "shop", "--seed", "1", "--steps", "2", "--run", str(run)]
    with killing(working, 0.05) as killed:
        world.run("optimize", *what, "--pool", pool)
    assert killed
    assert (run / "bundle.json").read_bytes() == bundle.read_bytes()
    kept.join()


def test_a_node_that_dies_and_a_driver_that_is_killed_lose_nothing(
    world: World,
    cluster: Any,
    slow: Path,
    bundle: Path,
    questions: Path,
    alone: bytes,
    tmp_path: Path,
) -> None:
    dir = planned(world, tmp_path / "jobs", bundle, questions, 7)
    node = cluster.add_node(num_cpus=1)
    args = [sys.executable, "-c", DRIVER, cluster.address, dir, slow, world.home]
    driver = subprocess.Popen([str(arg) for arg in args])
    results = dir / "out"
    while not any(not one.name.startswith(".") for one in results.iterdir()):
        assert driver.poll() is None
    driver.kill()
    driver.wait()
    assert 0 < len(world.run("unit", "plan", dir).split()) <= 7
    driver = subprocess.Popen([str(arg) for arg in args])
    cluster.remove_node(node, allow_graceful=False)
    assert driver.wait() == 0
    assert collected(world, dir) == alone


def test_a_unit_that_fails_is_told(
    world: World, cluster: Any, bundle: Path, questions: Path, tmp_path: Path
) -> None:
    from agent_retriever.ray import run_units

    dir = planned(world, tmp_path / "jobs", bundle, questions, 2)
    (dir / "in" / "1").write_text("changed\n")
    with pytest.raises(ar.AgentError, match="unit 1 failed 1 times"):
        run_units(dir, agent=world.binary, home=world.home, retries=0)
    with pytest.raises(ar.AgentError, match="no plan of units"):
        run_units(tmp_path, agent=world.binary, home=world.home)
