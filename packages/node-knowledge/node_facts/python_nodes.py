"""Reads the nodes of Python extensions from their source text. No module is imported.

What a decorator says is looked up as far as names lead to constants of this extension's modules.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml

from .node_ports import ANY, TABLE, PortFact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_IMAGE: Final = "org.knime.core.node.port.image.ImagePortObject"
_BINARY: Final = "org.knime.python3.nodes.ports.PythonBinaryBlobFileStorePortObject"
_KINDS: Final = {
    "input_table": (True, TABLE),
    "output_table": (False, TABLE),
    "input_port": (True, None),
    "output_port": (False, None),
    "input_table_group": (True, TABLE),
    "output_table_group": (False, TABLE),
    "input_port_group": (True, None),
    "output_port_group": (False, None),
    "output_image": (False, _IMAGE),
    "input_binary": (True, _BINARY),
    "output_binary": (False, _BINARY),
    "input_binary_group": (True, _BINARY),
    "output_binary_group": (False, _BINARY),
    "output_image_group": (False, _IMAGE),
}
_POSITIONS: Final = {
    "input_port": ("name", "description", "port_type"),
    "output_port": ("name", "description", "port_type"),
    "input_port_group": ("name", "description", "port_type"),
    "output_port_group": ("name", "description", "port_type"),
}


@dataclass(slots=True)
class PythonNode:
    id: str  # after the extension's id
    name: str
    kind: str
    category: str
    deprecated: bool
    hidden: bool
    inputs: list[PortFact]
    outputs: list[PortFact]
    file: Path


@dataclass(slots=True)
class PythonExtension:
    id: str
    version: str
    nodes: list[PythonNode]
    # port types: id to name and the ids of those above
    types: dict[str, tuple[str, list[str]]]
    categories: dict[str, str]


@dataclass(slots=True)
class _Module:
    path: Path
    name: str
    tree: ast.Module
    values: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    classes: dict[str, ast.ClassDef] = field(default_factory=dict[str, ast.ClassDef])
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict[str, tuple[str, str | None]])


def read_extension_sources(knime_yml: Path) -> PythonExtension | None:
    """The nodes of the extension with this ``knime.yml``; None if it names no module."""
    about = yaml.safe_load(knime_yml.read_text("utf-8"))
    module = about.get("extension_module")
    if not module:
        return None
    reader = _Reader(f"{about['group_id']}.{about['name']}", (knime_yml.parent / module).parent)
    nodes = list(reader.nodes())
    return PythonExtension(
        reader.id, str(about.get("version", "")), nodes, reader.types(), reader.categories()
    )


class _Reader:
    def __init__(self, extension: str, folder: Path) -> None:
        self.id = extension
        self.modules: dict[str, _Module] = {}
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if "test" not in name:
                self.modules[name] = _module(path, name)

    def nodes(self) -> Iterator[PythonNode]:
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    found = self._node(module, node)
                    if found is not None:
                        yield found

    def _node(self, module: _Module, target: ast.ClassDef | ast.FunctionDef) -> PythonNode | None:
        about: dict[str, Any] | None = None
        inputs: list[PortFact] = []
        outputs: list[PortFact] = []
        for decorator in target.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            kind = _last(decorator.func)
            if kind == "node":
                about = self._arguments(
                    module,
                    decorator,
                    ("name", "node_type", "icon_path", "category", "after", "keywords", "id"),
                )
            elif kind in _KINDS:
                is_input, type_ = _KINDS[kind]
                names = _POSITIONS.get(kind, ("name", "description"))
                given = self._arguments(module, decorator, names)
                (inputs if is_input else outputs).append(
                    PortFact(
                        type_ or self._type(module, decorator),
                        str(given.get("name") or ""),
                        bool(given.get("optional")) or kind.endswith("group"),
                        group=kind if kind.endswith("group") else None,
                        count=0 if kind.endswith("group") else 1,
                        addable=kind.endswith("group"),
                    )
                )
        if about is None or not isinstance(about.get("name"), str):
            return None
        if isinstance(target, ast.ClassDef):
            inputs = inputs or self._attribute(module, target, "input_ports")
            outputs = outputs or self._attribute(module, target, "output_ports")
        return PythonNode(
            str(about.get("id") or target.name),
            " ".join(about["name"].split()),
            str(about.get("node_type") or "").rpartition(".")[2].upper(),
            str(about.get("category") or "/community"),
            bool(about.get("is_deprecated")),
            bool(about.get("is_hidden")),
            inputs,
            outputs,
            module.path,
        )

    def _attribute(self, module: _Module, target: ast.ClassDef, name: str) -> list[PortFact]:
        """The ports that a class or one above it assigns to an attribute of this name."""
        for node in ast.walk(target):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.List):
                continue
            if any(_last(entry) == name for entry in node.targets):
                return [self._port(module, entry) for entry in node.value.elts if isinstance(entry, ast.Call)]
        for base in target.bases:
            where, above = self._class(module, base)
            if above in where.classes and (found := self._attribute(where, where.classes[above], name)):
                return found
        return []

    def _port(self, module: _Module, call: ast.Call) -> PortFact:
        """A port that is written as ``Port(type, name, description)``."""
        given = dict(zip(("type", "name", "description"), call.args, strict=False))
        given.update({word.arg: word.value for word in call.keywords if word.arg})
        name = self._value(module, given["name"]) if "name" in given else ""
        return PortFact(_BUILT_IN.get(_last(given["type"])), name if isinstance(name, str) else "")

    def _arguments(self, module: _Module, call: ast.Call, names: tuple[str, ...]) -> dict[str, Any]:
        given = dict(zip(names, call.args, strict=False))
        given.update({word.arg: word.value for word in call.keywords if word.arg})
        return {
            name: self._category(module, value) if name == "category" else self._value(module, value)
            for name, value in given.items()
        }

    def _value(self, module: _Module, value: ast.expr, depth: int = 0) -> Any:
        match value:
            case ast.Constant():
                return value.value
            case ast.JoinedStr():
                parts = [
                    part.value
                    if isinstance(part, ast.Constant)
                    else self._value(module, part.value, depth + 1)
                    for part in value.values
                    if isinstance(part, (ast.Constant, ast.FormattedValue))
                ]
                return None if None in parts else "".join(map(str, parts))
            case ast.BinOp(op=ast.Add()):
                left, right = (self._value(module, side, depth) for side in (value.left, value.right))
                return left + right if isinstance(left, str) and isinstance(right, str) else None
            case ast.Name() | ast.Attribute() if depth < 20:
                where, found = self._lookup(module, value)
                if found is None:
                    return ast.unparse(value)
                return self._value(where, found, depth + 1)
            case _:
                return None

    def _category(self, module: _Module, value: ast.expr) -> str:
        """The path of a category, which is a text or a call of ``knext.category``."""
        where, found = (module, value) if isinstance(value, ast.Call) else self._lookup(module, value)
        if isinstance(found, ast.Call) and _last(found.func) == "category":
            given = {word.arg: word.value for word in found.keywords if word.arg}
            path = self._category(where, given["path"]) if "path" in given else "/"
            level = self._value(where, given["level_id"]) if "level_id" in given else ""
            return f"{path.rstrip('/')}/{level}"
        text = self._value(module, value)
        return text if isinstance(text, str) else "/"

    def categories(self) -> dict[str, str]:
        """The names of this extension's categories, by path."""
        found: dict[str, str] = {}
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Call) and _last(node.func) == "category":
                    given = {word.arg: word.value for word in node.keywords if word.arg}
                    name = self._value(module, given["name"]) if "name" in given else None
                    if isinstance(name, str):
                        found["/" + self._category(module, node).strip("/")] = name
        return found

    def _lookup(self, module: _Module, value: ast.expr) -> tuple[_Module, ast.expr | None]:
        """The expression behind a name, also one of another module."""
        match value:
            case ast.Name(id=name):
                if name in module.values:
                    return module, module.values[name]
                if name in module.imports:
                    source, member = module.imports[name]
                    there = self.modules.get(source)
                    if there is not None and member is not None:
                        return self._lookup(there, ast.Name(id=member))
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if name in module.imports:
                    source, member = module.imports[name]
                    there = self.modules.get(f"{source}.{member}" if member else source) or self.modules.get(
                        source
                    )
                    if there is not None:
                        return self._lookup(there, ast.Name(id=attribute))
            case _:
                pass
        return module, None

    def _type(self, module: _Module, call: ast.Call) -> str | None:
        given = dict(zip(("name", "description", "port_type"), call.args, strict=False))
        given.update({word.arg: word.value for word in call.keywords if word.arg})
        value = given.get("port_type")
        if value is None:
            return None
        where, found = self._lookup(module, value)
        if isinstance(found, ast.Call) and _last(found.func) == "port_type":
            return self._type_id(where, found)
        if isinstance(found, ast.Call):
            return _BUILT_IN.get(_last(found.func))
        return _BUILT_IN.get(_last(value)) or (_BUILT_IN.get(_last(found)) if found is not None else None)

    def _type_id(self, module: _Module, call: ast.Call) -> str:
        given = dict(zip(("name", "object_class", "spec_class", "id"), call.args, strict=False))
        given.update({word.arg: word.value for word in call.keywords if word.arg})
        if "id" in given and isinstance(id_ := self._value(module, given["id"]), str):
            return id_
        where, name = self._class(module, given["object_class"])
        return f"{self.id}.{where.name}.{name}"

    def _class(self, module: _Module, value: ast.expr) -> tuple[_Module, str]:
        name = _last(value)
        seen = 0
        while name not in module.classes and name in module.imports and seen < 10:
            source, member = module.imports[name]
            there = self.modules.get(source)
            if there is None or member is None:
                break
            module, name, seen = there, member, seen + 1
        return module, name

    def types(self) -> dict[str, tuple[str, list[str]]]:
        by_class: dict[tuple[str, str], str] = {}
        named: dict[str, str] = {}
        places: list[tuple[_Module, str, str]] = []
        for module in self.modules.values():
            for value in module.values.values():
                if isinstance(value, ast.Call) and _last(value.func) == "port_type" and value.args:
                    id_ = self._type_id(module, value)
                    given = dict(zip(("name", "object_class"), value.args, strict=False))
                    given.update({word.arg: word.value for word in value.keywords if word.arg})
                    where, name = self._class(module, given["object_class"])
                    by_class[where.name, name] = id_
                    named[id_] = str(self._value(module, given["name"]))
                    places.append((where, name, id_))
        return {id_: (named[id_], self._above(where, name, by_class)) for where, name, id_ in places}

    def _above(
        self, module: _Module, name: str, known: dict[tuple[str, str], str], depth: int = 0
    ) -> list[str]:
        found: list[str] = []
        cls = module.classes.get(name)
        for base in cls.bases if cls is not None and depth < 10 else ():
            where, above = self._class(module, base)
            if (where.name, above) in known:
                found.append(known[where.name, above])
            found += self._above(where, above, known, depth + 1)
        return list(dict.fromkeys(found))


