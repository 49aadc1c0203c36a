"""The parameters of the Caller, with descriptions for analysts, in the order of the dialog."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ...types.columns import may_hold_tools
from ...types.texts import shortened, visible
from ..calling_hints import decode_choices, offered
from ..node_settings import shared_parameters
from ..node_settings.connection import NO_COLUMN, chosen
from ..node_settings.shared_parameters import column_choices, labelled

if TYPE_CHECKING:
    from ..calling_hints import ToolChoice

_log = logging.getLogger(__name__)

BY_NAME: Final = "<by name>"
"""The choice to use *Tool name* instead. First and default: see `connection.NO_CREDENTIAL`."""
TOOLS, PARAMETERS = 0, 1  # ports
_LONGEST_DESCRIPTION: Final = 300
_SHORTEST_DESCRIPTION: Final = 60
_LONGEST_HELP: Final = 6000


# KNIME tells the functions that make the choices nothing of the settings, but loads them just before, in the
# same thread. So a saved choice is still offered when its Provider was reset, and not shown as missing.
loaded = threading.local()


class _Name(knext.StringParameter):
    """A text that is chosen where there is a choice, and else entered."""

    def _get_options(self, dialog_creation_context: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"format": "string"}  # without choices KNIME would draw an empty list


def _parameter_choices(context: Any) -> list[Any]:
    """The parameters of the chosen tool, and what the settings name. Never raises, see `_tool_choices`."""
    try:
        known = offered(decode_choices(context.flow_variables)).get(getattr(loaded, "called", "").strip())
        hints = () if known is None else known.parameters or ()
    except Exception as error:
        _log.debug("No parameters in the dialog: %s", type(error).__name__)
        hints = ()
    if not hints:
        return []
    labels = {hint.name: visible(hint.label) for hint in hints}
    others = {name: visible(f"{name} (not known now)") for name in getattr(loaded, "names", ())}
    return labelled((name, label, "") for name, label in (others | labels).items() if name)


@knext.parameter_group(label="Argument")
class _Argument:
    """An argument with name and value."""

    name = _Name(
        "Name",
        "Name of the parameter. The parameters of a tool that a Provider announced are offered with their"
        " types and defaults: after choosing the tool, apply and open the dialog again. Otherwise enter the"
        " name exactly as the tool has it.",
        default_value=lambda version: "",  # noqa: ARG005 - KNIME would replace an empty text by a choice
        choices=_parameter_choices,
    )
    value = knext.StringParameter(
        "Value",
        "The value. Text is taken as it is; numbers, `true`, `false`, and for lists and objects JSON such as"
        ' `["a", "b"]`, are read as such where the tool wants them.',
        default_value="",
    )


def _tool_choices(context: Any) -> list[Any]:
    """Offers the tools that Providers announced. Never raises, as the dialog would not open then."""
    try:
        tools = offered(decode_choices(context.flow_variables))
    except Exception as error:
        _log.debug("No tools in the dialog: %s", type(error).__name__)
        tools = {}
    room = _LONGEST_HELP // max(1, len(tools))  # KNIME writes all of them into the help of the setting
    first = (BY_NAME, "The tool named below", "Enter the name under *Tool name*.")
    choices = [
        (name, visible(entry.label(name)), visible(_about(entry, room))) for name, entry in tools.items()
    ]
    saved = getattr(loaded, "tool", BY_NAME)
    if context is not None and saved not in tools and saved not in ("", BY_NAME):
        choices.append(
            (saved, visible(f"{saved} (not known now)"), "The Provider of this tool was reset: execute it.")
        )
    return labelled([first, *choices])


def _has_credentials(context: Any) -> bool:
    is_chosen = chosen(getattr(loaded, "credentials", None)) is not None
    return is_chosen or len(shared_parameters.credential_choices(context)) > 1


def _about(entry: ToolChoice, room: int) -> str:
    if room < _SHORTEST_DESCRIPTION:
        return ""
    length = min(room, _LONGEST_DESCRIPTION)
    short = shortened(" ".join(entry.description.split()), length)
    return f"MCP tool at {entry.server}. {short}".removesuffix(". ")


def _json_columns(specs: list[Any]) -> list[str]:
    """Columns that can hold JSON: those of KNIME's JSON type, or text."""
    return [column.name for column in specs[PARAMETERS] or () if may_hold_tools(column)]


