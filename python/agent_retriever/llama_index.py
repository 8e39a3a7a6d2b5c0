"""A retriever for LlamaIndex: ``pip install agent-retriever[llama-index]``.

>>> from agent_retriever.llama_index import AgentRetriever   # doctest: +SKIP
>>> AgentRetriever(base.bundle("bundle.json"), k=5).retrieve("a quiet kettle")       # doctest: +SKIP
"""

from __future__ import annotations

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from . import System


class AgentRetriever(BaseRetriever):
    """Retrieves the nodes that a system finds: their text and score, and in ``metadata`` their id,
    key, type and name."""

    def __init__(self, system: System, k: int = 20) -> None:
        self._system = system
        self._k = k
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self._system.query(query_bundle.query_str, self._k, paths=False)
        base = self._system.base
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit["key"],
                    text=base.node(hit["id"]).text,
                    metadata={name: hit[name] for name in ("id", "key", "type", "name")},
                ),
                score=hit["score"],
            )
            for hit in answer.hits
        ]
