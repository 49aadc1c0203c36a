"""The settings of a node for reaching a server: one function per parameter.

Provider, Caller and agents have these settings with the same labels and descriptions. Each node class makes
its own parameters here, as a KNIME parameter belongs to one node class, and arranges them in its dialog.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

import knime.extension as knext

from ...client.limits import Timeouts
from .credentials import NO_CREDENTIAL

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_LONGEST: Final = 24 * 3600.0


def server_url() -> Any:
    """Makes the parameter ``server_url``."""
    return knext.StringParameter(
        "Server URL",
        "Address of the MCP server, as its documentation gives it, such as `https://host/mcp`. Put no"
        " password or key into it: store it in a *Credentials Configuration* node and choose that under"
        " *Credentials*. Where a server wants its key in the URL, write `{credential.password}` there.",
        default_value="",
    )


def credentials() -> Any:
    """Makes the parameter ``credentials``, which offers the credentials among the flow variables."""
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
    """Offers *no credential* first, then all credentials. Never raises, as the dialog would not open then."""
    try:
        names = {str(name) for name in context.get_credential_names()}
    except Exception as error:
        _log.debug("No credentials in the dialog: %s", type(error).__name__)
        names = set[str]()
    # KNIME opens no dialog with a nameless choice.
    return [NO_CREDENTIAL, *sorted(names - {NO_CREDENTIAL, ""})]


def is_connected(port: int) -> Callable[[Any], bool]:
    """Makes the condition that an input is connected. It never raises, so that the dialog opens.

    Args:
        port: The input; a group is connected if it has a table.

    Returns:
        A callable for `knext.DialogContextCondition`.
    """

    def connected(context: Any) -> bool:
        try:
            spec = context.get_input_specs()[port]
            return bool(cast("list[Any]", spec)) if isinstance(spec, list) else spec is not None
        except Exception as error:
            _log.debug("Input %s in the dialog: %s", port, type(error).__name__)
            return False

    return connected


def send_credentials_as() -> Any:
    """Makes the parameter ``send_credentials_as``. Its value is the name of a `SendCredentialsAs`."""

    class Ways(knext.EnumParameterOptions):
        bearer = ("Bearer token", "The password is a token; the usual way.")
        basic = ("User name and password", "Basic authentication.")
        header = ("Header of its own", "The password goes into the header named below, for API keys.")
        client_credentials = (
            "OAuth client credentials",
            "User name and password are client id and client secret. They go to the authorization server"
            " named below, which gives a token for this server.",
        )

    return knext.EnumParameter(
        "Send credentials as",
        "How the server wants its credential. Its documentation says so.",
        default_value=Ways.bearer.name,
        enum=Ways,
        is_advanced=True,
    )


def header_name() -> Any:
    """Makes the parameter ``header_name``."""
    return knext.StringParameter(
        "Header for the credential",
        "Name of the header that carries the password, such as `X-API-Key`.",
        default_value="X-API-Key",
        is_advanced=True,
    )


def issuer() -> Any:
    """Makes the parameter ``issuer``."""
    return knext.StringParameter(
        "Issuer",
        "URL of the authorization server where the client is registered, such as `https://login.host/realm`."
        " The client secret is sent there and nowhere else, whatever the MCP server says.",
        default_value="",
        is_advanced=True,
    )


def scope() -> Any:
    """Makes the parameter ``scope``."""
    return knext.StringParameter(
        "Scopes",
        "Which permissions to ask for, separated by spaces. Empty asks for what the server says it needs.",
        default_value="",
        is_advanced=True,
    )


def extra_headers() -> Any:
    """Makes the parameter ``extra_headers``."""
    return knext.MultilineStringParameter(
        "Extra headers",
        "Further headers that the server asks for, one per line, as `Name: value`. A secret must not stand"
        " here: write `{credential.password}` or `{credential.username}` in its place.",
        default_value="",
        number_of_lines=3,
        is_advanced=True,
    )


def transport() -> Any:
    """Makes the parameter ``transport``. Its value is the name of a `TransportName`."""

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
    """Makes the parameter ``connect_timeout``, in seconds."""
    return _seconds(
        "Connect timeout (s)",
        "How long to wait until a connection to the server stands.",
        Timeouts().connect,
    )


def idle_timeout() -> Any:
    """Makes the parameter ``idle_timeout``, in seconds."""
    return _seconds(
        "Idle timeout (s)",
        "How long the server may be silent. Raise it for slow tools that report no progress.",
        Timeouts().idle,
    )


def total_timeout() -> Any:
    """Makes the parameter ``total_timeout``, in seconds."""
    return _seconds(
        "Total timeout (s)",
        "How long one listing or call may take in all, even while the server reports progress.",
        Timeouts().total,
    )


def _seconds(label: str, description: str, default: float) -> Any:
    return knext.DoubleParameter(
        label, description, default_value=default, min_value=0.1, max_value=_LONGEST, is_advanced=True
    )
