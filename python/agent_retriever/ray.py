"""Runs units of ``agent unit plan``, and workers of a run, on a Ray cluster.

Install with ``pip install agent-retriever[ray]``.

>>> import ray                                                # doctest: +SKIP
>>> from agent_retriever.ray import run_units                 # doctest: +SKIP
>>> ray.init(address="auto")                                  # doctest: +SKIP
>>> run_units("/shared/jobs")                                 # doctest: +SKIP

Only paths are sent: the directory of the plan is on a file system that all nodes share. Each node has
the command line with the dataset installed, and indexed unless the units compute vectors or words of
its index. Units with a result are skipped, so after the failure of a node, the head or the driver the
same call continues. Ray runs anything that is sent to it: keep its ports in a private network, and
set ``RAY_AUTH_MODE=token``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from . import AgentError

UNITS_PER_CPU = 2
"""Maximum number of units submitted to Ray at once, per core; the others wait in the driver."""


def _run_unit(command: list[str], threads: int) -> str:
    """Runs one unit, or one worker, as a separate process; returns its messages."""
    done = subprocess.run(
        command,
        env={**os.environ, "RAYON_NUM_THREADS": str(threads)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()}")
    return done.stderr.strip()


def _command(agent: str | os.PathLike[str], home: str | os.PathLike[str] | None) -> list[str]:
    return [os.fspath(agent)] + ([] if home is None else ["--home", os.fspath(home)])


def _remote(cpus: int, retries: int) -> Any:
    return ray.remote(_run_unit).options(
        name="agent unit", num_cpus=cpus, max_retries=retries, retry_exceptions=True
    )


def run_units(
    plan: str | os.PathLike[str],
    *,
    agent: str | os.PathLike[str] = "agent",
    home: str | os.PathLike[str] | None = None,
    cpus: int = 1,
    retries: int = 5,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Runs all units without a complete result, on the cluster that Ray is connected to.

    ``agent`` and ``home`` are paths on every node; a unit takes ``cpus`` cores. A unit that fails, or
    whose worker or node dies, is run again up to ``retries`` times. ``progress`` is called with the
    number of units done and their total. Returns the number of units run; ``agent unit collect``
    merges their results.

    :raises AgentError: the plan does not exist, or a unit failed after all retries. Other results are
        kept.
    """
    command = _command(agent, home)
    where = str(Path(plan).absolute())
    listed = subprocess.run(
        [*command, "--quiet", "unit", "plan", where], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise AgentError(listed.stderr.strip().removeprefix("error: "))
    waiting = [int(line) for line in listed.stdout.split()][::-1]
    total = len(waiting)
    unit = _remote(cpus, retries)
    # Ray has no type annotations for this function.
    resources: Any = ray.cluster_resources
    running: dict[Any, int] = {}
    while waiting or running:
        cores = int(resources().get("CPU", 1))
        while waiting and len(running) < max(1, cores * UNITS_PER_CPU // cpus):
            number = waiting.pop()
            running[unit.remote([*command, "unit", "run", where, str(number)], cpus)] = number
        for done in ray.wait(list(running), num_returns=1)[0]:
            number = running.pop(done)
            try:
                ray.get(done)
            except ray.exceptions.RayError as error:
                for other in running:
                    ray.cancel(other)
                raise AgentError(f"unit {number} failed {retries + 1} times: {error}") from error
            if progress is not None:
                progress(total - len(waiting) - len(running), total)
    return total


def work(
    pool: str | os.PathLike[str],
    workers: int,
    *,
    agent: str | os.PathLike[str] = "agent",
    home: str | os.PathLike[str] | None = None,
    cpus: int = 1,
    idle: int = 600,
    retries: int = 100,
) -> None:
    """Runs ``workers`` workers for the runs of ``agent optimize --pool``, on the cluster that Ray is
    connected to. Returns when every worker has been idle for ``idle`` seconds.

    For ``agent``, ``home`` and ``cpus`` see :func:`run_units`. A worker that dies, or whose node dies,
    is started again up to ``retries`` times; the run does not wait for it.

    :raises AgentError: a worker failed after all retries.
    """
    where = str(Path(pool).absolute())
    command = [*_command(agent, home), "unit", "work", where, "--idle", str(idle)]
    unit = _remote(cpus, retries)
    try:
        ray.get([unit.remote(command, cpus) for _ in range(workers)])
    except ray.exceptions.RayError as error:
        raise AgentError(f"a worker failed {retries + 1} times: {error}") from error
