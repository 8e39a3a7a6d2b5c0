"""Asks `agent mcp` and /mcp of `agent serve` as the official client of one generation does: lists, calls
every tool, reads a resource, gets the prompt, and makes 200 calls at a time.

    check-mcp.py AGENT HOME BUNDLE URL

The package `mcp` decides the generation: from 2.0 on every request stands by itself.
"""

import asyncio
import json
import sys
from importlib.metadata import version

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

GENERATION = int(version("mcp").split(".")[0])
TOOLS = ["describe_base", "query", "search", "ask", "get_node", "neighbors"]
REPLY_BYTES = 8 << 10
PARALLEL = 200


class Session:
    """What both generations offer, under one name each."""

    def __init__(self, target):
        self.target = target

    async def __aenter__(self):
        from contextlib import AsyncExitStack

        self.stack = AsyncExitStack()
        if GENERATION >= 2:
            from mcp import Client

            target = self.target if isinstance(self.target, str) else stdio_client(self.target)
            self.client = await self.stack.enter_async_context(Client(target))
            self.version = self.client.protocol_version
            self.instructions = self.client.instructions
        else:
            from mcp import ClientSession
            from mcp.client.streamable_http import streamablehttp_client

            of = streamablehttp_client if isinstance(self.target, str) else stdio_client
            streams = await self.stack.enter_async_context(of(self.target))
            self.client = await self.stack.enter_async_context(ClientSession(*streams[:2]))
            told = await self.client.initialize()
            self.version = told.protocolVersion
            self.instructions = told.instructions
        return self

    async def __aexit__(self, *error):
        await self.stack.aclose()

    async def call(self, name, **arguments):
        result = await self.client.call_tool(name, arguments)
        failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
        text = result.content[0].text
        assert len(text.encode()) <= REPLY_BYTES, (name, len(text))
        if failed:
            return None
        told = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
        assert told == json.loads(text), name
        return told


async def check(target, where):
    async with Session(target) as session:
        tools = (await session.client.list_tools()).tools
        assert [tool.name for tool in tools] == TOOLS, tools
        base = await session.call("describe_base")
        assert base["types"] and base["relations"], base
        answer = await session.call("query", query="a durable steel bottle", k=3, explain=True)
        node = await session.call("get_node", id=answer["hits"][0]["id"])
        assert node["name"] == answer["hits"][0]["name"], node
        near = await session.call("neighbors", id=node["id"])
        assert near["total"] >= len(near["neighbors"]) > 0, near
        assert await session.call("search", query="steel", system="hybrid")
        assert await session.call("get_node", id=99999999) is None, "an error is told as one"
        uri = f"agent://{base['base']}/schema"
        read = await session.client.read_resource(uri)
        assert json.loads(read.contents[0].text)["base"] == base["base"]
        prompt = await session.client.get_prompt("answer_from_base", {"question": "which bottle?"})
        assert "which bottle?" in prompt.messages[0].content.text
        calls = [session.call("query", query=f"a steel bottle {n % 7}", k=2) for n in range(PARALLEL)]
        answers = await asyncio.gather(*calls)
        assert all(answer and answer["hits"] for answer in answers)
        print(f"mcp {version('mcp')}, protocol {session.version}, {where}: all asked, {PARALLEL} at a time answered")


async def main():
    agent, home, bundle, url = sys.argv[1:5]
    piped = StdioServerParameters(command=agent, args=["--home", home, "mcp", "--bundle", bundle])
    await check(piped, "pipe")
    await check(url, "HTTP")


asyncio.run(main())
