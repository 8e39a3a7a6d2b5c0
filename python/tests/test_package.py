"""Results in Python equal those of the command line, bit for bit."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pytest
from conftest import World

import agent_retriever as ar
from agent_retriever import _native

QUERY = "a durable steel bottle by Northpeak"
PROGRAM = """
fn params() { #{ w: #{ value: 1.0, min: 0.0, max: 4.0 } } }
fn retrieve(query, candidates, params) {
    let brand = link(query, "brand", 1);
    let products = hop(brand, "has_brand", "in");
    normalize(match_text(query, products)) * params.w
}
"""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def same(answer: ar.Answer, hits: list[dict[str, Any]]) -> None:
    assert answer.ids.tolist() == [hit["id"] for hit in hits]
    printed = np.array([hit["score"] for hit in hits], dtype=np.float32)
    assert answer.scores.tobytes() == printed.tobytes()
    assert answer.ids.dtype == np.uint32 and answer.scores.dtype == np.float32


@pytest.mark.parametrize(
    "system", ["bm25", "bm25+names", "dense", "hybrid", "prf", "kar:graph", "expand:prf:dense"]
)
def test_every_system_gives_the_ids_and_score_bits_of_the_command_line(
    world: World, base: ar.Base, system: str
) -> None:
    printed = lines(world.run("search", "shop", QUERY, "--system", system, "--json"))
    same(base.search(QUERY, system=system), printed)


def test_conditions_leave_the_nodes_of_the_command_line(world: World, base: ar.Base) -> None:
    condition = "price<20"
    printed = lines(world.run("search", "shop", QUERY, "--where", condition, "--json"))
    same(base.search(QUERY, filter=[condition]), printed)
    with pytest.raises(ar.AgentError, match="no field or relation"):
        base.system("bm25f").where("prize<20")


def test_a_bundle_answers_as_on_the_command_line(
    world: World, base: ar.Base, bundle: Path
) -> None:
    printed = json.loads(world.run("query", "--bundle", bundle, "--json", QUERY))
    answer = base.bundle(bundle).query(QUERY)
    same(answer, printed["hits"])
    told = answer.to_dict()
    for changing in ["timings", "bundle"]:
        printed.pop(changing, None)
        told.pop(changing, None)
    assert told == printed
    assert answer.cutoff == printed["cutoff"] and answer.stand_in is None


def test_a_batch_is_its_questions_one_by_one(base: ar.Base, bundle: Path) -> None:
    system = base.bundle(bundle)
    texts = [query.text for query in base.queries("val")] * 9
    batch = system.query_batch(texts, k=7)
    assert len(batch) == len(texts) == 144
    for text, answer in zip(texts[:16], batch, strict=False):
        one = system.query(text, 7)
        assert answer.ids.tolist() == one.ids.tolist()
        assert answer.scores.tobytes() == one.scores.tobytes()
    run = batch.to_dict()
    assert list(run) == [str(at) for at in range(144)]
    scores = list(run["0"].values())
    assert scores == sorted(set(scores), reverse=True)
    assert batch.to_trec().count("\n") == sum(map(len, batch))


def test_rankings_are_tables_of_arrow(base: ar.Base) -> None:
    system = base.system("bm25+names")
    answer = system.query("a durable steel bottle", k=5)
    table = arrow.table(answer)
    assert table.schema.names == ["query", "rank", "id", "score"]
    assert table["id"].to_pylist() == answer.ids.tolist()
    assert np.array_equal(table["score"].to_numpy(), answer.scores), "to the bit"
    assert table["rank"].to_pylist() == [1, 2, 3, 4, 5]
    batch = system.query_batch(["a durable steel bottle", "a light wool scarf"], k=3)
    assert arrow.table(batch)["query"].to_pylist() == ["0"] * 3 + ["1"] * 3
    measured = system.eval("val")
    ids = arrow.table(measured)["id"].to_numpy()
    assert len(ids) == sum(len(run) for run in measured.run().values())
    assert arrow.table(system.query_batch([])).num_rows == 0
    # A stream that is never read is freed as well.
    for _ in range(1_000):
        batch.__arrow_c_stream__()


def test_an_evaluation_is_that_of_the_command_line(
    world: World, base: ar.Base, tmp_path: Path
) -> None:
    fixed = ["eval", "--dataset", "shop", "--split", "val", "--system", "bm25+names"]
    for metrics in ["stark", "trec"]:
        file = tmp_path / f"{metrics}.trec"
        args = [*fixed, "--metrics", metrics, "--json", "--run-file", str(file)]
        printed = lines(world.run(*args))[0]
        evaluation = base.system("bm25+names").eval("val", metrics=metrics)  # type: ignore[arg-type]
        assert evaluation.metrics == printed["metrics"]
        assert evaluation.to_dict()["ci95"] == printed["ci95"]
        assert evaluation.n == 16 and evaluation.failures == {}
        assert evaluation.to_trec("bm25+names") == file.read_text()
        mean = np.mean([one["mrr"] for one in evaluation.by_query.values()])
        assert mean == pytest.approx(evaluation.metrics["mrr"], abs=1e-9)
        assert list(evaluation.run()) == list(evaluation.qrels())


def test_a_question_over_many_nodes_has_the_answer_of_the_command_line(
    world: World, base: ar.Base
) -> None:
    question = "How many products are there?"
    printed = json.loads(world.run("ask", "shop", question, "--json"))
    answer = base.ask(question)
    printed.pop("ms")
    answer.pop("ms")
    assert answer == printed


def test_an_operation_gives_the_reply_of_the_command_line(world: World) -> None:
    app = ar.App(home=world.home)
    printed = lines(world.run("search", "shop", QUERY, "-k", "3", "--json"))
    assert app.call("search", dataset="shop", text=QUERY, k=3)["hits"] == printed
    assert app.search("shop", QUERY, k=3)["hits"] == printed
    val = ["--split", "val", "--system", "bm25", "--json"]
    printed = lines(world.run("eval", "--dataset", "shop", *val))
    figures = app.eval("shop", "val", "bm25")["systems"]
    assert [one["metrics"] for one in figures] == [one["metrics"] for one in printed]
    listed = lines(world.run("data", "list", "--json"))
    assert app.data_list()["datasets"] == listed
    assert app.data_show("shop")["nodes"] == app.data_list()["datasets"][0]["nodes"]
    assert not app.index("shop")["built"]
    assert app.program_run("shop", QUERY, source=PROGRAM)["status"] == "ok"
    with pytest.raises(ar.AgentError, match="no such file"):
        app.data_import("new", "nowhere")
    with pytest.raises(ar.AgentError, match="no operation"):
        app.call("serach")
    with pytest.raises(ar.AgentError, match="not in 1..=10000"):
        app.search("shop", QUERY, k=0)
    with pytest.raises(ar.AgentError, match="unknown field"):
        app.search("shop", QUERY, kk=3)
    with pytest.raises(ar.AgentError) as raised:
        app.search("shpo", QUERY)
    assert "did you mean" in (raised.value.hint or "")


def test_a_program_runs_with_its_parameters_in_either_sandbox_and_tells_its_calls(
    world: World, base: ar.Base, tmp_path: Path
) -> None:
    file = tmp_path / "program.rhai"
    file.write_text(PROGRAM)
    printed = lines(world.run("search", "shop", QUERY, "--system", f"program:{file}", "--json"))
    for sandbox in ["rhai", "wasm", None]:
        answer = base.program(PROGRAM, sandbox=sandbox).query(QUERY)  # type: ignore[arg-type]
        same(answer, printed)
    double = base.program(PROGRAM, parameters={"w": 2.0}).query(QUERY, explain=True)
    assert double.scores[0] == 2 * np.float32(printed[0]["score"])
    tools = [call["tool"] for call in double.hits[0]["calls"]]
    assert tools[:2] == ["link", "hop"]


def test_the_same_seed_freezes_the_bundle_of_the_command_line(
    base: ar.Base, bundle: Path, tmp_path: Path
) -> None:
    events: list[dict[str, Any]] = []
    run = tmp_path / "run"
    outcome = base.optimize(seed=1, steps=2, run=run, progress=events.append)
    assert Path(outcome["bundle"]).read_bytes() == bundle.read_bytes()
    assert {"progress", "category"} <= {event["kind"] for event in events}


def test_what_progress_raises_ends_a_run_that_can_go_on(
    base: ar.Base, bundle: Path, tmp_path: Path
) -> None:
    class Enough(Exception):
        pass

    def enough(event: dict[str, Any]) -> None:
        if event["kind"] == "category":
            raise Enough

    run = tmp_path / "run"
    with pytest.raises(Enough):
        base.optimize(seed=1, steps=2, run=run, progress=enough)
    assert not (run / "bundle.json").exists()
    with pytest.raises(ar.AgentError, match="resume needs a run"):
        base.optimize(resume=True)
    # With the options of its start.
    outcome = base.optimize(run=run, resume=True)
    assert Path(outcome["bundle"]).read_bytes() == bundle.read_bytes()


def test_errors_have_the_message_of_the_command_line(world: World, base: ar.Base) -> None:
    def said(raised: pytest.ExceptionInfo[ar.AgentError]) -> str:
        return str(raised.value)

    with pytest.raises(ar.AgentError) as raised:
        ar.open("shpo", home=world.home)
    assert '"shpo"' in said(raised) and 'did you mean "shop"?' in (raised.value.hint or "")
    with pytest.raises(ar.AgentError) as raised:
        base.system("bm52")
    assert said(raised) in world.fails("search", "shop", "x", "--system", "bm52")
    assert raised.value.hint == 'did you mean "bm25"?'
    with pytest.raises(ar.AgentError) as raised:
        base.search("  ")
    assert said(raised) in world.fails("search", "shop", "  ")
    with pytest.raises(ar.AgentError, match="needs a language model"):
        base.system("expand:hyde")
    with pytest.raises(ar.AgentError, match="out of bounds"):
        base.search(QUERY, k=0)
    with pytest.raises(ar.AgentError, match="no node 99"):
        base.node(99)
    with pytest.raises(ar.AgentError, match="query 1: the query is empty"):
        base.system("bm25").query_batch(["x", ""])
    with pytest.raises(ar.AgentError):
        base.program("fn retrieve(")
    with pytest.raises(ar.AgentError, match="not understood"):
        base.ask("How many qwertzes are there?")
    with pytest.raises(ar.AgentError):
        base.queries("test")


def test_a_panic_is_an_exception_and_the_next_call_works(base: ar.Base) -> None:
    with pytest.raises(ar.InternalError, match="internal error: on purpose"):
        _native.fail("on purpose")
    assert issubclass(ar.InternalError, ar.AgentError)
    assert len(base.search(QUERY)) > 0


def test_nodes_and_queries_are_as_they_were_imported(base: ar.Base) -> None:
    assert (base.name, base.title, len(base)) == ("shop", "Shop", 65)
    assert sorted(base.types) == ["brand", "product"] and base.relations == ["has_brand"]
    node = base.node(5)
    assert (node.type, node.name) == ("product", "Model 0")
    assert node.fields == (("description", "A durable steel bottle, good for a day out."),)
    assert [query.query_id for query in base.queries("val")] == [str(at) for at in range(24, 40)]
    assert base.queries("train")[0].answers == (5,)
    assert "bm25" in ar.systems()


def test_threads_of_python_run_while_two_others_search(base: ar.Base) -> None:
    """One thread counts while two search the same system; both find what a single thread finds."""
    texts = [query.text for query in base.queries("train")] * 200
    system = base.system("hybrid")
    found: list[ar.Batch | None] = [None, None]

    def search(at: int) -> None:
        found[at] = system.query_batch(texts)

    threads = [threading.Thread(target=search, args=(at,)) for at in range(2)]
    ticks = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        ticks += 1
        time.sleep(0.001)
    assert ticks > 10
    alone = system.query_batch(texts)
    for batch in found:
        assert batch is not None and len(batch) == len(alone)
        for one, other in zip(batch, alone, strict=True):
            assert one.ids.tolist() == other.ids.tolist()
            assert one.scores.tobytes() == other.scores.tobytes()
