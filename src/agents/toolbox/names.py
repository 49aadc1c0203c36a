"""Names of tools for models: what a model's endpoint accepts, unique, the same in every run, and reversible.

Endpoints take ``[a-zA-Z0-9_-]{1,64}`` only. Tools of both types share the names, so a workflow and a server's
tool of the same name must not collide. A name never depends on the order of the tools.
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

_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]|\A(?=[0-9-])")  # some endpoints want a letter or _ first
_LONGEST: Final = 64
_DIGITS: Final = 8


def bound_names(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Names tools for a model.

    A name that fits and that no other tool has stays as it is. Otherwise unfit characters become ``_``, and
    where that is too long or not unique, a digest of what identifies the tool is put behind it. None of the
    tools may be there twice.
    """
    plain = [_UNFIT.sub("_", tool.name) or "tool" for tool in tools]
    shown = Counter(tool.name for tool in tools)
    wanted = Counter(name[:_LONGEST] for name in plain)
    named: list[str] = []
    for tool, name in zip(tools, plain, strict=True):
        own = name == tool.name and shown[name] == 1
        alone = wanted[name[:_LONGEST]] == 1
        named.append(name if len(name) <= _LONGEST and (own or alone) else _with_digest(name, tool))
    # Left are tools that nothing tells apart, and texts that look like a digest by accident or on purpose.
    return numbered(named, "_{}", longest=_LONGEST)


def shown_names(tools: Sequence[Tool]) -> tuple[str, ...]:  # @ToolTypeDispatch
    """Names tools for people: ``name``; ``name @ host`` or ``name @ workflow`` where that is not unique."""
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
    """Tells equal names apart by numbers. The first of them stays as it is.

    Args:
        names: The names.
        tail: What is put behind a name, with a place for the number.
        longest: How long a name may be with it, None for any length.

    Returns:
        Unique names, none of them another one of those given.
    """
    given, seen = set(names), set[str]()
    last: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        found, number = name, last.get(name, 1)
        while found in seen or (found != name and found in given):
            number += 1
            end = tail.format(number)
            found = name[: None if longest is None else longest - len(end)] + end
        last[name] = number
        seen.add(found)
        unique.append(found)
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
