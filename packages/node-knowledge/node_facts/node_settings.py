"""The settings of a node: keys as they are saved, with types, defaults, limits and choices.

A model that saves its settings itself is watched while it does so, with both sides of every condition
followed; a class of parameters (`NodeParameters`) is read field by field. Where a key or what is saved under
it cannot be told, the place is *open*: then any key may be right there. Keys that are only read, for
workflows of earlier versions, are noted as read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .java_classes import plain, text
from .java_reader import Frame
from .java_values import Call, ClassRef, Obj, Static

if TYPE_CHECKING:
    from tree_sitter import Node

    from .java_classes import Field, JavaClass
    from .java_reader import JavaReader
    from .node_factories import Factory

_WRITTEN: Final = {
    "addString": "string",
    "addInt": "integer",
    "addLong": "integer",
    "addShort": "integer",
    "addByte": "integer",
    "addDouble": "float",
    "addFloat": "float",
    "addBoolean": "boolean",
}
_GROUPS: Final = frozenset({"addNodeSettings", "addConfig", "getNodeSettings", "getConfig", "addConfigBase"})
_MODELS: Final = {
    "SettingsModelString": "string",
    "SettingsModelBoolean": "boolean",
    "SettingsModelInteger": "integer",
    "SettingsModelIntegerBounded": "integer",
    "SettingsModelOddIntegerBounded": "integer",
    "SettingsModelLong": "integer",
    "SettingsModelLongBounded": "integer",
    "SettingsModelDouble": "float",
    "SettingsModelDoubleBounded": "float",
}
"""KNIME's settings models with one plain value; others save groups of their own."""
_FILTERS: Final = re.compile(
    r"(?:DataColumnSpec|Name|Pattern|Type)FilterConfiguration$|ColumnFilterConfiguration$"
)
_PLAIN: Final = {
    "String": "string",
    "char": "string",
    "int": "integer",
    "Integer": "integer",
    "long": "integer",
    "Long": "integer",
    "short": "integer",
    "byte": "integer",
    "double": "float",
    "Double": "float",
    "float": "float",
    "boolean": "boolean",
    "Boolean": "boolean",
}
_PARAMETERS: Final = re.compile(
    r"(?:NodeParameters|DefaultNodeSettings|WidgetGroup|PersistableSettings|Persistable)$"
)
_NUMBERED: Final = re.compile(r"(?<!\d)[01](?=\.|$)")
_DEEPEST: Final = 6


@dataclass(slots=True)
class Setting:
    key: str  # after the keys of its groups, with dots
    type: str | None = None  # None: anything, also a group
    default: Any = None
    has_default: bool = False
    choices: list[str] = field(default_factory=list[str])
    min: float | None = None
    max: float | None = None
    hidden: bool = False
    read: bool = False  # only, for earlier versions


@dataclass(slots=True)
class Settings:
    found: dict[str, Setting] = field(default_factory=dict[str, Setting])
    open: set[str] = field(default_factory=set[str])  # groups in which any key may be right; "" is the root

    def add(self, setting: Setting) -> None:
        numbered = _NUMBERED.search(setting.key)
        if numbered is not None:  # an entry of a list: there may be any number
            self.open.add(setting.key[: setting.key.rfind(".", 0, numbered.start() + 1) + 1])
        known = self.found.get(setting.key)
        if known is None:
            self.found[setting.key] = setting
        elif known.type != setting.type and not setting.read:
            known.type, known.min, known.max, known.choices = None, None, None, []


def settings_of_model(model: Obj, reader: JavaReader) -> Settings | None:
    """What a model saves, by watching it; None if its sources do not say."""
    found = Settings()
    calls = _watched(model, "saveSettingsTo", reader)
    if calls is None:
        return None
    root, kept = calls
    for call in kept:
        _saved(call, root, model, found)
    for name in ("loadValidatedSettingsFrom", "validateSettings"):
        watched = _watched(model, name, reader)
        for call in watched[1] if watched is not None else ():
            _read(call, watched[0], found) if watched is not None else None
    return found


