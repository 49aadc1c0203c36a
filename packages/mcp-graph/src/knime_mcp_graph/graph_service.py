"""Lists and runs the tools of a document, for any number of clients at once.

Independent of the transport: lists and results are JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from knime_mcp.types.errors import kind_and_place
from knime_mcp.types.texts import without_surrogates
from knime_mcp.web.tool_server import Info
from knime_mcp.yaml_text import as_mapping

from .graph_model import for_clients
from .run_control import Hooks, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
    from pathlib import Path

    from knime_mcp.audit.secrets import SecretMarker
    from knime_mcp.web.tool_server import Report, RequestedCall

    from .api import McpGraphApi
    from .executor import GraphExecutor, RunResult
    from .graph_model import GraphTool
    from .nodes import Node


_log = logging.getLogger(__name__)

HISTORY_KEY: Final = "knime-mcp/history"
"""Key in ``_meta``: true in a call requests the history, which is the value of this key in the result."""

_MOST_RUNS: Final = 256
_END_SECONDS: Final = 5.0
_to_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class GraphService:
    """Lists and runs the tools of a document, which may be replaced while it is served.

    `api` is closed when the document is replaced, or with the service. `on_change` is called after it was
    replaced.
    """

    def __init__(self, api: McpGraphApi, *, output_schemas: bool = True) -> None:
        self._output_schemas = output_schemas
        self._used_changed = threading.Condition()
        self._used_by: Counter[McpGraphApi] = Counter()
        self._closing = threading.Event()
        self._runs = anyio.CapacityLimiter(_MOST_RUNS)
        self.on_change: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._serve(api)

    def _serve(self, api: McpGraphApi) -> None:
        self._api = api
        api.executor.hold_memory()
        self._quick_runs = QuickRuns(api.executor)

    @property
    def info(self) -> Info:
        server = self._api.server_info
        return Info(
            name=server.name, title=server.title, version=server.version, instructions=server.instructions
        )

    async def tools(self, *, any_json: bool) -> list[dict[str, Any]]:
        """The tools, as MCP lists them; `any_json`: the client takes results that are not objects."""
        listed: list[dict[str, Any]] = []
        for tool in self._api.list_tools():
            described: dict[str, Any] = {"name": tool.name, "description": tool.description}
            described |= {"title": tool.title} if tool.title is not None else {}
            described["inputSchema"] = tool.input_schema
            described |= {"outputSchema": tool.output_schema} if self._output_schemas else {}
            described |= {"annotations": tool.annotations} if tool.annotations is not None else {}
            listed.append(for_clients(described, any_json=any_json))
        return listed

    async def replace(self, api: McpGraphApi) -> None:
        """Serves another document from now on. Current runs finish with the old document."""
        with self._used_changed:
            old = self._api
            self._serve(api)
            # Otherwise the last of its runs closes it.
            unused = old not in self._used_by
        if unused:
            await anyio.to_thread.run_sync(old.close)
        if self.on_change is not None:
            await self.on_change()

    def end_runs(self) -> None:
        """Ends all runs; their clients receive errors."""
        self._closing.set()

    def close(self) -> None:
        """Ends all runs and closes all connections, including those of replaced documents."""
        self.end_runs()
        with self._used_changed:
            apis = {self._api, *self._used_by}
        for api in apis:
            api.close()
        with self._used_changed:  # until the last calls are recorded
            self._used_changed.wait_for(lambda: not self._used_by, _END_SECONDS)

    async def call(self, asked: RequestedCall, report: Report | None = None) -> dict[str, Any]:
        """Runs a tool, and reports progress if asked for; canceling the coroutine ends the run."""
        if report is None:
            # In the event loop itself: handing it to a thread takes as long as such a run.
            quick = self._quick_runs.run(asked.tool, asked.arguments)
            return await self._run(asked, None) if quick is None else _answer(asked, quick, self._api)
        async with anyio.create_task_group() as group:
            reporter = _Reporter(self._api.secrets_of(asked.tool, asked.arguments))
            group.start_soon(reporter.send, report)
            result = await self._run(asked, reporter)
            reporter.close()
            return result
        raise AssertionError("unreachable")

    async def _run(self, asked: RequestedCall, reporter: _Reporter | None) -> dict[str, Any]:
        canceled = threading.Event()

        def is_canceled() -> bool:
            return canceled.is_set() or self._closing.is_set()

        def work() -> dict[str, Any]:
            hooks = Hooks()
            if reporter is not None:
                hooks = Hooks(on_progress=reporter.tool, on_node_start=reporter.node)
            with self._used() as api:
                try:
                    result = api.executor.run(
                        asked.tool, asked.arguments, hooks=hooks, is_canceled=is_canceled
                    )
                    return _answer(asked, result, api)
                except RunError as error:
                    return _failure(asked, error, api)
                except Exception as error:
                    # The error's text may contain values, so the client gets only its type.
                    _log.error("the tool %s failed unexpectedly: %s", asked.tool, kind_and_place(error))
                    what = f"Unexpected {type(error).__name__}; the server's log says more"
                    return _failure(asked, RunError(what, tool=asked.tool, kind="graph"), api)

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._runs)
        except anyio.get_cancelled_exc_class():
            # The thread cannot be stopped: the run looks at this between nodes and while it waits.
            canceled.set()
            raise

    @contextmanager
    def _used(self) -> Generator[McpGraphApi]:
        """The current document, which stays open for the duration of the block."""
        with self._used_changed:
            api = self._api
            self._used_by[api] += 1
        try:
            yield api
        finally:
            with self._used_changed:
                self._used_by[api] -= 1
                unused = not self._used_by[api]
                if unused:
                    del self._used_by[api]
                    self._used_changed.notify_all()
                retired = unused and api is not self._api
            if retired:
                api.close()


class _Reporter:
    """Carries progress from the threads of a run to its client."""

    def __init__(self, secrets: SecretMarker) -> None:
        self._secrets = secrets
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()

    def node(self, _index: int, node: Node, _context: Any) -> None:
        self._put(node.id)

    def tool(self, node: Node, text: str) -> None:
        self._put(f"{node.id}: {self._secrets.foreign(text)}")

    def close(self) -> None:
        """Ends the reports; call it in the loop's thread."""
        self._queue.put_nowait(None)

    async def send(self, report: Report) -> None:
        count = 0
        while (said := await self._queue.get()) is not None:
            # The specification wants progress to increase: the number of messages does.
            count += 1
            await report(float(count), None, said)

    def _put(self, said: str) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, said)


