"""``--workflow FILE.knwf``: workflows as tools of a command, run by our own host in KNIME's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .command_errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..headless.host import ExtensionHost
    from ..runs.engine import WorkflowRunner
    from ..types.tool import WorkflowTool


def load_host() -> ExtensionHost:
    from ..headless import load_own_extension
    from ..headless.node_results import HeadlessError

    try:
        return load_own_extension()
    except HeadlessError as error:
        raise CommandError(f"Workflows cannot be run here: {error}.") from None


def workflow_tools(host: ExtensionHost, files: Sequence[Path]) -> list[WorkflowTool]:
    from ..headless.workflows import WorkflowError, make_workflow_tool

    tools: list[WorkflowTool] = []
    for file in files:
        try:
            tools.append(make_workflow_tool(file, host))
        except WorkflowError as error:
            raise CommandError(f"{file} cannot be a tool: {error}") from None
    return tools


def workflow_runner(host: ExtensionHost, interrupt: Callable[[], bool]) -> WorkflowRunner:
    from ..headless.port_values import written
    from ..headless.workflows import ToolRunner

    runner = ToolRunner(host, is_canceled=interrupt)

    def run(
        tool: WorkflowTool, arguments: dict[str, Any], tables: tuple[Any, ...]
    ) -> tuple[str, tuple[Any, ...]]:
        given = [written(table) for table in tables]
        message, outputs, _ = runner(tool, arguments, given, {"execution-mode": "DEFAULT"})
        if outputs is None:
            raise RuntimeError(message)  # like KNIME if the tool itself failed
        return message, tuple(outputs)

    return run
