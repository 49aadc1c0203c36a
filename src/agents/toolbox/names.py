"""Makes names of tools for models: accepted by endpoints, unique, the same in every run, and reversible.

Endpoints accept ``[a-zA-Z0-9_-]{1,64}`` only. Tools of both types share the names, so a workflow and a
server's tool of the same name must not collide. A name does not depend on the order of the tools.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from ...tools.provider.tool_names import server_labels
from ...types.tool import MCPTool, WorkflowTool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...types.tool import Tool

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]|\A(?=[0-9-])")  # some endpoints require a letter or _ first
_LONGEST: Final = 64
_DIGITS: Final = 8


def bound_names(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Makes the names of tools for a model.

    A valid and unique name stays unchanged. Otherwise invalid characters become ``_``, and a name that is too
    long or not unique gets a digest of the tool's identity at its end. The tools must be distinct.
    """
    plain = [_UNFIT.sub("_", tool.name) or "tool" for tool in tools]
    name_counts = Counter(tool.name for tool in tools)
    fitted_counts = Counter(name[:_LONGEST] for name in plain)
    names: list[str] = []
    for tool, name in zip(tools, plain, strict=True):
        is_unchanged = name == tool.name and name_counts[name] == 1
        is_unique = fitted_counts[name[:_LONGEST]] == 1
        is_valid = len(name) <= _LONGEST and (is_unchanged or is_unique)
        names.append(name if is_valid else _with_digest(name, tool))
    # Equal names remain for tools with equal identities, and for names that look like another tool's digest.
    return numbered(names, "_{}", longest=_LONGEST)


def shown_names(tools: Sequence[Tool]) -> tuple[str, ...]:  # @ToolTypeDispatch
    """Makes names for people: ``name``, or if not unique ``name @ host`` and ``name @ workflow``."""
    servers = [tool.route.display for tool in tools if isinstance(tool, MCPTool)]
    labels = dict(zip(servers, server_labels(servers), strict=True))
    times = Counter(tool.name for tool in tools)
    shown: list[str] = []
    for tool in tools:
        if times[tool.name] == 1:
            shown.append(tool.name)
            continue
        match tool:
            case MCPTool():
                shown.append(f"{tool.name} @ {labels[tool.route.display]}")
            case WorkflowTool():
                shown.append(f"{tool.name} @ workflow")
            case _:
                assert_never(tool)
    return tuple(shown)


def numbered(names: Sequence[str], tail: str = " ({})", *, longest: int | None = None) -> tuple[str, ...]:
    """Makes names unique by numbers. The first of several equal names stays unchanged.

    Args:
        names: The names.
        tail: The format of the number behind a name.
        longest: The most characters of a name with its number, None for any length.

    Returns:
        Unique names; no numbered name equals another given name.
    """
    given, taken = set(names), set[str]()
    last: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        candidate, number = name, last.get(name, 1)
        while candidate in taken or (candidate != name and candidate in given):
            number += 1
            end = tail.format(number)
            candidate = name[: None if longest is None else longest - len(end)] + end
        last[name] = number
        taken.add(candidate)
        unique.append(candidate)
    return tuple(unique)


def _with_digest(name: str, tool: Tool) -> str:  # @ToolTypeDispatch
    match tool:
        case MCPTool():
            server = replace(tool.route, tool=None, digest=None).uri  # a new definition is no new tool
            identity = ("mcp", tool.name, server, tool.tool_name)
        case WorkflowTool():
            identity = ("workflow", tool.name, tool.schema_json)  # file store keys differ from run to run
        case _:
            assert_never(tool)
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[: _LONGEST - _DIGITS - 1]}_{digest}"
