"""Errors of runs, which name the tool, the node, the expression and the cause."""

from __future__ import annotations

from typing import Any

from ...types.errors import MCPError


class RunError(MCPError):
    """A run ended without a result.

    Args:
        cause: The failure in words.
        tool: The graph's tool.
        node: The node that failed, or None.
        kind: ``expression``, ``call``, ``limit``, ``arguments``, ``result``, ``stopped`` or ``graph``.
        code: JSONata's or JSON-RPC's code of the cause, or None.
        fix: The next step.
        details: Details for nodes after an ``onError`` edge, plain JSON.

    Attributes:
        cause: The failure in words.
        node: The node that failed, or None.
        kind: The kind of failure.
        code: Code of the cause, or None.
        details: Plain JSON, or None.
        history: The executions up to the failure, including the failed node.
    """

    def __init__(
        self,
        cause: str,
        *,
        tool: str | None = None,
        node: str | None = None,
        kind: str,
        code: str | int | None = None,
        fix: str | None = None,
        details: Any = None,
    ) -> None:
        super().__init__(cause, tool=tool, fix=fix)
        self.cause = cause
        self.node = node
        self.kind = kind
        self.code = code
        self.details = details
        self.history: tuple[Any, ...] = ()

    def __str__(self) -> str:
        places = [f"Tool '{self.tool}'" if self.tool else "", f"node '{self.node}'" if self.node else ""]
        where = ", ".join(place for place in places if place)
        fix = f"\n{self.fix.rstrip('.')}." if self.fix else ""
        return f"{where}: {self.cause}{fix}" if where else f"{self.cause}{fix}"

    def placed(self, tool: str, node: str | None = None) -> RunError:
        """Sets tool and node where they are missing, and returns the error."""
        self.tool = self.tool or tool
        self.node = self.node or node
        return self

    def to_json(self) -> dict[str, Any]:
        """The error in the form for nodes after an ``onError`` edge."""
        members = {"message": self.cause, "kind": self.kind, "node": self.node, "code": self.code}
        kept = {key: value for key, value in members.items() if value is not None}
        return kept if self.details is None else {**kept, "details": self.details}


class ToolFailedError(RunError):
    """The called tool answered that it failed."""