def _watched(model: Obj, name: str, reader: JavaReader) -> tuple[Obj, list[Call]] | None:
    root = Obj("org.knime.core.node.NodeSettings")
    kept: list[Call] = []
    reader.start()
    reader.watch, reader.both = kept.append, True
    try:
        if not any(
            name in cls.methods
            for cls in (model.cls.ancestors() if model.cls else ())
            if cls.name not in reader.ends
        ):
            return None
        reader.call(model, name, [root])
    finally:
        reader.watch, reader.both = None, False
    return root, kept


def _place(value: Any, root: Obj) -> str | None:
    """The dotted key of a group below the root, with a dot at its end; None if it is not below the root."""
    keys: list[str] = []
    while isinstance(value, Call) and value.name in _GROUPS:
        key = value.args[0] if value.args else None
        keys.append(key if isinstance(key, str) else "*")
        value = value.target
    return "".join(f"{key}." for key in reversed(keys)) if value is root else None


def _saved(call: Call, root: Obj, model: Obj, found: Settings) -> None:
    inside = _place(call.target, root)
    if inside is not None:
        if call.name in _GROUPS:
            key = call.args[0] if call.args and isinstance(call.args[0], str) else None
            if key is None:
                found.open.add(inside)
        elif call.name.startswith("add"):
            _written(call, inside, found)
        elif call.name.startswith("copyTo"):
            found.open.add(inside)
        return
    places = [place for arg in call.args if (place := _place(arg, root)) is not None]
    if not places:
        return
    if call.target is model and call.name == "saveSettingsTo":
        return  # KNIME's own model saves nothing
    for place in places:
        _saved_by(call, place, found)


def _written(call: Call, place: str, found: Settings) -> None:
    key = call.args[0] if call.args else None
    if not isinstance(key, str) or "*" in place:
        found.open.add(place.partition("*")[0])
        return
    kind = _WRITTEN.get(call.name)
    value = call.args[1] if len(call.args) > 1 else None
    setting = Setting(f"{place}{key}", kind)
    _default(setting, value)
    found.add(setting)


def _saved_by(call: Call, place: str, found: Settings) -> None:
    """What another object saves: one of KNIME's settings models, or something that is not looked into."""
    target = call.target
    if not isinstance(target, Obj) or "*" in place:
        found.open.add(place.partition("*")[0])
        return
    simple = target.type.rpartition(".")[2]
    key = next((arg for arg in target.args if isinstance(arg, str)), None)
    is_filter = _FILTERS.search(simple)
    if key is None or not (simple.startswith("SettingsModel") or is_filter):
        found.open.add(place)
        return
    setting = Setting(f"{place}{key}", _MODELS.get(simple))
    if setting.type is not None and len(target.args) > 1 and target.args[0] == key:
        _default(setting, target.args[1])
        if simple.endswith("Bounded") and len(target.args) > 3:
            low, high = target.args[2:4]
            setting.min = low if isinstance(low, (int, float)) else None
            setting.max = high if isinstance(high, (int, float)) else None
    found.add(setting)


def _default(setting: Setting, value: Any) -> None:
    kinds = {"string": str, "integer": int, "float": (int, float), "boolean": bool}
    if setting.type is None or not isinstance(value, kinds[setting.type]):
        return
    if isinstance(value, bool) and setting.type != "boolean":
        return
    setting.default, setting.has_default = value, True


def _read(call: Call, root: Obj, found: Settings) -> None:
    place = _place(call.target, root)
    if place is None:
        return
    key = call.args[0] if call.args else None
    if not isinstance(key, str):
        found.open.add(place.partition("*")[0])
    elif call.name.startswith(("get", "contains")) and f"{place}{key}" not in found.found:
        found.add(Setting(f"{place}{key}", hidden=True, read=True))


# -- classes of parameters --------------------------------------------------------------------------------


