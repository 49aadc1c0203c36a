"""Writes values as YAML: short ones on one line, long ones as blocks, quotes where texts need some."""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from knime_mcp.yaml_text import Rules

_WIDEST: Final = 72
_PLAIN: Final = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`][^\n\t\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]*")
_BREAKS_PLAIN: Final = re.compile(r":(?:\s|$)|\s#|^\s|\s$")
_BREAKS_FLOW: Final = re.compile(r"[,\[\]{}]|:(?=[,\[\]{}])")
#: Texts that readers of YAML 1.1 take for something else.
_OLD_TRUTHS: Final = frozenset(["y", "n", "yes", "no", "on", "off"])
_SIMPLE: Final = re.compile(
    r"[ -~\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*"
)


class Style(Enum):
    FLOW = "flow"
    BLOCK = "block"


def in_block_style(value: Any, rules: Rules, *, is_entry: bool = False) -> bool:
    """Whether a collection is written as a block; an entry of a list that is one always is."""
    if not isinstance(value, dict | list) or not value:
        return False
    if is_entry and isinstance(value, dict):
        return True
    return _has_lines(value) or len(flow_text(value, rules)) > _WIDEST


def _has_lines(value: Any) -> bool:
    match value:
        case str():
            return "\n" in value
        case dict():
            return any(map(_has_lines, cast("dict[str, Any]", value).values()))
        case list():
            return any(map(_has_lines, cast("list[Any]", value)))
        case _:
            return False


def block_text(value: Any, indent: int, rules: Rules) -> str:
    """A mapping or list as lines, each indented; any other value indented on its line."""
    space = " " * indent
    if isinstance(value, dict) and value:
        members = cast("dict[str, Any]", value)
        return "\n".join(_member(key, member, indent, rules) for key, member in members.items())
    if isinstance(value, list) and value:
        return "\n".join(f"{space}- {_entry(entry, indent, rules)}" for entry in cast("list[Any]", value))
    return f"{space}{scalar_text(value, rules, indent=indent, flow=False)}"


def _member(key: str, value: Any, indent: int, rules: Rules) -> str:
    head = f"{' ' * indent}{_key(key, rules)}:"
    if in_block_style(value, rules):
        return f"{head}\n{block_text(value, indent + 2, rules)}"
    return f"{head} {scalar_text(value, rules, indent=indent + 2, flow=False)}"


def _entry(value: Any, indent: int, rules: Rules) -> str:
    inner = indent + 2
    if in_block_style(value, rules, is_entry=False):
        return block_text(value, inner, rules).removeprefix(" " * inner)
    return scalar_text(value, rules, indent=inner, flow=False)


def flow_text(value: Any, rules: Rules, *, key: str | None = None) -> str:
    """A value on one line; with its key, if it has one."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            text = ", ".join(flow_text(member, rules, key=name) for name, member in members.items())
            text = f"{{{text}}}"
        case list():
            text = f"[{', '.join(flow_text(entry, rules) for entry in cast('list[Any]', value))}]"
        case _:
            text = scalar_text(value, rules, indent=0, flow=True)
    return text if key is None else f"{_key(key, rules)}: {text}"


def _key(key: str, rules: Rules) -> str:
    return key if _is_plain(key, rules, flow=True) and rules.key(key) == key else _quoted(key)


def scalar_text(
    value: Any, rules: Rules, *, indent: int, flow: bool, style: str = "", comment: str = ""
) -> str:
    """A value that begins on the line of its key. `style` is how the value before it was written.

    `indent` is that of the lines of a block, `comment` what stands after its ``|``.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
        case int() | float():
            return repr(value)
        case str():
            return _text(value, rules, indent, flow, style, comment)
        case _:
            return flow_text(value, rules)


def _text(text: str, rules: Rules, indent: int, flow: bool, style: str, comment: str) -> str:
    wants_block = "\n" in text or style in ("|", ">")
    if wants_block and not flow and _fits_block(text):
        mark = ">" if style == ">" and "\n" not in text else "|"
        return _block(text, indent, mark, comment)
    if style == "'" and _SIMPLE.fullmatch(text):
        return _single(text)
    if style != '"' and _is_plain(text, rules, flow=flow):
        return text
    if style != '"' and ('"' in text or "\\" in text) and _SIMPLE.fullmatch(text):
        return _single(text)
    return _quoted(text)


def _fits_block(text: str) -> bool:
    lines = text.split("\n")
    # Its indentation would be taken for that of the block, and empty lines behind the block for its own.
    if not text.strip() or lines[0][:1] in ("", " ") or text.endswith("\n\n"):
        return False
    return all(_SIMPLE.fullmatch(line) for line in lines)


def _block(text: str, indent: int, mark: str, comment: str) -> str:
    # https://yaml.org/spec/1.2.2/#8112-block-chomping-indicator
    chomp = "" if text.endswith("\n") else "-"
    lines = [f"{' ' * indent}{line}" if line else "" for line in text.removesuffix("\n").split("\n")]
    return "\n".join([f"{mark}{chomp}{comment}", *lines])


def _is_plain(text: str, rules: Rules, *, flow: bool) -> bool:
    if not _PLAIN.fullmatch(text) or not _SIMPLE.fullmatch(text) or _BREAKS_PLAIN.search(text):
        return False
    if flow and _BREAKS_FLOW.search(text):
        return False
    # What would be read back as something else, by this reader or an older one, needs quotes.
    return rules.scalar(text) == text and text.lower() not in _OLD_TRUTHS


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(text: str) -> str:
    return "".join(
        part if _SIMPLE.fullmatch(part) else _escaped(part) for part in json.dumps(text, ensure_ascii=False)
    )


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
