"""How a node reaches a server: the settings for it, and the client that is made from them.

Provider and Caller ask for the same things in the same words. Each of them makes its own parameters here
(KNIME's parameters belong to one node class) and puts them in the order of its dialog; what they hold becomes
a `ServerRoute`, and a route with its credential becomes a client.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from ..types.errors import MCPError, SettingInvalid
from ..types.routing import ServerRoute
from .credentials import NO_CREDENTIAL, chosen, fill, find_credential
from .limits import Timeouts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..types.routing import SendCredentialsAs, TransportName
    from .credentials import Credential, CredentialStore
    from .mcp_client import MCPClient, Step

_LONGEST: Final = 24 * 3600.0


def server_url(*, description: str | None = None) -> Any:
    """Makes the parameter ``server_url``.

    Args:
        description: What to say instead of the usual.

    Returns:
        The parameter.
    """
    import knime.extension as knext

    return knext.StringParameter(
        "Server URL",
        description
        or "Address of the MCP server, as its documentation gives it, such as `https://host/mcp`. Put no"
        " password or key into it: store it in a *Credentials Configuration* node and choose that under"
        " *Credentials*. Where a server wants its key in the URL, write `{credential.password}` there.",
        default_value="",
    )


def credentials() -> Any:
    """Makes the parameter ``credentials``.

    Returns:
        The parameter; offers the credentials that the flow variables bring.
    """
    import knime.extension as knext

    return knext.StringParameter(
        "Credentials",
        "What proves to the server who you are. To get a choice here, add a *Credentials Configuration* node,"
        " enter user name and password (a token or key goes into the password), and connect its flow variable"
        " port to this node. Workflow and tables hold only the name of the credential. Choose `<none>` for a"
        " server that lets everybody in.",
        default_value=NO_CREDENTIAL,
        choices=credential_choices,
    )


def credential_choices(context: Any) -> list[Any]:
    """Offers credentials in a dialog. Never raises: the dialog would not open.

    Args:
        context: The dialog's context, None where there is none.

    Returns:
        No credential first, then the credentials that there are.
    """
    try:
        names = sorted(str(name) for name in context.get_credential_names())
    except Exception:
        names = []
    return [NO_CREDENTIAL, *(name for name in names if name != NO_CREDENTIAL)]


def send_credentials_as() -> Any:
    """Makes the parameter ``send_credentials_as``.

    Returns:
        The parameter; its value is the name of a `SendCredentialsAs`.
    """
    import knime.extension as knext

    class Ways(knext.EnumParameterOptions):
        bearer = ("Bearer token", "The password is a token; the usual way.")
        basic = ("User name and password", "Basic authentication.")
        header = ("Header of its own", "The password goes into the header named below, for API keys.")

    return knext.EnumParameter(
        "Send credentials as",
        "How the server wants its credential. Its documentation says so.",
        default_value=Ways.bearer.name,
        enum=Ways,
        is_advanced=True,
    )


def header_name() -> Any:
    """Makes the parameter ``header_name``.

    Returns:
        The parameter.
    """
    import knime.extension as knext

    return knext.StringParameter(
        "Header for the credential",
        "Name of the header that carries the password, such as `X-API-Key`.",
        default_value="X-API-Key",
        is_advanced=True,
    )


def extra_headers() -> Any:
    """Makes the parameter ``extra_headers``.

    Returns:
        The parameter.
    """
    import knime.extension as knext

    return knext.MultilineStringParameter(
        "Extra headers",
        "Further headers that the server asks for, one per line, as `Name: value`. A secret must not stand"
        " here: write `{credential.password}` or `{credential.username}` in its place.",
        default_value="",
        number_of_lines=3,
        is_advanced=True,
    )


def transport() -> Any:
    """Makes the parameter ``transport``.

    Returns:
        The parameter; its value is the name of a `TransportName`.
    """
    import knime.extension as knext

    class Transports(knext.EnumParameterOptions):
        auto = ("Find out", "Tries streamable HTTP first, then the older HTTP+SSE.")
        http = ("Streamable HTTP", "What servers speak since March 2025.")
        sse = ("HTTP+SSE", "What older servers speak; their URL often ends in `/sse`.")

    return knext.EnumParameter(
        "Transport",
        "How to talk to the server. Change it only if connecting fails, or takes long, for a server that you"
        " know.",
        default_value=Transports.auto.name,
        enum=Transports,
        is_advanced=True,
    )


def connect_timeout() -> Any:
    """Makes the parameter ``connect_timeout``, in seconds.

    Returns:
        The parameter.
    """
    return _seconds(
        "Connect timeout (s)",
        "How long to wait until a connection to the server stands.",
        Timeouts().connect,
    )


def idle_timeout() -> Any:
    """Makes the parameter ``idle_timeout``, in seconds.

    Returns:
        The parameter.
    """
    return _seconds(
        "Idle timeout (s)",
        "How long the server may be silent. Raise it for slow tools that report no progress.",
        Timeouts().idle,
    )


def total_timeout() -> Any:
    """Makes the parameter ``total_timeout``, in seconds.

    Returns:
        The parameter.
    """
    return _seconds(
        "Total timeout (s)",
        "How long one listing or call may take in all, even while the server reports progress.",
        Timeouts().total,
    )


def header_lines(text: str) -> tuple[tuple[str, str], ...]:
    """Reads the setting ``extra_headers``.

    Args:
        text: One header per line, as ``Name: value``.

    Returns:
        Pairs of name and value.

    Raises:
        SettingInvalid: A line without a colon; the message shows its number, not its text.
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
    """Makes a route from the parameters of a node.

    Args:
        node: A node with the parameters of this module.
        url: A URL that replaces the node's, such as one from a *Servers* table.
        credential: Name of a credential that replaces the node's.

    Returns:
        The route; what a fragment of the URL says wins over the node's settings.

    Raises:
        SettingInvalid: A setting that cannot work, naming it and what to do.
    """
    route = ServerRoute.parse(node.server_url if url is None else url)
    as_header = node.send_credentials_as == "header"
    name = chosen(node.credentials if credential is None else credential)
    defaults = ServerRoute(route.url)
    ways = {
        "credential": name,
        "send_credentials_as": cast("SendCredentialsAs", node.send_credentials_as) if name else "bearer",
        "header_name": (node.header_name.strip() or None) if as_header and name else None,
        "headers": header_lines(node.extra_headers),
        "transport": cast("TransportName", node.transport),
    }
    unsaid = {key: value for key, value in ways.items() if getattr(route, key) == getattr(defaults, key)}
    return replace(route, **unsaid)


