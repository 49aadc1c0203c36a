"""KNIME's settings: a tree of typed entries, and its XML form. Pure.

All settings files of a workflow have this form: ``config`` elements with a key, and in them more configs and
``entry`` elements with key, type and value. Characters that XML cannot hold (control characters) or that
KNIME escapes (all above U+D7FF, thus also emoji) are written as ``%%`` and five decimal digits per UTF-16
code unit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, cast, get_args
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EntryType = Literal[
    "xstring",
    "xint",
    "xlong",
    "xshort",
    "xbyte",
    "xdouble",
    "xfloat",
    "xboolean",
    "xchar",
    "xpassword",
    "xtransientstring",
]
Scalar = str | int | float | bool | None

_ENTRY_TYPES: Final = frozenset(get_args(EntryType))
MAX_DEPTH: Final = 200
_INTEGER_BITS: Final = {"xint": 32, "xlong": 64, "xshort": 16, "xbyte": 8}
_NAMESPACE: Final = "http://www.knime.org/2008/09/XMLConfig"
_ROOT_ATTRIBUTES: Final = (
    f'xmlns="{_NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    f' xsi:schemaLocation="{_NAMESPACE} http://www.knime.org/XMLConfig_2008_09.xsd"'
)
_ESCAPED: Final = re.compile(r"%%([0-9]{5})")
_UNESCAPED: Final = re.compile("[ -\ud7ff]*")
_MARKUP: Final = re.compile('[&<>"\t\n\r]')
_TEXT_MARKUP: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
#: Unescaped, these would be read back as spaces: https://www.w3.org/TR/xml/#AVNormalize
_ATTRIBUTE_MARKUP: Final = _TEXT_MARKUP | str.maketrans({'"': "&quot;", "\t": "&#9;", "\n": "&#10;"})
#: Characters that XML 1.0 cannot hold: https://www.w3.org/TR/xml/#charsets
NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class KnwfError(ValueError):
    """A workflow, an archive or settings that cannot be read or written; the message says where and why."""

    error_code = "KMCP-WORKFLOW-FILE"


@dataclass(frozen=True, slots=True)
class SettingsEntry:
    """A value with its key and KNIME's type."""

    key: str  # unique in its config
    type: EntryType  # type of the entry, such as ``xstring``
    #: int for the integer types, float for ``xdouble`` and ``xfloat``, bool for ``xboolean``, else str. None
    #: is KNIME's null.
    value: Scalar


@dataclass(frozen=True, slots=True)
class Config:
    """A node of the tree: entries and configs, in order, with unique keys."""

    key: str
    children: tuple[SettingsEntry | Config, ...] = ()

    def __iter__(self) -> Iterator[SettingsEntry | Config]:
        return iter(self.children)

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> SettingsEntry | Config | None:
        return next((child for child in self.children if child.key == key), None)

    def config(self, key: str) -> Config | None:
        """The config with a key; None if no child has the key or it is an entry."""
        child = self.get(key)
        return child if isinstance(child, Config) else None

    def value(self, key: str) -> Scalar:
        """The value of the entry with a key; None if no child has the key or it is a config."""
        child = self.get(key)
        return child.value if isinstance(child, SettingsEntry) else None

    def text(self, key: str, default: str = "") -> str:
        """The text of the entry with a key, or the default without such a text."""
        value = self.value(key)
        return value if isinstance(value, str) else default

    def integer(self, key: str) -> int | None:
        """The whole number of the entry with a key, or None without such a number."""
        value = self.value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def configs(self) -> tuple[Config, ...]:
        return tuple(child for child in self.children if isinstance(child, Config))

    def with_key(self, key: str) -> Config:
        return replace(self, key=key)


def string(key: str, value: str | None) -> SettingsEntry:
    return SettingsEntry(key, "xstring", value)


def integer(key: str, value: int) -> SettingsEntry:
    """Makes an entry of a 32 bit integer."""
    return SettingsEntry(key, "xint", value)


def boolean(key: str, value: bool) -> SettingsEntry:
    return SettingsEntry(key, "xboolean", value)