class ParametersReader:
    """Reads the fields of a class of parameters with the keys under which KNIME's persistence saves them."""

    def __init__(self, reader: JavaReader) -> None:
        self._reader = reader

    def read(self, name: str) -> Settings | None:
        cls = self._reader.index.find(name)
        if cls is None:
            return None
        found = Settings()
        self._class(cls, "", found, 0)
        return found

    def _class(self, cls: JavaClass, place: str, found: Settings, depth: int) -> None:
        if depth > _DEEPEST:
            found.open.add(place)
            return
        own = _annotation(cls.node, "Persistor")
        if own is not None:
            self._persistor(own, cls, place, found)
            return
        self._reader.start()
        values = self._reader.new(cls.name).fields
        for entry in cls.ancestors():
            for item in entry.fields.values():
                if not item.static and "transient" not in _words(item.modifiers):
                    self._field(item, entry, place, values.get(item.name), found, depth)

    def _field(
        self, item: Field, cls: JavaClass, place: str, value: Any, found: Settings, depth: int
    ) -> None:
        for word in ("Migration", "Migrate"):
            migration = _annotation_in(item.modifiers, word)
            if migration is not None:
                self._migration(migration, cls, place, found)
        own = _annotation_in(item.modifiers, "Persistor")
        if own is not None:
            self._persistor(own, cls, place, found)
            return
        if any(_annotation_in(item.modifiers, word) for word in ("PersistArray",)):
            found.open.add(place)
        within = _annotation_in(item.modifiers, "PersistWithin")
        inner = place
        if within is not None:
            keys = self._texts(within, cls)
            if keys is None:
                found.open.add(place)
                return
            inner = place + "".join(f"{key}." for key in keys)
        embedded = _annotation_in(item.modifiers, "PersistEmbedded") is not None
        if embedded or _annotation_in(item.modifiers, "PersistWithin.PersistEmbedded") is not None:
            self._nested(item, cls, inner, found, depth)
            return
        key = item.name.removeprefix("m_")
        persist = _annotation_in(item.modifiers, "Persist")
        hidden = False
        if persist is not None:
            given = _named(persist, "configKey")
            if given is not None:
                text_ = self._reader.value(given, Frame(cls, None))
                if not isinstance(text_, str):
                    found.open.add(place)
                    return
                key = text_ or key
            hidden = (flag := _named(persist, "hidden")) is not None and text(flag) == "true"
        no_widget = _annotation_in(item.modifiers, "Widget") is None
        self._value(item, cls, f"{inner}{key}", value, found, depth, hidden=hidden or no_widget)

    def _value(
        self, item: Field, cls: JavaClass, key: str, value: Any, found: Settings, depth: int, *, hidden: bool
    ) -> None:
        kind = text(item.type)
        simple = plain(kind)
        if kind.endswith("]") or simple not in _PLAIN:
            known = None if kind.endswith("]") else self._reader.index.find(cls.resolve(simple))
            if known is not None and known.is_enum:
                setting = Setting(key, "enum", choices=list(known.constants), hidden=hidden)
                if isinstance(value, Static) and value.name in known.constants:
                    setting.default, setting.has_default = value.name, True
                found.add(setting)
            elif known is not None and self._is_parameters(known):
                self._class(known, f"{key}.", found, depth + 1)
            else:
                found.add(Setting(key, None, hidden=hidden))
            return
        setting = Setting(key, _PLAIN[simple], hidden=hidden)
        if setting.type in ("integer", "float"):
            self._limits(item, cls, setting)
        _default(setting, value)
        found.add(setting)

    def _limits(self, item: Field, cls: JavaClass, setting: Setting) -> None:
        widget = _annotation_in(item.modifiers, "NumberInputWidget")
        words = text(widget) if widget is not None else ""
        if "IsPositive" in words:
            setting.min = 1 if setting.type == "integer" else 0
        elif "IsNonNegative" in words:
            setting.min = 0

    def _is_parameters(self, cls: JavaClass) -> bool:
        for entry in cls.ancestors():
            if entry.superclass and _PARAMETERS.search(entry.superclass):
                return True
            if any(self._leads_to_parameters(name) for name in entry.interfaces):
                return True
        return False

    def _leads_to_parameters(self, name: str) -> bool:
        if _PARAMETERS.search(name):
            return True
        known = self._reader.index.find(name)
        return known is not None and any(self._leads_to_parameters(other) for other in known.interfaces)

    def _nested(self, item: Field, cls: JavaClass, place: str, found: Settings, depth: int) -> None:
        known = self._reader.index.find(cls.resolve(plain(text(item.type))))
        if known is None:
            found.open.add(place)
        else:
            self._class(known, place, found, depth + 1)

    def _persistor(self, annotation: Node, cls: JavaClass, place: str, found: Settings) -> None:
        """The keys of a persistor, which it names itself."""
        for path in self._paths(annotation, cls, "getConfigPaths") or [None]:
            if path is None or not all(isinstance(key, str) for key in path):
                found.open.add(place)
            elif path:
                found.add(Setting(place + ".".join(path)))
                if len(path) > 1:  # KNIME's filters save more than the paths that they name
                    found.open.add(place + "".join(f"{key}." for key in path[:-1]))

    def _migration(self, annotation: Node, cls: JavaClass, place: str, found: Settings) -> None:
        """Keys of earlier versions that are still read, wherever the class names them."""
        target = next((node for node in _inside(annotation) if node.type == "class_literal"), None)
        if target is None:
            return
        known = self._reader.index.find(cls.resolve(plain(text(target.named_children[0]))))
        calls: list[Call] = []
        self._reader.start()
        self._reader.watch = calls.append
        try:
            if known is not None:
                self._reader.call(self._reader.new(known.name), "getConfigMigrations")
        finally:
            self._reader.watch = None
        for call in calls:
            if "ConfigPath" in call.name:
                keys = [arg for arg in call.args if isinstance(arg, str)]
                if keys:
                    found.add(Setting(place + ".".join(keys), hidden=True, read=True))

    def _paths(self, annotation: Node, cls: JavaClass, method: str) -> list[Any] | None:
        target = next((node for node in _inside(annotation) if node.type == "class_literal"), None)
        known = (
            self._reader.index.find(cls.resolve(plain(text(target.named_children[0])))) if target else None
        )
        if known is None:
            return None
        self._reader.start()
        found = self._reader.call(self._reader.new(known.name), method)
        if not isinstance(found, list) or not found:
            return None
        return [path if isinstance(path, list) else None for path in found]

    def _texts(self, annotation: Node, cls: JavaClass) -> list[str] | None:
        frame = Frame(cls, None)
        arguments = annotation.child_by_field_name("arguments")
        found: list[Any] = []
        for node in arguments.named_children if arguments is not None else ():
            value = node.child_by_field_name("value") if node.type == "element_value_pair" else node
            inner = value.named_children if value is not None and "array" in value.type else [value]
            found += [self._reader.value(entry, frame) for entry in inner]
        return found if found and all(isinstance(entry, str) for entry in found) else None


