"""Units on a real Ray cluster of three nodes on this machine, while processes are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
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
    """The command line, each unit a little later, so that it is there to be killed."""
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
    """What one machine answers, in one unit and without Ray."""
    dir = planned(world, tmp_path_factory.mktemp("alone") / "jobs", bundle, questions, 1)
    world.run("unit", "run", dir, "0")
    return collected(world, dir)


def workers() -> list[int]:
    """Processes in which Ray runs a unit now."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(b"ray::agent unit"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


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
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        while len(killed) < KILLS and not done.wait(0.2):
            for worker in workers()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run_units(dir, agent=slow, home=world.home, retries=50) == units
    finally:
        done.set()
        killer.join()
    assert len(killed) == KILLS
    assert collected(world, dir) == alone
    assert run_units(dir, agent=slow, home=world.home) == 0


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
