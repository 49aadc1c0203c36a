"""Who decides where a graph asks a person: options, or whoever sits at the terminal."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from ..yaml_text import one_of
from .command_errors import UsageError
from .person import asked
from .terminal import can_ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..graph.approvals import Approver, Decision, Question
    from ..graph.graph_model import GraphDocument

ApproveOption = Annotated[
    list[str] | None,
    typer.Option("--approve", metavar="NODE", help="Say yes where this node asks; may be repeated."),
]
DenyOption = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="NODE", help="Say no where this node asks; may be repeated."),
]


def approver(
    document: GraphDocument,
    approved: Iterable[str] | None,
    denied: Iterable[str] | None,
    is_stopped: Callable[[], bool],
) -> Approver | None:
    """Takes what the options say, or asks at the terminal; None if there is nobody there and no option."""
    said = dict.fromkeys(approved or (), True) | dict.fromkeys(denied or (), False)
    known = document.questions
    for name in said.keys() - known:
        fix = one_of(name, sorted(known))
        raise UsageError(f"The document has no approve node '{name}'. {fix}.")
    return _Decisions(said, is_stopped) if said or can_ask() else None


class _Decisions:
    def __init__(self, said: dict[str, bool], is_stopped: Callable[[], bool]) -> None:
        self._said = said
        self._is_stopped = is_stopped
        self._asking = threading.Lock()  # branches may ask at the same time

    def __call__(self, question: Question) -> Decision | None:
        from ..graph.approvals import Decision

        if (said := self._said.get(question.node)) is not None:
            return Decision(approved=said, by=f"option --{'approve' if said else 'deny'}")
        if not can_ask():
            return None

        def is_stopped() -> bool:
            return self._is_stopped() or question.is_stopped()

        text = (
            f"{question.node} asks: {question.message}\nNot to be asked: --approve or --deny {question.node}"
        )
        with self._asking:
            answer = asked(text, "yes", "no", is_stopped=is_stopped)
        if answer is None:
            return None
        return Decision(approved=answer.word == "yes", by="a person", comment=answer.reason)
