"""Runs of the studio: one at a time, watched, paused, gone through again, and begun in the middle."""

from __future__ import annotations

import re
import threading
from collections import defaultdict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.client.limits import Timeouts
from knime_mcp.client.protocol.tools import ABSENT
from knime_mcp.runs.server_configs import client_for
from knime_mcp.types.errors import MCPError

from ..api import McpGraphApi
from ..document_edits import GraphEditError
from ..expressions.javascript import UNDEFINED
from ..recorded_runs import context_in_run, evaluate_in_run, rule_in_run, ways_taken
from ..run_control import Hooks, RunStatus
from ..server_calls import GraphSessions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from knime_mcp.audit.secrets import SecretMarker
    from knime_mcp.runs.server_configs import ServerConfig

    from ..api import GraphRun
    from ..graph_model import GraphDocument
    from ..nodes import Node
    from ..run_state import NodeRecord

Raw = dict[str, Any]
_NUMBER: Final = re.compile(r"#[0-9]+\[")
_LISTING_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_ACTIVE: Final = (RunStatus.NOT_STARTED, RunStatus.RUNNING, RunStatus.PAUSED)


class Debugger:
    """Runs the tools of documents, and keeps the last run. Safe to use from several threads.

    Args:
        tell: Called in any thread when there is news of the run.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._lock = threading.RLock()
        self._sessions: GraphSessions | None = None
        self._servers: Mapping[str, ServerConfig] = {}
        self._run: _Watched | None = None
        self._listed: dict[str, tuple[ServerConfig, list[Raw]]] = {}
        self.breakpoints: frozenset[str] = frozenset()

    def start(
        self,
        document: GraphDocument,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        paused: bool = False,
        pins: Mapping[str, Any] | None = None,
        begin: int | None = None,
    ) -> None:
        """Starts a run.

        Args:
            document: The document.
            tool: Name of the tool.
            arguments: Its arguments.
            paused: Whether it waits before its first node.
            pins: Outputs by node that are taken instead of the node's work.
            begin: An execution of the last run: what ran before it gives again what it gave then.
        """
        with self._lock:
            if self._run is not None and self._run.is_active:
                raise GraphEditError("A run is going on", fix="Stop it first")
            earlier = () if begin is None or self._run is None else self._run.records()[:begin]
            # Started anew only if they are others: a run is not to wait for its servers each time.
            if self._sessions is None or self._servers != document.servers:
                if self._sessions is not None:
                    self._sessions.close()
                self._sessions, self._servers = GraphSessions(document.servers), document.servers
            api = McpGraphApi(document, call=self._sessions.call)
            api.executor.hold_memory()
            given = _Given(pins or {}, earlier)
            run = _Watched(api, tool, arguments, given, self._tell)
            run.start(self.breakpoints, paused=paused)
            self._run = run

    def control(self, action: str) -> None:
        """Lets the run pause, step, resume or stop. Raises `ControlError` if its state does not allow it."""
        if self._run is None:
            raise GraphEditError("There is no run", fix="Run a tool first")
        controller = self._run.run.controller
        match action:
            case "pause":
                controller.pause()
            case "step":
                # The page is told of the next pause, so nothing waits here.
                controller.step(timeout=0)
            case "resume":
                controller.resume()
            case "stop":
                controller.stop()
            case _:
                raise GraphEditError(f"A run cannot {action}")
        self._tell()

    def break_at(self, nodes: Collection[str]) -> None:
        self.breakpoints = frozenset(nodes)
        if self._run is not None:
            self._run.run.controller.breakpoints = self.breakpoints

    def state(self, since: int = 0) -> Raw | None:
        """The last run, with its executions from a number on; None if nothing ran."""
        run = self._run
        return None if run is None else run.state(since)

    def evaluate(self, text: str, at: str | None) -> Raw:
        """The value of an expression on what a node of the last run saw."""
        value = evaluate_in_run(text, self._recorded(), at)
        return {} if value is UNDEFINED else {"value": value}

    def holds(self, rule: Any, at: str | None, *, standard: bool) -> Raw:
        return {"value": rule_in_run(rule, self._recorded(), at, standard=standard)}

    def context(self, at: str | None) -> Raw:
        return context_in_run(self._recorded(), at)

    def _recorded(self) -> Sequence[Raw]:
        run = self._run
        records = [] if run is None else run.shown(run.records())
        if not records:
            raise GraphEditError("There are no values yet", fix="Run the tool first")
        return records

    def tools_of(self, config: ServerConfig) -> list[Raw]:
        """The tools of a server, asked once."""
        known = self._listed.get(config.name)
        if known is not None and known[0] == config:
            return known[1]
        seconds = Timeouts(connect=_LISTING_SECONDS, total=_LISTING_SECONDS)
        with client_for(config, timeouts=seconds) as client:
            tools: list[Raw] = [
                {
                    "name": tool.name,
                    "description": tool.description or "",
                    "inputSchema": tool.input_schema,
                    "outputSchema": tool.output_schema,
                }
                for tool in client.list_tools()
            ]
        self._listed[config.name] = (config, tools)
        return tools

    def close(self) -> None:
        with self._lock:
            if self._run is not None and self._run.is_active:
                self._run.run.controller.stop()
            if self._sessions is not None:
                self._sessions.close()


class _Watched:
    """A run with what the page shows of it."""

    def __init__(
        self,
        api: McpGraphApi,
        tool: str,
        arguments: Mapping[str, Any],
        given: _Given,
        tell: Callable[[], None],
    ) -> None:
        self._api = api
        self._tool = tool
        self._arguments = dict(arguments)
        self._given = given
        self._tell = tell
        self._records: list[NodeRecord] = []
        self._progress: dict[str, str] = {}
        self._secrets: SecretMarker = api.secrets_of(tool, arguments)
        self.run: GraphRun

    def start(self, breakpoints: Collection[str], *, paused: bool) -> None:
        hooks = Hooks(
            on_node_start=lambda _index, _node, _context: self._tell(),
            on_node_complete=lambda _record, _node, _context: self._tell(),
            on_node_error=lambda _record, _node, _error: self._tell(),
            on_pause=lambda _index, _node: self._tell(),
            on_progress=self._progressed,
            output_for=self._output_for,
        )
        self.run = self._api.start(
            self._tool, self._arguments, hooks=hooks, breakpoints=breakpoints, start_paused=paused
        )
        threading.Thread(target=self._wait, name="studio run", daemon=True).start()

    def _wait(self) -> None:
        with suppress(BaseException):  # `state` shows it
            self.run.result()
        self._tell()

    def _progressed(self, node: Node, text: str) -> None:
        self._progress[node.id] = text
        self._tell()

    def _output_for(self, record: NodeRecord, node: Node) -> Any:
        self._records.append(record)
        return self._given.output_for(record, node)

    @property
    def is_active(self) -> bool:
        return self.run.status in _ACTIVE

    def records(self) -> list[NodeRecord]:
        """The executions so far, also those that go on."""
        return sorted(self._records, key=lambda record: record.index)

    def shown(self, records: Sequence[NodeRecord]) -> list[Raw]:
        return [
            {**record.to_json(self._secrets), "isPinned": record.index in self._given.used}
            for record in records
        ]

    def state(self, since: int) -> Raw:
        records = self.records()
        first = next((place for place, one in enumerate(records) if one.index >= since), len(records))
        waiting = self.run.controller.position
        state: Raw = {
            "tool": self._tool,
            "arguments": self._secrets.shown(self._arguments),
            "status": self.run.status.value,
            "count": len(records),
            "records": [
                {**shown, "ways": ways}
                for shown, ways in zip(self.shown(records[first:]), ways_taken(records)[first:], strict=True)
            ],
            "waiting": None if waiting is None else {"index": waiting[0], "node": waiting[1]},
            "progress": {node: self._secrets.text(text) for node, text in self._progress.items()},
        }
        if self.is_active:
            return state
        try:
            state["result"] = self._secrets.shown(self.run.result(timeout=1).result)
        except MCPError as error:
            state["error"] = self._secrets.text(error.sentence)
        except TimeoutError:
            pass  # it has its status a moment before its result; there will be news
        return state


class _Given:
    """Outputs that a run takes over: pinned ones, and those of an earlier run up to one of its executions."""

    def __init__(self, pins: Mapping[str, Any], earlier: Sequence[NodeRecord]) -> None:
        self._pins = pins
        self._lock = threading.Lock()
        self.used: set[int] = set()
        self._earlier: dict[tuple[Any, ...], deque[Any]] = defaultdict(deque)
        for record in earlier:
            # The nodes around others run again, as the others tell them what comes out.
            if record.error is None and record.node_type not in {"parallel", "forEach", "tool"}:
                self._earlier[_place(record)].append(record.output)

    def output_for(self, record: NodeRecord, node: Node) -> Any:
        with self._lock:
            if node.id in self._pins and not _is_called(record):
                self.used.add(record.index)
                return self._pins[node.id]
            # A node may have run several times at one place, in a loop: its outputs come in that order.
            outputs = self._earlier.get(_place(record))
            if not outputs:
                return ABSENT
            self.used.add(record.index)
            return outputs.popleft()


def _place(record: NodeRecord) -> tuple[Any, ...]:
    """Where a node ran, without the numbers of executions, which differ between runs."""
    return (*(_NUMBER.sub("[", name) for name in record.branch), record.node_id)


def _is_called(record: NodeRecord) -> bool:
    """Whether the node is one of a tool that a node of the run called: names of its nodes may be the same."""
    return any(record.tool is not None and name.endswith(f"[{record.tool.name}]") for name in record.branch)
