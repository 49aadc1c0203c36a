"""The Replayer's own settings and input: parameters, with descriptions for analysts, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import knime.extension as knext

from ..tools.node_settings.connection import find_credential
from ..types.errors import InputInvalid, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..runs.replay_comparison import ReplayRules
    from ..runs.replaying import Recording, ReplayOptions


@knext.parameter_group(label="Server")
class ServerPair:
    """A server and the one to call instead."""

    recorded = knext.StringParameter(
        "On record",
        "The server as the column *Server* has it, or the beginning of its URL.",
        default_value="",
    )
    new = knext.StringParameter(
        "Call instead",
        "URL of the server to call. A credential follows only to the same origin; for another one, or another"
        " credential, write `https://host/mcp#credential=name`.",
        default_value="",
    )


@knext.parameter_group(label="Tool")
class ToolPair:
    """A tool and what it is called now."""

    recorded = knext.StringParameter("On record", "Name of the tool in the table.", default_value="")
    new = knext.StringParameter("Now", "Name under which the server knows it now.", default_value="")


@knext.parameter_group(label="Secret")
class SecretPair:
    """A mark in recorded arguments, and the credential whose password it stands for."""

    digest = knext.StringParameter(
        "Mark", "The twelve digits in the mark that stands for the secret.", default_value=""
    )
    credential = knext.StringParameter(
        "Credential",
        "Name of the credential whose password is the secret; connect a *Credentials Configuration* node.",
        default_value="",
    )


also_call = knext.MultilineStringParameter(
    "Also call",
    "Tools to call although they are not declared as read-only, one name per line, with `*` for any text:"
    " `create_draft` or `test_*`. **Each of them does again what it did.** Workflows run only if they are"
    " named here. All other tools that may change something get a dry run.",
    default_value="",
    number_of_lines=3,
)

servers = knext.ParameterArray(
    label="Other servers",
    description="Servers to call instead of those on record, for instance a test system.",
    parameters=ServerPair(),
    layout_direction=knext.LayoutDirection.HORIZONTAL,
    button_text="Add server",
    array_title="Server",
)

ignore = knext.MultilineStringParameter(
    "Ignore",
    "What may differ, one rule per line. A JSON pointer with `*` for any member:"
    " `/structured_result/time` as in the column *Patch*, or `/items/*/id` within the result. Anything"
    r" else is a regular expression, and what it matches is ignored: `\d\d:\d\d:\d\d`.",
    default_value="",
    number_of_lines=3,
)

twice = knext.BoolParameter(
    "Call twice",
    "Makes each read-only call twice, a moment apart. What differs between the two differs by itself, and may"
    " differ from the record. *Summary* and view name each rule that is learned; the flow variable"
    " `mcp_replay_rules` has all rules.",
    default_value=False,
    is_advanced=True,
)

rules = knext.MultilineStringParameter(
    "Rules",
    "Further rules as JSON, also about lists in another order and numbers with another rounding: the content"
    " of a file of `knime-mcp replay --write-rules`, or the flow variable `mcp_replay_rules` of another"
    " Replayer.",
    default_value="",
    number_of_lines=3,
    is_advanced=True,
)

call_changed = knext.BoolParameter(
    "Call changed tools",
    "A tool whose definition is not the one on record is not called. Switch this on to call it"
    " nevertheless and compare the results, after you have read its new definition.",
    default_value=False,
    is_advanced=True,
)

tool_mapping = knext.ParameterArray(
    label="Renamed tools",
    description="Tools that the server calls something else now. The new name is no change of the tool;"
    " everything else still is.",
    parameters=ToolPair(),
    layout_direction=knext.LayoutDirection.HORIZONTAL,
    button_text="Add tool",
    array_title="Tool",
    is_advanced=True,
)

secrets = knext.ParameterArray(
    label="Secret arguments",
    description="Secrets are not on record: a mark with twelve digits stands in their place, and the call"
    " is skipped. Say here which credential's password a mark stands for.",
    parameters=SecretPair(),
    layout_direction=knext.LayoutDirection.HORIZONTAL,
    button_text="Add secret",
    array_title="Secret",
    is_advanced=True,
)

expected_head = knext.StringParameter(
    "Expected head hash",
    "The flow variable `mcp_audit_head` of the run on record. With it the *Summary* also tells whether"
    " calls are missing at the end of the table.",
    default_value="",
    is_advanced=True,
)


def check(node: Any, schema: Any) -> None:
    """Checks the settings of a node with the parameters of this module; makes no connection."""
    options_of(node, {})
    names = [column.name for column in schema]
    missing = [name for name in ("Tool name", "Arguments") if name not in names]
    if missing:
        raise SettingInvalid(
            f"The table has no column {' and no column '.join(missing)}: it holds no calls",
            setting="also_call",
            fix="Connect the Tool calls output of an agent, the Results of an MCP Tool Caller, or a file with"
            " one of them",
        )


def nothing_to_compare(schema: Any) -> str | None:
    """The warning for an input without results, whose calls have nothing to be compared with."""
    if {"Result", "Structured result"} & {column.name for column in schema}:
        return None
    return "The table has no column Result, so there was nothing to compare with what tools answer now."


def options_of(node: Any, passwords: dict[str, str]) -> ReplayOptions:
    """Reads the settings; `passwords` are those of the credentials that ``secrets`` names, by name."""
    from ..runs.replaying import ReplayOptions, pairs
    from ..types.routing import ServerRoute

    servers = pairs(((pair.recorded, pair.new) for pair in node.servers), "servers")
    # Read here only to have `configure` refuse what cannot be a server, before anything is called.
    for new in servers.values():
        ServerRoute.parse(new)
    marks = pairs(((pair.digest, pair.credential) for pair in node.secrets), "secrets")
    return ReplayOptions(
        also_call=tuple(filter(None, (line.strip() for line in node.also_call.splitlines()))),
        call_changed=node.call_changed,
        servers=servers,
        tools=pairs(((pair.recorded, pair.new) for pair in node.tool_mapping), "tool_mapping"),
        # In `configure` there are none yet.
        secrets={digest: passwords[name] for digest, name in marks.items() if name in passwords},
        rules=_rules(node),
        twice=node.twice,
    )


def _rules(node: Any) -> ReplayRules:
    from ..runs.replay_comparison import ReplayRules

    own = ReplayRules.parse(node.ignore.splitlines())
    return own.and_(
        ReplayRules.of_json(node.rules, "The setting 'Rules'").rules if node.rules.strip() else ()
    )


def recording_of_input(calls: Any, head: str) -> Recording:
    """Reads the node's input; `head` is the expected head hash, or empty. `InputInvalid` for no records."""
    from ..audit.table_formats import TableError
    from ..runs.replaying import recording_of
    from ..types.columns import read_tools, tool_column_names

    schema = calls.schema
    names = tool_column_names(schema)
    tools = read_tools(calls) if names else None
    # KNIME's own Python cannot read a missing tool cell as a value.
    others = [column.name for column in schema if column.name not in names]
    arrow = calls[others].get().to_pyarrow()
    try:
        return recording_of(
            arrow.drop_columns([arrow.column_names[0]]),
            tools,
            arrow.column(0).to_pylist(),
            head=head.strip() or None,
        )
    except TableError as error:
        raise InputInvalid(str(error), fix="Look at the table of the node before this one") from None


def passwords(ctx: Any, secrets: Iterable[Any]) -> dict[str, str]:
    """The passwords of the credentials that the setting ``secrets`` names, by credential name."""
    by_name: dict[str, str] = {}
    for pair in secrets:
        credential = find_credential(ctx, pair.credential.strip() or None)
        if credential is not None:
            by_name[credential.name] = credential.password
    return by_name
