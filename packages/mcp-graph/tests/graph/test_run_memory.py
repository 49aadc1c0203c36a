"""Runs of a server keep no more of their outputs than it has memory for."""

import asyncio

import pytest

from knime_mcp.web.tool_server import RequestedCall
from knime_mcp_graph import McpGraphApi
from knime_mcp_graph.graph_service import GraphService

from .graphs import EXIT, load, tool, transform, yaml

pytestmark = pytest.mark.quick


ENTRY = "{id: entry, type: entry, next: each}"
EACH = "{id: each, type: forEach, items: '[1..entry.n]', do: b, next: c, onError: c}"
LARGE = transform("$pad('', 1000000, 'x')", node="b", following="c")
LIMITS = "executionLimits: {maxMemoryMb: 15}\n"


def test_the_largest_run_ends_and_the_others_go_on():
    nodes = (ENTRY, EACH, LARGE, transform("{'n': $count(each)}", node="c"), EXIT)
    service = GraphService(McpGraphApi(load(yaml(tool(*nodes), servers="", more=LIMITS))))

    async def calls():
        def ran(n):
            return service.call(RequestedCall(tool="t", arguments={"n": n}, meta={}, any_json=False))

        large = asyncio.create_task(ran(900))
        others = [await ran(2) for _ in range(5)]
        return await large, others

    large, others = asyncio.run(calls())
    assert large["isError"]
    assert "15 MB are for all runs" in large["content"][0]["text"]
    assert [other["structuredContent"] for other in others] == [{"n": 2}] * 5
    service.close()
