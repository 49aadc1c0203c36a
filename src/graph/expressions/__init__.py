"""The two expression languages of graphs, JSONata and JSON Logic. Pure: values in, values out."""

from .bounds import Bounds
from .errors import ExpressionError
from .json_logic import holds
from .jsonata import check_jsonata, evaluate, unset_variables
from .values import UNDEFINED

__all__ = [
    "UNDEFINED",
    "Bounds",
    "ExpressionError",
    "check_jsonata",
    "evaluate",
    "holds",
    "unset_variables",
]
