"""The tools that the servers built on Python SDKs offer: the same functions, registered with each SDK."""

import asyncio
import base64
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SHOWN_HEADERS = (
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "user-agent",
    "authorization",
)


class Statistics(BaseModel):
    """What `describe` finds out."""

    count: int
    mean: float
    largest: float


class Priority(Enum):
    """How fast an order leaves."""

    LOW = "low"
    HIGH = "high"


class Item(BaseModel):
    """A line of an order."""

    article: str
    amount: int = Field(ge=1)
    parts: "list[Item]" = []


class Order(BaseModel):
    """What a customer wants."""

    customer: str
    items: list[Item]
    priority: Priority = Priority.LOW
    note: str | None = None


def add_tools(tool: Callable[[Callable[..., Any]], Any], context_type: Any, image_type: Any) -> None:
    """Registers the tools.

    Args:
        tool: Registers one function under its own name.
        context_type: The SDK's class of the context parameter.
        image_type: The SDK's class of an image result.
    """
    waits = {"running": 0, "canceled": 0}

    def add(a: int, b: int) -> int:
        """Adds two whole numbers."""
        return a + b

    def echo(text: str, times: Annotated[int, Field(ge=1, le=3)] = 1) -> str:
        """Repeats a text."""
        return text * times

    def describe(values: list[float], which: Literal["all", "positive"] = "all") -> Statistics:
        """Describes numbers."""
        chosen = [value for value in values if which == "all" or value > 0]
        return Statistics(count=len(chosen), mean=sum(chosen) / len(chosen), largest=max(chosen))

    def order(order: Order) -> str:
        """Takes an order."""
        lines = ", ".join(f"{item.amount} {item.article}" for item in order.items)
        return f"{order.customer} ({order.priority.value}): {lines}; {order.note}"

    def pixel():
        """Draws one pixel."""
        return image_type(data=PIXEL, format="png")

    def divide(a: float, b: float) -> float:
        """Divides, and fails on zero."""
        if b == 0:
            raise ValueError("cannot divide by zero")
        return a / b

    async def countdown(steps: int, ctx: context_type) -> str:
        """Reports progress for every step."""
        for step in range(1, steps + 1):
            await asyncio.sleep(0.02)
            await ctx.report_progress(step, steps)
        return f"counted {steps} steps"

    async def wait(seconds: float) -> str:
        """Takes its time."""
        waits["running"] += 1
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            waits["canceled"] += 1
            raise
        finally:
            waits["running"] -= 1
        return f"waited {seconds} s"

    def waiting() -> dict[str, int]:
        """How many calls of `wait` are running and how many were canceled."""
        return waits

    def headers(ctx: context_type) -> dict[str, str]:
        """The HTTP headers of this call that matter to MCP."""
        sent = ctx.request_context.request.headers
        return {name: sent[name] for name in SHOWN_HEADERS if name in sent}

    for function in (add, echo, describe, order, pixel, divide, countdown, wait, waiting, headers):
        tool(function)
