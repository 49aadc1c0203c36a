"""What an editor shows of a graph document while it is written: completions and hovers.

The text around the cursor is rarely a whole document, so that the place is found by the lines before it, and
what is known comes from the last text that could be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..client.validation.argument_schemas import properties_in
from ..yaml_text import as_list, as_mapping
from .document_checks import HISTORY_FUNCTIONS
from .expressions.jsonata_functions import FUNCTIONS
from .expressions.jsonata_shapes import SIGNATURES
from .expressions.shapes import Shape, of_schema
from .graph_model import NODE_TYPES, McpNode, ToolNode, type_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .document_loading import CheckedDocument
    from .graph_model import Node
    from .node_shapes import CalledTool, NodeShapes

_KEY: Final = re.compile(r"""(?:^|[\s{,-])(?P<key>\w+):\s*["']?(?P<begun>[\w.-]*)$""")
_IN_ARGS: Final = re.compile(r"\bargs:\s*\{(?:(?:[^{}]|\{[^{}]*\})*,)?\s*\w*$")
_PATH: Final = re.compile(
    r"(?P<path>(?:[A-Za-z_$][\w$]*|`[^`]*`)(?:\[[^\]]*\])?(?:\.(?:\w+(?:\[[^\]]*\])?)?)*)$"
)
_EXPRESSION: Final = re.compile(r"\b(?:expr|items|var):")
_BRACKETS: Final = re.compile(r"\[[^\]]*\]")
_WORD: Final = re.compile(r"[\w$.`-]+")
_TARGETS: Final = frozenset({"next", "target", "denied", "onError", "do", "branches"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    label: str
    detail: str
    kind: str  # ``node``, ``tool``, ``argument``, ``field``, ``function`` or ``word``


class EditorHelp:
    """Completions and hovers for one document, from what is known of it.

    Args:
        checked: The last text that could be read.
        called: What is known of tools on servers.
    """

    def __init__(
        self, checked: CheckedDocument, called: Mapping[tuple[str, str], CalledTool] | None = None
    ) -> None:
        self._checked = checked
        self._called = called or {}

    def completions(self, lines: list[str], line: int, column: int) -> list[Completion]:
        """What may stand at a place: `line` and `column` count characters from 0."""
        before = lines[line][:column] if line < len(lines) else ""
        shapes, nodes = self._around(lines, line)
        node = _node_at(lines, line, nodes)
        if (in_args := self._arguments(lines, line, before, node)) is not None:
            return in_args
        key = _KEY.search(before)
        match key["key"] if key else "":
            case name if name in _TARGETS:
                return _of_nodes(shapes, nodes)
            case "type":
                return [Completion(label=name, detail="type of a node", kind="word") for name in NODE_TYPES]
            case "server":
                servers = dict.fromkeys([name for name, _ in self._called] + self._servers())
                return [Completion(label=name, detail="server", kind="tool") for name in servers]
            case "tool":
                return self._tools(before, node)
            case _:
                is_expression = key is None or _EXPRESSION.search(before) is not None
                return self._names(before, shapes) if is_expression and shapes is not None else []

    def hover(self, lines: list[str], line: int, column: int) -> str | None:
        """What is known of the word at a place, as Markdown."""
        text = lines[line] if line < len(lines) else ""
        word = next((m for m in _WORD.finditer(text) if m.start() <= column <= m.end()), None)
        if word is None:
            return None
        shapes, nodes = self._around(lines, line)
        # Of `a.b.c` only what leads up to the part under the cursor.
        end = text.find(".", column)
        path = word[0] if end < 0 or end > word.end() else text[word.start() : end]
        name = path.strip("`").removeprefix("$.").removeprefix("$$.")
        if name.startswith("$") and name[1:] in SIGNATURES:
            takes, gives = SIGNATURES[name[1:]]
            return f"`{name}`: takes {takes or 'nothing'}, gives {gives.words}"
        node = nodes.get(name)
        if node is not None and shapes is not None:
            return f"**{name}**: {type_name(node)} node; its output is {_described(shapes.output(name))}"
        found = None if shapes is None else _at(shapes.context, name.split("."))
        return None if found is None else f"`{name}`: {_described(found)}"

    def _around(self, lines: list[str], line: int) -> tuple[NodeShapes | None, dict[str, Node]]:
        """The tool in whose lines a place is: the last one whose name stands above."""
        document = self._checked.document
        shapes = self._checked.shapes
        for text in reversed(lines[: line + 1]):
            name = re.search(r"""(?:^\s*-|^\s+)\s*name:\s*["']?([\w.-]+)""", text)
            if name is not None and name[1] in shapes:
                tool = None if document is None else document.tool(name[1])
                return shapes[name[1]], dict(shapes[name[1]].nodes if tool is None else tool.by_id)
        first = next(iter(shapes.values()), None)
        return first, {} if first is None else dict(first.nodes)

    def _arguments(
        self, lines: list[str], line: int, before: str, node: Node | None
    ) -> list[Completion] | None:
        """The arguments of a called tool, where the name of one may stand."""
        if not isinstance(node, McpNode | ToolNode):
            return None
        is_inside = _IN_ARGS.search(before) is not None
        if not is_inside and re.fullmatch(r"\s+\w*", before):
            indent = len(before) - len(before.lstrip())
            above = next((text for text in reversed(lines[:line]) if _indent(text) < indent), "")
            is_inside = re.fullmatch(r"\s*-?\s*args:\s*", above) is not None
        tools = self._checked.tools
        tool = tools.called_by(node) if is_inside and tools is not None else None
        if tool is None or tool.input_schema is None:
            return None
        required = as_list(tool.input_schema.get("required"))
        fields = of_schema(tool.input_schema, "").fields
        offered: list[Completion] = []
        for name, schema in properties_in(tool.input_schema, tool.input_schema).items():
            need = "required" if name in required else ""
            about = (fields[name].words, need, str(as_mapping(schema).get("description", "")))
            offered.append(Completion(label=name, detail=", ".join(filter(None, about)), kind="argument"))
        return offered

    def _tools(self, before: str, node: Node | None) -> list[Completion]:
        written = re.search(r"""server:\s*["']?([\w.-]+)""", before)
        server = written[1] if written else node.server if isinstance(node, McpNode) else None
        if server is None:
            own: list[str] = [] if self._checked.tools is None else list(self._checked.tools.own)
            return [Completion(label=name, detail="tool", kind="tool") for name in own]
        names = dict.fromkeys(name for of, name in self._called if of == server)
        return [Completion(label=name, detail=f"tool of {server}", kind="tool") for name in names]

    def _names(self, before: str, shapes: NodeShapes) -> list[Completion]:
        """In an expression: nodes and functions, or the fields of what a path leads to."""
        path = _PATH.search(before)
        begun = "" if path is None else path["path"]
        if begun.startswith("$") and "." not in begun:
            return [
                Completion(label=f"${name}", detail=SIGNATURES.get(name, ("", Shape()))[0], kind="function")
                for name in (*FUNCTIONS, *sorted(HISTORY_FUNCTIONS))
            ]
        names = begun.removeprefix("$$.").removeprefix("$.").split(".")
        if len(names) == 1:
            return _of_nodes(shapes, shapes.nodes)
        found = _at(shapes.context, names[:-1])
        flat = Shape() if found is None else found.flat()
        return [
            Completion(label=n, detail=_described(shape), kind="field") for n, shape in flat.fields.items()
        ]

    def _servers(self) -> list[str]:
        return [] if self._checked.document is None else list(self._checked.document.servers)


def _of_nodes(shapes: NodeShapes | None, nodes: Mapping[str, Node]) -> list[Completion]:
    """The nodes of a tool, also those that cannot be read as they are being written."""
    names = nodes if shapes is None else shapes.ids
    types = {name: f"{type_name(nodes[name])} node" for name in names if name in nodes}
    return [Completion(label=name, detail=types.get(name, "node"), kind="node") for name in names]


def _node_at(lines: list[str], line: int, nodes: Mapping[str, Node]) -> Node | None:
    for text in reversed(lines[: line + 1]):
        found = re.search(r"""\bid:\s*["']?([\w.-]+)""", text)
        if found is not None:
            return nodes.get(found[1])
    return None


def _at(shape: Shape, names: Iterable[str]) -> Shape | None:
    for name in names:
        found = shape.flat().fields.get(_BRACKETS.sub("", name).strip("`"))
        if found is None:
            return None
        shape = found
    return shape


def _described(shape: Shape) -> str:
    fields = list(shape.flat().fields)
    words = shape.words or "anything"
    values = f", one of {', '.join(map(str, shape.values))}" if shape.values else ""
    more = f" with {', '.join(fields[:20])}" if fields else ""
    return f"{words}{values}{more}"


def _indent(text: str) -> int:
    # Blank lines are inside of whatever is around them.
    return len(text) - len(text.lstrip()) if text.strip() else 1 << 30


def word_end(text: str, column: int) -> int:
    """Where the word that begins at a column ends, both from 0; at least one character after it."""
    word: Any = _WORD.match(text, column)
    return max(word.end() if word else column + 1, column + 1)
