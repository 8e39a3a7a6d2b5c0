"""Answers questions over semi-structured knowledge bases.

>>> import agent_retriever as ar
>>> shop = ar.open("shop")                                   # doctest: +SKIP
>>> shop.search("a durable steel bottle", k=5).ids           # doctest: +SKIP
array([0, 1, 2], dtype=uint32)

The command line imports and indexes a base (``agent data import``, ``agent index``), and so does
:class:`App`. Every call lets other Python threads run while it computes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._native import AgentError, InternalError

__all__ = [
    "AgentError",
    "Answer",
    "App",
    "Base",
    "Batch",
    "Doc",
    "Evaluation",
    "InternalError",
    "Node",
    "Qrel",
    "Query",
    "System",
    "open",
    "systems",
]

Sandbox = Literal["rhai", "wasm"] | None
"""Where programs in Rhai run: in this process, inside WebAssembly, or, for ``None``, by the default
rule of the command line. The answer does not depend on it."""


@dataclass(frozen=True)
class Node:
    """A node of a base."""

    id: int
    key: str
    """The id of the node in the source data."""
    type: str
    name: str
    text: str
    """The document of the node: its fields as one text."""
    fields: tuple[tuple[str, str], ...]
    """Pairs of field name and text, in the order of the document; a name may occur several times."""


@dataclass(frozen=True)
class Query:
    """A labelled query, with the attribute names of ``ir_datasets``."""

    query_id: str
    text: str
    answers: tuple[int, ...]
    """Ids of the nodes that answer the query, ascending."""


class Doc(NamedTuple):
    """A node as a document, in the shape of ``ir_datasets``."""

    doc_id: str
    text: str


class Qrel(NamedTuple):
    """A relevance judgement: a node answers a query. In the shape of ``ir_datasets``."""

    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class Answer:
    """The answer to one question: nodes with scores, best first, and a record with details.

    Scores of different answers cannot be compared. ``ids`` and ``scores`` are NumPy arrays that no
    other object shares; all other properties are read from the record on first access.
    """

    __slots__ = ("_json", "_record", "_run_ids", "ids", "query", "scores")

    def __init__(self, query: str, found: _native.Answer) -> None:
        self.query = query
        """The question, unchanged."""
        self.ids: NDArray[np.uint32] = found.ids
        """Node ids, best first; equal scores by ascending id."""
        self.scores: NDArray[np.float32] = found.scores
        """Scores of the nodes, in the order of ``ids``."""
        self._json = found.json
        self._run_ids = found.run_ids
        self._record: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that ``agent query --json`` prints, without the bundle's name."""
        if self._record is None:
            self._record = {"query": self.query, **json.loads(self._json)}
        return self._record

    @property
    def hits(self) -> list[dict[str, Any]]:
        """The nodes: rank, id, key, type, name, score, and the path from the question to each."""
        hits: list[dict[str, Any]] = self.to_dict()["hits"]
        return hits

    @property
    def route(self) -> list[dict[str, Any]]:
        """The categories that answered, most probable first; empty for a system without categories."""
        route: list[dict[str, Any]] = self.to_dict()["route"]
        return route

    @property
    def cutoff(self) -> int | None:
        """The last rank that is an answer, possibly after the hits; ``None`` if unknown."""
        cutoff: int | None = self.to_dict()["cutoff"]
        return cutoff

    @property
    def stand_in(self) -> str | None:
        """Why another system answered; ``None`` if the requested one did."""
        reason: str | None = self.to_dict()["stand_in"]
        return reason

    def to_trec(self, query_id: int | str = 0, tag: str = "agent") -> str:
        """Returns lines of a TREC run file, with the ids of nodes in the source data.

        :raises ValueError: the id of a node cannot be written to a run file.
        """
        if None in self._run_ids:
            node = self.ids[self._run_ids.index(None)]
            raise ValueError(f"the id of node {node} cannot stand in a run file; give it another")
        scores = (score for _, score in _falling(self.ids, self.scores))
        lines = (
            f"{query_id} Q0 {node} {rank} {score} {tag}\n"
            for rank, (node, score) in enumerate(zip(self._run_ids, scores, strict=True), 1)
        )
        return "".join(lines)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the columns query, rank, id and score as an Arrow stream, for any library that reads
        Arrow: ``polars.DataFrame(answer)``."""
        return _native.arrow_stream([(self.query, self.ids, self.scores)])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(self.ids.tolist(), self.scores.tolist(), strict=True)

    def __repr__(self) -> str:
        return f"<Answer to {self.query!r}: {len(self)} nodes>"


class Batch(Sequence[Answer]):
    """Answers to several questions, in the order of the questions."""

    def __init__(self, answers: list[Answer], query_ids: Sequence[str]) -> None:
        self._answers = answers
        self.query_ids = tuple(query_ids)
        """Ids of the questions in run files."""

    def __getitem__(self, at: Any) -> Any:
        return self._answers[at]

    def __len__(self) -> int:
        return len(self._answers)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Returns ``{query: {node: score}}``, the format of ranx and pytrec_eval.

        These tools break ties in their own ways, so equal scores are lowered slightly to keep the
        order, as in a run file.
        """
        pairs = zip(self.query_ids, self._answers, strict=True)
        return {name: _run(answer.ids, answer.scores) for name, answer in pairs}

    def to_trec(self, tag: str = "agent") -> str:
        """Returns the lines of a TREC run file."""
        pairs = zip(self.query_ids, self._answers, strict=True)
        return "".join(answer.to_trec(name, tag) for name, answer in pairs)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns an Arrow stream like that of :class:`Answer`, with query ids in place of texts."""
        pairs = zip(self.query_ids, self._answers, strict=True)
        return _native.arrow_stream([(name, one.ids, one.scores) for name, one in pairs])


class Evaluation:
    """Measurements of a system on labelled queries."""

    def __init__(self, name: str, measured: _native.Measured, queries: list[Query]) -> None:
        self.system = name
        self._measured = measured
        self.queries = queries
        """The queries, in the order of their file."""
        self._record: dict[str, Any] = json.loads(measured.json)

    @property
    def n(self) -> int:
        """Number of measured queries."""
        return int(self._record["n"])

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric, as ``agent eval`` prints it."""
        return dict(self._record["metrics"])

    @property
    def by_query(self) -> dict[str, dict[str, float]]:
        """Metrics by query: ``{query: {metric: value}}``."""
        names = list(self._record["metrics"])
        rows = zip(self.queries, self._measured.by_query, strict=True)
        return {query.query_id: dict(zip(names, row, strict=True)) for query, row in rows}

    @property
    def failures(self) -> dict[str, str]:
        """Reasons of failed queries, by query; these queries count with the ranking of ``hybrid``."""
        return {str(query): why for query, why in self._measured.failures}

    def to_dict(self) -> dict[str, Any]:
        """Returns the object of ``agent eval --json``: n, failed, metrics, ci95, latency_ms."""
        return self._record

    def run(self) -> dict[str, dict[str, float]]:
        """Returns the rankings as ``{query: {node: score}}``; see :meth:`Batch.to_dict`."""
        return {
            query.query_id: _run(*self._measured.ranking(at))
            for at, query in enumerate(self.queries)
        }

    def qrels(self) -> dict[str, dict[str, int]]:
        """Returns the correct answers as ``{query: {node: 1}}``."""
        return {one.query_id: {str(node): 1 for node in one.answers} for one in self.queries}

    def to_trec(self, tag: str = "agent") -> str:
        """Returns the run file that ``agent eval --run-file`` writes."""
        return self._measured.to_trec(tag)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the rankings as an Arrow stream like that of :class:`Batch`."""
        rankings = (self._measured.ranking(at) for at in range(len(self.queries)))
        named = zip(self.queries, rankings, strict=True)
        return _native.arrow_stream([(query.query_id, *ranking) for query, ranking in named])


class System:
    """A method that ranks the nodes of a base for a question. Safe to use from several threads."""

    def __init__(self, base: Base, native: _native.System) -> None:
        self.base = base
        self._native = native

    @property
    def name(self) -> str:
        """Name of the system in tables."""
        return self._native.name

    def query(
        self, text: str, k: int = 20, *, explain: bool = False, paths: bool = True
    ) -> Answer:
        """Answers one question with at most ``k`` nodes, 1 to 10,000.

        With ``explain``, ``hits`` explains the rank of every node. Without ``paths``, the paths from
        the question to the nodes are not computed, which is faster.

        :raises AgentError: an empty question, ``k`` out of bounds, or an error of the system.
        """
        return Answer(text, self._native.query(text, k, k if explain else 0, paths))

    __call__ = query

    def where(self, *conditions: str) -> System:
        """Returns the same system over the nodes that meet all conditions, such as ``"price<20"``,
        ``"brand=Lark,Umbra"`` or ``"closed!=*"``; see ``--where`` of the command line.

        :raises AgentError: a condition is not valid, or names no field or relation of the base.
        """
        given = list(conditions)
        return System(self.base, self._native.filtered(given)) if given else self

    def query_batch(
        self,
        texts: Iterable[str],
        k: int = 20,
        *,
        paths: bool = False,
        query_ids: Iterable[int | str] | None = None,
    ) -> Batch:
        """Answers questions in parallel, on all cores; answers are in the order of the questions.

        Ctrl-C takes effect after a group of questions. ``query_ids`` are the ids of the questions in
        run files, by default their positions from 0.

        :raises AgentError: as for :meth:`query`, or if there are not as many ids as questions.
        """
        asked = list(texts)
        names = [str(one) for one in (range(len(asked)) if query_ids is None else query_ids)]
        if len(names) != len(asked):
            raise AgentError(f"{len(names)} query_ids for {len(asked)} questions")
        found = self._native.query_batch(asked, k, paths)
        answers = [Answer(text, one) for text, one in zip(asked, found, strict=True)]
        return Batch(answers, names)

    def eval(
        self,
        split: str | os.PathLike[str] = "val",
        *,
        metrics: Literal["stark", "trec"] = "stark",
        depth: int = 1_000,
    ) -> Evaluation:
        """Measures the system on the labelled queries of a split or file, as ``agent eval`` does.

        Rankings have at most ``depth`` nodes. Only the command line opens the test split, and counts
        how often.
        """
        measured = self._native.measure(self.base._native, os.fspath(split), depth, metrics)
        return Evaluation(self.name, measured, self.base.queries(split))

    def __repr__(self) -> str:
        return f"<System {self.name} over {self.base.name}>"


class Base:
    """An opened knowledge base. Safe to use from several threads."""

    def __init__(self, native: _native.Base) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """Name of the base in the home directory."""
        return self._native.name

    @property
    def title(self) -> str:
        """Title of the base, for people."""
        return self._native.title

    @property
    def fingerprint(self) -> str:
        """Digest of the nodes and edges."""
        return self._native.fingerprint

    @property
    def types(self) -> list[str]:
        """Names of the node types."""
        return self._native.types

    @property
    def relations(self) -> list[str]:
        """Names of the relations."""
        return self._native.relations

    def __len__(self) -> int:
        """Returns the number of nodes."""
        return self._native.n_nodes

    def node(self, node: int) -> Node:
        """Returns a node by its id, from 0.

        :raises AgentError: the node does not exist.
        """
        key, kind, name, text, fields = self._native.node(node)
        return Node(node, key, kind, name, text, tuple(fields))

    def queries(self, split: str | os.PathLike[str] = "val") -> list[Query]:
        """Loads the labelled queries of ``train``, ``val``, ``human``, or of a file like ``qa.csv``."""
        found = self._native.queries(os.fspath(split))
        return [Query(str(query), text, tuple(answers)) for query, text, answers in found]

    def docs_iter(self) -> Iterator[Doc]:
        """Iterates over all nodes as documents, by ascending id; runs and qrels use the same ids."""
        return (Doc(str(node), self.node(node).text) for node in range(len(self)))

    def qrels_iter(self, split: str | os.PathLike[str] = "val") -> Iterator[Qrel]:
        """Iterates over the answers of labelled queries, in the order of the queries."""
        queries = self.queries(split)
        return (Qrel(one.query_id, str(node), 1, "0") for one in queries for node in one.answers)

    def system(self, name: str, *, sandbox: Sandbox = None) -> System:
        """Opens a system by its name on the command line; :func:`systems` lists the names.

        :raises AgentError: the name is unknown, or something that the system needs is missing, such
            as a language model, which cannot be configured from Python.
        """
        return System(self, self._native.system(name, sandbox))

    def search(
        self, text: str, k: int = 20, *, system: str = "bm25f", filter: Iterable[str] = ()
    ) -> Answer:
        """Ranks nodes for a text, as ``agent search`` does; for ``filter`` see :meth:`System.where`."""
        return self.system(system).where(*filter).query(text, k, paths=False)

    def bundle(
        self, file: str | os.PathLike[str], *, force: bool = False, sandbox: Sandbox = None
    ) -> System:
        """Opens a frozen bundle; with ``force`` also a bundle that was made for another base."""
        return System(self, self._native.bundle(Path(file), force, sandbox))

    def program(
        self,
        source: str | bytes,
        *,
        parameters: Mapping[str, float] | None = None,
        sandbox: Sandbox = None,
    ) -> System:
        """Compiles a program: its source in Rhai, or the bytes of a WebAssembly module.

        Parameters without a value keep their defaults. ``query(..., explain=True)`` records each tool
        call with its result.
        """
        given = source.encode() if isinstance(source, str) else source
        return System(self, self._native.program(given, dict(parameters or {}), sandbox))

    def ask(self, question: str) -> dict[str, Any]:
        """Answers a question over many nodes; returns the object that ``agent ask --json`` prints.

        :raises AgentError: a part of the question is not understood; the message names it.
        """
        answer: dict[str, Any] = json.loads(self._native.ask(question))
        return answer

    def optimize(
        self,
        *,
        seed: int | None = None,
        steps: int | None = None,
        threads: int | None = None,
        run: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: Callable[[dict[str, Any]], object] | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """Optimizes programs on the train and val queries, and freezes the best as a bundle.

        A new run has by default seed 1 and 24 steps; a resumed run keeps its own. ``request`` has the
        other options of ``agent optimize``. A new run uses a language model only if ``actor`` names
        ``"llm"``.
        ``progress`` is called with a dict for each event, whose ``kind`` comes first. Ctrl-C, or an
        exception of ``progress``, ends the run; its results so far are kept, and ``resume`` continues
        the given ``run``.
        Returns the object of ``agent optimize --json``, such as the directory of the ``run``, the
        ``bundle``'s file and the ``verdict`` against the best baseline; also the bundle's ``digest``.
        The same seed gives the same bundle as ``agent optimize``. The test split is opened only with
        ``test``.
        """
        if not resume:
            request.setdefault("actor", ["search"])
        place = None if run is None else os.fspath(run)
        named = {"seed": seed, "steps": steps, "threads": threads, "run": place, "resume": resume}
        whole = json.dumps({"dataset": self.name, **named, **request}, default=os.fspath)
        outcome: dict[str, Any] = json.loads(_native.optimize(self._native, whole, progress))
        return outcome

    def __repr__(self) -> str:
        return f"<Base {self.name}: {len(self)} nodes>"


class App:
    """The operations of the command line by name, over one home directory.

    The home directory is ``home``, else ``AGENT_HOME``, else the default of the platform. Options of
    a command are keyword arguments; a reply is the object that ``--json`` prints.
    """

    def __init__(self, *, home: str | os.PathLike[str] | None = None) -> None:
        self._native = _native.App(_home(home))

    def call(self, name: str, /, **request: Any) -> dict[str, Any]:
        """Carries out an operation. Ctrl-C ends it.

        :raises AgentError: the operation is unknown, the request is not valid, or the operation fails.
        """
        reply: dict[str, Any] = json.loads(
            self._native.call(name, json.dumps(request, default=os.fspath))
        )
        return reply

    def data_import(
        self,
        name: str,
        source: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Imports a file or directory as a dataset; ``options`` describe its format."""
        given = {"from": os.fspath(source), **options}
        return self.call("data_import", name=name, source=given, dry_run=dry_run)

    def data_update(
        self,
        name: str,
        source: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        force: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Imports a dataset again, indexes it as before, and replaces it in one step."""
        given = {"from": os.fspath(source), **options}
        return self.call("data_update", name=name, source=given, dry_run=dry_run, force=force)

    def data_list(self) -> dict[str, Any]:
        """Lists the installed datasets, in ``datasets``."""
        return self.call("data_list")

    def data_show(self, name: str, **request: Any) -> dict[str, Any]:
        """Shows the contents of a dataset, its likely mistakes, or one of its nodes."""
        return self.call("data_show", name=name, **request)

    def data_facets(self, name: str, **request: Any) -> dict[str, Any]:
        """Counts the values of nodes, as facets for conditions."""
        return self.call("data_facets", name=name, **request)

    def data_remove(self, name: str) -> dict[str, Any]:
        """Removes a dataset with its indexes."""
        return self.call("data_remove", name=name)

    def data_synthesize(self, dataset: str, **request: Any) -> dict[str, Any]:
        """Generates questions with answers for a dataset without labelled queries."""
        return self.call("data_synthesize", dataset=dataset, **request)

    def index(self, dataset: str, **request: Any) -> dict[str, Any]:
        """Builds the indexes of a dataset."""
        return self.call("index", dataset=dataset, **request)

    def train_mfar(self, dataset: str, **request: Any) -> dict[str, Any]:
        """Trains weights for the fields of a node, which depend on the query."""
        return self._train("train_mfar", dataset, **request)

    def train_dense(self, dataset: str, **request: Any) -> dict[str, Any]:
        """Trains vectors of queries and nodes, so that a query is close to its answers."""
        return self._train("train_dense", dataset, **request)

    def train_graph(self, dataset: str, **request: Any) -> dict[str, Any]:
        """Trains a model that ranks nodes by the graph around the query."""
        return self._train("train_graph", dataset, **request)

    def _train(
        self,
        operation: str,
        dataset: str,
        *,
        name: str | None = None,
        force: bool = False,
        **request: Any,
    ) -> dict[str, Any]:
        model = {"dataset": dataset, "name": name, "force": force}
        return self.call(operation, model=model, **request)

    def program_run(
        self,
        dataset: str,
        query: str,
        *,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """Runs one program on one query, in the sandbox: a source in Rhai, or a file."""
        place = None if file is None else os.fspath(file)
        program = {"source": source, "file": place}
        return self.call("program_run", dataset=dataset, query=query, **program, **request)

    def program_diff(
        self,
        first: str,
        second: str,
        *,
        run: str | os.PathLike[str] | None = None,
        bundle: str | os.PathLike[str] | None = None,
        **request: Any,
    ) -> dict[str, Any]:
        """Compares two programs of a run or a bundle, each given by its id or category."""
        place = {"run": run, "bundle": bundle}
        given = {key: None if it is None else os.fspath(it) for key, it in place.items()}
        programs = {"from": first, "to": second, "place": given}
        return self.call("program_diff", **programs, **request)

    def search(self, dataset: str, text: str, **request: Any) -> dict[str, Any]:
        """Ranks the nodes of a dataset for a text."""
        return self.call("search", dataset=dataset, text=text, **request)

    def query(
        self, bundle: str | os.PathLike[str], text: str, **request: Any
    ) -> dict[str, Any]:
        """Answers a question with a frozen bundle: its file, a run, or ``latest``."""
        return self.call("query", bundle=os.fspath(bundle), text=text, **request)

    def ask(self, dataset: str, question: str, **request: Any) -> dict[str, Any]:
        """Answers a question over many nodes."""
        return self.call("ask", dataset=dataset, question=question, **request)

    def answer(self, dataset: str, question: str, **request: Any) -> dict[str, Any]:
        """Answers a question in a few sentences, each with the nodes that support it."""
        return self.call("answer", dataset=dataset, question=question, **request)

    def optimize(self, dataset: str, **request: Any) -> dict[str, Any]:
        """Finds, tests and freezes retrieval programs for a dataset."""
        return self.call("optimize", dataset=dataset, **request)

    def compare(
        self, dataset: str, text: str, system: Sequence[str], **request: Any
    ) -> dict[str, Any]:
        """Answers a question with several systems, side by side."""
        return self.call("compare", dataset=dataset, text=text, system=list(system), **request)

    def eval(
        self,
        dataset: str,
        split: str | Sequence[str],
        system: str | Sequence[str],
        **request: Any,
    ) -> dict[str, Any]:
        """Measures systems on the labelled queries of splits; ``where`` and ``effort`` are lists."""
        return self.call(
            "eval", dataset=dataset, split=_listed(split), system=_listed(system), **request
        )

    def verify(self, bundle: str | os.PathLike[str], **request: Any) -> dict[str, Any]:
        """Checks that a bundle is intact and gives the results that it records."""
        return self.call("verify", bundle=os.fspath(bundle), **request)

    def report(self, run: str | os.PathLike[str] | None = None, **request: Any) -> dict[str, Any]:
        """Reports the results of a run, or with ``model`` the training of a model."""
        return self.call("report", run=None if run is None else os.fspath(run), **request)


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _home(home: str | os.PathLike[str] | None) -> Path | None:
    """Returns ``home``, else ``AGENT_HOME``, else ``None`` for the default of the platform."""
    place = home if home is not None else os.environ.get("AGENT_HOME") or None
    return None if place is None else Path(place)


def open(name: str | os.PathLike[str], *, home: str | os.PathLike[str] | None = None) -> Base:
    """Opens an installed base by its name, or a directory that was imported before.

    The home directory is ``home``, else ``AGENT_HOME``, else the default of the platform.

    :raises AgentError: the base does not exist, or it has no index.
    """
    return Base(_native.Base.open(os.fspath(name), _home(home)))


def systems() -> dict[str, str]:
    """Returns the names of all systems, each with a description."""
    return dict(_native.systems())


def _falling(ids: NDArray[np.uint32], scores: NDArray[np.float32]) -> list[tuple[int, np.float32]]:
    """Pairs nodes with strictly falling scores: a tied score becomes the next smaller number."""
    pairs: list[tuple[int, np.float32]] = []
    before = np.float32(np.inf)
    for node, score in zip(ids.tolist(), scores, strict=True):
        if not score < before:
            score = np.nextafter(before, np.float32(-np.inf))
        pairs.append((node, score))
        before = score
    return pairs


def _run(ids: NDArray[np.uint32], scores: NDArray[np.float32]) -> dict[str, float]:
    return {str(node): float(score) for node, score in _falling(ids, scores)}