def _answer(asked: RequestedCall, run: RunResult, api: McpGraphApi) -> dict[str, Any]:
    value: Any = run.result
    if not asked.any_json and type(value) is not dict:
        error = RunError(
            "The result is not an object, and MCP before 2026-07-28 allows only objects",
            tool=asked.tool,
            kind="result",
            fix='Put a transform such as { "result": ... } before the exit',
        )
        error.history = run.history
        return _failure(asked, error, api)
    counts: Counter[str] = Counter()
    value = api.secrets_of(asked.tool, asked.arguments).data(value, counts)
    if counts:
        from knime_mcp.audit.secrets import hidden_note

        _log.warning("%s", hidden_note(asked.tool, counts.total()))
    json_text = _to_json(value)
    text = without_surrogates(json_text)
    if text is not json_text:  # a lone surrogate, as from a broken escape, cannot be sent
        value = json.loads(text)
    # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content: the same as
    # text, for clients that know no structured content.
    blocks = [{"type": "text", "text": text}, *(_media(value) if _MAY_HAVE_MEDIA.search(text) else ())]
    result: dict[str, Any] = {"content": blocks, "structuredContent": value}
    return _with_history(asked, result, run.history, api)


_MAY_HAVE_MEDIA: Final = re.compile('"type":"(?:image|audio|resource)')


def _media(value: Any) -> Iterator[dict[str, Any]]:
    """The pictures, sounds, links and resources in a result, as blocks that clients can show."""
    if isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _media(entry)
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        inner = as_mapping(members.get("resource"))
        match members.get("type"):
            case "image" | "audio":
                block = _texts(members, "data", "mimeType")
            case "resource_link":
                block = _texts(members, "uri", "name", "title", "description", "mimeType", needed=2)
            case "resource":
                content = _texts(inner, "uri", "blob" if "blob" in inner else "text", "mimeType", needed=2)
                block = content and {"resource": content}
            case _:
                block = None
        if block is not None:
            yield {"type": members["type"], **block}
            return
        for member in members.values():
            yield from _media(member)