def timeouts_from_settings(node: Any) -> Timeouts:
    """Makes the three clocks from the parameters of a node.

    Args:
        node: A node with the parameters of this module.

    Returns:
        The clocks.
    """
    return Timeouts(connect=node.connect_timeout, idle=node.idle_timeout, total=node.total_timeout)


def open_client(
    route: ServerRoute,
    *,
    store: CredentialStore | None = None,
    timeouts: Timeouts | None = None,
    trace: Callable[[Step], None] | None = None,
) -> MCPClient:
    """Makes the client for a route, with the route's credential; connects to nobody yet.

    Args:
        route: Where and how to connect.
        store: Where the route's credential is looked up; None if there are no credentials.
        timeouts: The clocks.
        trace: Is told every step of connecting.

    Returns:
        A client, which the caller closes.

    Raises:
        SettingInvalid: The credential is unknown or cannot be sent that way. It is never left out.
    """
    credential = find_credential(store or _NoCredentials(), route.credential)
    return client_for(route, credential, timeouts=timeouts, trace=trace)


def client_for(
    route: ServerRoute,
    credential: Credential | None,
    *,
    timeouts: Timeouts | None = None,
    trace: Callable[[Step], None] | None = None,
) -> MCPClient:
    """Makes the client for a route from a credential that is at hand.

    Args:
        route: Where and how to connect.
        credential: The credential that the route names, or that of a credential port; None for no
            credential.
        timeouts: The clocks.
        trace: Is told every step of connecting.

    Returns:
        A client, which the caller closes.

    Raises:
        SettingInvalid: The credential cannot be sent that way.
    """
    from .mcp_client import MCPClient

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

    Args:
        route: The route.

    Raises:
        SettingInvalid: Its URL starts with ``stdio:``.
    """
    if route.url.startswith("stdio:"):
        raise SettingInvalid(
            "A server that is a command on this computer cannot be started from a workflow",
            setting="server_url",
            server=route.url,
            fix="Run it as an HTTP server and enter its URL, or use the command line: knime-mcp list --stdio",
        )


def as_setting_error(error: MCPError) -> Exception:
    """Makes KNIME's error for settings that cannot work.

    Args:
        error: What is wrong.

    Returns:
        The error to raise in ``configure``, with the same text.
    """
    import knime.extension as knext

    return knext.InvalidParametersError(str(error))


class _NoCredentials:
    def get_credential_names(self) -> list[str]:
        return []

    def get_credentials(self, name: str, /) -> Any:
        raise KeyError(name)


def _seconds(label: str, description: str, default: float) -> Any:
    import knime.extension as knext

    return knext.DoubleParameter(
        label, description, default_value=default, min_value=0.1, max_value=_LONGEST, is_advanced=True
    )
