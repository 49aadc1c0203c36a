"""The gateway without its listeners: settings, tools, keys and metrics, the check of arguments, and calls.

A `ToolSource` provides tools. `ToolRegistry` joins the tools of several sources.
"""

from __future__ import annotations

import copy
import difflib
import json
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
import jsonschema_rs

from knime_mcp.types.texts import canonical_json, pointer_text

from ..tool_arguments import listed
from .api_keys import KeyStore, RateLimiter
from .gateway_errors import MCPError, MCPErrorType, as_mcp_error, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence

    from ..catalogue_reader import Catalogue
    from ..tool_definitions import KnowledgeTool
    from .access_tokens import TokenVerifier
    from .gateway_settings import GatewaySettings
    from .observing import GatewaySpans, Metrics, RequestRecord

V = TypeVar("V")


class ToolSource(Protocol):
    """A provider of tools. Calls that are not brief are made in worker threads."""

    def get_available_tools(self) -> Sequence[KnowledgeTool]:
        """The tools, always in the same order."""
        ...

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Runs a tool with arguments that fit its schema; returns the structured result.

        Raises `ArgumentsInvalid` if they name something that does not exist, `MCPError` if the tool fails.
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
    tool: KnowledgeTool
    source: ToolSource
    validator: Any
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ToolRegistry:
    """All tools of the gateway; of tools with the same name, the first is taken. Threads may share it.

    `most_results` limits lists and counts in arguments, see ``MCP_MAX_RESULTS_PER_TOOL``.
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

    def get_available_tools(self) -> list[KnowledgeTool]:
        return [entry.tool for entry in self._entries.values()]

    def find(self, name: str) -> KnowledgeTool:
        return self._entry(name).tool

    def validate_tool_params(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked against the tool's schema; an error says where and why they do not fit.

        Invalid Unicode is replaced, and counts whose default is above the limit are set to the limit.
        """
        entry = self._entry(name)
        try:
            # A copy in plain types, which the validator reads, without NaN, which it would take for a number.
            clean: dict[str, Any] = json.loads(canonical_json(dict(arguments)))
        except (ValueError, RecursionError):
            raise does_not_fit(name, "", "a number that JSON does not have, or too deeply nested") from None
        clean = {**entry.defaults, **clean}
        schema = entry.tool.parameters
        # Before the validator, as its words for this do not name the arguments that there are.
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
            raise does_not_fit(name, pointer_text(found.instance_path), _what_is_wanted(schema, found))
        return clean

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a tool in the calling thread, with arguments from `validate_tool_params`."""
        return dict(self._entry(name).source.invoke_tool(name, arguments))

    def is_brief(self, name: str, arguments: Mapping[str, Any]) -> bool:
        return self._entry(name).source.is_brief(arguments)

    def available(self, name: str) -> bool:
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
    """The schema with the limit for results, so that clients know it, and what replaces defaults above it."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The state that all listeners of a gateway share."""

    settings: GatewaySettings
    registry: ToolRegistry
    catalogue: Catalogue
    keys: KeyStore
    tokens: TokenVerifier | None  # of the company's provider, if it is named
    metrics: Metrics
    spans: GatewaySpans
    limiter: RateLimiter = field(default_factory=RateLimiter)

    def tools(self) -> ToolRegistry:
        if not self.settings.mcp_enabled:
            raise unavailable("MCP_ENABLED is false", "The tools are switched off on this gateway.")
        return self.registry

    def problem(self) -> str | None:
        """The reason why the tools do not work; None if they work."""
        return self.registry.problem() if self.settings.mcp_enabled else None

    async def call(self, name: str, arguments: Mapping[str, Any], record: RequestRecord) -> dict[str, Any]:
        """Checks the arguments and runs a tool, in a thread unless it is brief.

        Every failure is an `MCPError`. The record of the request gets the tool, its duration and the query's
        hash.
        """
        registry = self.tools()
        record.tool = registry.find(name).name
        checked = registry.validate_tool_params(name, arguments)
        with self.observed(name, arguments, record):
            if registry.is_brief(name, checked):
                return self.noted(name, registry.invoke_tool(name, checked))
            # The thread goes on, as Python cannot stop it; its caller does not wait for that.
            with anyio.fail_after(self.settings.gateway_tool_timeout):
                found = await anyio.to_thread.run_sync(
                    registry.invoke_tool, name, checked, abandon_on_cancel=True
                )
            return self.noted(name, found)

    def noted(self, tool: str, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer of a tool, counted if it is that there is nothing: what people miss shows there."""
        if answer.get("total") == 0:
            self.metrics.empty.labels(tool).inc()
        return answer

    @contextmanager
    def observed(self, name: str, arguments: Mapping[str, Any], record: RequestRecord) -> Generator[None]:
        """Observes a call: its span, metrics, and record. Every error leaves it as an `MCPError`."""
        record.tool = name
        query = arguments.get("query")
        if isinstance(query, str):
            record.query_hash = self.keys.hashed(query)
        started = time.perf_counter()
        outcome = "ok"
        with self.spans.call(name) as span:
            try:
                yield
            except Exception as error:
                failure = as_mcp_error(error)
                outcome = failure.error_type.value
                self.spans.failed(span, outcome)
                raise failure from None
            finally:
                seconds = time.perf_counter() - started
                record.tool_ms = round(seconds * 1000, 2)
                self.metrics.calls.labels(name, outcome).inc()
                self.metrics.call_seconds.labels(name).observe(seconds)


class TTLCache(Generic[V]):
    """A cache limited by age (0 seconds: no caching) and size: the least recently used values go.

    Threads may share it. `on_lookup` is told on each lookup whether the value was there.
    """

    def __init__(
        self,
        *,
        seconds: float,
        most: int = 1024,
        on_lookup: Callable[[bool], None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._on_lookup = on_lookup
        self._now = now
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None and found[0] <= self._now():
                found = None
            if found is not None:
                self._kept[key] = found  # at the end, as the most recently used value
        if self._on_lookup is not None:
            # Outside of the lock, as it calls code of others.
            self._on_lookup(found is not None)
        return None if found is None else found[1]

    def put(self, key: Hashable, value: V) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = self._now() + self._seconds, value
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
