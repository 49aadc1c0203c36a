"""A server with which an agent works on the tools of a document: it reads, changes, tests and runs them.

Only `tools` can be changed. Servers cannot, as their commands and addresses are for people to decide. A
change is saved if it brings no errors into the document, and no recorded case fails that held before.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from knime_mcp.client.limits import Timeouts
from knime_mcp.runs.server_configs import client_for
from knime_mcp.types.errors import MCPError
from knime_mcp.types.texts import counted, without_surrogates
from knime_mcp.version import VERSION
from knime_mcp.web.tool_server import Info, Refused, RequestedCall
from knime_mcp.yaml_text import Severity, as_list, as_mapping, one_of

from .api import McpGraphApi
from .document_edits import GraphEditError
from .document_loading import DocumentError
from .executor import violation
from .expressions import UNDEFINED, Bounds, evaluate
from .expressions.javascript import json_value, truthy
from .expressions.json_logic import apply
from .graph_cases import cases_file, cases_in, run_case
from .graph_model import compiled
from .graph_service import HISTORY_KEY, GraphService
from .studio.desk import ConflictError, DocumentDesk

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from knime_mcp.runs.engine import Run
    from knime_mcp.web.tool_server import Report
    from knime_mcp.yaml_text import Problem

    from .document_loading import CheckedDocument
    from .graph_cases import CaseOutcome, GraphCase
    from .graph_model import Dialect, GraphDocument

Raw = dict[str, Any]
_SERVER_SECONDS: Final = 30.0
_TEST_SECONDS: Final = 10.0

_INSTRUCTIONS: Final = """Works on the graph tools of one document. Before you write one, look at others \
with listGraphTools and getGraphTool, and at what servers offer with listMcpServerTools. A change is saved \
at once if it brings no errors and no recorded case fails. Otherwise nothing is changed, and \
the answer says why. undo takes back your last change."""

_NAME: Final[Raw] = {"type": "string", "description": "Name of a tool of the document."}
_TOOL: Final[Raw] = {
    "type": "object",
    "description": "name, description, inputSchema, outputSchema and nodes. Each node has an id and a type:"
    " entry, exit, transform (transform: {expr: JSONata}), mcp (server, tool, args) or switch (conditions);"
    " all but exit have a next.",
}


_CONTEXT: Final[Raw] = {
    "type": "object",
    "description": "Outputs by ids of nodes; without it, those of the last runGraphTool.",
}


def _described(
    name: str, description: str, properties: Raw, *, reads: bool = False, world: bool = False
) -> Raw:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = [key for key, value in properties.items() if "default" not in value and value is not _CONTEXT]
    hints = {"readOnlyHint": reads, "openWorldHint": world}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema | ({"required": needed} if needed else {}),
        "annotations": hints,
    }


# The tools are named like those of mcpgraph's toolkit, so that agents find what they know.
_LISTED: Final = (
    _described(
        "listGraphTools",
        "List the tools and the servers of the document, and what is wrong with it.",
        {},
        reads=True,
    ),
    _described(
        "getGraphTool", "Read a tool as it is written in the document.", {"toolName": _NAME}, reads=True
    ),
    _described(
        "listMcpServerTools",
        "List the tools of a server of the document, which is started or connected for it.",
        {"serverName": {"type": "string"}},
        reads=True,
        world=True,
    ),
    _described("addGraphTool", "Add a tool to the document.", {"tool": _TOOL}),
    _described("updateGraphTool", "Replace a tool of the document.", {"toolName": _NAME, "tool": _TOOL}),
    _described("deleteGraphTool", "Remove a tool from the document.", {"toolName": _NAME}),
    _described(
        "testJSONata",
        "Evaluate an expression. Nothing is called.",
        {"expression": {"type": "string"}, "context": _CONTEXT},
        reads=True,
    ),
    _described(
        "testJSONLogic",
        "Evaluate a rule of a switch. Nothing is called.",
        {
            "expression": {"description": "The rule, JSON."},
            "context": _CONTEXT,
            "standard": {"type": "boolean", "description": "As with jsonLogic: standard.", "default": False},
        },
        reads=True,
    ),
    _described("undo", "Take back your last change that was saved.", {}),
    _described("testGraph", "Run the recorded cases of the document. No server is called.", {}, reads=True),
    _described(
        "runGraphTool",
        "Run a tool of the document once. Its servers are called, and may change what is theirs.",
        {"toolName": _NAME, "arguments": {"type": "object", "default": {}}},
        world=True,
    ),
)
_SCHEMAS: Final = {str(tool["name"]): cast("Raw", tool["inputSchema"]) for tool in _LISTED}


class Toolkit:
    """Serves one client, see `Service`.

    Args:
        file: The YAML file.
        dialect: Its dialect; None or ``auto`` to detect it.
        mcp_file: A ``mcp.json`` with further servers.
        run: Records the calls that runs of tools make.
    """

    def __init__(
        self,
        file: Path,
        *,
        dialect: Dialect | str | None = None,
        mcp_file: Path | None = None,
        run: Run | None = None,
    ) -> None:
        self._desk = DocumentDesk(file, dialect=dialect, mcp_file=mcp_file)
        self._cases_file = cases_file(file)
        self._run = run
        self._lock = threading.Lock()
        self._saved: list[str] = []  # the text after each change that can be undone
        self._closing = threading.Event()
        self._is_ended: Callable[[], bool] = self._closing.is_set  # whether nobody waits for what goes on
        self._context: Raw = {}  # outputs of the last run
        self._service: GraphService | None = None
        self._ran: GraphDocument | None = None
        self._actions: Mapping[str, Callable[..., Raw]] = {
            "listGraphTools": self._list,
            "getGraphTool": self._get,
            "listMcpServerTools": self._server_tools,
            "addGraphTool": self._add,
            "updateGraphTool": self._update,
            "deleteGraphTool": self._delete,
            "testJSONata": self._test_jsonata,
            "testJSONLogic": self._test_json_logic,
            "undo": self._undo,
            "testGraph": self._test,
        }

    @property
    def info(self) -> Info:
        title = f"Toolkit of {self._desk.file.name}"
        return Info(name="knime-mcp-graph-toolkit", title=title, version=VERSION, instructions=_INSTRUCTIONS)

    async def tools(self, *, any_json: bool) -> list[Raw]:
        """The tools in MCP's form. All results are objects, so `any_json` has no effect."""
        del any_json
        return list(_LISTED)

    async def call(self, asked: RequestedCall, report: Report | None = None) -> Raw:
        if asked.tool not in _SCHEMAS:
            raise Refused(f"There is no tool '{asked.tool}'")
        arguments = dict(asked.arguments or {})
        # A result and no error of the protocol, as a model reads only results.
        if fault := violation(compiled(_SCHEMAS[asked.tool]), arguments, "The arguments"):
            return _failed(fault)
        try:
            if asked.tool == "runGraphTool":
                return await self._run_tool(asked, arguments, report)
            return _answer(await self._in_thread(self._actions[asked.tool], **arguments))
        except MCPError as error:
            return _failed(error.sentence)

    def close(self) -> None:
        """Ends all runs; a change whose cases still run is not saved."""
        self._closing.set()
        if self._service is not None:
            self._service.close()

    async def _in_thread(self, action: Callable[..., Any], **arguments: Any) -> Any:
        canceled = threading.Event()

        def work() -> Any:
            with self._lock:
                self._is_ended = lambda: canceled.is_set() or self._closing.is_set()
                # The person may change the file in an editor at the same time.
                self._desk.look()
                return action(**arguments)

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            canceled.set()
            raise

    def _save(self) -> None:
        # Looked at last: a call that was canceled a moment ago must not change the file.
        if self._is_ended():
            raise GraphEditError("The call was canceled, so nothing was saved")
        self._desk.save()

    def _document(self) -> GraphDocument:
        checked = self._desk.checked()
        if checked.document is None:
            raise DocumentError(self._desk.file.name, checked.problems)
        return checked.document

    def _list(self) -> Raw:
        checked = self._desk.checked()
        tools = [{key: tool.get(key) for key in ("name", "description")} for tool in self._written()]
        servers = [] if checked.document is None else sorted(checked.document.servers)
        problems = [problem.text(self._desk.file.name) for problem in checked.problems]
        return {"tools": tools, "servers": servers, "problems": problems}

    def _get(self, *, toolName: str) -> Raw:  # noqa: N803 - as the reference calls it
        tools = self._written()
        return {"tool": tools[_index(tools, toolName)]}

    def _written(self) -> list[Raw]:
        return _tools(json_value(self._data()))

    def _data(self) -> Any:
        checked = self._desk.checked()
        if checked.source is None:
            raise DocumentError(self._desk.file.name, checked.problems)
        return checked.source.data

    def _server_tools(self, *, serverName: str) -> Raw:  # noqa: N803 - as the reference calls it
        servers = self._document().servers
        if serverName not in servers:
            fix = one_of(serverName, servers)
            raise GraphEditError(f"The document has no server '{serverName}'", fix=fix)
        clocks = Timeouts(connect=_SERVER_SECONDS, total=_SERVER_SECONDS)
        with client_for(servers[serverName], timeouts=clocks) as client:
            tools = client.list_tools()
        keys = ("name", "description", "inputSchema", "outputSchema")
        return {"tools": [{key: tool.raw[key] for key in keys if key in tool.raw} for tool in tools]}

    def _add(self, *, tool: Raw) -> Raw:
        return self._change(lambda tools: [*tools, tool])

    def _update(self, *, toolName: str, tool: Raw) -> Raw:  # noqa: N803 - as the reference calls it
        return self._change(lambda tools: _replaced(tools, toolName, [tool]))

    def _delete(self, *, toolName: str) -> Raw:  # noqa: N803 - as the reference calls it
        return self._change(lambda tools: _replaced(tools, toolName, []))

    def _change(self, edit: Callable[[list[Raw]], list[Raw]]) -> Raw:
        """Changes the tools, and saves that if nothing speaks against it; otherwise all is as before."""
        desk = self._desk
        before, number = desk.checked(), desk.number
        tools = edit(_tools(self._data()))
        names = [tool.get("name") for tool in tools]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise GraphEditError(f"There is a tool '{twice}' already", fix="Choose another name")
        desk.apply(number, {"kind": "set", "path": ["tools"], "value": tools})
        if desk.number == number:
            raise GraphEditError("The document is so already; nothing was changed")
        with _or_back(desk.undo, desk.take_theirs):  # if somebody changed the file just now, it is theirs
            answer = self._accepted(before)
            self._save()
        self._saved.append(desk.text)
        return answer

    def _accepted(self, before: CheckedDocument) -> Raw:
        """Judges the document as it is now, with a change that is not saved yet."""
        checked, name = self._desk.checked(), self._desk.file.name
        had = Counter(problem.message for problem in _errors(before))  # they may be on other lines now
        errors: list[Problem] = []
        for problem in _errors(checked):
            had[problem.message] -= 1
            errors += [problem] if problem.refuses or had[problem.message] < 0 else []
        if errors or checked.document is None:
            lines = self._desk.text.splitlines()
            told = "".join(
                (f"\n  {lines[problem.position.line - 1].strip()}" if problem.position else "")
                + f"\n    {problem.text(name)}"
                for problem in errors
            )
            found = counted(len(errors), "error")
            raise GraphEditError(
                f"Nothing was changed. With the change, the document would have {found}:{told}"
            )
        failed = [outcome for outcome in self._outcomes(checked.document) if outcome.failures]
        # Only what the change broke: cases that failed before are not the agent's fault.
        held = before.document
        broken = [one for one in failed if held is None or not self._outcome(held, one.case).failures]
        if broken:
            told = "".join(f"\n  {one.case.name}: {'; '.join(one.failures)}" for one in broken)
            fix = f"What a case expects, a person decides, in {self._cases_file.name}"
            found = counted(len(broken), "recorded case")
            raise GraphEditError(f"Nothing was changed. With the change, {found} would fail:{told}", fix=fix)
        warnings = [problem.text(name) for problem in checked.problems]
        return {"saved": True, "warnings": warnings, "failedBefore": [one.case.name for one in failed]}

    def _undo(self) -> Raw:
        if not self._saved:
            raise GraphEditError("There is no change of yours to take back")
        if self._desk.text != self._saved[-1]:
            raise ConflictError(
                "The document was changed by somebody else after your last change",
                fix="Read it again, and change what shall be otherwise",
            )
        self._desk.undo()
        with _or_back(self._desk.redo):
            self._save()
        self._saved.pop()
        return {"saved": True, "canUndo": bool(self._saved)}

    def _test(self) -> Raw:
        cases = [
            {"name": one.case.name, "tool": one.case.tool, "failures": list(one.failures)}
            for one in self._outcomes(self._document())
        ]
        return {"ok": not any(case["failures"] for case in cases), "cases": cases}

    def _outcomes(self, document: GraphDocument) -> list[CaseOutcome]:
        return [self._outcome(document, case) for case in cases_in(self._cases_file)]

    def _outcome(self, document: GraphDocument, case: GraphCase) -> CaseOutcome:
        return run_case(document, case, is_canceled=self._is_ended)

    async def _run_tool(self, asked: RequestedCall, arguments: Raw, report: Report | None) -> Raw:
        document = await self._in_thread(self._document)
        if self._service is None:
            self._service = GraphService(McpGraphApi(document, run=self._run))
        elif document is not self._ran:
            await self._service.replace(McpGraphApi(document, run=self._run))
        self._ran = document
        wanted = replace(
            asked,
            tool=arguments["toolName"],
            arguments=arguments.get("arguments"),
            meta={**asked.meta, HISTORY_KEY: True},
        )
        result = await self._service.call(wanted, report)
        history: list[Raw] = result["_meta"][HISTORY_KEY]
        self._context = {record["nodeId"]: record["output"] for record in history if "output" in record}
        # It was asked for here, for the values; the client gets it only if it asked as well.
        if not asked.meta.get(HISTORY_KEY):
            del result["_meta"]
        return result

    def _test_jsonata(self, *, expression: str, context: Raw | None = None) -> Raw:
        values = self._context if context is None else context
        return _value(evaluate(expression, values, bounds=self._bounds()))

    def _test_json_logic(self, *, expression: Any, context: Raw | None = None, standard: bool = False) -> Raw:
        values = self._context if context is None else context
        value = apply(expression, values, standard=standard, bounds=self._bounds())
        return _value(value) | {"holds": truthy(value)}

    def _bounds(self) -> Bounds:
        return Bounds(seconds=_TEST_SECONDS, is_stopped=self._is_ended)


