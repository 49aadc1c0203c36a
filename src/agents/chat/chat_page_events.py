"""What happens in a conversation, as the chat's page is told: one object of JSON per event.

Texts go out as they are, also those that a server or a model wrote: the page makes text of them, never
markup. What a person decides on is shown with its invisible characters spelled out.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ...types.texts import shortened
from ...types.tool import MCPTool
from ..agent_events import ModelAnswered, ModelRetried, TextDelta, ToolFinished, ToolStarted
from ..message_content import calls_of, image_of, shown_text, text_of
from ..timeline import status_of_call
from ..toolbox.approvals import called, form_fields, form_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...runs.call_values import Ask, PlannedCall
    from ..agent_events import AgentEvent
    from ..prompter.conversation_table import ConversationRow
    from ..prompter.prompter import Prompter
    from ..toolbox.approvals import FormField
    from ..toolbox.data_registry import DataItem

PageEvent = dict[str, Any]

_LONGEST_TEXT: Final = 20_000
_LONGEST_CELL: Final = 200
_MOST_ROWS: Final = 20
_MOST_COLUMNS: Final = 30
_UNSEEN: Final = frozenset(("Cf", "Cc", "Co", "Cn", "Zl", "Zp"))


def page_event(event: AgentEvent, prompter: Prompter) -> PageEvent | None:
    """An event of an agent's run; None for one that the page does not need."""
    match event:
        case TextDelta():
            return {"kind": "delta", "turn": event.iteration, "text": event.text}
        case ModelAnswered():
            return {"kind": "answer", "turn": event.iteration, "text": text_of(event.message)}
        case ModelRetried():
            return {"kind": "note", "text": f"The model is asked again in {event.wait:.0f} s: {event.reason}"}
        case ToolStarted(request=request):
            bound = prompter.toolset.by_name.get(request.name)
            tool = None if bound is None else bound.tool
            arguments = prompter.toolset.marked(
                request.name, dict(request.arguments or {}), prompter.run.secrets
            )
            return {
                "kind": "call",
                "id": request.id,
                "name": event.shown_name,
                "server": tool.route.url if isinstance(tool, MCPTool) else "",
                "arguments": plain_json(arguments),
            }
        case ToolFinished():
            return _finished(event)
        case _:
            return None


def _finished(event: ToolFinished) -> PageEvent:
    status, meaning = status_of_call(event)
    reply, record = event.reply, event.reply.record
    content = [] if isinstance(reply.content, str) else reply.content
    shown: PageEvent = {
        "kind": "result",
        "id": reply.request.id,
        "name": event.shown_name,
        "status": status,
        "meaning": meaning,
        "seconds": round(event.duration, 3),
        "origin": reply.origin,
        "text": shortened(reply.text, _LONGEST_TEXT),
        "pictures": _pictures(content),
    }
    if record is not None:
        shown |= {"decision": record.decision or "", "server": record.server or ""}
        if record.arguments is not None:
            shown["arguments"] = plain_json(json.loads(record.arguments))
    return shown


def past_events(entries: Iterable[ConversationRow]) -> Iterator[PageEvent]:
    """A conversation that was had before."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    for number, entry in enumerate(entries):
        match entry.message:
            case HumanMessage() as said:
                yield {"kind": "question", "text": shown_text(said)}
            case AIMessage() as said:
                if text := text_of(said):
                    # Negative, so that no turn of this session has the same number.
                    yield {"kind": "answer", "turn": -number, "text": text}
                for call in calls_of(said):
                    arguments = call["arguments"]
                    written = arguments if isinstance(arguments, str) else plain_json(arguments)
                    yield {"kind": "call", "id": call["id"], "name": call["name"], "arguments": written}
            case ToolMessage() as said:
                content = said.content if isinstance(said.content, list) else []  # pyright: ignore[reportUnknownMemberType]
                yield {
                    "kind": "result",
                    "id": said.tool_call_id,
                    "status": "",
                    "meaning": "bad" if said.status == "error" else "good",
                    "text": shortened(text_of(said), _LONGEST_TEXT),
                    "pictures": _pictures(block for block in content if isinstance(block, dict)),
                }
            case _:
                if entry.error is not None:
                    yield {"kind": "error", "text": entry.error}


def table_event(item: DataItem) -> PageEvent:
    """The beginning of a table that a tool gave."""
    import pyarrow as pa

    if isinstance(item.data, pa.Table):
        total, data = item.data.num_rows, item.data.slice(0, _MOST_ROWS)
    else:  # a table of KNIME's, whose first column is the RowIDs
        total, data = item.data.num_rows, item.data[:_MOST_ROWS].to_pyarrow()
        data = data.drop_columns(data.schema.names[:1])
    columns = data.column_names[:_MOST_COLUMNS]
    rows = [[_cell_text(row[name]) for name in columns] for row in data.to_pylist()]
    return {
        "kind": "table",
        "id": item.id,
        "name": item.name,
        "rows": rows,
        "columns": columns,
        "total": total,
        "left_out": data.num_columns - len(columns),
    }


def asked_event(number: int, plan: PlannedCall, question: Ask) -> PageEvent:
    """What a person is asked: about a call, or what a server wants to know, to open, or of the model."""
    name, server = called(plan)
    arguments = dict(plan.arguments or {})
    event: PageEvent = {
        "kind": "ask",
        "about": question.about,
        "number": number,
        "name": name,
        "server": server,
        "why": plain_text(question.why),
        "arguments": plain_json(arguments),
    }
    match question.about:
        case "form" if (fields := form_fields(form_of(plan))) is not None:
            event["fields"] = [_field(form_field) for form_field in fields]
        case "page":
            event["page"] = plain_text(str(arguments["url"]))
        case "answer":
            event["text"] = plain_text(str(arguments["text"]))
        case _:
            pass
    return event


def _field(form_field: FormField) -> dict[str, Any]:
    texts = {"label": form_field.label, "hint": form_field.hint}
    choices = [[value, plain_text(title)] for value, title in form_field.choices]
    shown = {name: plain_text(text) for name, text in texts.items()}
    return {**asdict(form_field), "choices": choices, **shown}


def plain_json(value: Any) -> str:
    """JSON in which nothing is invisible: formatting and control characters are escapes."""
    return plain_text(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def plain_text(text: str) -> str:
    return "".join(_escape(sign) if _is_unseen(sign) else sign for sign in text)


def _is_unseen(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in _UNSEEN


def _escape(character: str) -> str:
    # By hand below, as JSON has short forms for some, such as `\t`.
    return json.dumps(character)[1:-1] if ord(character) > 126 else f"\\u{ord(character):04x}"


def _cell_text(value: Any) -> str:
    if value is None:
        return "?"  # as KNIME shows missing cells
    if isinstance(value, bytes):
        return f"[{len(value):,} bytes]"
    return shortened(value if isinstance(value, str) else json.dumps(value, default=str), _LONGEST_CELL)


def _pictures(blocks: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    found = filter(None, map(image_of, blocks))
    return [{"type": kind, "data": base64.b64encode(data).decode()} for data, kind in found]
