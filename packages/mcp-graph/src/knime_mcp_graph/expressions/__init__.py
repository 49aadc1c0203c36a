"""The two expression languages of graphs, JSONata and JSON Logic. Pure: values in, values out."""

from .engine import Bounds, ExpressionError, Stopped
from .javascript import UNDEFINED
from .json_logic import apply, holds
from .jsonata import check_jsonata, evaluate, unset_variables

__all__ = [
    "UNDEFINED",
    "Bounds",
    "ExpressionError",
    "Stopped",
    "apply",
    "check_jsonata",
    "evaluate",
    "holds",
    "unset_variables",
]
