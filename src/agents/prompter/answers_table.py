"""The table *Answers*: one row per prompt, with the columns of the prompt's row and what came of it.

An answer that has a schema has a column for each of its parts. *Answer* has the whole of it, as JSON.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...types.columns import ROW_ID, arrow_type, knime_columns
from ...types.texts import numbered, without_surrogates
from ..model.model_errors import AnswerUnfit

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from ...types.columns import ColumnKind
    from ..answer_schema import AnswerSchema
    from .conversation_table import ConversationRow

_BEFORE: Final[tuple[tuple[str, ColumnKind], ...]] = (("Outcome", "string"), ("Answer", "string"))
_AFTER: Final[tuple[tuple[str, ColumnKind], ...]] = (
    ("Error", "string"),
    ("Iterations", "int64"),
    ("Input tokens", "int64"),
    ("Output tokens", "int64"),
    ("Duration (s)", "double"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersLayout:
    """The columns of *Answers*, after the `inputs`; a name that is taken gets a number."""

    inputs: tuple[str, ...] = ()
    answer: AnswerSchema | None = None

    @property
    def _own(self) -> list[tuple[str, ColumnKind]]:
        parts: list[tuple[str, ColumnKind]] = [] if self.answer is None else self.answer.columns
        named: list[tuple[str, ColumnKind]] = [
            (without_surrogates(name).strip() or "column", kind) for name, kind in parts
        ]
        columns = [*_BEFORE, *named, *_AFTER]
        names = numbered([ROW_ID, *self.inputs, *(name for name, _ in columns)])
        first = len(names) - len(columns)
        return [(name, kind) for name, (_, kind) in zip(names[first:], columns, strict=True)]

    def schema(self, inputs: Any | None) -> Any:
        """Makes the spec that ``configure`` returns from that of the prompts."""
        import knime.extension as knext

        kept = () if inputs is None else (knext.Column(column.ktype, column.name) for column in inputs)
        return knext.Schema.from_columns([*kept, *knime_columns(self._own)])

    def table(self, entries: Iterable[ConversationRow], inputs: pa.Table | None = None) -> pa.Table:
        """Makes the table of the last rows of all conversations, which are in the order of `inputs`."""
        import pyarrow as pa

        ends = [entry for entry in entries if entry.outcome is not None]
        outcomes = [(entry.outcome, entry.error) for entry in ends if entry.outcome is not None]
        answers = [outcome.answer for outcome, _ in outcomes]
        texts = [None if answer is None else without_surrogates(answer) for answer in answers]
        counted = [
            # No turn was counted: missing, as 0 would say that it cost nothing.
            outcome.usage if outcome.usage is not None and outcome.usage.turns else None
            for outcome, _ in outcomes
        ]
        cells: list[Any] = [
            [outcome.ending for outcome, _ in outcomes],
            texts,
            *([] if self.answer is None else self._parts(self.answer, answers)),
            [None if error is None else without_surrogates(error) for _, error in outcomes],
            [outcome.iterations for outcome, _ in outcomes],
            [None if usage is None else usage.input for usage in counted],
            [None if usage is None else usage.output for usage in counted],
            [round(outcome.duration, 6) for outcome, _ in outcomes],
        ]
        made = {
            name: cell if isinstance(cell, pa.Array) else pa.array(cell, arrow_type(kind))
            for (name, kind), cell in zip(self._own, cells, strict=True)
        }
        before = {} if inputs is None else dict(zip(inputs.column_names, inputs.columns, strict=True))
        return pa.table({**before, **made})

    def _parts(self, schema: AnswerSchema, answers: list[str | None]) -> list[pa.Array]:
        """The columns of the answers' parts; an answer without the form, such as a refusal, has none."""
        read: list[dict[str, Any]] = [{} for _ in answers]
        for place, answer in enumerate(answers):
            with suppress(AnswerUnfit):
                read[place] = {} if answer is None else schema.read(answer)
        return schema.cells(read)