class CallerDialog:
    """What the node inherits, and a step of an audit workflow takes its defaults from."""

    # Connection
    server_url = shared_parameters.server_url()
    credentials = shared_parameters.credentials()

    # Tool
    tool = knext.StringParameter(
        "Tool",
        "Which tool to call. The tools of every *MCP Tool Provider* whose flow variables reach this node are"
        " offered here, with their parameters: connect the Provider's *Tools* table, or only its flow"
        f" variable port. Choose *The tool named below* (`{BY_NAME}`) to enter a name instead.",
        default_value=BY_NAME,
        choices=_tool_choices,
    )
    tool_name = knext.StringParameter(
        "Tool name",
        "Name of the tool to call: as the *Tools* table shows it, its RowID, or `name @ server` where several"
        " servers have a tool of that name. Without a *Tools* table, the name that the server knows.",
        default_value="",
    )
    tool_column = shared_parameters.tool_column(TOOLS)
    pinning = shared_parameters.pinning()
    # Arguments: an array has a heading of its own
    arguments = knext.ParameterArray(
        label="Arguments",
        description="What to call the tool with, as names and values; one that is empty is left out where it"
        " may be. With a *Parameters* table these are the same for every row, and a row's own values win.",
        parameters=_Argument(),
        layout_direction=knext.LayoutDirection.HORIZONTAL,
        button_text="Add argument",
        array_title="Argument",
    )
    arguments_json = knext.MultilineStringParameter(
        "Arguments as JSON",
        'Arguments as one JSON object, such as `{"city": "Konstanz", "days": 3}`, for values that are lists,'
        " objects, null or empty texts. Arguments entered as name and value win over these.",
        default_value="",
        number_of_lines=6,
        is_advanced=True,
    )
    arguments_column = knext.StringParameter(
        "Column with the arguments",
        "Which column of *Parameters* holds the arguments of a row as a JSON object: a JSON or String column."
        f" With `{NO_COLUMN}`, each column that is named like a parameter of the tool gives that argument.",
        default_value=NO_COLUMN,
        choices=column_choices(NO_COLUMN, _json_columns),
        is_advanced=True,
    )

    # Rows
    tool_per_row_column = knext.StringParameter(
        "Column with the tool's name",
        "Which column of *Parameters* names the tool of each row, as *Tool name* does. Choose"
        f" `{NO_COLUMN}` to call the same tool for every row.",
        default_value=NO_COLUMN,
        choices=column_choices(NO_COLUMN, lambda specs: shared_parameters.text_columns(specs[PARAMETERS])),
        is_advanced=True,
    )
    # Errors
    on_error = shared_parameters.on_error(
        "If a call fails",
        "What to do when a tool fails, cannot be reached, or does not take the arguments. See also *Resume an"
        " interrupted run*.",
    )
    resume = knext.BoolParameter(
        "Resume an interrupted run",
        "After a run that was canceled, failed or was killed: rows whose call gave a result are filled in"
        " from that run and not called again. Row, tool and arguments must be the same. The same after a"
        " run that came to its end, if its calls may have changed something and the workflow was opened anew"
        " since, as its tables may have been lost; a warning says so. Switch it off to make all calls again.",
        default_value=False,
        is_advanced=True,
    )
    # Output
    all_columns = knext.BoolParameter(
        "All columns",
        "In *Results* also the result as JSON, the first image, paths of files, the tool and its server,"
        " protocol and digest, the arguments as sent, times and attempts.",
        default_value=False,
        is_advanced=True,
    )
    # Audit
    secret_arguments = shared_parameters.secret_arguments()
    save_audit_workflow_to = shared_parameters.save_audit_workflow_to()

    # Advanced
    connection_options = shared_parameters.connection_options(
        " `concurrency = 4` is how many calls may be on their way at once (workflow tools run one by one)."
        " `digest = sha256:…` is the definition to call, from the *Tools* or *Results* table. Where a *Tools*"
        " table says how to reach the servers, only the times and `concurrency` stand here."
    )

    _with_tools = knext.DialogContextCondition(shared_parameters.is_connected(TOOLS))
    _with_parameters = knext.DialogContextCondition(shared_parameters.is_connected(PARAMETERS))
    server_url.rule(_with_tools, knext.Effect.HIDE)
    for _setting in (arguments_column, tool_per_row_column):
        _setting.rule(_with_parameters, knext.Effect.SHOW)
    tool_column.rule(_with_tools, knext.Effect.SHOW)
    tool_name.rule(knext.OneOf(tool, [BY_NAME]), knext.Effect.SHOW)
    # A choice among no credentials is none; how to get some is said where a server wants one.
    credentials.rule(
        knext.And(
            knext.DialogContextCondition(lambda context: not shared_parameters.is_connected(TOOLS)(context)),
            knext.DialogContextCondition(_has_credentials),
        ),
        knext.Effect.SHOW,
    )
    del _setting, _with_tools, _with_parameters
    shared_parameters.headings(
        Connection=[server_url],
        Tool=[tool],
        Rows=[tool_per_row_column],
        Errors=[on_error],
        Output=[all_columns],
        Audit=[secret_arguments],
        Advanced=[connection_options],
    )
