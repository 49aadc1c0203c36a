"""What is wrong with an expression, or went wrong when it was evaluated."""

from __future__ import annotations

from ...types.errors import MCPError


class ExpressionError(MCPError):
    """An expression could not be evaluated.

    Args:
        what: What happened.
        expression: The expression.
        code: JSONata's code of the error, such as ``T2001``.
        cause: What is wrong, without the expression; `what` if it is not given.

    Attributes:
        expression: The expression.
        cause: What is wrong, without the expression.
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


class Stopped(MCPError):  # noqa: N818 - what ends an evaluation is no mistake in it
    """Whoever watches the evaluation wants it to end."""
