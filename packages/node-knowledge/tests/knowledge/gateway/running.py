"""A gateway on loopback, in a thread or as a process."""

import asyncio
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from knime_node_knowledge.catalogue_reader import Catalogue
from knime_node_knowledge.gateway.api_keys import Scope
from knime_node_knowledge.gateway.gateway import Gateway
from knime_node_knowledge.gateway.gateway_app import opened_gateway, serve
from knime_node_knowledge.gateway.gateway_settings import read_settings
from knime_node_knowledge.gateway.observing import GatewaySpans
from tests.support import commands

ALL = tuple(Scope)


@dataclass
class Running:
    gateway: Gateway
    url: str = ""
    internal: str | None = None
    made: list = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    def key(self, *scopes, name="tester", **more):
        secret, key = self.gateway.keys.create(name, scopes or ALL, **more)
        self.made.append(key)
        return secret

    @property
    def address(self):
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def call(self, tool, **arguments):
        """Status and body of a call at the simple endpoint."""
        with self.client() as client:
            response = client.post("/mcp/invoke", json={"tool_name": tool, "params": arguments})
        return response.status_code, response.json()

    def client(self, key=None, **more):
        headers = {"X-API-Key": self.key() if key is None else key} if key != "" else {}
        # Plain HTTP, unless a test says whom to trust: reading the system's certificates takes long.
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **({"verify": False} | more))


@contextmanager
def served(gateway):
    ready = threading.Event()
    running = Running(gateway)
    state = {}

    def on_ready(public, internal):
        running.url, running.internal = public, internal
        ready.set()

    async def run():
        state["loop"], state["stop"] = asyncio.get_running_loop(), asyncio.Event()
        await serve(gateway, on_ready=on_ready, stop=state["stop"])

    def target():
        try:
            asyncio.run(run())
        except BaseException as error:
            state["error"] = error
        finally:
            ready.set()

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    assert ready.wait(30)
    running.stop = lambda: state["loop"].call_soon_threadsafe(state["stop"].set)
    try:
        if "error" in state:
            raise state["error"]
        yield running
    finally:
        if "error" not in state and not state["loop"].is_closed():
            running.stop()
        thread.join(45)
        assert not thread.is_alive()


@contextmanager
def running_gateway(catalogue, keys_file, *, environment=None, spans=None, **given):
    settings = read_settings(
        environment or {},
        **{"gateway_port": 0, "gateway_internal_port": 0, "gateway_keys_file": keys_file, **given},
    )
    with (
        Catalogue(catalogue) as opened,
        opened_gateway(settings, opened, spans=spans or GatewaySpans()) as gateway,
        served(gateway) as running,
    ):
        yield running


@contextmanager
def start_process(folder, catalogue, *options):
    """The command itself; its log and its keys are in the folder. Gives the process and the URL."""
    code = (
        "import typer; from knime_node_knowledge.commands.node_servers import gateway;"
        "app = typer.Typer(); app.command()(gateway); app()"
    )
    arguments = [
        "--port",
        "0",
        "--internal-port",
        "-1",
        "--keys-file",
        folder / "keys.sqlite",
        "-c",
        catalogue,
    ]
    file = folder / "log"
    with file.open("w") as log:
        process = commands.Popen(
            [sys.executable, "-c", code, *map(str, [*arguments, *options])],
            stderr=log,
            env=os.environ | {"GATEWAY_RATE_LIMIT": "0"},
        )
        try:
            deadline = time.monotonic() + 60
            while not (found := re.findall(r"Serving at (\S+)\n", file.read_text())):
                assert process.poll() is None, file.read_text()
                assert time.monotonic() < deadline, "it did not start"
                time.sleep(0.05)
            yield process, found[0]
        finally:
            process.kill()
            process.wait(30)
