"""Logs bundles, trained models and evaluations to MLflow: ``pip install agent-retriever[mlflow]``.

>>> import mlflow                                             # doctest: +SKIP
>>> from agent_retriever.mlflow import log_bundle, log_evaluation   # doctest: +SKIP
>>> with mlflow.start_run():                                  # doctest: +SKIP
...     log_bundle(base.optimize(seed=1)["bundle"])
...     log_evaluation(base.system("bm25+names").eval("val"))

Each function adds to the active run, or to a run that MLflow starts. Characters that MLflow does not
allow in names become ``_``: ``hit@1`` is ``hit_1``, ``bm25+names`` is ``bm25_names``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow

from . import Evaluation


def log_bundle(bundle: str | os.PathLike[str]) -> None:
    """Logs a bundle that ``optimize`` froze, in Python or on the command line.

    Its dataset and settings are logged as parameters; its quality and that of every baseline on
    validation queries as metrics; and its file as an artifact.
    """
    told: dict[str, Any] = json.loads(Path(bundle).read_text(encoding="utf-8"))
    dataset, validation, provenance = told["dataset"], told["validation"], told["provenance"]
    mlflow.log_params(
        {
            "dataset": dataset["name"],
            "embedder": dataset["embedder"],
            "categories": len(told["categories"]),
            **{name: provenance[name] for name in ("seed", "steps", "n_train", "n_validation")},
        }
    )
    mlflow.set_tags(
        {"bundle": told["digest"], "base": dataset["kb"], "version": provenance["version"]}
    )
    metrics = {"mrr": validation["mrr"]}
    metrics |= {f"baseline/{name}/mrr": mrr for name, mrr in validation["baselines"].items()}
    if (held_out := validation.get("held_out")) is not None:
        metrics["held_out/mrr"] = held_out["mrr"]
    if (proof := validation.get("proof")) is not None:
        metrics |= {"proof/e": proof["e"], "proof/proven": float(proof["proven"])}
    _log_metrics(metrics, "val/")
    mlflow.log_artifact(os.fspath(bundle))


def log_training(model: str | os.PathLike[str]) -> None:
    """Logs a model that ``agent train`` made, by its directory.

    Its system and training data are logged as parameters; loss and mean reciprocal rank of every
    validation as metrics by step; and its record as an artifact.
    """
    path = Path(model) / "record.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    source = record["source"]
    train, val = source["queries"]
    mlflow.log_params(
        {
            "system": record["system"],
            "dataset": source["dataset"],
            "n_train": train,
            "n_validation": val,
        }
    )
    mlflow.set_tags({"model": record["checksum"], "base": source["base"]})
    for look in record["curve"]:
        mlflow.log_metrics({"loss": look["loss"], "val/mrr": look["mrr"]}, step=look["step"])
    mlflow.log_artifact(os.fspath(path))


def log_evaluation(evaluation: Evaluation, prefix: str = "") -> None:
    """Logs the mean of each metric of a system, under ``prefix`` and the system's name.

    Also logs the number of queries and of failed queries.
    """
    counts = {"queries": evaluation.n, "failed": len(evaluation.failures)}
    _log_metrics({**evaluation.metrics, **counts}, f"{prefix}{evaluation.system}/")


def _log_metrics(metrics: Mapping[str, float], prefix: str) -> None:
    named = ((re.sub(r"[^\w\-. /]", "_", prefix + name), value) for name, value in metrics.items())
    mlflow.log_metrics({name: float(value) for name, value in named})
