"""Parameters and a port that several nodes have, with the same labels and descriptions: one function each.

Each node class makes its own parameters here, as a KNIME parameter belongs to one node class, and arranges
them in its dialog.
"""

from __future__ import annotations

import logging
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, cast

import knime.extension as knext

from ...client.limits import Timeouts
from ...types.columns import AUTO, may_hold_tools, tool_column_names
from .connection import NO_CREDENTIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_log = logging.getLogger(__name__)
_LONGEST: Final = 24 * 3600.0

_IN_TOOLS: Final = (
    f"Which column of the *Tools* table holds the tools. `{AUTO}` takes all tool columns: in each row the"
    " first cell that is not missing. A String column with tools that was renamed has to be chosen here."
)


def credential_port(to_whom: str) -> Any:
    """The port for a credential; the rest of its description says to whom the token is sent."""
    return knext.input_port(
        "Credential",
        "Optional: who you are, from a node such as *OAuth2 Authenticator* or *Secrets Retriever*. Its token"
        f" is sent as Bearer token to {to_whom}",
        knext.PortType.CREDENTIAL,
        optional=True,
    )


def headings(**firsts: list[Any]) -> None:
    """Draws headings in the dialog above parameters, by label; what follows a parameter belongs there, too.

    Where a heading has several parameters, one of them is shown at a time. KNIME draws headings only for
    groups and arrays. In a group, the keys of the settings would be nested, and keys are what saved
    workflows hold. So the parameter describes itself as KNIME describes an array: a section with one
    control. A KNIME that asks in another way shows the dialog without headings.
    """
    for label, parameters in firsts.items():
        for parameter in parameters:
            parameter._extract_ui_schema = _below_heading(label, parameter)


def _below_heading(label: str, parameter: Any) -> Callable[..., dict[str, Any]]:
    def describe(*context: Any, **named: Any) -> dict[str, Any]:
        control = cast("Any", type(parameter))._extract_ui_schema(parameter, *context, **named)
        scope = f"#/properties/model/properties/{parameter._name}"
        # KNIME adds the rule of the parameter to what is described here, so it hides the heading, too.
        return {
            "type": "Section",
            "label": label,
            "scope": "#",  # not that of the control, which would be there twice
            "options": {"isAdvanced": True} if parameter._is_advanced else {},
            "elements": [{"scope": scope, **control}],
        }

    return describe


class _ServerUrl(knext.StringParameter):
    """A text to enter, for which KNIME's dialog suggests the names of `knime-mcp config`.

    KNIME has fields with suggestions since 5.10; before, they would be closed lists, so that no URL could be
    entered. KNIME's Python has no name for them yet. In all versions, the help lists the names.
    """

    def _get_options(self, dialog_creation_context: Any) -> dict[str, Any]:  # noqa: ARG002
        names = _server_names()
        if not names or not _has_suggestions():
            return {"format": "string"}
        values = [{"id": name, "text": name} for name in names]
        return {"format": "dropDown", "allowNewValue": True, "possibleValues": values}

    def _extract_schema(self, *context: Any, **named: Any) -> dict[str, Any]:
        schema = super()._extract_schema(*context, **named)
        names = ", ".join(f"`{name}`" for name in _server_names())
        return {**schema, "description": f"{self.__doc__} Names: {names}."} if names else schema


def _has_suggestions() -> bool:
    """Whether this is KNIME 5.10 or later, whose Python can hide members of enumerations."""
    return "hidden_choices" in signature(knext.EnumParameter.__init__).parameters


def _server_names() -> list[str]:
    """The names of `knime-mcp config`. Never raises, as the dialog would not open then."""
    from .named_servers import is_name, known_entries  # late, as only dialogs ask

    try:
        return sorted(filter(is_name, known_entries()))
    except Exception as error:
        _log.debug("No names of servers in the dialog: %s", type(error).__name__)
        return []


def server_url() -> Any:
    return _ServerUrl(
        "Server URL",
        "Address of the MCP server, as its documentation gives it, such as `https://host/mcp`. Put no"
        " password or key into it: store it in a *Credentials Configuration* node and choose that under"
        " *Credentials*. Where a server wants its key in the URL, write `{credential.password}` there."
        " A server to which `knime-mcp config add` gave a name on this computer can be entered by that name.",
        default_value="",
    )


def credentials() -> Any:
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
    """The condition that an input is connected, for `knext.DialogContextCondition`.

    A group is connected if it has a table. It never raises, so that the dialog opens.
    """

    def connected(context: Any) -> bool:
        try:
            spec = context.get_input_specs()[port]
            # A port group is a list, which is empty if nothing is connected to it.
            return bool(cast("list[Any]", spec)) if isinstance(spec, list) else spec is not None
        except Exception as error:
            _log.debug("Input %s in the dialog: %s", port, type(error).__name__)
            return False

    return connected


def extra_headers() -> Any:
    return knext.MultilineStringParameter(
        "Extra headers",
        "Further headers that the server asks for, one per line, as `Name: value`. A secret must not stand"
        " here: write `{credential.password}` or `{credential.username}` in its place.",
        default_value="",
        number_of_lines=3,
        is_advanced=True,
    )


