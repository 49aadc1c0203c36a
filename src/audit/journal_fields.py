"""What a journal says beside its calls: the fields of its other lines.

`LINES` is the one table of these fields: `verify` names what is not in it, and the list in ``docs/audit.md``
is made from it. The fields of a call are in `record.FIELDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .record import FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

LINES: Final[Mapping[str, Mapping[str, str]]] = {
    "start": {
        "run": "Id of the run.",
        "about": "Its tool and settings, by which it is found again.",
        "calls": "How many calls it is going to make, if that is known.",
        "at": "When it began, in UTC.",
        "format": "2; nothing in older journals.",
        "who": "The user, the machine, and the product with its version.",
        "what": "What it was told to do: for an agent its model, endpoint, system prompt, rules and settings;"
        " the tools with their servers and the digests of their definitions.",
    },
    "prompt": {
        "run": "Id of the run.",
        "row": "RowID of the prompt.",
        "text": "The question.",
        "history": "Digest of the conversation before it.",
        "at": "When it was asked.",
    },
    "turn": {
        "run": "Id of the run.",
        "row": "RowID of the prompt.",
        "iteration": "The agent's turn.",
        "text": "What the model said.",
        "model": "The fallback, if it answered in the place of the run's model.",
        "calls": "The tools that it called, with arguments.",
        "usage": "How many tokens it read and wrote.",
        "at": "When it was asked.",
    },
    "answer": {
        "run": "Id of the run.",
        "row": "RowID of the prompt.",
        "text": "The answer, or the error in its place.",
        "ending": "How the conversation ended.",
        "at": "When it ended.",
    },
    "read": {
        "run": "Id of the run.",
        "what": "`resource` or `prompt`.",
        "server": "The server's URL without secrets.",
        "name": "The resource's URI, or the prompt's name.",
        "arguments": "The prompt's arguments.",
        "row": "RowID of the row of parameters.",
        "digest": "SHA-256 of the answer as canonical JSON; of a prompt also of its definition.",
        "error": "The error in place of an answer.",
        "at": "When it was answered, in UTC.",
    },
    "sent": {
        "run": "Id of the run.",
        "key": "The idempotency key.",
        "plan": "Digest of row, tool, server and arguments.",
        "tool": "The name of the tool.",
        "row": "RowID of the row of parameters.",
        "at": "When it was about to be sent.",
    },
    "end": {
        "run": "Id of the run.",
        "calls": "How many calls it made.",
        "head": "Hash of its last call.",
        "outcome": "`complete`, `failed` or `canceled`.",
        "at": "When it ended.",
    },
    "next": {"part": "The journal goes on in the file with this number: here is the end of a file."},
    "part": {"number": "The number of this file of the journal: here is its beginning."},
    "checkpoint": {
        "note": "How many lines stand before it, and the `chain` of the last of them, as a signed note.",
        "time_stamp": "An RFC 3161 response for the note, in base64.",
    },
}
"""The fields of each kind of line, but for ``kind`` and ``chain``, which all have."""
OTHERS: Final = frozenset({"sent", "prompt", "turn", "answer"})
"""Lines of a run, beside its calls, that only have to follow the line before."""
_EVERYWHERE: Final = frozenset({"kind", "chain"})
_KNOWN: Final = {kind: _EVERYWHERE | fields.keys() for kind, fields in LINES.items()}
_KNOWN["call"] = _EVERYWHERE | FIELDS.keys()


def unknown_fields(line: Mapping[str, Any]) -> list[str]:
    """The fields of a line that this version does not know; all of a kind that it does not know."""
    known = _KNOWN.get(str(line.get("kind")), _EVERYWHERE)
    return [] if line.keys() <= known else [name for name in line if name not in known]