def array(key: str, element_type: EntryType, values: Iterable[Scalar]) -> Config:
    """Makes an array as KNIME stores it: its size, and the elements with their positions as keys."""
    elements = tuple(SettingsEntry(str(i), element_type, value) for i, value in enumerate(values))
    return Config(key, (integer("array-size", len(elements)), *elements))


def array_values(config: Config) -> list[Scalar]:
    """The elements of an array. Raises KnwfError: the size or an element is missing."""
    size = config.integer("array-size")
    elements = {child.key: child.value for child in config if isinstance(child, SettingsEntry)}
    if size is None or not 0 <= size < len(elements):  # the size counts as one of the elements
        raise KnwfError(f"{config.key!r} is no whole array: its size is {size}")
    try:
        return [elements[str(i)] for i in range(size)]
    except KeyError as error:
        raise KnwfError(f"{config.key!r} is no whole array: element {error} is missing") from None


def escape(text: str) -> str:
    """Escapes text for a value, before XML's escaping. Lone surrogates become U+FFFD.

    `unescape` is the inverse for every text without lone surrogates.
    """
    if "%%" not in text and _UNESCAPED.fullmatch(text):
        return text  # nearly all values, in a tenth of the time
    plain = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    units = memoryview(plain.encode("utf-16-le")).cast("H")
    last = len(units) - 1
    return "".join(
        f"%%{unit:05d}"
        if unit < 32 or unit > 0xD7FF or (unit == 37 and i < last and units[i + 1] == 37)
        else chr(unit)
        for i, unit in enumerate(units)
    )