def connection_options(more: str = "") -> Any:
    """The setting for what few servers need, which `connection.ConnectionSettings` reads."""
    return knext.MultilineStringParameter(
        "Connection options",
        "What few servers need, each on a line of its own as `name = value`. `send_credentials_as = basic`"
        " sends user name and password, where the password is usually sent as a Bearer token;"
        " `header_name = X-API-Key` sends the password in that header. `issuer = https://login.host/realm`"
        " uses user name and password as client id and secret of OAuth: they go to this authorization server"
        " and nowhere else, which gives a token (a private key in PEM as password goes nowhere: it signs);"
        " `scope = a b` are the permissions to ask for. `header = X-Team: sales` is a further header, whose"
        " secrets stand as `{credential.password}` or `{credential.username}`. `transport = http` or `sse`"
        " saves finding out. `idle_timeout = 60` is how many seconds the server may be silent,"
        " `total_timeout = 300` how long one answer may take in all, `connect_timeout = 10` how long"
        f" connecting may take.{more}",
        default_value="",
        number_of_lines=3,
        is_advanced=True,
    )


def connect_timeout() -> Any:
    return _seconds(
        "Connect timeout (s)",
        "How long to wait until a connection to the server stands.",
        Timeouts().connect,
    )


def idle_timeout() -> Any:
    return _seconds(
        "Idle timeout (s)",
        "How long the server may be silent. Raise it for slow tools that report no progress.",
        Timeouts().idle,
    )


def total_timeout() -> Any:
    return _seconds(
        "Total timeout (s)",
        "How long one listing or call may take in all, even while the server reports progress.",
        Timeouts().total,
    )


def _seconds(label: str, description: str, default: float) -> Any:
    return knext.DoubleParameter(
        label, description, default_value=default, min_value=0.1, max_value=_LONGEST, is_advanced=True
    )


class OnError(knext.EnumParameterOptions):
    row = (
        "Make an error row",
        "The others go on. The row says what went wrong and what to do.",
    )
    fail = ("Fail", "The node fails at the first error. What has finished is kept in its journal.")


def on_error(label: str, description: str) -> Any:
    return knext.EnumParameter(
        label,
        description,
        default_value=OnError.row.name,
        enum=OnError,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
        is_advanced=True,
    )


class _PinningChoice(knext.EnumParameterOptions):
    warn = ("Warn", "Call the tool as it is now, and say on the node what changed.")
    fail = ("Do not call", "Calls of a changed tool become errors; nothing is sent.")
    ignore = ("Do not compare", "Saves asking each server for its tools once.")


def tool_column(port: int, description: str = _IN_TOOLS) -> Any:
    return knext.StringParameter(
        "Tool column",
        description,
        default_value=AUTO,
        choices=column_choices(AUTO, lambda specs: _tool_columns(specs[port])),
        is_advanced=True,
    )


def pinning() -> Any:
    return knext.EnumParameter(
        "If a tool has changed",
        "A tool cell remembers the definition that you saw in the *MCP Tool Provider*. Before the first call"
        " the server is asked whether it still is the same.",
        default_value=_PinningChoice.warn.name,
        enum=_PinningChoice,
        is_advanced=True,
    )


def save_audit_workflow_to() -> Any:
    return knext.StringParameter(
        "Save audit workflow to",
        "Saves the calls as a KNIME workflow (`.knwf`) to import: one configured *MCP Tool Caller* per call."
        " Enter a folder, for a file per run, or a file name ending in `.knwf`, which each run replaces."
        " What is not a full path is in the workflow's data area, such as `mcp-audit`. Empty saves nothing.",
        default_value="",
        is_advanced=True,
    )


def labelled(choices: Iterable[tuple[str, str, str]]) -> list[Any]:
    """Choices of value, label and description; before KNIME 5.8 choices are plain values."""
    choice = getattr(knext.StringParameter, "Choice", None)
    return [entry[0] if choice is None else choice(*entry) for entry in choices]


def text_columns(schema: Any | None) -> list[str]:
    return [column.name for column in schema or () if column.ktype == knext.string()]


def column_choices(first: str, columns: Callable[[list[Any]], list[str]]) -> Callable[[Any], list[str]]:
    """Makes the function that gives KNIME the choices of a parameter that names a column.

    ``first`` is the default and stands for no column. ``columns`` gives the names from the specs of the
    node's inputs; if it raises, no columns are offered, so that the dialog opens.
    """

    def offered(context: Any) -> list[str]:
        try:
            names = columns(list(context.get_input_specs()))
        except Exception as error:
            _log.debug("No columns in the dialog: %s", type(error).__name__)
            names = []
        return [first, *(name for name in names if name != first)]

    return offered


def _tool_columns(schema: Any) -> list[str]:
    """The tool columns; without any, every column that could hold tools as JSON."""
    if schema is None:
        return []
    return tool_column_names(schema) or [column.name for column in schema if may_hold_tools(column)]


def secret_arguments() -> Any:
    """The setting with the names of arguments that are secret, beside those that their names tell."""
    return knext.StringParameter(
        "Names of secret arguments",
        "Arguments that no journal, table, view or exported workflow may show, separated by commas: names, or"
        " JSON pointers such as `/login/code`. Arguments that the tool declares as secret, and those with"
        " names such as `password`, `api_key` or `token`, are hidden without being named here.",
        default_value="",
        is_advanced=True,
    )
