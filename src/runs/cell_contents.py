"""What a cell is as an argument whose value is no JSON: pictures, XML, files, bytes and sets.

A schema seldom says how it wants bytes. What it says counts: ``contentEncoding``, ``format``, a pattern that
begins with ``data:``, and the words of its description; without any, bytes are sent as base64, as MCP itself
sends them. A path is sent as text, unless the schema wants the content of a file.

Values are known by the names of their classes, as those belong to KNIME and to packages that need not be
installed.
"""

from __future__ import annotations

import base64
import io
import mimetypes
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..client.protocol.media_types import media_type
from ..client.validation.argument_schemas import kinds, member, type_of
from ..types.errors import ArgumentsInvalid
from ..types.texts import pointer_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..client.validation.argument_schemas import Content

LARGEST_FILE: Final = 16 * 2**20
"""Bytes of a file that are sent as an argument: they stand in the journal, too."""

_URL_NAME: Final = re.compile(r"(?:[_/-]ur[il]|Ur[il]|UR[IL])s?$")
_INDEX: Final = re.compile(r"(?:/\d+)+$")
_CONVERTERS: Final = {
    "Interval": "Duration to String",
    "Period": "Duration to String",
    "Duration": "Duration to String",
    "Date": "Date&Time to String",
    "Time": "Date&Time to String",
    "Path": "Path to String",
    "Location": "Path to String",
    "Blob": "Binary Objects to Strings",
    "BinaryObject": "Binary Objects to Strings",
    "JSON": "JSON to Table",
    "Svg": "Renderer to Image",
    "XML": "XML to JSON",
    "Image": "Renderer to Image",
    "Img": "Renderer to Image",
    "Smiles": "Molecule Type Cast",
    "Mol": "Molecule Type Cast",
    "URI": "URI to String",
    "Document": "Document Data Extractor",
    "Term": "Term to String",
}
#: The node that converts a column for a parameter, by the type of the cell's value and the type it wants.
_NODES: Final = {
    ("string", "integer"): "String to Number",
    ("string", "number"): "String to Number",
    ("string", "boolean"): "Rule Engine",
    ("string", "object"): "String to JSON",
    ("string", "array"): "Cell Splitter",
    ("number", "integer"): "Number Rounder",
    ("integer", "boolean"): "Rule Engine",
    ("number", "boolean"): "Rule Engine",
    ("boolean", "integer"): "Rule Engine",
    ("boolean", "number"): "Rule Engine",
    ("array", "string"): "Ungroup",
    ("array", "integer"): "Ungroup",
    ("array", "number"): "Ungroup",
    ("array", "boolean"): "Ungroup",
    ("object", "array"): "JSON Path",
    ("object", "integer"): "JSON Path",
    ("object", "number"): "JSON Path",
    ("object", "boolean"): "JSON Path",
    **dict.fromkeys(
        ((kind, "array") for kind in ("integer", "number", "boolean")), "Create Collection Column"
    ),
}


def content_as_json(value: Any, content: Content, kinds: frozenset[str], pointer: str) -> Any:
    """A value that JSON does not have, as an argument.

    Args:
        value: Bytes, a UUID, or a value of KNIME: a picture, XML, a path, a set of booleans.
        content: How the parameter wants bytes.
        kinds: The JSON types that it takes.
        pointer: Where the value stands: for errors, and as its names may say what the schema does not.

    Raises `ArgumentsInvalid`, which names the node that converts such cells, for every other value.
    """
    classes = {each.__name__ for each in type(value).__mro__}
    if isinstance(value, bytes):
        if "array" in kinds and "string" not in kinds:
            return list(value)
        return _written(value, media_type(None, value), content, pointer)
    if "FSLocationValue" in classes:
        return _path(value, content, pointer)
    if "ElementTree" in classes or "Element" in classes:
        import xml.etree.ElementTree as ET

        return ET.tostring(value.getroot() if "ElementTree" in classes else value, encoding="unicode")
    if "UUID" in classes:
        return str(value)
    if "BooleanSetValue" in classes:
        members = ((True, value.has_true), (False, value.has_false), (None, value.has_missing))
        return [member for member, is_in in members if is_in]
    if "Image" in classes and hasattr(value, "save"):
        data = _picture(value)
        return _written(data, media_type(None, data), content, pointer)
    kind = type(value).__name__
    raise ArgumentsInvalid(
        f"The value at {pointer} is of type {kind}, which JSON cannot hold",
        pointer=pointer,
        fix=how_to_convert(kind),
    )


