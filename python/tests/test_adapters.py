"""Tests the adapters with the real libraries; skips those whose library is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import World

import agent_retriever as ar

QUERY = "a durable steel bottle by Northpeak"


@pytest.fixture
def system(base: ar.Base) -> ar.System:
    return base.system("bm25+names")


def test_langchain_gets_documents(system: ar.System) -> None:
    pytest.importorskip("langchain_core")
    from agent_retriever.langchain import AgentRetriever

    answer = system.query(QUERY, 3)
    found = AgentRetriever(system=system, k=3).invoke(QUERY)
    assert [one.metadata["id"] for one in found] == answer.ids.tolist()
    assert [np.float32(one.metadata["score"]) for one in found] == answer.scores.tolist()
    assert found[0].page_content == system.base.node(int(answer.ids[0])).text


def test_llama_index_gets_nodes_with_scores(system: ar.System) -> None:
    pytest.importorskip("llama_index.core")
    from agent_retriever.llama_index import AgentRetriever

    answer = system.query(QUERY, 3)
    found = AgentRetriever(system, k=3).retrieve(QUERY)
    assert [one.node.metadata["id"] for one in found] == answer.ids.tolist()
    assert [np.float32(one.score or 0.0) for one in found] == answer.scores.tolist()
    assert found[0].text == system.base.node(int(answer.ids[0])).text


def test_dspy_gets_passages(system: ar.System) -> None:
    pytest.importorskip("dspy")
    from agent_retriever.dspy import retriever

    answer = system.query(QUERY, 3)
    found = retriever(system, k=3)(QUERY)
    assert found.ids == answer.ids.tolist()
    assert found.passages[0] == system.base.node(int(answer.ids[0])).text


@pytest.mark.parametrize("name", ["bm25", "bm25+names", "dense", "hybrid"])
def test_pytrec_eval_has_the_figures_of_the_command_line(base: ar.Base, name: str) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    ours = base.system(name).eval("val", metrics="trec", depth=100)
    names = {"recip_rank": "mrr", "map": "map", "recall_20": "recall@20", "success_1": "hit@1"}
    measures = {"recip_rank", "map", "recall.20", "success.1"}
    theirs = pytrec_eval.RelevanceEvaluator(ours.qrels(), measures).evaluate(ours.run())
    for query, values in theirs.items():
        for their, our in names.items():
            assert values[their] == pytest.approx(ours.by_query[query][our], abs=1e-9)


@pytest.mark.parametrize("name", ["bm25", "bm25+names", "dense", "hybrid"])
def test_ranx_has_the_figures_of_the_command_line(base: ar.Base, name: str) -> None:
    ranx = pytest.importorskip("ranx")
    ours = base.system(name).eval("val", metrics="trec", depth=100)
    wanted = {"mrr": "mrr", "map": "map", "recall@20": "recall@20", "hit_rate@5": "hit@5"}
    theirs = ranx.evaluate(ranx.Qrels(ours.qrels()), ranx.Run(ours.run()), list(wanted))
    for their, our in wanted.items():
        assert theirs[their] == pytest.approx(ours.metrics[our], abs=1e-9)


def test_queries_have_the_shape_of_ir_datasets(base: ar.Base) -> None:
    formats = pytest.importorskip("ir_datasets").formats
    ours = base.queries("val")
    theirs = [formats.GenericQuery(one.query_id, one.text) for one in ours]
    assert [(one.query_id, one.text) for one in theirs] == [(q.query_id, q.text) for q in ours]
    docs = list(base.docs_iter())
    assert [formats.GenericDoc(*doc) for doc in docs] == docs and len(docs) == len(base)
    assert docs[0]._fields == formats.GenericDoc._fields
    qrels = list(base.qrels_iter("val"))
    assert [formats.TrecQrel(*qrel) for qrel in qrels] == qrels
    assert qrels[0]._fields == formats.TrecQrel._fields


def test_mlflow_gets_bundles_models_and_figures(
    world: World,
    base: ar.Base,
    system: ar.System,
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Uses neither a server nor a database.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    from agent_retriever.mlflow import log_bundle, log_evaluation, log_training

    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    world.run("train", "dense", "--dataset", "shop", "--name", "logged")
    model = world.home / "models" / "logged"
    evaluation = system.eval("val")
    client = mlflow.MlflowClient()
    experiment = client.create_experiment("shop", artifact_location=(tmp_path / "kept").as_uri())
    with mlflow.start_run(experiment_id=experiment) as run:
        log_bundle(bundle)
        log_evaluation(evaluation, "val/")
    logged = client.get_run(run.info.run_id).data
    told = json.loads(bundle.read_text())
    assert logged.params["dataset"] == "shop" and logged.params["seed"] == "1"
    assert logged.tags["bundle"] == told["digest"]
    assert logged.metrics["val/mrr"] == told["validation"]["mrr"]
    assert logged.metrics["val/baseline/bm25_names/mrr"] == told["validation"]["baselines"]["bm25+names"]
    assert logged.metrics["val/bm25_names/hit_1"] == evaluation.metrics["hit@1"]
    [kept] = (tmp_path / "kept").rglob("bundle.json")
    assert kept.read_bytes() == bundle.read_bytes()

    with mlflow.start_run(experiment_id=experiment) as run:
        log_training(model)
    record = json.loads((model / "record.json").read_text())
    history = client.get_metric_history(run.info.run_id, "val/mrr")
    steps = sorted((one.step, one.value) for one in history)
    assert steps == [(look["step"], look["mrr"]) for look in record["curve"]]
