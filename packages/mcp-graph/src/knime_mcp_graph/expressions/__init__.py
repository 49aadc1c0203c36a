"""The two expression languages of graphs, JSONata and JSON Logic. Pure: values in, values out."""

from .evaluation_limits import Bounds, ExpressionError
from .javascript import UNDEFINED
from .json_logic import holds
from .jsonata import check_jsonata, evaluate, unset_variables

__all__ = [
    "UNDEFINED",
    "Bounds",
    "ExpressionError",
    "check_jsonata",
    "evaluate",
    "holds",
    "unset_variables",
]
