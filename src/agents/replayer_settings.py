"""The Replayer's own settings and input: parameters, with descriptions for analysts, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ..tools.node_settings import shared_parameters
from ..tools.node_settings.connection import find_credential
from ..types.errors import InputInvalid, SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..runs.replay_decision import ReplayOptions
    from ..runs.replay_rules import ReplayRules
    from ..runs.replaying import Recording

_MOST_CONCURRENT: Final = 64


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
        "URL of the server to call. A credential follows only to the same origin; for another one write"
        " `https://host/mcp#credential=name`.",
        default_value="",
    )


@knext.parameter_group(label="Tool")
class ToolPair:
    """A tool and what it is called now."""

    recorded = knext.StringParameter("On record", "Name of the tool in the table.", default_value="")
    new = knext.StringParameter("Now", "Name under which the server knows it now.", default_value="")


@knext.parameter_group(label="Credential")
class CredentialPair:
    """A credential and the one to use instead."""

    recorded = knext.StringParameter(
        "On record", "Name of the credential that the tools name.", default_value=""
    )
    new = knext.StringParameter(
        "Use instead", "Name of the credential to send instead; empty sends none.", default_value=""
    )


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

rows = knext.StringParameter(
    "Only these calls",
    "Numbers of calls as in the column *Call*, ranges, or RowIDs as in *Input row*, separated by commas:"
    " `3, 7-12, Row5`. Empty replays all of them.",
    default_value="",
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

unordered = knext.MultilineStringParameter(
    "Unordered lists",
    "JSON pointers to lists that may have another order, one per line, as in the column *Patch*:"
    " `/structured_result/items`, or `/items` for the list of the result. Of a text, its lines: `/result`.",
    default_value="",
    number_of_lines=2,
    is_advanced=True,
)

tolerance = knext.DoubleParameter(
    "Tolerance",
    "Numbers may differ by this part of the larger one: with `1e-9`, 0.1 + 0.2 is 0.3. Of two integers each"
    " digit counts. 0 compares exactly.",
    default_value=0.0,
    min_value=0.0,
    max_value=0.5,
    is_advanced=True,
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
    "Further rules as JSON: the content of a file of `knime-mcp replay --write-rules`, or the flow variable"
    " `mcp_replay_rules` of another Replayer.",
    default_value="",
    number_of_lines=3,
    is_advanced=True,
)

stop_at_first_difference = knext.BoolParameter(
    "Stop at the first difference",
    "Makes one call at a time and none after the first that is not the same. The others are *skipped*.",
    default_value=False,
    is_advanced=True,
)

dry_run = knext.BoolParameter(
    "Dry run",
    "Calls no tool at all. Servers are asked for their present tools, and the arguments are checked.",
    default_value=False,
    is_advanced=True,
)

force_altered = knext.BoolParameter(
    "Replay altered records",
    "Records that are not as they were written may hold other calls than those that were made, so nothing of"
    " them is called. Switch this on if you know what was changed.",
    default_value=False,
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

credential_mapping = knext.ParameterArray(
    label="Other credentials",
    description="Credentials to use instead of those that the tools name.",
    parameters=CredentialPair(),
    layout_direction=knext.LayoutDirection.HORIZONTAL,
    button_text="Add credential",
    array_title="Credential",
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

secret_arguments = shared_parameters.secret_arguments()

expected_head = knext.StringParameter(
    "Expected head hash",
    "The flow variable `mcp_audit_head` of the run on record. With it the *Summary* also tells whether"
    " calls are missing at the end of the table.",
    default_value="",
    is_advanced=True,
)

concurrency = knext.IntParameter(
    "Calls at a time",
    "How many read-only calls may be on their way at once. All other calls wait for those before them.",
    default_value=4,
    min_value=1,
    max_value=_MOST_CONCURRENT,
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
            setting="tool_column",
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
    from ..runs.replay_decision import ReplayOptions, RowSelection, pairs
    from ..types.routing import ServerRoute

    servers = pairs(((pair.recorded, pair.new) for pair in node.servers), "servers")
    # Read here only to have `configure` refuse what cannot be a server, before anything is called.
    for new in servers.values():
        ServerRoute.parse(new)
    marks = pairs(((pair.digest, pair.credential) for pair in node.secrets), "secrets")
    return ReplayOptions(
        also_call=tuple(filter(None, (line.strip() for line in node.also_call.splitlines()))),
        call_changed=node.call_changed,
        dry_run=node.dry_run,
        force_altered=node.force_altered,
        rows=RowSelection.parse(node.rows),
        servers=servers,
        tools=pairs(((pair.recorded, pair.new) for pair in node.tool_mapping), "tool_mapping"),
        credentials=pairs(
            ((pair.recorded, pair.new) for pair in node.credential_mapping), "credential_mapping"
        ),
        # In `configure` there are none yet.
        secrets={digest: passwords[name] for digest, name in marks.items() if name in passwords},
        stop_at_first_difference=node.stop_at_first_difference,
        rules=_rules(node),
        twice=node.twice,
        concurrency=node.concurrency,
    )


def _rules(node: Any) -> ReplayRules:
    from ..runs.replay_rules import ReplayRules

    own = ReplayRules.parse(node.ignore.splitlines(), node.unordered.splitlines(), node.tolerance)
    return own.and_(
        ReplayRules.of_json(node.rules, "The setting 'Rules'").rules if node.rules.strip() else ()
    )


def recording_of_input(calls: Any, tool_column: str, head: str) -> Recording:
    """Reads the node's input; `head` is the expected head hash, or empty. `InputInvalid` for no records."""
    from ..audit.table_formats import TableError
    from ..runs.replaying import recording_of
    from ..types.columns import read_tools, tool_column_names

    schema = calls.schema
    names = tool_column_names(schema, tool_column)
    tools = read_tools(calls, tool_column) if names else None
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
