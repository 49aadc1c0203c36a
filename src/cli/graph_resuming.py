"""Goes on with a run of a graph that was interrupted, from its journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command_errors import CommandError, UsageError
from .files import journal_to_resume

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ..audit.journal_reading import JournalContent
    from ..graph.api import McpGraphApi
    from ..graph.durable_runs import DurableRun, EarlierGraphRun
    from ..graph.graph_model import GraphDocument
    from ..runs.engine import Run

RunOption = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="Which of the interrupted runs; needed if there are several."),
]
RepeatOption = Annotated[
    bool,
    typer.Option(
        "--repeat-unknown", help="With --resume: make calls again of which nobody knows what came of them."
    ),
]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An interrupted run, and the journal that it is in."""

    content: JournalContent
    earlier: EarlierGraphRun
    repeat_unknown: bool

    @classmethod
    def read(cls, file: Path, chosen: str | None, *, repeat_unknown: bool) -> Interrupted:
        from ..graph.durable_runs import earlier_runs

        content, runs = journal_to_resume(file), earlier_runs(file)
        if chosen is not None and chosen not in runs:
            raise UsageError(f"{file} has no run {chosen} of a graph. {_listed(runs.values())}")
        if not runs:
            raise CommandError(f"{file} has no run of a graph: there is nothing to go on with.")
        left = [run for run in runs.values() if run.outcome != "complete"]
        # A complete one tells its result again, as it may have been killed before somebody saw that.
        left = [runs[chosen]] if chosen else left or list(runs.values())
        if len(left) > 1:
            raise UsageError(f"{file} has several runs; choose one with --run. {_listed(left)}")
        return cls(content, earlier_runs(file, left[0].id)[left[0].id], repeat_unknown)

    def arguments(
        self, document: GraphDocument, tool: str, given: Mapping[str, Any], named: Iterable[str]
    ) -> dict[str, Any]:
        """The arguments to go on with; raises `CannotGoOn`."""
        from ..graph.durable_runs import arguments_to_go_on
        from ..graph.server_configs import marker_of_servers

        if tool != self.earlier.tool:
            raise UsageError(f"The run {self.earlier.id} is one of the tool {self.earlier.tool}.")
        known = marker_of_servers(document.servers, tuple(named))
        return arguments_to_go_on(
            document, self.earlier, self.content, given, known=known, repeat_unknown=self.repeat_unknown
        )

    def durable(self, api: McpGraphApi, run: Run, arguments: Mapping[str, Any]) -> DurableRun:
        """The run, which goes on."""
        from ..runs.resuming import learn_unknown

        learn_unknown(self.earlier.unknown(self.content), run)
        definition = api.document.tool(self.earlier.tool)
        assert definition is not None
        return api.durable(
            definition,
            arguments,
            id=self.earlier.id,
            earlier=self.earlier,
            repeat_unknown=self.repeat_unknown,
        )


def _listed(runs: Iterable[EarlierGraphRun]) -> str:
    names = [f"{run.id} ({run.tool}, {run.outcome or 'interrupted'})" for run in runs]
    return f"It has: {', '.join(names) or 'none'}."
