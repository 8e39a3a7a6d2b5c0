"""A retriever for DSPy: ``pip install agent-retriever[dspy]``.

>>> import dspy                                               # doctest: +SKIP
>>> from agent_retriever.dspy import retriever                # doctest: +SKIP
>>> search = retriever(base.bundle("bundle.json"), k=5)       # doctest: +SKIP
>>> search("a quiet kettle").passages                         # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable

import dspy

from . import System


def retriever(system: System, k: int = 20) -> Callable[[str], dspy.Prediction]:
    """Returns a callable that maps a query to a prediction: ``passages`` are the texts of the nodes
    that the system finds, best first, with their ``ids``, ``keys`` and ``scores``. The callable is also
    a tool for ReAct."""

    def search(query: str) -> dspy.Prediction:
        """Texts of the knowledge base that answer the query, best first."""
        answer = system.query(query, k, paths=False)
        return dspy.Prediction(
            passages=[system.base.node(node).text for node in answer.ids.tolist()],
            ids=answer.ids.tolist(),
            keys=[hit["key"] for hit in answer.hits],
            scores=answer.scores.tolist(),
        )

    return search
