"""How many requests 200 clients with open connections lose while a gateway is restarted under load.

``python -m tests.knowledge.gateway.try_restart [CLIENTS]``: a process of the gateway gets SIGTERM, and
another one takes its port. A client whose connection is refused has sent nothing, and tries again.
"""

import asyncio
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx

from knime_node_knowledge.commands.node_catalogue import open_catalogue
from knime_node_knowledge.gateway.api_keys import KeyStore, Scope

from .running import start_process

_BODY = {"tool_name": "search_nodes", "params": {"query": "join tables"}}
_AFTERWARDS = 5
_LONGEST = 240.0


class Clients:
    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key
        self.answers: Counter[int] = Counter()
        self.lost: list[str] = []
        self.refused = self.begun = self.closes = 0
        self.restarted = asyncio.Event()

    async def one(self) -> None:
        """Asks without a pause until the second process has answered some times."""
        first, afterwards = True, 0
        async with httpx.AsyncClient(headers={"X-API-Key": self.key}, verify=False, timeout=60) as client:
            while afterwards < _AFTERWARDS:
                after = self.restarted.is_set()
                try:
                    answer = await client.post(f"{self.url}/mcp/invoke", json=_BODY)
                except httpx.ConnectError:
                    self.refused += 1
                    await asyncio.sleep(0.1)
                    continue
                except httpx.TransportError as error:
                    self.lost.append(repr(error))
                    continue
                self.answers[answer.status_code] += 1
                self.closes += answer.headers.get("connection") == "close"
                afterwards += after
                self.begun += first
                first = False


async def restart(folder: Path, catalogue: Path, count: int) -> Clients:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with KeyStore(folder / "keys.sqlite") as keys:
        secret, _ = keys.create("load", tuple(Scope), rate_limit=0)
    with ExitStack() as stack:
        process, url = stack.enter_context(start_process(folder, catalogue, "--port", port))
        clients = Clients(url, secret)
        asked = [asyncio.create_task(clients.one()) for _ in range(count)]
        while clients.begun < count:
            await asyncio.sleep(0.1)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(process.wait, 60)
        ended = time.monotonic() - began
        (second := folder / "second").mkdir()
        (second / "keys.sqlite").hardlink_to(folder / "keys.sqlite")
        started = start_process(second, catalogue, "--port", port)
        await asyncio.to_thread(stack.enter_context, started)
        clients.restarted.set()
        both = time.monotonic() - began
        print(f"the first ended with code {code} after {ended:.1f} s, the second listened after {both:.1f} s")
        await asyncio.wait_for(asyncio.gather(*asked), _LONGEST)
        return clients


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, open_catalogue(None) as catalogue:
        found = asyncio.run(restart(Path(folder), catalogue.path, count))
    print(f"{count} clients: answers {dict(found.answers)}, {found.closes} with Connection: close,")
    print(
        f"{found.refused} refused connections tried again, {len(found.lost)} requests lost {found.lost[:3]}"
    )
    if found.lost or set(found.answers) != {200}:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
