"""A node that calls another tool of the same document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from knime_mcp.yaml_text import did_you_mean

from ..graph_model import with_defaults
from ..run_control import FINAL, RunError
from ..run_state import shorter
from ..server_calls import arguments_of, retried
from .calling import CallingNode
from .node import Form, FormField, Raw

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from knime_mcp.yaml_text import Fields

    from ..document_checks import GraphChecks
    from ..document_reading import NodeReading
    from ..executor import NodeRun
    from ..graph_model import GraphTool

_DEEPEST: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNode(CallingNode):
    kind: ClassVar[str] = "tool"
    fields: ClassVar[tuple[FormField, ...]] = (
        FormField(key="tool", label="Tool", form=Form.TOOL),
        *CallingNode.last_fields,
    )
    new: ClassVar[Raw] = {"tool": "", "args": {}}

    @classmethod
    def read(cls, fields: Fields, reading: NodeReading) -> Self:
        return cls(**cls.call(fields, reading))

    @classmethod
    def detail(cls, raw: Mapping[str, Any]) -> str:
        return f"tool {raw.get('tool') or '?'}"

    def check(self, checks: GraphChecks, tool: str) -> None:
        if self.tool not in checks.tools:
            checks.findings.error(
                f'Node "{self.id}" in tool "{tool}" calls the tool "{self.tool}", which this document'
                " does not have",
                (*self.written.path, "tool"),
                did_you_mean(self.tool, checks.tools),
            )

    def ways_to_end(self, graph: Mapping[str, Sequence[str]], ending: Collection[str]) -> Sequence[str]:
        if self.tool in ending:
            return graph[self.id]
        # It may fail before it calls, as with wrong arguments, and go on there.
        return [] if self.on_error is None else [self.on_error]

    def run(self, run: NodeRun) -> Any:
        arguments = run.record.input = arguments_of(self.args, run.line)
        tool = run.record.called = run.executor.document.tool(self.tool)
        if tool is None:
            raise RunError(f"Tool not found: {self.tool}", kind="graph")

        def attempt() -> Any:
            try:
                return self._run_inside(run, tool, arguments)
            except RunError as error:
                # A limit of the inner tool is an error of this call, which may be caught; one of the whole
                # run is not.
                if error.kind in FINAL - {"limit"} or (error.kind == "limit" and run.line.run.left <= 0):
                    raise
                kind = "arguments" if error.kind == "arguments" else "call"
                failure = RunError(error.sentence, kind=kind, code=error.code, details=error.details)
                failure.may_have_run = error.may_have_run
                raise failure from None

        return retried(self.retry, run.line, run.record, attempt)

    def _run_inside(self, run: NodeRun, tool: GraphTool, arguments: dict[str, Any]) -> Any:
        outer = run.line.run
        if outer.depth >= _DEEPEST:
            raise RunError(f"Tools call each other more than {_DEEPEST} levels deep", kind="limit")
        seconds = min(self.timeout or outer.left, outer.left)
        inner = replace(
            outer,
            tool=tool,
            arguments=with_defaults(tool.input_schema, arguments),
            limits=shorter(outer.limits, max(1, round(seconds * 1000))),
            is_canceled=run.line.is_stopped,
            depth=outer.depth + 1,
            caller=outer,
            history=outer.history.nested(),
        )
        return run.finish(inner, run.line.branch_of(run.record, tool.name))
