"""The events of a run with everything that can happen, for tests of how runs are shown."""

import base64
import io
import json
from datetime import UTC, datetime, timedelta

from langchain_core.messages import AIMessage
from PIL import Image, ImageDraw

from knime_mcp.agents.agent_events import (
    Ending,
    ModelAnswered,
    ModelRetried,
    PromptGiven,
    RunEnded,
    TokenUsage,
    ToolFinished,
    ToolStarted,
)
from knime_mcp.agents.toolbox.replies import ToolReply, ToolRequest
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.types.tool import MCPTool, WorkflowTool

START = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
SEARCH = MCPTool("search_text", "Searches", {"type": "object"}, "https://host.example/mcp", "search")
REPORT = WorkflowTool("Monthly report", "Makes a report", {"month": {"type": "string"}})
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def at(seconds):
    return START + timedelta(seconds=seconds)


def chart():
    image = Image.new("RGB", (320, 140), "#f4f5f7")
    draw = ImageDraw.Draw(image)
    for number, height in enumerate((40, 90, 60, 110, 75)):
        draw.rectangle((20 + number * 60, 130 - height, 60 + number * 60, 130), fill="#0b5cad")
    data = io.BytesIO()
    image.save(data, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"
    return [
        {"type": "text", "text": "A chart of sales per month."},
        {"type": "image_url", "image_url": {"url": url}},
    ]


def turn(iteration, begin, duration, *calls, text="", usage=(512, 40), attempts=1):
    message = AIMessage(text, tool_calls=[{"id": i, "name": name, "args": args} for i, name, args in calls])
    return ModelAnswered(
        iteration=iteration,
        message=message,
        usage=TokenUsage(input=usage[0], output=usage[1], turns=1),
        at=at(begin),
        duration=duration,
        attempts=attempts,
    )


def tool_call(id_, name, args, begin, duration, *, tool, content, iteration=1, status=CallStatus.OK, **more):
    """The two events of a call; `more` goes into its record."""
    request = ToolRequest(id=id_, name=name, arguments=args, iteration=iteration)
    shown = tool.name if tool else name
    record = CallRecord(
        run="r",
        tool_name=shown,
        arguments=json.dumps(args),
        status=status,
        server="https://host.example/mcp" if isinstance(tool, MCPTool) else None,
        **more,
    )
    reply = ToolReply(
        request=request, content=content, record=record, tool=tool, failed=status is not CallStatus.OK
    )
    return (
        ToolStarted(request=request, shown_name=shown, at=at(begin)),
        ToolFinished(reply=reply, shown_name=shown, duration=duration),
    )


def run_events():
    question = f"Which products sold best last month, and why? Say where you know it from. {EVIL}"
    search = {"text": "best selling products", "limit": 20, "html": EVIL}
    started, finished = tool_call(
        "c1",
        "search_text",
        search,
        1.9,
        0.8,
        tool=SEARCH,
        content="orders.csv: 3 lines\n" + "line of a long result\n" * 3000,
        call=1,
        structured_result='{"matches":[{"file":"orders.csv","line":3}]}',
        started_at="2026-01-31T12:00:01.900000Z",
        attempts=2,
    )
    report = tool_call(
        "c2", "Monthly_report", {"month": "2026-01"}, 1.9, 2.4, tool=REPORT, content=chart(), call=2
    )
    bad = tool_call(
        "c3",
        "search_text",
        {"txt": "why"},
        6.0,
        0.01,
        tool=SEARCH,
        iteration=2,
        status=CallStatus.INVALID_ARGUMENTS,
        content="/text: a required property is missing. Did you mean 'text' where you wrote 'txt'?",
        error="/text: a required property is missing (server https://host.example/mcp, tool search_text)."
        " Did you mean 'text'?",
    )
    denied = tool_call(
        "c4",
        "delete_all",
        {},
        6.0,
        0.0,
        tool=MCPTool("delete_all", "", {}, "https://host.example/mcp", "delete_all"),
        iteration=2,
        status=CallStatus.DENIED,
        content="This call is not allowed.",
        error="The policy of this node does not allow the tool.",
    )
    read = ToolRequest(id="c5", name="read_result", arguments={"id": "r1", "offset": 8000}, iteration=2)
    return [
        PromptGiven(text=question, at=START),
        turn(
            1,
            0.1,
            1.7,
            ("c1", "search_text", search),
            ("c2", "Monthly_report", {}),
            text="I look at the orders first.",
        ),
        started,
        report[0],
        finished,
        report[1],
        ModelRetried(iteration=2, reason="The endpoint answers 429: too many requests.", wait=1.0),
        turn(2, 4.5, 1.5, ("c3", "search_text", {}), ("c4", "d", {}), ("c5", "read_result", {}), attempts=2),
        *bad,
        *denied,
        ToolStarted(request=read, shown_name="read_result", at=at(6.0)),
        ToolFinished(
            reply=ToolReply(request=read, content="… the rest of it"),
            shown_name="read_result",
            duration=0.001,
        ),
        turn(3, 6.1, 2.2, text="Desks sold best: 120 of them, 30 % more than the month before."),
        RunEnded(
            ending=Ending.ANSWER,
            text="Desks sold best: 120 of them, 30 % more than before.\n\nSource: orders.csv, line 3.",
            usage=TokenUsage(input=1536, output=120, turns=3),
            iterations=3,
            duration=8.3,
        ),
    ]
