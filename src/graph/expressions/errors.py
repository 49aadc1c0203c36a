"""Errors of expressions."""

from __future__ import annotations

from ...types.errors import MCPError


class ExpressionError(MCPError):
    """An expression could not be evaluated.

    Args:
        what: The message.
        expression: The expression.
        code: JSONata's code of the error, such as ``T2001``.
        cause: The reason without the expression; by default `what`.

    Attributes:
        expression: The expression.
        cause: The reason without the expression.
        code: JSONata's code of the error, or None.
    """

    def __init__(
        self, what: str, *, expression: str, code: str | None = None, cause: str | None = None
    ) -> None:
        super().__init__(what)
        self.cause = cause or what
        self.expression = expression
        self.code = code

    def __str__(self) -> str:
        return self.what


class Stopped(MCPError):  # noqa: N818 - a stop is not a mistake in the expression
    """The evaluation was stopped from outside."""
