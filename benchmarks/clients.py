"""One client doing the same calls as all others, in a process and environment of its own.

    python -P clients.py WAY URL cold   connects, lists all tools, calls one, and ends
    python -P clients.py WAY URL warm   connects, then reads from each line of its standard input how many
                                        calls to make, and how many of them at once, and answers with the
                                        seconds that they took
    python -P clients.py WAY URL list   the same with listings of all tools

Only what a way needs is imported. The tool is in the variables `BENCH_TOOL` and `BENCH_ARGUMENTS`.
"""

import json
import os
import sys
import time

URL, MODE = sys.argv[2:4]
TOOL = os.environ.get("BENCH_TOOL", "tool_00001")
ARGUMENTS = json.loads(os.environ.get("BENCH_ARGUMENTS", '{"query": "knime"}'))
REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def run(call, list_all, *, opened=None):
    """Serves one mode with plain functions."""
    if MODE == "cold":
        if opened:
            opened()
        list_all()
        call()
        return
    work = call if MODE == "warm" else list_all
    work()
    print("ready", flush=True)
    for line in sys.stdin:
        times, at_once = map(int, line.split())
        start = time.perf_counter()
        if at_once == 1:
            for _ in range(times):
                work()
        else:
            in_threads(work, times, at_once)
        print(time.perf_counter() - start, flush=True)


def in_threads(work, times, at_once):
    """Calls the function so often, in as many threads as calls are made at once."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(lambda _: work(), range(times)):
            pass


async def run_async(call, list_all):
    """Serves one mode with coroutine functions."""
    import asyncio

    if MODE == "cold":
        await list_all()
        await call()
        return
    work = call if MODE == "warm" else list_all
    await work()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        times, at_once = map(int, line.split())
        start = time.perf_counter()
        numbers = iter(range(times))

        async def worker(numbers=numbers):
            for _ in numbers:
                await work()

        if at_once == 1:
            await worker()
        else:
            await asyncio.gather(*(worker() for _ in range(at_once)))
        print(time.perf_counter() - start, flush=True)


def message(method, **params):
    """A request with what the protocol demands and nothing more: headers and body."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}


def parsed(body, kind):
    """The result in a reply of either kind."""
    if kind.startswith("text/event-stream"):
        body = next(line[6:] for line in body.splitlines() if line.startswith(b"data: {"))
    return json.loads(body)["result"]


def pages(post):
    """All tools by a function that posts a message."""
    cursor = None
    while True:
        page = post("tools/list", **({"cursor": cursor} if cursor else {}))
        cursor = page.get("nextCursor")
        if cursor is None:
            return


def bare_httpx():
    """One keep-alive client, no validation of anything."""
    import httpx

    def post(method, **params):
        headers, content = message(method, **params)
        reply = client.post(URL, json=content, headers=headers)
        return parsed(reply.content, reply.headers["content-type"])

    with httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=None)) as client:
        run(
            lambda: post("tools/call", name=TOOL, arguments=ARGUMENTS),
            lambda: pages(post),
            opened=lambda: post("server/discover"),
        )


async def bare_httpx_async():
    """The same client, awaited: what a coroutine pays before any protocol."""
    import httpx

    async def post(method, **params):
        headers, content = message(method, **params)
        reply = await client.post(URL, json=content, headers=headers)
        return parsed(reply.content, reply.headers["content-type"])

    async def list_all():
        page = await post("tools/list")
        while cursor := page.get("nextCursor"):
            page = await post("tools/list", cursor=cursor)

    limits = httpx.Limits(max_keepalive_connections=None)
    async with httpx.AsyncClient(verify=False, limits=limits) as client:
        await run_async(lambda: post("tools/call", name=TOOL, arguments=ARGUMENTS), list_all)


def ours():
    """`MCPClient`."""
    from knime_mcp.tools import MCPClient

    with MCPClient(URL) as client:
        run(lambda: client.call_tool(TOOL, ARGUMENTS), client.list_tools)


def _structured(use):
    from knime_mcp.agents import langchain_tools
    from knime_mcp.tools import BearerAuth, MCPClient

    client = MCPClient(URL, auth=BearerAuth("token-in-use"))  # each result is searched for the secret
    with langchain_tools(client) as tools:
        use(next(tool for tool in tools if tool.name == TOOL), client)


def ours_invoke():
    """Our StructuredTool."""
    _structured(lambda tool, client: run(lambda: tool.invoke(ARGUMENTS), client.list_tools))


def ours_ainvoke():
    """Our StructuredTool, awaited."""
    import asyncio

    def use(tool, client):
        async def list_all():
            client.list_tools()

        asyncio.run(run_async(lambda: tool.ainvoke(ARGUMENTS), list_all))

    _structured(use)


async def _listed(client):
    cursor = None
    while True:
        if cursor is None:
            page = await client.list_tools()
        else:
            page = await client.list_tools(cursor=cursor)
        cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
        if cursor is None:
            return


async def sdk2():
    """The official SDK 2.x."""
    from mcp.client import Client

    async with Client(URL) as client:
        await run_async(lambda: client.call_tool(TOOL, ARGUMENTS), lambda: _listed(client))


async def sdk1():
    """The official SDK 1.x."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with streamable_http_client(URL) as (read, write, _), ClientSession(read, write) as client:
        await client.initialize()
        await run_async(lambda: client.call_tool(TOOL, ARGUMENTS), lambda: _listed(client))


async def fastmcp():
    """The client of fastmcp."""
    from fastmcp import Client

    async with Client(URL) as client:
        await run_async(lambda: client.call_tool(TOOL, ARGUMENTS), client.list_tools)


async def adapter():
    """LangChain's adapter as its documentation uses it: a session for every call."""
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"server": {"url": URL, "transport": "streamable_http"}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    await run_async(lambda: tools[TOOL].ainvoke(ARGUMENTS), client.get_tools)


async def adapter_session():
    """LangChain's adapter with one session."""
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    client = MultiServerMCPClient({"server": {"url": URL, "transport": "streamable_http"}})
    async with client.session("server") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        await run_async(lambda: tools[TOOL].ainvoke(ARGUMENTS), lambda: load_mcp_tools(session))


WAYS = {
    way.__name__: way
    for way in (
        bare_httpx,
        bare_httpx_async,
        ours,
        ours_invoke,
        ours_ainvoke,
        sdk2,
        sdk1,
        fastmcp,
        adapter,
        adapter_session,
    )
}

if __name__ == "__main__":
    chosen = WAYS[sys.argv[1]]
    # An event loop is only imported for those that need one.
    if chosen.__code__.co_flags & 0x80:
        import asyncio

        asyncio.run(chosen())
    else:
        chosen()
