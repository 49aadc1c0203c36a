"""The Python API: loads a document, shows its graphs, runs its tools, and controls the runs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from knime_mcp.web.tracing import provider_from_environment

from .document_loading import CheckedDocument, check_document, load_document
from .executor import GraphExecutor, RunResult
from .expressions.engine import DEFAULT_SECONDS
from .graph_model import GraphDocument
from .run_control import Controller, Hooks, RunStatus
from .server_calls import GraphSessions

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from knime_mcp.audit.secrets import SecretMarker
    from knime_mcp.runs.engine import Run

    from .graph_model import Dialect, GraphTool, ServerMetadata
    from .graph_spans import GraphSpans
    from .nodes import Node
    from .run_state import NodeRecord
    from .server_calls import CallTool


class Graph:
    """A tool's graph: its nodes and the edges between them.

    Args:
        tool: The tool.
    """

    def __init__(self, tool: GraphTool) -> None:
        self.tool = tool

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the order of the document."""
        return self.tool.nodes

    def node(self, node_id: str) -> Node | None:
        """A node by its id, or None."""
        return self.tool.by_id.get(node_id)

    def edges(self) -> Iterator[tuple[str, str, str]]:
        """Yields from, to and label of each edge."""
        for node in self.tool.nodes:
            for way in node.ways:
                yield way.source, way.target, way.label


class GraphRun:
    """A running or finished run: its result, history, and the context at any step.

    Made by `McpGraphApi.start`.

    Attributes:
        tool: Name of the tool.
        controller: Pauses, resumes and stops the run.
    """

    def __init__(self, tool: str, controller: Controller) -> None:
        self.tool = tool
        self.controller = controller
        self._future: Future[RunResult] = Future()
        self._seen: list[NodeRecord] = []

    @property
    def status(self) -> RunStatus:
        """The state of the run."""
        return self.controller.status

    @property
    def history(self) -> tuple[NodeRecord, ...]:
        """The executions that have ended so far."""
        if self._future.done():
            error = self._future.exception()
            if error is None:
                return self._future.result().history
            # Only a `RunError` has one.
            return getattr(error, "history", tuple(self._seen))
        return tuple(self._seen)

    def context_at(self, index: int) -> dict[str, Any]:
        """The context that an execution saw.

        Args:
            index: Number of the execution, from 0.

        Raises:
            IndexError: There is no such execution.
        """
        for record in self.history:
            if record.index == index:
                return record.context()
        raise IndexError(f"There is no execution {index}")

    def result(self, timeout: float | None = None) -> RunResult:
        """Waits for the run.

        Args:
            timeout: Seconds.

        Raises:
            RunError: The run failed.
            TimeoutError: The run has not ended yet.
        """
        return self._future.result(timeout)

    async def wait(self) -> RunResult:
        """Waits for the run without blocking the event loop."""
        return await asyncio.wrap_future(self._future)

    def run(self, executor: GraphExecutor, arguments: Mapping[str, Any] | None, hooks: Hooks) -> None:
        """Runs the tool in this thread. For `McpGraphApi.start`."""

        def complete(record: NodeRecord, node: Node, context: Mapping[str, Any]) -> None:
            self._seen.append(record)
            if hooks.on_node_complete is not None:
                hooks.on_node_complete(record, node, context)

        def failed(record: NodeRecord, node: Node, error: Exception) -> None:
            self._seen.append(record)
            if hooks.on_node_error is not None:
                hooks.on_node_error(record, node, error)

        watched = replace(hooks, on_node_complete=complete, on_node_error=failed)
        try:
            result = executor.run(self.tool, arguments, hooks=watched, controller=self.controller)
        # Also what is no `Exception`: `result` would wait for ever otherwise.
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(result)


