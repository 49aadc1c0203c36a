"""What an agent sends to its model, which is what people pay for: a whole run of three turns.

The same question, the same tools of the same server, the same answers of a scripted endpoint, which refuses
nothing. In bytes and, where `make real-model` has built its environment, in tokens as a real model reads
them. No seconds, so every run gives the same figures.
"""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from langchain_core.messages import HumanMessage, SystemMessage
from processes import HERE, SDK1, TIMEOUT, ClientKind, child, there
from timing import Row, Table

from knime_mcp.agents.agent_events import SYSTEM_MESSAGE
from knime_mcp.agents.agent_loop import run_agent
from knime_mcp.agents.model.chat_model import ChatModelSettings, create_model, model_route
from knime_mcp.agents.toolbox.data_registry import DataRegistry
from knime_mcp.agents.toolbox.tool_executor import ToolExecutor
from knime_mcp.agents.toolbox.toolset import Toolset
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.checked_calls import Definitions, pinned_tool
from knime_mcp.runs.engine import Run
from knime_mcp.tools import MCPClient
from knime_mcp.types.routing import ServerRoute
from tests.agents.try_real_model import PLACE, TEMPLATE, llama
from tests.support.chat_server import ChatServer, Request, call, calls, says

QUESTION = "Is the cheapest oak desk in stock?"
COUNTS = (1, 3, 10)
OTHERS = (
    ClientKind("LangChain with its adapter", "langchain", "loops"),
    ClientKind("openai-agents", "openai_agents", "loops"),
    ClientKind("pydantic-ai", "pydantic_ai", "loops"),
)


@contextmanager
def shop(python: Path, count: int) -> Iterator[str]:
    """The server with so many tools."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(python), str(HERE / "shop_server.py"), str(count), str(port)]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}/mcp"
            until = time.monotonic() + 60
            while time.monotonic() < until:
                with suppress(httpx.TransportError):
                    httpx.get(url, timeout=1)
                    break
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def ours(model_url: str, mcp_url: str) -> str:
    """As the command `agent` asks."""
    route = ServerRoute.parse(mcp_url)
    with SessionPool(lambda _: MCPClient(mcp_url)) as pool:
        tools = [pinned_tool(d, route, shown_name=d.name) for d in pool.client(route).list_tools()]
        run = Run(id="run", pool=pool, definitions=Definitions(pool), secrets=SecretMarker(()))
        executor = ToolExecutor(Toolset(tools), run, registry=DataRegistry())
        model = create_model(ChatModelSettings(route=model_route(model_url), model="test-model"), None)
        outcome = run_agent(model, executor, [SystemMessage(SYSTEM_MESSAGE), HumanMessage(QUESTION)])
        if outcome.error is not None:
            raise outcome.error
        return outcome.text


def other(python: Path, way: str) -> Callable[[str, str], str]:
    """An agent of others, in its own environment."""

    def ask(model_url: str, mcp_url: str) -> str:
        command = [str(python), "-P", str(HERE / "other_agents.py"), way, model_url, mcp_url, QUESTION]
        with child(command) as process:
            return process.communicate(timeout=TIMEOUT)[0]

    return ask


def sent(ask: Callable[[str, str], str], mcp_url: str) -> list[Request]:
    """The requests of a run."""
    first = calls(call("search_products", {"query": "oak desk"}))
    second = calls(call("search_products", {"query": "desk", "max_results": 1}))
    with ChatServer([first, second, says("Yes, 12 pieces.")]) as endpoint:
        assert "12 pieces" in ask(endpoint.url, mcp_url)
    return endpoint.requests


@contextmanager
def real_model() -> Iterator[str | None]:
    """The URL of llama.cpp's server with a model whose template knows tools; None if it is not there."""
    python = PLACE / "bin" / "python"
    if not python.exists():
        print("a real model: not built, left out (`make real-model` builds it)")
        yield None
        return
    with TemporaryDirectory() as folder:
        template = Path(folder, "template.jinja")
        template.write_text(TEMPLATE, encoding="utf-8")
        with llama(python, 2048, template) as url:
            yield url.removesuffix("/v1")


def tokens(server: str, requests: list[Request]) -> int:
    """How many tokens the model reads of requests."""
    with httpx.Client(base_url=server, timeout=TIMEOUT) as client:

        def asked(path: str, body: dict[str, object]) -> dict[str, Any]:
            return client.post(path, json=body).raise_for_status().json()

        bodies = [{key: r.body[key] for key in ("messages", "tools") if key in r.body} for r in requests]
        prompts = [asked("/apply-template", body)["prompt"] for body in bodies]
        return sum(len(asked("/tokenize", {"content": prompt})["tokens"]) for prompt in prompts)


def measure(table: Table, *, smoke: bool, rounds: int) -> None:  # noqa: ARG001 - every round is the same
    """The first request and the run, ours and others', at several numbers of tools."""
    ways: dict[str, Callable[[str, str], str]] = {"ours": ours}
    ways |= {kind.name: other(kind.python, kind.way) for kind in there(OTHERS)}
    runs: dict[int, dict[str, list[Request]]] = {}
    for server in there((SDK1,)):
        for count in COUNTS[:1] if smoke else COUNTS:
            with shop(server.python, count) as url:
                runs[count] = {name: sent(ask, url) for name, ask in ways.items()}
    with real_model() as model:
        for count, found in runs.items():
            add = partial(_rows, table, found)
            add(f"agent: first request, {count} tools", "B", lambda requests: len(requests[0].raw))
            add(f"agent: three turns, {count} tools", "B", lambda requests: sum(len(r.raw) for r in requests))
            if model is not None:
                add(f"agent: three turns, {count} tools", "tokens", partial(tokens, model))


def _rows(
    table: Table, found: dict[str, list[Request]], what: str, unit: str, size: Callable[[list[Request]], int]
) -> None:
    sizes = {name: size(requests) for name, requests in found.items()}
    for name, of_way in sizes.items():
        table.add(Row(what, name, unit, (float(of_way),), of_way / sizes["ours"]))