@contextmanager
def _or_back(*steps: Callable[[], None]) -> Generator[None]:
    """Goes back by these steps if the block does not come to its end, whatever ends it."""
    try:
        yield
    except BaseException:
        for step in steps:
            step()
        raise


def _errors(checked: CheckedDocument) -> list[Problem]:
    return [problem for problem in checked.problems if problem.severity is Severity.ERROR]


def _tools(data: Any) -> list[Raw]:
    return [as_mapping(tool) for tool in as_list(as_mapping(data).get("tools"))]


def _index(tools: list[Raw], name: str) -> int:
    names = [str(tool.get("name")) for tool in tools]
    if name not in names:
        fix = one_of(name, names)
        raise GraphEditError(f"The document has no tool '{name}'", fix=fix)
    return names.index(name)


def _replaced(tools: list[Raw], name: str, by: list[Raw]) -> list[Raw]:
    index = _index(tools, name)
    return [*tools[:index], *by, *tools[index + 1 :]]


def _value(value: Any) -> Raw:
    """What an expression gives; nothing is not null."""
    return {"isUndefined": True} if value is UNDEFINED else {"result": json_value(value)}


def _answer(found: Raw) -> Raw:
    text = without_surrogates(json.dumps(found, ensure_ascii=False, separators=(",", ":")))
    return {"content": [{"type": "text", "text": text}], "structuredContent": json.loads(text)}


def _failed(text: str) -> Raw:
    return {"content": [{"type": "text", "text": without_surrogates(text)}], "isError": True}