def _texts(members: dict[str, Any], *names: str, needed: int | None = None) -> dict[str, Any] | None:
    """The members with these names that are texts; None if one of the first `needed` is none."""
    texts = {name: members[name] for name in names if isinstance(members.get(name), str)}
    return texts if all(name in texts for name in names[:needed]) else None


def _failure(asked: RequestedCall, error: RunError, api: McpGraphApi) -> dict[str, Any]:
    text = without_surrogates(api.secrets_of(asked.tool, asked.arguments).text(error.sentence))
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    return _with_history(asked, result, error.history, api)


def _with_history(
    asked: RequestedCall, result: dict[str, Any], history: tuple[Any, ...], api: McpGraphApi
) -> dict[str, Any]:
    if asked.meta.get(HISTORY_KEY) is True:
        secrets = api.secrets_of(asked.tool, asked.arguments)
        marked = [record.to_json(secrets) for record in history]
        records = json.dumps(marked, ensure_ascii=False)
        result["_meta"] = {HISTORY_KEY: json.loads(without_surrogates(records))}
    return result


_MOST_MILLISECONDS: Final = 5
"""Maximum time of such a run: Python's own interval for switching threads."""

_PAUSE: Final = 16
"""Number of calls without another try, for each `_MOST_MILLISECONDS` that the tool took."""


class QuickRuns:
    """Tries to run tools that only compute, and gives up if they take long. For one thread.

    A run that is given up has had no effects, so that it can be repeated in another thread. With spans no
    tool is tried, as they would show runs that were given up.
    """

    def __init__(self, executor: GraphExecutor) -> None:
        self._executor = executor
        tools = executor.document.tools if executor.spans is None else ()
        self._pauses = {tool.name: 0 for tool in tools if _only_computes(tool)}

    def run(self, tool: str, arguments: Mapping[str, Any] | None) -> RunResult | None:
        """Runs a tool; None if it was not tried, took too long, or failed."""
        pause = self._pauses.get(tool)
        if pause != 0:
            if pause is not None:
                self._pauses[tool] = pause - 1
            return None
        before = time.monotonic()
        try:
            return self._executor.run(tool, arguments, most_milliseconds=_MOST_MILLISECONDS)
        except Exception:  # the run in another thread reports the error
            return None
        finally:
            # The longer it held up the other clients, the longer it is not tried again.
            share = (time.monotonic() - before) * 1000 / _MOST_MILLISECONDS
            if share > 0.5:
                self._pauses[tool] = round(_PAUSE * share)


def _only_computes(tool: GraphTool) -> bool:
    return all(node.computes_only for node in tool.nodes)


_LOOK_SECONDS: Final = 0.25


class Reload:
    """Applies changes of a document's files. Invalid versions are not applied; the log lists their errors.

    The files are checked regularly, which works on every file system and can be canceled at once.
    """

    def __init__(self, files: list[Path], load: Callable[[], McpGraphApi]) -> None:
        self._files = files
        self._load = load
        self._loaded = self._state()

    async def run(self, service: GraphService) -> None:
        """Checks the files until it is canceled; the service gets each new version."""
        before = self._loaded
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            now = await anyio.to_thread.run_sync(self._state, abandon_on_cancel=True)
            # A file may be incomplete while it is written, so it must be unchanged since the last check.
            if now == before != self._loaded:
                self._loaded = now
                await self._take_over(service)
            before = now

    async def _take_over(self, service: GraphService) -> None:
        try:
            api = await anyio.to_thread.run_sync(self._load)
        except Exception as error:
            _log.error("The changed document has errors, so the old one is still served: %s", error)
            return
        await service.replace(api)
        _log.info("The changed document is served now")

    def _state(self) -> list[tuple[int, ...] | None]:
        """The values that change with a file: its time, its size, and its inode if it is replaced."""
        return [_stamp(file) for file in self._files]


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
