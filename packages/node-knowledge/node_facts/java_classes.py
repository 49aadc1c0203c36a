"""Finds the Java classes of source folders, parses them on demand, and resolves their names as Java does."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import tree_sitter
import tree_sitter_java

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tree_sitter import Node

_PARSER: Final = tree_sitter.Parser(tree_sitter.Language(tree_sitter_java.language()))
_PACKAGE: Final = re.compile(rb"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_LEFT_OUT: Final = frozenset({".git", "node_modules", "target", "bin"})
_TYPES: Final = frozenset(
    {
        "class_declaration",
        "interface_declaration",
        "enum_declaration",
        "record_declaration",
        "annotation_type_declaration",
    }
)
_JAVA_LANG: Final = frozenset(
    [
        "String",
        "Integer",
        "Long",
        "Double",
        "Float",
        "Boolean",
        "Byte",
        "Short",
        "Character",
        "Object",
        "Math",
        "Enum",
        "Class",
        "Number",
        "Void",
    ]
)


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    parameters: tuple[tuple[str, str], ...]  # name and type
    variadic: bool
    body: Node | None
    static: bool
    node: Node


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Node
    value: Node | None
    static: bool
    modifiers: Node | None


def text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def plain(type_name: str) -> str:
    """A type without its arguments, annotations and array brackets."""
    while "<" in (inner := re.sub(r"<[^<>]*>", "", type_name)) and inner != type_name:
        type_name = inner
    return re.sub(r"@\w+\s*", "", inner).replace("[]", "").strip()


class JavaClass:
    """A class, interface, enum or record in a source file; nested ones have names with dots."""

    def __init__(self, index: JavaIndex, name: str, node: Node, outer: JavaClass | None, unit: Unit) -> None:
        self.index, self.name, self.node, self.outer, self.unit = index, name, node, outer, unit
        self.is_enum = node.type == "enum_declaration"

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @cached_property
    def modifiers(self) -> str:
        return next((text(child) for child in self.node.children if child.type == "modifiers"), "")

    @cached_property
    def superclass(self) -> str | None:
        found = self.node.child_by_field_name("superclass")
        return self.resolve(plain(text(found.children[-1]))) if found is not None else None

    @cached_property
    def interfaces(self) -> list[str]:
        kinds = ("super_interfaces", "extends_interfaces")
        lists = [child for child in self.node.children if child.type in kinds]
        return [
            self.resolve(plain(text(entry)))
            for found in lists
            for types in found.named_children
            for entry in types.named_children
        ]

    @cached_property
    def members(self) -> list[Node]:
        body = self.node.child_by_field_name("body")
        found = list(body.named_children) if body is not None else []
        inner = [node for entry in found if entry.type == "enum_body_declarations" for node in entry.children]
        return found + inner

    @cached_property
    def nested(self) -> dict[str, JavaClass]:
        found: dict[str, JavaClass] = {}
        for node in self.members:
            if node.type in _TYPES and (name := node.child_by_field_name("name")) is not None:
                found[text(name)] = JavaClass(self.index, f"{self.name}.{text(name)}", node, self, self.unit)
        return found

    @cached_property
    def fields(self) -> dict[str, Field]:
        found: dict[str, Field] = {}
        for node in self.members:
            if node.type not in ("field_declaration", "constant_declaration"):
                continue
            kind = node.child_by_field_name("type")
            modifiers = next((child for child in node.children if child.type == "modifiers"), None)
            shared = node.type == "constant_declaration" or (
                modifiers is not None and "static" in text(modifiers).split()
            )
            for entry in node.children_by_field_name("declarator"):
                name = entry.child_by_field_name("name")
                if name is not None and kind is not None:
                    value = entry.child_by_field_name("value")
                    found[text(name)] = Field(text(name), kind, value, shared, modifiers)
        return found

    @cached_property
    def constants(self) -> dict[str, Node]:
        """The constants of an enum."""
        found = [node for node in self.members if node.type == "enum_constant"]
        return {text(name): node for node in found if (name := node.child_by_field_name("name")) is not None}

    @cached_property
    def methods(self) -> dict[str, list[Method]]:
        found: dict[str, list[Method]] = {}
        for node in self.members:
            if node.type in (
                "method_declaration",
                "constructor_declaration",
                "compact_constructor_declaration",
            ):
                method = _method(node)
                name = "<init>" if node.type != "method_declaration" else method.name
                found.setdefault(name, []).append(method)
        return found

    @cached_property
    def initializers(self) -> list[Node]:
        return [node for node in self.members if node.type == "block"]

    def ancestors(self) -> Iterator[JavaClass]:
        """This class and its superclasses, as far as their sources are known."""
        found: JavaClass | None = self
        seen: set[str] = set()
        while found is not None and found.name not in seen:
            seen.add(found.name)
            yield found
            found = self.index.find(found.superclass)

    def ancestor_names(self) -> list[str]:
        """The names of this class and all its superclasses; the last may be one without sources."""
        known = list(self.ancestors())
        last = known[-1].superclass
        return [entry.name for entry in known] + ([last] if last else [])

    def resolve(self, name: str) -> str:
        """The full name of a type that is written as `name` in this class."""
        first, _, rest = name.partition(".")
        scope: JavaClass | None = self
        while scope is not None:
            if scope.name.rpartition(".")[2] == first:
                return _joined(scope.name, rest)
            for entry in _lineage(scope):
                if first in entry.nested:
                    return _joined(entry.nested[first].name, rest)
            scope = scope.outer
        return self.unit.resolve(first, rest)


class AnonymousClass(JavaClass):
    """What stands in braces after ``new X(…)``."""

    def __init__(self, index: JavaIndex, above: str, body: Node, outer: JavaClass, unit: Unit) -> None:
        super().__init__(index, f"{outer.name}.$", body, outer, unit)
        self.above = above

    @cached_property
    def superclass(self) -> str | None:
        return self.above

    @cached_property
    def members(self) -> list[Node]:
        return list(self.node.named_children)


def _lineage(scope: JavaClass) -> Iterator[JavaClass]:
    """A class and its ancestors, also by interfaces; names may be those of types in any of these."""
    yield scope
    kind = scope.node.child_by_field_name("superclass")
    names = [text(kind.children[-1])] if kind is not None else []
    for child in scope.node.children:
        if child.type in ("super_interfaces", "extends_interfaces"):
            names += [text(entry) for types in child.named_children for entry in types.named_children]
    for name in names:
        # Not by `resolve`, which asks this function: what is extended is seldom nested in what is extended.
        first, _, rest = plain(name).partition(".")
        outer = scope.outer
        target = None
        while outer is not None and target is None:
            target = outer.nested.get(first)
            outer = outer.outer
        known = target if target is not None else scope.index.find(scope.unit.resolve(first, ""))
        for part in filter(None, rest.split(".")):
            known = known.nested.get(part) if known is not None else None
        if known is not None and known is not scope:
            yield from _lineage(known)


def _joined(name: str, rest: str) -> str:
    return f"{name}.{rest}" if rest else name


def _method(node: Node) -> Method:
    parameters: list[tuple[str, str]] = []
    variadic = False
    listed = node.child_by_field_name("parameters")
    for entry in listed.named_children if listed is not None else ():
        if entry.type == "formal_parameter":
            name, kind = entry.child_by_field_name("name"), entry.child_by_field_name("type")
            parameters.append((text(name) if name else "", text(kind) if kind else ""))
        elif entry.type == "spread_parameter":
            variadic = True
            parts = [child for child in entry.named_children if child.type != "modifiers"]
            parameters.append((text(parts[-1]), text(parts[0])))
    modifiers = next((text(child) for child in node.children if child.type == "modifiers"), "")
    name = node.child_by_field_name("name")
    return Method(
        text(name) if name is not None else "",
        tuple(parameters),
        variadic,
        node.child_by_field_name("body"),
        "static" in modifiers.split(),
        node,
    )


@dataclass(slots=True)
class Unit:
    """A source file."""

    index: JavaIndex
    path: Path
    package: str
    imports: dict[str, str] = field(default_factory=dict[str, str])
    members: dict[str, str] = field(default_factory=dict[str, str])  # static imports
    folders: list[str] = field(default_factory=list[str])  # what `import x.*` names
    static_folders: list[str] = field(default_factory=list[str])
    classes: dict[str, JavaClass] = field(default_factory=dict[str, JavaClass])

    def resolve(self, first: str, rest: str) -> str:
        if first in self.imports:
            return _joined(self.imports[first], rest)
        if first in self.classes:
            return _joined(self.classes[first].name, rest)
        if first in _JAVA_LANG:
            return _joined(f"java.lang.{first}", rest)
        for folder in (self.package, *self.folders):
            if f"{folder}.{first}" in self.index.files or self.index.find(f"{folder}.{first}") is not None:
                return _joined(f"{folder}.{first}", rest)
        if first[:1].islower() and rest:  # a full name
            return f"{first}.{rest}"
        return _joined(f"{self.package}.{first}", rest)


class JavaIndex:
    """All classes below some folders. Of two files for one class, that of the earlier folder counts."""

    def __init__(self, roots: list[Path]) -> None:
        self.files: dict[str, Path] = {}
        self._units: dict[Path, Unit] = {}
        self._found: dict[str, JavaClass | None] = {}
        for root in roots:
            for folder, folders, names in os.walk(root):
                folders[:] = sorted(entry for entry in folders if entry not in _LEFT_OUT)
                for name in names:
                    if name.endswith(".java"):
                        path = root.__class__(folder) / name
                        found = _PACKAGE.search(path.read_bytes())
                        package = found[1].decode() if found else ""
                        self.files.setdefault(f"{package}.{name.removesuffix('.java')}".lstrip("."), path)

    def find(self, name: str | None) -> JavaClass | None:
        """The class with this name, with dots or dollars before nested classes; None without a source."""
        if not name:
            return None
        name = name.replace("$", ".")
        if name not in self._found:
            self._found[name] = None  # a class may ask for itself while it is read
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> JavaClass | None:
        path = self.files.get(name)
        if path is not None:
            return self._unit(path).classes.get(name.rpartition(".")[2])
        outer, _, simple = name.rpartition(".")
        if not outer or not outer.rpartition(".")[2][:1].isupper():
            return None
        found = self.find(outer)
        if found is None:
            return None
        if simple in found.nested:
            return found.nested[simple]
        return next((entry.nested[simple] for entry in found.ancestors() if simple in entry.nested), None)

    def _unit(self, path: Path) -> Unit:
        unit = self._units.get(path)
        if unit is None:
            unit = self._units[path] = _parsed(self, path)
        return unit


def _parsed(index: JavaIndex, path: Path) -> Unit:
    root = _PARSER.parse(path.read_bytes()).root_node
    unit = Unit(index, path, "")
    for node in root.named_children:
        if node.type == "package_declaration":
            unit.package = text(node.named_children[-1])
        elif node.type == "import_declaration":
            name = next(text(child) for child in node.named_children if "identifier" in child.type)
            every = any(child.type == "asterisk" for child in node.named_children)
            static = any(child.type == "static" for child in node.children)
            if every:
                (unit.static_folders if static else unit.folders).append(name)
            else:
                (unit.members if static else unit.imports)[name.rpartition(".")[2]] = name
        elif node.type in _TYPES and (found := node.child_by_field_name("name")) is not None:
            full = f"{unit.package}.{text(found)}".lstrip(".")
            unit.classes[text(found)] = JavaClass(index, full, node, None, unit)
    return unit
