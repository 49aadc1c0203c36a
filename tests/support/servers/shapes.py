r"""What the odd but legal servers of `shapes_server` offer and answer: pages of tools, results, errors.

A string that holds `\x00DDDD` is written as the lone surrogate escape `\uDDDD`: legal JSON, illegal Unicode.
"""

import base64
import json
import re
from typing import Any

LEGACY, MODERN, OLD = "2025-11-25", "2026-07-28", "2024-11-05"
META = "io.modelcontextprotocol/"
HUGE = 50 * 1024 * 1024  # bytes of JSON
NO_ARGUMENTS = {"type": "object", "properties": {}}
SURROGATE = "\x00d83d"  # the first half of an emoji

FOREST = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "label": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["label"],
        }
    },
    "properties": {
        "tree": {"$ref": "#/$defs/tree"},
        "colour": {"enum": ["red", "green", 3, None]},
        "size": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^(S|M|L)$"}]},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "maxItems": 3}},
        "place": {
            "type": "object",
            "properties": {
                "city": {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
    "required": ["tree"],
    "x-vendor": {"kept": True},
}


def _tool(name: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": NO_ARGUMENTS if schema is None else schema, **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    """A result of one text block."""
    return {"content": [{"type": "text", "text": words}], **more}


LONG_NAME = "n" * 200
NAMES = [
    "größe",
    "工具",
    "🔧 tool",
    LONG_NAME,
    "with space",
    "=?base64?eA==?=",
    "a/b.c-d_e",
    "class",
    SURROGATE + "x",
]
TWO_THOUSAND = [
    _tool(
        f"tool_{number:04}",
        {"type": "object", "properties": {"value": {"type": "integer"}}},
        description=f"No. {number}",
    )
    for number in range(2000)
]

# The tools of each shape, in pages; a page's cursor is what `_cursors` says.
SHAPES: dict[str, list[list[dict[str, Any]]]] = {
    "empty": [[]],
    "no-tools-capability": [],
    "many": [TWO_THOUSAND[start : start + 150] for start in range(0, 2000, 150)],
    "empty-cursor": [[_tool("first")], [_tool("second")], [], [_tool("third")]],
    "endless": [[_tool("again")], [_tool("again")]],
    "parameterless": [
        [
            _tool("bare", {"type": "object"}),
            _tool("no_properties", NO_ARGUMENTS),
            _tool("closed", {"type": "object", "additionalProperties": False}),
            _tool("empty_schema", {}),
        ]
    ],
    "schemas": [
        [
            _tool(
                "forest",
                FOREST,
                outputSchema=FOREST,
                title="Forest",
                annotations={"readOnlyHint": True},
                x_more=1,
            )
        ]
    ],
    "names": [[_tool(name) for name in NAMES]],
    "twins": [[_tool("twin", description="first"), _tool("other"), _tool("twin", description="second")]],
    "huge": [[_tool("text"), _tool("image"), _tool("structured")]],
    "surrogates": [[_tool("talk", title=f"t{SURROGATE}", description=f"d{SURROGATE}d")]],
    "contents": [
        [_tool(name) for name in ("unknown", "none", "null", "list", "failed", "refused", "missing")]
    ],
    "asks": [[_tool("ask"), _tool("again"), _tool("demand")]],
}


def _cursors(shape: str, page: int) -> str | None:
    """The cursor behind page number `page`, or None behind the last."""
    match shape:
        case "endless":
            return "again"
        case "empty-cursor" if page == 0:
            return ""
        case _ if page + 1 < len(SHAPES[shape]):
            return f"page {page + 1} of größe"
        case _:
            return None


class RpcError(Exception):
    """A JSON-RPC error reply."""

    def __init__(self, code: int, message: str, status: int = 200, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.status, self.data = code, status, data


def list_tools(shape: str, params: dict[str, Any]) -> dict[str, Any]:
    """The page that the cursor asks for."""
    if shape == "no-tools-capability":
        raise RpcError(-32601, "Method not found", 404)
    pages = SHAPES[shape]
    if "cursor" not in params:
        page = 0
    else:
        known = {_cursors(shape, number): number + 1 for number in range(len(pages))}
        if params["cursor"] is None or params["cursor"] not in known:
            raise RpcError(-32602, "Invalid cursor", 400)
        page = min(known[params["cursor"]], len(pages) - 1)
    following = _cursors(shape, page)
    return {"tools": pages[page]} | ({} if following is None else {"nextCursor": following})


def call_tool(shape: str, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
    """The result of a call; most shapes only say what they received."""
    known = {tool["name"] for page in SHAPES[shape] for tool in page}
    if name not in known:
        raise RpcError(-32602, f"Unknown tool: {name}", 400)
    match shape, name:
        case "huge", "text":
            return text("0123456789abcdef" * (HUGE // 16))
        case "huge", "image":
            data = base64.b64encode(bytes(range(256)) * (HUGE // 4 * 3 // 256)).decode()
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        case "huge", _:
            return text(
                "many",
                structuredContent={"rows": [{"id": n, "text": "x" * 1000} for n in range(HUGE // 1024)]},
            )
        case "surrogates", _:
            return text(
                f"before {SURROGATE} after \U0001f600", structuredContent={f"k{SURROGATE}": [f"v{SURROGATE}"]}
            )
        case "contents", _:
            return _contents(name)
        case _:
            return text(json.dumps(arguments), structuredContent=arguments if arguments is not None else {})


def ask_modern(params: dict[str, Any]) -> dict[str, Any]:
    """How a modern server asks: it ends the request with a question, and the client sends it again."""
    sampling = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}
    match params:
        case {"name": "demand"}:
            raise RpcError(-32021, "Sampling is needed", 400, {"requiredCapabilities": {"sampling": {}}})
        case {"name": "again", "requestState": "state =?größe"}:
            return text("heard twice", structuredContent=params.get("arguments"))
        case {"name": "again", **rest} if "requestState" not in rest:
            return {"content": [], "resultType": "input_required", "requestState": "state =?größe"}
        case {"name": "ask"}:
            request = {"method": "sampling/createMessage", "params": sampling}
            return {"content": [], "resultType": "input_required", "inputRequests": {"one": request}}
        case _:
            raise RpcError(-32602, "requestState was changed", 400)


def _contents(name: str) -> dict[str, Any]:
    match name:
        case "unknown":
            return {
                "content": [{"type": "hologram", "depth": 3}, {"type": "text", "text": "and text", "x": 1}],
                "x": 2,
            }
        case "none":
            return {"content": []}
        case "null":
            return {"content": [], "structuredContent": None}
        case "list":
            return {"content": [], "structuredContent": [1, "two", None]}
        case "failed":
            return text("the disk is full", isError=True)
        case "refused":
            raise RpcError(-32603, "the server gave up")
        case _:
            return {"structuredContent": {"content": "left out"}}


def encode(message: dict[str, Any]) -> bytes:
    """JSON with real lone surrogates where a string marks them."""
    text = json.dumps(message, ensure_ascii=False)
    marked = "\\u0000" in text  # looking first saves a search of 50 MB by a pattern
    return (re.sub(r"\\u0000(d[0-9a-f]{3})", r"\\u\1", text) if marked else text).encode()


def mark(value: Any) -> Any:
    """Undoes `encode` in what a client sends back."""
    match value:
        case str():
            return re.sub("[\ud800-\udfff]", lambda found: f"\x00{ord(found[0]):04x}", value)
        case dict():
            return {mark(key): mark(item) for key, item in value.items()}
        case list():
            return [mark(item) for item in value]
        case _:
            return value


def _capabilities(shape: str) -> dict[str, Any]:
    return {} if shape == "no-tools-capability" else {"tools": {}}


def initialized(shape: str, version: str) -> dict[str, Any]:
    """The result of `initialize`."""
    server = {"name": "shapes", "version": "1", "title": f"Shape {shape}"}
    return {"protocolVersion": version, "capabilities": _capabilities(shape), "serverInfo": server}


def discovered(shape: str) -> dict[str, Any]:
    """The result of `server/discover`."""
    meta = {f"{META}serverInfo": {"name": "shapes", "version": ""}}
    return complete({"supportedVersions": [MODERN], "capabilities": _capabilities(shape), "_meta": meta})


def complete(result: dict[str, Any]) -> dict[str, Any]:
    """A result with what revision 2026-07-28 adds to it."""
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}


def result(shape: str, message: dict[str, Any]) -> dict[str, Any]:
    """The result of any request but those."""
    params = message.get("params") or {}
    match message["method"]:
        case "tools/list":
            return list_tools(shape, params)
        case "tools/call":
            return call_tool(shape, params["name"], params.get("arguments"))
        case "ping":
            return {}
        case method:
            raise RpcError(-32601, f"Method not found: {method}", 404)


def error_message(message: dict[str, Any], error: RpcError) -> dict[str, Any]:
    """The reply that carries an error."""
    details = {} if error.data is None else {"data": error.data}
    body = {"code": error.code, "message": str(error), **details}
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": body}