def how_to_convert(kind: str) -> str:
    """The advice for cells of a type that cannot be arguments; ``kind`` is the name of a class of it."""
    node = next((node for part, node in _CONVERTERS.items() if part.lower() in kind.lower()), None)
    if node is None:
        return "Convert the column to text or numbers first"
    return f"Convert the column first, with the node {node}"


def of_cell(
    error: ArgumentsInvalid, arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> ArgumentsInvalid:
    """The error about an argument that a cell gave, with the node that converts its column, if any."""
    name = next((name for name in arguments if pointer_step(name) == error.pointer), None)
    if name is None:
        return error
    given, parameter = type_of(arguments[name]), member(schema, schema, name)
    wanted = sorted(kinds(parameter, schema) - {given})
    node = next((_NODES[given, kind] for kind in wanted if (given, kind) in _NODES), None)
    if node is None:
        return error
    fix = f"Correct the cell, or convert its column, in KNIME with the node {node}; nothing was sent"
    return ArgumentsInvalid(error.what, pointer=error.pointer, fix=fix)


def _written(data: bytes, kind: str, content: Content, pointer: str) -> str:
    if content == "text":
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ArgumentsInvalid(
                f"The value at {pointer} is to be text, but its bytes are no UTF-8",
                pointer=pointer,
                fix="Convert the column to text in its encoding, in KNIME with Binary Objects to Strings",
            ) from None
    text = base64.b64encode(data).decode()
    # The only hint of many servers is the name: `image_url` wants a data URL, `image` base64.
    is_url = content == "data URL" or (not content and _URL_NAME.search(_INDEX.sub("", pointer)))
    return f"data:{kind};base64,{text}" if is_url else text


def _picture(value: Any) -> bytes:
    """The file that a picture was read from, unchanged, or a PNG of a picture that was changed since."""
    # Pillow keeps it for a picture that was only opened: sent as it was, without a second loss of JPEG.
    source = getattr(value, "fp", None)
    if isinstance(source, io.BytesIO):
        return source.getvalue()
    data = io.BytesIO()
    value.save(data, format="PNG")
    return data.getvalue()


def _path(value: Any, content: Content, pointer: str) -> str:
    text = str(value.path)
    if not content:
        return text
    if str(value.fs_category).upper() != "LOCAL":
        raise ArgumentsInvalid(
            f"The path at {pointer} leads into the file system {value.fs_category}, which is not read here",
            pointer=pointer,
            fix="Read the files first with the node Files to Binary Objects, or copy them to this computer"
            " with Transfer Files",
        )
    return content_of_file(Path(text), content, pointer)


def content_of_file(path: Path, content: Content, pointer: str) -> str:
    """What is in a file, as an argument; `ArgumentsInvalid` if it cannot be read, or is too large."""
    from ..audit.table_formats import is_device

    text = str(path)
    if is_device(path):
        raise ArgumentsInvalid(
            f"The file at {pointer} is a device or a pipe, which may have no end: {text}",
            pointer=pointer,
            fix="Correct the path, or remove the row",
        )
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= LARGEST_FILE else b""
    except OSError as error:
        raise ArgumentsInvalid(
            f"The file at {pointer} cannot be read: {text}: {error.strerror or error}",
            pointer=pointer,
            fix="Correct the path, or remove the row",
        ) from None
    if size > LARGEST_FILE:
        raise ArgumentsInvalid(
            f"The file at {pointer} has {size:,} bytes, more than the {LARGEST_FILE:,} that an argument may"
            f" have: {text}",
            pointer=pointer,
            fix="Send a smaller file, or a tool its address",
        )
    kind = mimetypes.guess_type(text)[0] or media_type(None, data)
    return _written(data, kind, content, pointer)
