"""Messages after listing servers: the error that stops a node, or one combined warning.

A failed node has no output in KNIME, so its message contains all information: the failed phase, the reason,
and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...types.errors import MCPError
from ...types.short_texts import counted
from ..hidden_text import visible
from ..node_settings.credentials import sent_in_clear

if TYPE_CHECKING:
    from .provide import Provision, ServerOutcome


def failure(provision: Provision) -> MCPError:
    """Makes the error if a failed server stops the node.

    It describes the first failed server: the failed phase, the reason, and what to do next.
    """
    failed = provision.failed
    first = failed[0]
    error = first.error
    assert error is not None, "it failed"
    many = len(provision.outcomes) > 1
    lead = f"{len(failed)} of {len(provision.outcomes)} servers failed. The first: " if many else ""
    others = [f"{each.request.server or each.request.row} ({each.phase})" for each in failed[1:6]]
    more = f" Also failed: {', '.join(others)}." if others else ""
    warn = "set 'If a server fails' to 'Warn and go on'"
    keep = (
        f" To keep the tools of the others, {warn}."
        if many
        else f" To see every step of the connection in the view, {warn}."
    )
    fix = error.fix or "Check the URL in a browser or with whoever runs the server"
    return MCPError(
        visible(f"{lead}No tools, because phase '{first.phase}' failed: {error.what}"),
        server=error.server or first.request.server or None,
        row=first.request.row if many else None,
        fix=f"{fix.rstrip('.')}.{more}{keep}",
    )


def warnings(provision: Provision) -> list[str]:
    """Collects the warnings, the most important first."""
    if not provision.outcomes:
        return ["The Servers table has no rows, so no server was asked."]
    failed = provision.failed
    messages: list[str] = []
    if failed:
        error = failed[0].error
        messages.append(
            f"{len(failed)} of {counted(len(provision.outcomes), 'server')} failed; first, in phase"
            f" '{failed[0].phase}': {error} The Servers table and the view say more."
        )
    messages += _finding_warnings(provision)
    messages += [
        f"Your credential is sent unencrypted to {outcome.request.server}. Use https if the server offers it."
        for outcome in provision.outcomes
        if outcome.request.credential and outcome.error is None and sent_in_clear(outcome.request.server)
    ]
    messages += _name_warnings(provision)
    messages += [
        f"{outcome.request.server} offers '{name}' in a form that cannot be used: {why}"
        f"{'' if len(outcome.dropped) == 1 else f' ({len(outcome.dropped) - 1} more)'}."
        for outcome in provision.outcomes
        for name, why in outcome.dropped[:1]
    ]
    messages += [
        f"{outcome.request.server} {_why_empty(outcome)}"
        for outcome in provision.outcomes
        if not outcome.tools and outcome.error is None
    ]
    return [visible(text) for text in messages]  # names and messages are texts of servers


def _finding_warnings(provision: Provision) -> list[str]:
    suspicious = [tool for tool in provision.tools if tool.findings]
    messages = [
        f"{outcome.request.server}: the server's instructions have security findings; first:"
        f" {outcome.findings[0].what}"
        for outcome in provision.outcomes
        if outcome.findings
    ]
    if suspicious:
        name, first = suspicious[0].shown_name, suspicious[0].findings[0]
        messages.append(
            f"{counted(len(suspicious), 'tool')} of {len(provision.tools)} with security findings; first:"
            f" '{name}' at {first.where or '/'}: {first.what.rstrip('.')}."
            " Read them in the column Security findings before a model gets these tools."
        )
    return messages


def _name_warnings(provision: Provision) -> list[str]:
    messages: list[str] = []
    ambiguous, repeated = provision.names.ambiguous, provision.names.repeated
    if ambiguous:
        messages.append(
            f"{counted(len(ambiguous), 'tool name')} on several servers (first: '{ambiguous[0]}');"
            " they are shown as 'name @ server'. Give each server a prefix for shorter names."
        )
    if repeated:
        server, name = repeated[0]
        messages.append(f"{server} lists '{name}' more than once; a call reaches whichever the server takes.")
    if provision.useless_patterns:
        messages.append(
            f"No tool matches {', '.join(repr(pattern) for pattern in provision.useless_patterns)}."
        )
    return messages


def _why_empty(outcome: ServerOutcome) -> str:
    if outcome.offered:
        return f"lists {counted(outcome.offered, 'tool')}, but the settings include none of them."
    return "lists no tools. Its tools may depend on who asks: check the credential."
