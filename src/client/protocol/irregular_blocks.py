"""Content blocks that miss the schema, as servers write them: brought into its form, or kept as they are.

What a block holds decides, and not what it calls itself: bytes become a picture, a sound or a file, wherever
and however they are encoded; a text is one under any key. What is left is a block of its own, so that nothing
is lost.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from .media_types import UNKNOWN, media_type
from .messages import as_list, as_object

_MEDIA_TYPES: Final = (
    *("mimeType", "mime_type", "mimetype", "mediaType", "media_type", "contentType", "content_type"),
    "format",
)
_NAMES: Final = ("uri", "url", "name", "filename", "fileName", "file_name", "title")
_ENCODED: Final = ("data", "blob", "base64", "b64_json", "bytes", "file_data", "fileData", "content")
# Under these keys, and in blocks that call themselves so, stand bytes, even if nothing else says so.
_SURELY_ENCODED: Final = frozenset({"blob", "base64", "b64_json", "file_data", "fileData"})
_SURELY_BYTES: Final = frozenset(
    ("image", "audio", "video", "blob", "binary", "input_image", "input_audio", "input_file")
)
_NESTED: Final = (
    *("resource", "source", "inlineData", "inline_data", "image_url", "input_audio", "file", "blob"),
)
_TEXTS: Final = ("text", "content", "value")
# They say how a block is meant, and nothing that is lost without them.
_DECORATION: Final = frozenset(
    ("type", "kind", "annotations", "_meta", "id", "index", "size", "encoding", "detail", "cache_control")
)
_FROM_URL_ALPHABET: Final = bytes.maketrans(b"-_", b"+/")
_BLANKS: Final = b" \t\r\n\v\f"


def declared_type(fields: Mapping[str, Any]) -> str | None:
    """What a block says of its media type, under any of the names that libraries use."""
    return next((said for key in _MEDIA_TYPES if isinstance(said := fields.get(key), str) and said), None)


def in_schema(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The blocks, in the form of the schema, that an irregular one means; what is not understood as it is."""
    said = block.get("type")
    kind = said if isinstance(said, str) else ""
    nested = kind if kind in _SURELY_BYTES and as_object(block.get(kind)) else None
    nested = nested or next((key for key in _NESTED if as_object(block.get(key))), None)
    inner = {} if nested is None else as_object(block[nested])
    fields = {**{key: value for key, value in block.items() if key != nested}, **inner}
    fields["type"] = kind or ("resource" if fields.get("uri") else "")
    if within := _blocks_within(fields):
        for each in within:
            yield from in_schema(each)
        return
    found = _bytes_in(fields) or _text_in(fields) or _link_in(fields)
    if found is None:
        yield dict(block)
        return
    part, used = found
    yield part
    left = {key: value for key, value in fields.items() if key not in used and key not in _DECORATION}
    if rest := {key: value for key, value in left.items() if value not in (None, "", [], {})}:
        yield {"type": said, **rest}


def _blocks_within(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks that a block has as its content, if it has nothing else."""
    for key in ("content", "contents"):
        blocks = as_list(fields.get(key)) or [as_object(fields.get(key))]
        if fields.keys() - _DECORATION - {"name"} == {key} and all(as_object(each) for each in blocks):
            return cast("list[dict[str, Any]]", blocks)
    return []


def _bytes_in(fields: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]] | None:
    kind, said = cast("str", fields["type"]), declared_type(fields)
    family = said.partition("/")[0].lower() if said and "/" in said and "json" not in said else "text"
    for key in (*_ENCODED, "url", "uri"):
        value = fields.get(key)
        is_url = isinstance(value, str) and value[:5].lower() == "data:" and ";base64," in value[:200]
        if key in ("url", "uri") and not is_url:
            continue
        data = decoded(value)
        is_sure = is_url or key in _SURELY_ENCODED or kind in _SURELY_BYTES or family != "text"
        if not data or not (is_sure or media_type(None, data) != UNKNOWN):
            continue  # a word may be base64, too
        if said is None and is_url:
            said = cast("str", value)[5:].partition(";")[0]
        name = next((str(fields[each]) for each in _NAMES if fields.get(each) and each != key), "")
        of_kind = kind.removeprefix("input_")
        true = media_type(said, data, family=of_kind, name=name)
        part, encoded = true.partition("/")[0], base64.b64encode(data).decode()
        used = {key, *_MEDIA_TYPES, *_NAMES}
        if part not in ("image", "audio") and of_kind in ("image", "audio") and true == UNKNOWN:
            part = of_kind
        if part in ("image", "audio"):
            return {"type": part, "data": encoded, "mimeType": true}, used
        resource = {"uri": name, "mimeType": true, "blob": encoded, "text": fields.get("text")}
        return {"type": "resource", "resource": resource}, used | {"text"}
    return None


def _text_in(fields: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]] | None:
    names = [key for key in _TEXTS if fields.get(key) not in (None, "")]
    if not names:
        left = [key for key in fields.keys() - _DECORATION - set(_MEDIA_TYPES) if fields[key] is not None]
        # An object without a type is a value, and not a block; what is no base64 stays as it came.
        is_text = fields["type"] not in ("", "resource", "resource_link", *_SURELY_BYTES)
        if len(left) != 1 or not is_text or left[0] in _NAMES:
            return None
        if not isinstance(fields[left[0]], str) and fields["type"] not in ("json", left[0]):
            return None  # its name says what it is
        names = left
    value = fields[names[0]]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    used = {names[0], *_MEDIA_TYPES}
    if fields["type"] != "resource":
        return {"type": "text", "text": text}, used
    resource = {"uri": fields.get("uri") or "", "mimeType": declared_type(fields), "text": text}
    return {"type": "resource", "resource": resource}, used | {"uri"}


def _link_in(fields: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]] | None:
    uri = fields.get("uri") or fields.get("url")
    is_link = fields["type"] in ("resource", "resource_link", "link", "url")
    if not isinstance(uri, str) or not is_link or any(map(fields.get, _ENCODED)):
        return None
    known = {"name", "title", "description", "size"} & fields.keys()
    part = {"type": "resource_link", "uri": uri, "mimeType": declared_type(fields)}
    return part | {key: fields[key] for key in known}, {"uri", "url", *known, *_MEDIA_TYPES}


def decoded(value: Any) -> bytes | None:
    """The bytes that a value holds: base64, a list of bytes, or Node's form of a buffer; None if it is none.

    In base64, line breaks as in MIME, the alphabet for URLs, missing padding, and the head of a data URL are
    tolerated.
    """
    match value:
        case str():
            return _base64(value)
        case {"type": "Buffer", "data": list()}:
            return decoded(cast("dict[str, Any]", value)["data"])
        case list() if value and all(
            type(octet) is int and 0 <= octet < 256 for octet in cast("list[Any]", value)
        ):
            return bytes(cast("list[int]", value))
        case _:
            return None


def _base64(encoded: str) -> bytes | None:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        pass
    text = encoded
    if text[:5].lower() == "data:":
        text = text.partition(";base64,")[2]
    try:
        octets = text.encode("ascii").translate(_FROM_URL_ALPHABET, _BLANKS).rstrip(b"=")
        return base64.b64decode(octets + b"=" * (-len(octets) % 4), validate=True) if octets else None
    except ValueError:  # includes binascii.Error and UnicodeEncodeError
        return None
