"""The tools of the gateway: their definitions, the check of arguments, calls.

A `ToolSource` has tools. `ToolRegistry` has the tools of several sources; endpoints use nothing else.
"""

from __future__ import annotations

import copy
import difflib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import jsonschema_rs

from ...types.canonical import canonical_json
from ..answers.arguments import listed
from .errors import MCPError, MCPErrorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..answers.tool_definitions import ToolDefinition


class ToolSource(Protocol):
    """A provider of tools. Longer calls come from other threads."""

    def get_available_tools(self) -> Sequence[ToolDefinition]:
        """The tools, always in the same order."""
        ...

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs one of its tools with arguments that fit the tool's schema; gives the structured result.

        Raises:
            ArgumentsInvalid: They name something that is not there.
            MCPError: It failed, or they may not be used.
        """
        ...

    def is_brief(self, arguments: Mapping[str, Any]) -> bool:
        """Returns whether a call takes a few milliseconds, and needs no thread of its own."""
        del arguments
        return False

    def problem(self) -> str | None:
        """The reason why its tools do not work; None if they do. Fast, asked by every health check."""
        return None


@dataclass(frozen=True, slots=True)
class _Entry:
    tool: ToolDefinition
    source: ToolSource
    validator: Any
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ToolRegistry:
    """All tools of the gateway. Threads may share it.

    Args:
        sources: What has tools; of two tools with the same name the first is taken.
        most_results: Bound on lists and counts in arguments, see ``MCP_MAX_RESULTS_PER_TOOL``.
    """

    def __init__(self, sources: Iterable[ToolSource], *, most_results: int) -> None:
        self._sources = tuple(sources)
        self._entries: dict[str, _Entry] = {}
        for source in self._sources:
            for tool in source.get_available_tools():
                schema, defaults = bounded(tool.parameters, most_results)
                entry = _Entry(
                    replace(tool, parameters=schema), source, jsonschema_rs.validator_for(schema), defaults
                )
                self._entries.setdefault(tool.name, entry)

    def get_available_tools(self) -> list[ToolDefinition]:
        """The tools, always in the same order."""
        return [entry.tool for entry in self._entries.values()]

    def find(self, name: str) -> ToolDefinition:
        """A tool by name.

        Raises:
            MCPError: There is none; names the nearest ones.
        """
        return self._entry(name).tool

    def validate_tool_params(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checks arguments against the tool's schema.

        Args:
            name: The tool.
            arguments: What was sent.

        Returns:
            The arguments, with text that is not valid Unicode replaced, and counts that were left out as low
            as the bound on results wants them.

        Raises:
            MCPError: There is no such tool, or they do not fit; says where and what is wanted.
        """
        entry = self._entry(name)
        try:
            clean: dict[str, Any] = json.loads(canonical_json(dict(arguments)))
        except (ValueError, RecursionError):
            raise does_not_fit(name, "", "a number that JSON does not have, or too deeply nested") from None
        clean = {**entry.defaults, **clean}
        schema = entry.tool.parameters
        missing = next((wanted for wanted in schema.get("required", ()) if wanted not in clean), None)
        if missing is not None:
            raise does_not_fit(
                name, f"/{missing}", f"The argument '{missing}' is missing. Arguments: {listed(schema)}."
            )
        try:
            found = next(iter(entry.validator.iter_errors(clean)), None)
        except ValueError as error:
            # Numbers beyond what the validator's own numbers hold.
            raise does_not_fit(name, "", type(error).__name__) from None
        if found is not None:
            pointer = "".join(f"/{_escaped(part)}" for part in found.instance_path)
            raise does_not_fit(name, pointer, _what_is_wanted(schema, found))
        return clean

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a tool in the calling thread, with arguments as `validate_tool_params` gave them.

        Raises:
            Exception: It failed, see `as_mcp_error`.
        """
        return dict(self._entry(name).source.invoke_tool(name, arguments))

    def is_brief(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """See `ToolSource.is_brief`."""
        return self._entry(name).source.is_brief(arguments)

    def available(self, name: str) -> bool:
        """Returns whether what a tool needs is there.

        Raises:
            MCPError: There is no such tool.
        """
        return self._entry(name).source.problem() is None

    def problem(self) -> str | None:
        """The reason why tools do not work; None if they do."""
        return next((problem for source in self._sources if (problem := source.problem())), None)

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            near = difflib.get_close_matches(name[:100], self._entries, n=3, cutoff=0.5)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise MCPError(
                MCPErrorType.TOOL_NOT_FOUND,
                "A tool was asked for that does not exist",
                f"There is no such tool.{hint} GET the list of tools for all names.",
                details={"suggestions": near, "available_tools": list(self._entries)},
            )
        return entry


def bounded(schema: Mapping[str, Any], most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of arguments with the limit for results in it, so that clients know it.

    Args:
        schema: Schema of a tool's arguments.
        most: Most results, and most entries of a list.

    Returns:
        The schema, and arguments to send where the tool's own default is above the bound.
    """
    found = copy.deepcopy(dict(schema))
    defaults: dict[str, Any] = {}
    properties: dict[str, Any] = found.get("properties") or {}
    for name, value in properties.items():
        if not isinstance(value, dict):
            continue
        entry = cast("dict[str, Any]", value)
        if name == "max_results":
            entry["maximum"] = min(most, entry.get("maximum", most))
            if isinstance(entry.get("default"), int) and entry["default"] > most:
                entry["default"] = defaults[name] = most
        elif entry.get("type") == "array":
            entry["maxItems"] = min(most, entry.get("maxItems", most))
    return found, defaults


def does_not_fit(name: str, pointer: str, what: str) -> MCPError:
    """The error for arguments that do not fit.

    Args:
        name: The tool.
        pointer: Where in the arguments, as a JSON pointer.
        what: What is wrong.
    """
    where = f" at {pointer}" if pointer else ""
    return MCPError(
        MCPErrorType.PARAMETER_ERROR,
        # Without the place: names of arguments are the client's own.
        f"Arguments of {name} do not fit its schema",
        f"The arguments of {name} do not fit its schema{where}: {what}",
        details={"pointer": pointer},
    )


def _what_is_wanted(schema: Mapping[str, Any], error: Any) -> str:
    """The message of an error, without long values."""
    text = str(error.message)
    text = text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}"
    unknown = not error.instance_path and "additionalProperties" in map(str, error.schema_path)
    return f"{text}. Arguments: {listed(schema)}." if unknown else text


def _escaped(part: Any) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