_BUILT_IN: Final = {
    "TABLE": TABLE,
    "IMAGE": _IMAGE,
    "ANY": ANY,
    "HUB_AUTHENTICATION": "org.knime.workflowservices.connection.AbstractHubAuthenticationPortObject",
    "get_workspace_port_type": "org.knime.bigdata.databricks.workspace.port.DatabricksWorkspacePortObject",
    "credentials_port_type": "org.knime.credentials.base.CredentialPortObject",
    "CREDENTIAL": "org.knime.credentials.base.CredentialPortObject",
    "CONNECTION": "org.knime.core.node.port.AbstractSimplePortObject",
    "WORKFLOW": "org.knime.core.node.workflow.capture.WorkflowPortObject",
}


def _module(path: Path, name: str) -> _Module:
    found = _Module(path, name, ast.parse(path.read_text("utf-8")))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(found.tree):
        match node:
            case ast.Import():
                for entry in node.names:
                    found.imports[entry.asname or entry.name] = (entry.name, None)
            case ast.ImportFrom():
                parts = package.split(".") if package else []
                base = parts[: len(parts) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                for entry in node.names:
                    found.imports[entry.asname or entry.name] = (source, entry.name)
            case _:
                pass
    for node in found.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)]):
                found.values[target] = node.value
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                found.values[target] = value
            case ast.ClassDef():
                found.classes[node.name] = node
            case _:
                pass
    return found


def _last(value: ast.expr) -> str:
    match value:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""
