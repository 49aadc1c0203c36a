"""The tools of the gateway: their definitions, the check of arguments, and calls.

A `ToolSource` provides tools. `ToolRegistry` joins the tools of several sources; endpoints use only this.
"""

from __future__ import annotations

import copy
import difflib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import jsonschema_rs

from ...types.canonical import canonical_json
from ..tool_arguments import listed
from .errors import MCPError, MCPErrorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..tool_definitions import ToolDefinition


class ToolSource(Protocol):
    """A provider of tools. Calls that are not brief are made in worker threads."""

    def get_available_tools(self) -> Sequence[ToolDefinition]:
        """The tools, always in the same order."""
        ...

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs one of the tools with arguments that fit the tool's schema; returns the structured result.

        Raises:
            ArgumentsInvalid: The arguments name something that does not exist.
            MCPError: The tool failed, or the arguments are not allowed.
        """
        ...

    def is_brief(self, arguments: Mapping[str, Any]) -> bool:
        """Returns whether a call takes only a few milliseconds, so that it needs no worker thread."""
        del arguments
        return False

    def problem(self) -> str | None:
        """The reason why the tools do not work; None if they work. Every health check calls this."""
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
        sources: The sources; of tools with the same name, the first is taken.
        most_results: The limit of lists and counts in arguments, see ``MCP_MAX_RESULTS_PER_TOOL``.
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
            MCPError: There is no such tool; the error names similar tools.
        """
        return self._entry(name).tool

    def validate_tool_params(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checks arguments against the tool's schema.

        Args:
            name: The tool.
            arguments: The arguments in the request.

        Returns:
            The arguments. Invalid Unicode is replaced, and counts whose default is above the limit are set
            to the limit.

        Raises:
            MCPError: There is no such tool, or the arguments do not fit; the error says where and why.
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
            # The validator cannot represent numbers of this size.
            raise does_not_fit(name, "", type(error).__name__) from None
        if found is not None:
            pointer = "".join(f"/{_escaped(part)}" for part in found.instance_path)
            raise does_not_fit(name, pointer, _what_is_wanted(schema, found))
        return clean

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a tool in the calling thread, with arguments from `validate_tool_params`.

        Raises:
            Exception: The tool failed, see `as_mcp_error`.
        """
        return dict(self._entry(name).source.invoke_tool(name, arguments))

    def is_brief(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """See `ToolSource.is_brief`."""
        return self._entry(name).source.is_brief(arguments)

    def available(self, name: str) -> bool:
        """Returns whether a tool works, that is, whether its source reports no problem.

        Raises:
            MCPError: There is no such tool.
        """
        return self._entry(name).source.problem() is None

    def problem(self) -> str | None:
        """The reason why tools do not work; None if all tools work."""
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
    """Adds the limit for results to a schema of arguments, so that clients know the limit.

    Args:
        schema: The schema of a tool's arguments.
        most: The largest number of results, and of entries in a list.

    Returns:
        The schema, and arguments that replace defaults above the limit.
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
        pointer: The place in the arguments, as a JSON pointer.
        what: The problem.
    """
    where = f" at {pointer}" if pointer else ""
    return MCPError(
        MCPErrorType.PARAMETER_ERROR,
        # The log gets no place, as names of arguments come from the client.
        f"Arguments of {name} do not fit its schema",
        f"The arguments of {name} do not fit its schema{where}: {what}",
        details={"pointer": pointer},
    )


def _what_is_wanted(schema: Mapping[str, Any], error: Any) -> str:
    """The validator's message, shortened; for unknown arguments, with the names of allowed arguments."""
    text = str(error.message)
    text = text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}"
    unknown = not error.instance_path and "additionalProperties" in map(str, error.schema_path)
    return f"{text}. Arguments: {listed(schema)}." if unknown else text


def _escaped(part: Any) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
