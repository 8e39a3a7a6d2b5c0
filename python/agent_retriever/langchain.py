"""A retriever for LangChain: ``pip install agent-retriever[langchain]``.

>>> from agent_retriever.langchain import AgentRetriever     # doctest: +SKIP
>>> AgentRetriever(system=base.bundle("bundle.json"), k=5).invoke("a quiet kettle")  # doctest: +SKIP
"""

from __future__ import annotations

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from . import System


class AgentRetriever(BaseRetriever):
    """Retrieves the nodes that a system finds, as documents: their text, and in ``metadata`` their id,
    key, type, name, score and rank."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    system: System
    k: int = 20

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        answer = self.system.query(query, self.k, paths=False)
        return [
            Document(
                id=hit["key"],
                page_content=self.system.base.node(hit["id"]).text,
                metadata={name: hit[name] for name in ("id", "key", "type", "name", "score", "rank")},
            )
            for hit in answer.hits
        ]