class McpGraphApi:
    """A document and everything that its tools need to run. Close it, or use it with ``with``.

    Example:
        with McpGraphApi("graph.yaml") as api:
            print(api.execute_tool("count_files", {"directory": "/tmp"}).result)

    Args:
        document: A file, or a document that was loaded.
        mcp_file: A ``mcp.json`` with further servers.
        dialect: The dialect of the document; None to detect it.
        call: Makes calls instead of connections to the document's servers.
        run: Records each call in its journal.
        spans: Makes a span for each run and node; None: no spans.
        check_schemas: Whether arguments and results are validated by the schemas in the document.
        expression_seconds: Maximum time of one expression.
        secret_arguments: Names of arguments that records and saved runs hide, beside those whose names tell.

    Raises:
        DocumentError: The document cannot be used; the message lists all problems.
    """

    def __init__(
        self,
        document: str | os.PathLike[str] | GraphDocument,
        *,
        mcp_file: str | os.PathLike[str] | None = None,
        dialect: Dialect | str | None = None,
        call: CallTool | None = None,
        run: Run | None = None,
        spans: GraphSpans | None = None,
        check_schemas: bool = True,
        expression_seconds: float = DEFAULT_SECONDS,
        secret_arguments: Iterable[str] = (),
    ) -> None:
        self._named = tuple(secret_arguments)
        if not isinstance(document, GraphDocument):
            document = load_document(document, mcp_file=mcp_file, dialect=dialect)
        self.document = document
        self.sessions = GraphSessions(document.servers, run=run, named=self._named)
        self.executor = GraphExecutor(
            document,
            call or self.sessions.call,
            spans=spans,
            check_schemas=check_schemas,
            expression_seconds=expression_seconds,
        )

    @staticmethod
    def validate(
        path: str | os.PathLike[str], *, mcp_file: str | os.PathLike[str] | None = None
    ) -> CheckedDocument:
        """Finds all problems of a document; nothing is started."""
        return check_document(Path(path), mcp_file=mcp_file)

    @cached_property
    def secrets(self) -> SecretMarker:
        """Marks the credentials of the document's servers in what is shown or saved of a run."""
        from knime_mcp.runs.server_configs import (
            marker_of_servers,  # imported late, so that servers start faster
        )

        return marker_of_servers(self.document.servers, self._named)

    def secrets_of(self, tool: str, arguments: Mapping[str, Any] | None) -> SecretMarker:
        """`secrets`, and those among the arguments of a run."""
        definition = self.document.tool(tool)
        if definition is None:
            return self.secrets
        return self.secrets.for_call(arguments or {}, definition.input_schema_json)[0]

    @property
    def server_info(self) -> ServerMetadata:
        """The description of the document's server."""
        return self.document.server

    def list_tools(self) -> tuple[GraphTool, ...]:
        """The tools, in the order of the document."""
        return self.document.tools

    def graph(self, tool: str) -> Graph | None:
        """The graph of a tool, or None."""
        definition = self.document.tool(tool)
        return None if definition is None else Graph(definition)

    def execute_tool(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, hooks: Hooks | None = None
    ) -> RunResult:
        """Runs a tool in this thread.

        Raises:
            RunError: The run failed; its `history` has the nodes that ran.
        """
        return self.executor.run(tool, arguments, hooks=hooks)

    def start(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        hooks: Hooks | None = None,
        breakpoints: Iterable[str] = (),
        start_paused: bool = False,
    ) -> GraphRun:
        """Starts a run in a new thread.

        Args:
            tool: Name of the tool.
            arguments: Its arguments.
            hooks: Functions that are called during the run.
            breakpoints: Ids of nodes before which the run pauses.
            start_paused: Whether the run pauses before the first node.

        Returns:
            The run.
        """
        run = GraphRun(tool, Controller(breakpoints, start_paused=start_paused))
        threading.Thread(
            target=run.run,
            args=(self.executor, arguments, hooks or Hooks()),
            name=f"graph {tool}",
            daemon=True,
        ).start()
        return run

    def close(self) -> None:
        """Closes all connections and ends all processes that were started."""
        self.sessions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def spans_from_environment() -> GraphSpans | None:
    """Spans for the endpoint in ``OTEL_*``; None without such a setting."""
    provider = provider_from_environment("knime-mcp-graph")
    if provider is None:
        return None
    from .graph_spans import GraphSpans

    return GraphSpans(provider)
