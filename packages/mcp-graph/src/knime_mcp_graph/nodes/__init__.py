"""The kinds of nodes, each in a module of its own."""

from typing import Final

from .calls import CallingNode as CallingNode
from .calls import McpNode, ToolNode
from .ends import EntryNode, ExitNode
from .for_each import ForEachNode
from .node import Node
from .parallel import ParallelNode
from .switch import SwitchNode
from .transform import TransformNode

_KINDS: tuple[type[Node], ...] = (
    EntryNode,
    ExitNode,
    TransformNode,
    McpNode,
    SwitchNode,
    ParallelNode,
    ForEachNode,
    ToolNode,
)
KINDS: Final = {kind.kind: kind for kind in _KINDS}
"""By the type that a document names."""
