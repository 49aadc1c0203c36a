"""Makes a route from a node's settings, and a client from a route with its credential."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ...client.limits import Timeouts
from ...types.errors import MCPError, SettingInvalid
from ...types.routing import ServerRoute
from .credentials import chosen, fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...client.mcp_client import MCPClient, Step
    from ...types.routing import SendCredentialsAs, TransportName
    from .credentials import Credential


def header_lines(text: str) -> tuple[tuple[str, str], ...]:
    """The headers in the setting ``extra_headers``: one per line, as ``Name: value``.

    Raises:
        SettingInvalid: A line has no colon; the message shows the line's number, not its text.
    """
    headers: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon:
            raise SettingInvalid(
                f"Line {number} of 'Extra headers' has no colon",
                setting="extra_headers",
                fix="Write each header on its own line, as Name: value",
            )
        headers.append((name.strip(), value.strip()))
    return tuple(headers)


def route_from_settings(node: Any, *, url: str | None = None, credential: str | None = None) -> ServerRoute:
    """The route that the parameters of a node describe; settings in the URL's fragment win over parameters.

    Args:
        node: The node.
        url: A URL to use instead of the node's, such as one from a *Servers* table.
        credential: A name of a credential to use instead of the node's.

    Raises:
        SettingInvalid: A setting cannot work; the error names it and says what to do.
    """
    route = ServerRoute.parse(node.server_url if url is None else url)
    as_header = node.send_credentials_as == "header"
    by_oauth = node.send_credentials_as == "client_credentials"
    name = chosen(node.credentials if credential is None else credential)
    defaults = ServerRoute(route.url)
    ways = {
        "credential": name,
        "send_credentials_as": cast("SendCredentialsAs", node.send_credentials_as) if name else "bearer",
        "header_name": (node.header_name.strip() or None) if as_header and name else None,
        "issuer": (node.issuer.strip() or None) if by_oauth and name else None,
        "scope": (node.scope.strip() or None) if by_oauth and name else None,
        "headers": header_lines(node.extra_headers),
        "transport": cast("TransportName", node.transport),
    }
    unsaid = {key: value for key, value in ways.items() if getattr(route, key) == getattr(defaults, key)}
    return replace(route, **unsaid)


def timeouts_from_settings(node: Any) -> Timeouts:
    """The three clocks of a node's parameters.

    Raises:
        SettingInvalid: A clock is not a number, which can happen with flow variables only.
    """
    seconds = {name: getattr(node, f"{name}_timeout") for name in ("connect", "idle", "total")}
    for name, value in seconds.items():
        if math.isnan(value):
            raise SettingInvalid(
                f"The {name} timeout is no number",
                setting=f"{name}_timeout",
                fix="Enter how many seconds to wait, or correct the flow variable",
            )
    return Timeouts(**seconds)


def client_for(
    route: ServerRoute,
    credential: Credential | None,
    *,
    timeouts: Timeouts | None = None,
    trace: Callable[[Step], None] | None = None,
) -> MCPClient:
    """The client for a route, which the caller closes.

    Args:
        route: The server and the way to connect.
        credential: The credential that the route names, or that of a credential port; None to send none.
        timeouts: The clocks.
        trace: Called with every step of connecting.

    Raises:
        SettingInvalid: The credential cannot be sent that way.
    """
    from ...client.mcp_client import MCPClient

    filled = fill(route, credential)
    return MCPClient(
        filled.url,
        auth=filled.auth,
        headers=filled.headers,
        transport=route.transport,
        timeouts=timeouts or Timeouts(),
        trace=trace,
    )


def refuse_commands(route: ServerRoute) -> None:
    """Refuses a server that is a command: a table or a workflow must not start programs.

    Raises:
        SettingInvalid: The URL starts with ``stdio:``.
    """
    if route.url.startswith("stdio:"):
        raise SettingInvalid(
            "A server that is a command on this computer cannot be started from a workflow",
            setting="server_url",
            server=route.url,
            fix="Run it as an HTTP server and enter its URL, or use the command line: knime-mcp list --stdio",
        )


def as_setting_error(error: MCPError) -> Exception:
    """KNIME's error for settings that cannot work, to raise in ``configure``, with the same text."""
    import knime.extension as knext

    return knext.InvalidParametersError(str(error))
