"""What Java's operators and its own classes of lists, texts and options do with values."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from .java_classes import text
from .java_values import UNKNOWN, ClassRef, Lambda, MethodRef, Obj, Static

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from .java_classes import Field, JavaClass, JavaIndex, Method
    from .java_reader import JavaReader

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
}


def literal(node: Node) -> str:
    """The text of a string literal or text block."""
    raw = text(node)
    if not raw.startswith('"""'):
        return _unescaped(raw[1:-1])
    lines = raw[3:-3].split("\n")[1:]
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return _unescaped("\n".join(line[depth:] for line in lines))


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    signs = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\", "r": "\r", "\n": "", "s": " ", "0": "\0"}
    found: list[str] = []
    position = 0
    while position < len(raw):
        if raw[position] == "\\" and position + 1 < len(raw):
            sign = raw[position + 1]
            if sign == "u":
                found.append(chr(int(raw[position + 2 : position + 6], 16)))
                position += 6
                continue
            found.append(signs.get(sign, sign))
            position += 2
            continue
        found.append(raw[position])
        position += 1
    return "".join(found)


def zero(entry: Field) -> Any:
    kind = text(entry.type)
    if kind == "boolean":
        return False
    if kind in ("int", "long", "short", "byte", "double", "float"):
        return 0
    return None


def takes(method: Method, count: int) -> bool:
    wanted = len(method.parameters)
    return count >= wanted - 1 if method.variadic else count == wanted


def above(value: Obj) -> list[str]:
    return value.cls.ancestor_names() if value.cls is not None else []


def with_interfaces(cls: JavaClass, index: JavaIndex, seen: set[str] | None = None) -> list[JavaClass]:
    """A class, its superclasses, and their interfaces: where a field of the class may be declared."""
    seen = set() if seen is None else seen
    found: list[JavaClass] = []
    for entry in cls.ancestors():
        if entry.name in seen:
            continue
        seen.add(entry.name)
        found.append(entry)
        for name in entry.interfaces:
            known = index.find(name)
            if known is not None:
                found += with_interfaces(known, index, seen)
    return found


def computed(sign: str, left: Any, right: Any) -> Any:
    if sign == "+":
        if isinstance(left, str) or isinstance(right, str):
            parts = [_java_text(entry) for entry in (left, right)]
            return UNKNOWN if None in parts else "".join(filter(None, parts))
        sign_run: Callable[[Any, Any], Any] = operator.add
    elif sign in ("&&", "||"):
        if not isinstance(left, bool) or not isinstance(right, bool):
            return UNKNOWN
        return (left and right) if sign == "&&" else (left or right)
    elif sign == "/":
        sign_run = operator.floordiv if isinstance(left, int) and isinstance(right, int) else operator.truediv
    elif sign in _OPERATORS:
        sign_run = _OPERATORS[sign]
    else:
        return UNKNOWN
    plain_values = (int, float, bool, str, type(None))
    if sign in ("==", "!="):
        if isinstance(left, Static) and isinstance(right, Static):
            return sign_run(left, right)
        if left is None or right is None:
            known = (Obj, Static, list, Lambda, MethodRef, ClassRef, *plain_values)
            return sign_run(left, right) if isinstance(left, known) and isinstance(right, known) else UNKNOWN
    if not isinstance(left, plain_values) or not isinstance(right, plain_values):
        return UNKNOWN
    try:
        return sign_run(left, right)
    except (TypeError, ZeroDivisionError, OverflowError):
        return UNKNOWN


def _java_text(value: Any) -> str | None:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return None


def library_call(simple: str, name: str, args: list[Any]) -> Any:
    """Calls of Java's own static methods that build lists and texts."""
    match simple, name:
        case ("Arrays", "asList") | ("List" | "Set" | "Stream", "of"):
            return args[0] if len(args) == 1 and isinstance(args[0], list) else list(args)
        case ("Collections", "emptyList" | "emptySet"):
            return []
        case ("Collections", "singletonList" | "singleton" | "unmodifiableList"):
            return args[0] if name == "unmodifiableList" else list(args)
        case "Arrays", "copyOf" if len(args) == 2 and isinstance(args[0], list) and isinstance(args[1], int):
            return (args[0] + [UNKNOWN] * args[1])[: args[1]]
        case "Arrays", "fill" if len(args) == 2 and isinstance(args[0], list):
            args[0][:] = [args[1]] * len(args[0])
            return None
        case "Arrays", "stream" if args:
            return args[0]
        case "Optional", "of" | "ofNullable" if args:
            return args[0]
        case "Optional", "empty":
            return None
        case ("ArrayUtils", "addAll" | "add") if args and isinstance(args[0], list):
            return [*args[0], *(args[1] if len(args) == 2 and isinstance(args[1], list) else args[1:])]
        case "Objects" | "CheckUtils", "requireNonNull" | "checkArgumentNotNull" | "checkNotNull" if args:
            return args[0]
        case "System", "arraycopy" if (
            len(args) == 5 and isinstance(args[0], list) and isinstance(args[2], list)
        ):
            if all(isinstance(entry, int) for entry in (args[1], args[3], args[4])):
                args[2][args[3] : args[3] + args[4]] = args[0][args[1] : args[1] + args[4]]
            return None
        case _:
            return UNKNOWN


def value_call(reader: JavaReader, target: Any, name: str, args: list[Any]) -> Any:
    """Methods of lists, texts and enum constants."""
    match target, name:
        case list(), "add" if args:
            target.append(args[-1])
            return True
        case list(), "addAll" if args and isinstance(args[-1], list):
            target.extend(args[-1])
            return True
        case list(), "size":
            return len(target)
        case list(), "isEmpty":
            return not target
        case list(), "toArray" | "stream" | "toList" | "collect" | "clone":
            return list(target)
        case list(), "map" if args:
            return [reader.apply(args[0], [entry]) for entry in target]
        case list(), "get" if args and isinstance(args[0], int) and 0 <= args[0] < len(target):
            return target[args[0]]
        case str(), "toLowerCase":
            return target.lower()
        case str(), "toUpperCase":
            return target.upper()
        case str(), "isEmpty":
            return not target
        case str(), "trim" | "toString" | "intern" | "stripIndent" | "strip":
            return target
        case str(), "equals" if args and isinstance(args[0], str):
            return target == args[0]
        case str(), "formatted":
            return UNKNOWN
        case Static(), "name" | "toString":
            return target.name
        case ClassRef(), "getSimpleName":
            return target.name.rpartition(".")[2]
        case ClassRef(), "getName" | "getCanonicalName":
            return target.name
        case ((Obj() | list() | Static()), "orElse" | "get" | "orElseThrow") if not isinstance(target, list):
            return target
        case _:
            return UNKNOWN
