"""What the commands that serve share: their log, whom they let in (the gateway's door), and their end."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn

from .command_errors import ExitCode, UsageError, needs_gateway
from .terminal import complain, note

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from ..graph.sdk_server import GraphServer
    from ..knowledge.gateway.gateway import Door
    from ..knowledge.gateway.gateway_settings import GatewaySettings
    from ..web.listening import Listener

#: The addresses at which only programs of this machine reach a server.
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def log_to_stderr(level: LogLevel, form: str) -> None:
    """Sends the process's log to standard error, as standard output may carry the protocol."""
    logging.basicConfig(stream=sys.stderr, level=level.value.upper(), format=form)


def announce(url: str) -> None:
    print(f"Serving at {url}", file=sys.stderr, flush=True)


def end_now() -> NoReturn:
    """Ends the process although a thread still waits for a line on standard input."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(ExitCode.OK)


def check_exposure(host: str, what: str, *, http: int | None, keys: Path | None, unprotected: bool) -> None:
    """Refuses to serve everybody unless told to. `what` completes "Everybody who reaches … can"."""
    if keys is not None and (http is None or unprotected):
        raise UsageError(f"--keys-file does not go with {'--unprotected' if unprotected else 'stdin'}.")
    if http is None or host in LOOPBACK or keys is not None:
        return
    if not unprotected:
        raise UsageError(
            f"Everybody who reaches {host} could {what}: nothing is encrypted, and nobody is asked for a key."
            " --keys-file FILE asks for one ('knime-mcp nodes keys create NAME --keys-file FILE' makes it);"
            " --unprotected is for a proxy that guards it."
        )
    complain(f"Everybody who reaches {host} can {what}, and nothing is encrypted.")


def guarded_settings(port: int, host: str, keys: Path) -> GatewaySettings:
    """The gateway's settings, with the address and the keys of a server that stands behind its door."""
    from ..knowledge.gateway.gateway_settings import read_settings
    from ..knowledge.gateway.observing import configure_logging

    # The listener for this machine has the metrics; it is there if its port is named.
    internal = None if os.environ.get("GATEWAY_INTERNAL_PORT") else -1
    settings = read_settings(
        gateway_host=host, gateway_port=port, gateway_internal_port=internal, gateway_keys_file=keys
    )
    configure_logging(settings)
    return settings


def tell_of_keys(door: Door) -> None:
    file = door.settings.gateway_keys_file
    if door.tokens is None and not any(key.works() for key in door.keys.all()):
        note(f"There are no keys in {file} yet: knime-mcp nodes keys create NAME --keys-file {file}")


@contextmanager
@needs_gateway
def graph_guard(port: int, host: str, keys: Path) -> Generator[GraphGuard]:
    from ..knowledge.gateway.gateway_app import opened_door

    with opened_door(guarded_settings(port, host, keys)) as door:
        tell_of_keys(door)
        yield GraphGuard(door)


class GraphGuard:
    """Lets those clients through to a graph document's server that the door knows."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def around(self, served: GraphServer) -> AbstractAsyncContextManager[list[Listener]]:
        from mcp.server.transport_security import TransportSecuritySettings

        from ..knowledge.gateway.gateway_app import behind_door
        from ..knowledge.gateway.mcp_endpoint import MCPEndpoint

        # The SDK's own check knows no names of hosts but this machine's; here the key decides.
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = served.server.streamable_http_app(transport_security=unchecked)
        endpoint = MCPEndpoint(self._door, app, served.tool_names)
        return behind_door(self._door, endpoint, "GET", "POST", "DELETE")

    def count_call(self, tool: str, outcome: str, seconds: float) -> None:
        self._door.count_call(tool, outcome, seconds)