def settings_of(found: Factory, reader: JavaReader) -> Settings | None:
    """The settings of a node, by the class that its description names, or else by its model."""
    name = parameters_class(found.texts, reader)
    settings = ParametersReader(reader).read(name) if name is not None else None
    if settings is None and found.model is not None:
        settings = settings_of_model(found.model, reader)
    return settings


def parameters_class(described: list[Call], reader: JavaReader) -> str | None:
    """The class of the model's settings that the description of a node names."""
    for call in described:
        if call.name == "modelSettingsClass" and call.args and isinstance(call.args[0], ClassRef):
            return call.args[0].name
        if call.name == "model" and call.args:
            inner = reader.apply(call.args[0], [Obj("model")])
            for entry in inner.chain() if isinstance(inner, Call) else ():
                if entry.name == "parametersClass" and entry.args and isinstance(entry.args[0], ClassRef):
                    return entry.args[0].name
        classes = [
            arg for arg in call.args if isinstance(arg, ClassRef) and call.name == "createNodeDescription"
        ]
        if classes:
            return classes[0].name
    return None


def _annotation(node: Node, name: str) -> Node | None:
    return _annotation_in(next((child for child in node.children if child.type == "modifiers"), None), name)


def _annotation_in(modifiers: Node | None, name: str) -> Node | None:
    for child in modifiers.named_children if modifiers is not None else ():
        if "annotation" in child.type and (found := child.child_by_field_name("name")) is not None:
            if text(found) == name:
                return child
    return None


def _named(annotation: Node, name: str) -> Node | None:
    arguments = annotation.child_by_field_name("arguments")
    for node in arguments.named_children if arguments is not None else ():
        if node.type == "element_value_pair" and (key := node.child_by_field_name("key")) is not None:
            if text(key) == name:
                return node.child_by_field_name("value")
    return None


def _words(modifiers: Node | None) -> list[str]:
    return text(modifiers).split() if modifiers is not None else []


def _inside(node: Node) -> list[Node]:
    found = [node]
    for child in node.named_children:
        found += _inside(child)
    return found
