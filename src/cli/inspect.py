"""``knime-mcp inspect``: shows the steps of connecting to a server, and the fix for the one that fails."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..types.errors import AuthError, Canceled, MCPError, SettingInvalid
from .command_errors import CREDENTIAL_HINT, ExitCode, Interrupt, reports_errors
from .connection_options import ConnectionOptions, UrlArgument, takes_connection
from .terminal import print_json, say, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..client.mcp_client import ServerInfo, Step
    from ..client.protocol.tools import ToolDefinition


@reports_errors
@takes_connection
def inspect(
    url: UrlArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Show every step of connecting to a server: why can I not connect?

    Name look-up, TCP, TLS, HTTP, authorization (or the start of a command), negotiation of the protocol, list
    of tools: what was done, what was seen, how long it took, and the next step where one fails.
    """
    route, _ = connection.one_route(url)
    from .sessions import CommandSessions

    seen = _Seen(route.url, [])
    with Interrupt() as interrupt, CommandSessions(connection, interrupt) as sessions:
        client = sessions.client(route, seen.steps.append)
        try:
            seen.server = client.connect(is_canceled=interrupt)
            seen.tools = client.list_tools(is_canceled=interrupt)
        # Neither says anything about the server.
        except (Canceled, SettingInvalid):
            raise
        except MCPError as caught:
            seen.error = caught.at(server=route.url)
        finally:
            client.close()
    if as_json:
        print_json(_as_json(seen))
    else:
        _print(seen, next_step=f"knime-mcp list {connection.how_to_name(route)}")
    return ExitCode.FAILED if seen.error else ExitCode.OK


@dataclass
class _Seen:
    url: str
    steps: list[Step]
    server: ServerInfo | None = None
    tools: Sequence[ToolDefinition] = ()
    error: MCPError | None = None


def _print(seen: _Seen, *, next_step: str) -> None:
    server, tools, error = seen.server, seen.tools, seen.error
    rows = [
        (
            # A refused step is not a failure if connecting succeeds with another revision.
            "ok" if step.ok else "FAILED" if error else "refused",
            step.phase,
            step.what,
            step.detail or "",
            f"{step.seconds * 1000:.1f} ms",
        )
        for step in seen.steps
    ]
    show_table(f"Connecting to {seen.url}", ("", "phase", "step", "seen", "time"), rows)
    if server is not None:
        name = " ".join(part for part in (server.title or server.name, server.version) if part)
        spoken = f"protocol {server.protocol_version} over {server.transport}"
        say(f"Server: {name or 'does not say its name'}, {spoken}")
        if server.instructions:
            say(f"It says about itself: {server.instructions}")
    if error is None:
        names = ", ".join(tool.name for tool in tools[:20])
        more = f" and {len(tools) - 20} more" if len(tools) > 20 else ""
        say(f"Tools: {len(tools)}{f' ({names}{more})' if tools else ''}")
        say(f"All is well. Next step: {next_step}")
        return
    say(f"Failed: {error.what}.", "bold red")
    say(f"Next step: {(error.fix or 'Ask whoever runs the server').rstrip('.')}.")
    if isinstance(error, AuthError):
        say(CREDENTIAL_HINT)


def _as_json(seen: _Seen) -> dict[str, Any]:
    error = seen.error
    members: dict[str, Any] = {
        "url": seen.url,
        "ok": error is None,
        "steps": [{**asdict(step), "seconds": round(step.seconds, 6)} for step in seen.steps],
    }
    if (server := seen.server) is not None:
        members["server"] = {
            "name": server.name,
            "title": server.title,
            "version": server.version,
            "protocol": server.protocol_version,
            "transport": server.transport,
            "instructions": server.instructions,
            "capabilities": server.capabilities,
        }
    if error is None:
        members["tools"] = [tool.name for tool in seen.tools]
    else:
        members["error"] = {"phase": _phase(error, seen.steps), "what": error.what, "fix": error.fix}
    return members


def _phase(error: MCPError, steps: list[Step]) -> str | None:
    named: str | None = getattr(error, "phase", None)
    if named is None and isinstance(error, AuthError):
        return "auth"
    return named or next((step.phase for step in reversed(steps) if not step.ok), None)
