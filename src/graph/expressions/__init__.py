"""The two expression languages of graphs, JSONata and JSON Logic. Pure: values in, values out."""

from .bounds import Bounds
from .errors import ExpressionError
from .json_logic import check_json_logic, holds
from .jsonata import check_jsonata, evaluate
from .values import UNDEFINED, Undefined

__all__ = [
    "UNDEFINED",
    "Bounds",
    "ExpressionError",
    "Undefined",
    "check_json_logic",
    "check_jsonata",
    "evaluate",
    "holds",
]