def unescape(text: str) -> str:
    if "%%" not in text:
        return text
    plain = _ESCAPED.sub(lambda match: chr(int(match[1])) if int(match[1]) <= 0xFFFF else match[0], text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_xml(root: Config) -> bytes:
    """Writes a settings file: UTF-8, one line per element. The same tree gives the same bytes.

    Raises KnwfError: XML cannot hold a key, or an entry's type cannot hold its value.
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<config {_ROOT_ATTRIBUTES} key="{_key(root.key)}">')
    lines += _lines(root, 1)
    lines.append("</config>\n")
    return "\n".join(lines).encode("utf-8")


def _lines(config: Config, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise KnwfError(f"{config.key!r} is nested more than {MAX_DEPTH} deep")
    indent = "    " * depth
    keys: set[str] = set()
    for child in config:
        if child.key in keys:
            raise KnwfError(f"{config.key!r} has two entries {child.key!r}")
        keys.add(child.key)
        if isinstance(child, SettingsEntry):
            null = ' isnull="true"' if child.value is None else ""
            value = xml_attribute(_value_text(child))
            yield f'{indent}<entry key="{_key(child.key)}" type="{child.type}"{null} value="{value}"/>'
        elif child.children:
            yield f'{indent}<config key="{_key(child.key)}">'
            yield from _lines(child, depth + 1)
            yield f"{indent}</config>"
        else:
            yield f'{indent}<config key="{_key(child.key)}"/>'


def _key(key: str) -> str:
    """A key as XML text; KNIME does not escape keys as it does values, so some keys are impossible."""
    if NOT_XML.search(key):
        raise KnwfError(f"{key!r} cannot be a key of KNIME settings: XML has no such characters")
    return xml_attribute(key)


def xml_attribute(text: str) -> str:
    return text.translate(_ATTRIBUTE_MARKUP) if _MARKUP.search(text) else text


def xml_text(text: str) -> str:
    """A text between tags, without the characters that XML cannot hold."""
    return NOT_XML.sub("", text).translate(_TEXT_MARKUP)


def _value_text(entry: SettingsEntry) -> str:
    value = entry.value
    match value:
        case None:
            if entry.type in _INTEGER_BITS or entry.type in ("xdouble", "xfloat", "xboolean"):
                raise KnwfError(f"{entry.key!r} is null, which KNIME's type {entry.type} cannot be")
            return ""
        case bool() if entry.type == "xboolean":
            return "true" if value else "false"
        case int() if entry.type in _INTEGER_BITS and not isinstance(value, bool):
            limit = 1 << (_INTEGER_BITS[entry.type] - 1)
            if not -limit <= value < limit:
                raise KnwfError(f"{entry.key!r} is {value}, which does not fit KNIME's type {entry.type}")
            return str(value)
        case int() | float() if entry.type in ("xdouble", "xfloat") and not isinstance(value, bool):
            return _float_text(value)
        case str() if entry.type not in _INTEGER_BITS and entry.type not in ("xdouble", "xfloat", "xboolean"):
            return escape(value)
        case _:
            raise KnwfError(f"{entry.key!r} is {value!r}, which is no {entry.type}")


def _float_text(value: float) -> str:
    """A number as text for Java's ``Double.valueOf``.

    See https://docs.oracle.com/javase/8/docs/api/java/lang/Double.html#valueOf-java.lang.String-.
    """
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def from_xml(data: bytes, where: str) -> Config:
    """Reads a settings file; ``where`` is its name in messages.

    Raises KnwfError: the file is not XML, not KNIME settings, or has a document type (which settings never
    have and hostile XML needs).
    """
    return _XmlReader(where).read(data)


class _XmlReader:
    """Builds the tree from the parser's events, without recursion."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.open: list[tuple[str, dict[str, SettingsEntry | Config]]] = []
        self.root: Config | None = None

    def read(self, data: bytes) -> Config:
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        # Entities are declared there, and a few nested ones expand to gigabytes.
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        try:
            parser.Parse(data, True)
        except (expat.ExpatError, ValueError, LookupError) as error:
            if isinstance(error, KnwfError):
                raise
            raise KnwfError(f"{self.where} is not well-formed XML: {error}") from None
        if self.root is None:
            raise KnwfError(f"{self.where} holds no settings")
        return self.root

    def _refuse_doctype(self, *_: object) -> None:
        raise KnwfError(f"{self.where} has a document type declaration, which KNIME settings never have")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        key = attributes.get("key")
        if key is None:
            raise KnwfError(f"{self.where}: an element <{name}> has no key")
        match name.rpartition(":")[2]:
            case "config":
                if len(self.open) > MAX_DEPTH:
                    raise KnwfError(f"{self.where}: settings are nested more than {MAX_DEPTH} deep")
                self.open.append((key, {}))
            case "entry" if self.open:
                self._add(self._entry(key, attributes))
            case _:
                raise KnwfError(f"{self.where}: <{name}> is no element of KNIME settings")

    def _end(self, name: str) -> None:
        if name.rpartition(":")[2] != "config":
            return
        key, children = self.open.pop()
        config = Config(key, tuple(children.values()))
        if self.open:
            self._add(config)
        else:
            self.root = config

    def _add(self, child: SettingsEntry | Config) -> None:
        parent, children = self.open[-1]
        if child.key in children:
            raise KnwfError(f"{self.where}: {parent!r} has two entries {child.key!r}")
        children[child.key] = child

    def _entry(self, key: str, attributes: dict[str, str]) -> SettingsEntry:
        entry_type, text = attributes.get("type", ""), attributes.get("value", "")
        if entry_type not in _ENTRY_TYPES:
            raise KnwfError(f"{self.where}: {key!r} has the type {entry_type!r}, which KNIME does not have")
        known = cast("EntryType", entry_type)
        if attributes.get("isnull") == "true":
            return SettingsEntry(key, known, None)
        try:
            return SettingsEntry(key, known, _parse_value(known, text))
        except ValueError:
            raise KnwfError(f"{self.where}: {key!r} is {text[:80]!r}, which is no {entry_type}") from None


def _parse_value(entry_type: EntryType, text: str) -> Scalar:
    match entry_type:
        case "xint" | "xlong" | "xshort" | "xbyte":
            number = int(text)
            limit = 1 << (_INTEGER_BITS[entry_type] - 1)
            if not -limit <= number < limit:
                raise ValueError(text)
            return number
        case "xdouble" | "xfloat":
            return float(text)
        case "xboolean":
            if text not in ("true", "false"):
                raise ValueError(text)
            return text == "true"
        case _:
            return unescape(text)
