"""The gateway as a web page: its endpoints, what they show, forms made from tools' schemas, and HTML.

On the public listener visitors sign in with a key, whose scopes and limits apply.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shlex
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...version import VERSION
from ..node_details import full_description
from ..node_index import knimes_first
from ..node_references import resolve_reference
from ..node_search import Tier, search
from ..tool_arguments import count_in
from .api_keys import Scope
from .endpoints import PREFIX
from .gateway import SESSION_SECONDS
from .gateway_errors import MCPError, MCPErrorType, invalid_request
from .observing import gateway_of, record_of
from .request_guard import (
    KEY_HEADER,
    admit,
    admit_caller,
    from_elsewhere,
    guarded,
    not_let_in,
    noted,
    presented_key,
    require,
    with_body,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..catalogue_reader import Catalogue, CatalogueReader
    from ..node_search import Hit
    from ..tool_definitions import KnowledgeTool


COOKIE: Final = "knime_mcp_session"
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 100
# Browsers take `//host` and `/\host` for other hosts.
_PATH: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*")

PAGE_SIZE: Final = 25
_MOST_PAGES: Final = 10_000
_LONGEST: Final = 500
Kind = Literal["text", "number", "choice", "flag", "lines", "json"]
_CHECKED: Final = "true"
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not `no-referrer`, with which browsers send forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
}
_FILES: Final = {"style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
_TITLES: Final = {
    400: "Something is wrong with this request",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    413: "Too much at once",
    429: "Too many requests",
    503: "Not available at the moment",
}


def page_router(*, with_keys: bool) -> APIRouter:
    """The router of the page. Without keys (on the internal listener) every request is admitted."""

    def router(scope: Scope | None) -> APIRouter:
        enter = partial(_enter_with_key, scope=scope) if scope and with_keys else _enter
        return APIRouter(route_class=guarded(enter, error_page), include_in_schema=False)

    everybody, reading, calling = map(router, (None, Scope.TOOLS_READ, Scope.TOOLS_EXECUTE))
    reading.get("/")(_overview)
    reading.get("/nodes")(_nodes)
    reading.get("/node")(_node)
    reading.get("/tools")(_tools)
    reading.get("/tools/{tool_name}")(_tool)
    calling.post("/tools/{tool_name}")(_try_tool)
    if with_keys:
        everybody.post("/sign-in")(_sign_in)
        everybody.post("/sign-out")(_sign_out)
    for name in ("style.css", "icon.svg"):
        everybody.get(f"/{name}")(partial(static_file, name))
    group = APIRouter()
    for part in (everybody, reading, calling):
        group.include_router(part)
    return group


async def _enter(request: Request) -> Request:
    if request.method == "POST":
        if from_elsewhere(request):
            raise invalid_request("This form was not sent from this page.", status=403)
        return await with_body(request, kind=_FORM)
    return request


async def _enter_with_key(request: Request, *, scope: Scope) -> Request:
    if KEY_HEADER in request.headers:
        await admit(request, scope)
    else:
        gateway = gateway_of(request)
        key_id = gateway.sessions.get(request.cookies.get(COOKIE, ""))
        key = gateway.keys.working(key_id) if key_id else None
        if key is None:
            raise not_let_in(request, "Nobody is signed in.")
        request.state.visitor = key
        admit_caller(request, key)
        require(request, key, scope)
    return await _enter(request)


# Endpoints that read the catalogue are not `async`, so that they run in a thread: they may wait for the disk.
def _overview(request: Request) -> Response:
    gateway = gateway_of(request)
    tools = gateway.tools().get_available_tools()
    with gateway.catalogue.reading() as reader:
        shown = {"types": _counts(reader), "origin": reader.origin}
    return page(request, "overview.html", overview=shown, tools=tools)


def _nodes(request: Request) -> Response:
    gateway = gateway_of(request)
    gateway.tools()
    asked = {name: request.query_params.get(name, "") for name in ("q", "type", "page")}
    if asked["q"]:
        record_of(request).query_hash = gateway.keys.hashed(asked["q"])
    shown = listed(gateway.catalogue, query=asked["q"], node_type=asked["type"], page=asked["page"])
    return page(request, "nodes.html", list=shown, query=asked["q"], node_type=asked["type"])


def _node(request: Request) -> Response:
    gateway = gateway_of(request)
    gateway.tools()
    shown = card(gateway.catalogue, request.query_params.get("id", ""))
    return page(request, "node.html", card=shown)


def _tools(request: Request) -> Response:
    return page(request, "tools.html", tools=gateway_of(request).tools().get_available_tools())


def _tool(request: Request, tool_name: str) -> Response:
    tool = gateway_of(request).tools().find(tool_name)
    record_of(request).tool = tool.name
    example = count_in(request.query_params.get("example", ""))
    chosen = () if example is None else tool.usage_examples[example : example + 1]
    return _tool_page(
        request, tool, entered_of(chosen[0] if chosen else request.query_params, tool.parameters)
    )


async def _try_tool(request: Request, tool_name: str) -> Response:
    gateway, record = gateway_of(request), record_of(request)
    tool = gateway.tools().find(tool_name)
    record.tool = tool.name
    entered = await _form(request)
    arguments: dict[str, Any] | None = None
    try:
        arguments = arguments_of(tool.parameters, entered)
        result = await gateway.call(tool.name, arguments, record)
    except MCPError as error:
        return _tool_page(request, tool, entered, arguments=arguments, error=noted(request, error))
    return _tool_page(request, tool, entered, arguments=arguments, result=result)


def _tool_page(
    request: Request,
    tool: KnowledgeTool,
    entered: dict[str, str],
    *,
    arguments: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    error: MCPError | None = None,
) -> Response:
    return page(
        request,
        "tool.html",
        status=error.status if error else 200,
        headers=error.headers if error else None,
        tool=tool,
        fields=fields_of(tool.parameters, entered, error=error),
        result=result,
        error=error,
        milliseconds=record_of(request).tool_ms,
        command=None if arguments is None else _command(request, tool.name, arguments),
    )


def _command(request: Request, tool: str, arguments: dict[str, Any]) -> str:
    """The curl command that makes the same call."""
    here = f"{request.url.scheme}://{request.url.netloc}"
    if request.app.state.listener == "public":
        where, key = f"{here}/mcp/invoke", f' -H "{KEY_HEADER}: $KEY"'
        body = {"tool_name": tool, "params": arguments}
    else:
        where, key, body = f"{here}{PREFIX}/invoke/internal", "", {"name": tool, "arguments": arguments}
    return (
        f"curl {shlex.quote(where)}{key} \\\n"
        f'  -H "Content-Type: application/json" -d {shlex.quote(as_json(body))}'
    )


async def _sign_in(request: Request) -> Response:
    gateway = gateway_of(request)
    form = await _form(request)
    try:
        key = presented_key(request, [form.get("key", "").strip()])
        admit_caller(request, key)
    except MCPError as error:
        # A key that works and may not come in now, as with too many requests, need not be entered again.
        if error.status != 401:
            raise
        after, problem = _local(form.get("after", "")), noted(request, error).user_message
        return sign_in_page(request, after=after, problem=problem, headers=error.headers)
    # A random name and not the key, because browsers send a cookie to every port of a host.
    name = secrets.token_urlsafe(32)
    gateway.sessions.put(name, key.id)
    answer = _to(_local(form.get("after", "")))
    answer.set_cookie(
        COOKIE,
        name,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        # Behind a proxy the browser speaks HTTPS, and this listener does not.
        secure=request.url.scheme == "https" or gateway.settings.gateway_behind_proxy,
    )
    return answer


async def _sign_out(request: Request) -> Response:
    gateway_of(request).sessions.drop(request.cookies.get(COOKIE, ""))
    answer = _to("/")
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


async def _form(request: Request) -> dict[str, str]:
    try:
        text = (await request.body()).decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise invalid_request("The form cannot be read.") from None


def _to(path: str) -> Response:
    return Response(status_code=303, headers={"Location": path})


def _local(path: str) -> str:
    """The path if it belongs to this page, else ``/``; never the URL of another host."""
    return path if _PATH.fullmatch(path) else "/"


def listed(catalogue: Catalogue, *, query: str, node_type: str, page: str) -> dict[str, Any]:
    """A page of the list of all nodes, or of the nodes that a search finds, for the template.

    Each node comes with the reason why the search found it. A `page` that is no number counts as 1.
    """
    number = min(max(count_in(page) or 1, 1), _MOST_PAGES)
    offset = (number - 1) * PAGE_SIZE
    with catalogue.reading() as reader:
        types = _counts(reader)
        wanted = node_type or None
        corrected: tuple[tuple[str, str], ...] = ()
        if query.strip():
            found = search(reader, query[:_LONGEST], limit=PAGE_SIZE, offset=offset, node_type=wanted)
            entries = [(hit.node, _why(hit)) for hit in found.hits]
            total, corrected = found.total, found.corrected
        else:
            entries = [(node, "") for node in reader.summaries(wanted, offset=offset, limit=PAGE_SIZE)]
            total = sum(types.values()) if wanted is None else types.get(wanted, 0)
    return {
        "entries": entries,
        "total": total,
        "page": number,
        "pages": max(1, -(-total // PAGE_SIZE)),
        "types": tuple(types),
        "corrected": corrected,
    }


def card(catalogue: Catalogue, reference: str) -> dict[str, Any]:
    """A node, its full description, and the node that replaces it, if that is in this catalogue."""
    with catalogue.reading() as reader:
        resolved = resolve_reference(reader, reference[:_LONGEST])
        if resolved.node is None:
            raise invalid_request("There is no such node in this catalogue. Search for it.", status=404)
        node = reader.at(resolved.node.row)
        successor = resolve_reference(reader, node.successor).node if node.successor else None
    return {"node": node, "description": full_description(node), "successor": successor}


def _counts(reader: CatalogueReader) -> dict[str, int]:
    return {name: len(subtypes) for name, subtypes in knimes_first(reader.types()).items()}


def _why(hit: Hit) -> str:
    """The reason why a search found a node; empty if the node's name shows the reason."""
    if hit.tier is Tier.CALLED:
        return f"also called {' '.join(hit.words)}" if hit.words else "also called so"
    if hit.tier is Tier.EXACT or hit.field in ("", "name", "id") or not hit.words:
        return ""
    return f"found in its {hit.field}: {', '.join(hit.words)}"


def fields_of(
    schema: Mapping[str, Any], entered: Mapping[str, str], *, error: MCPError | None = None
) -> list[dict[str, Any]]:
    """The fields of a tool's form, for the template: name, kind, value and problem of each argument."""
    required = schema.get("required", ())
    wrong = str(error.details.get("pointer", "")).split("/")[1:2] if error else []
    return [
        {
            "name": name,
            "kind": _kind(entry),
            "description": entry.get("description", ""),
            "required": name in required,
            "value": entered.get(name, ""),
            "choices": _choices(entry),
            "low": entry.get("minimum"),
            "high": entry.get("maximum"),
            "problem": error.user_message if error and name in wrong else "",
        }
        for name, entry in schema.get("properties", {}).items()
    ]


def entered_of(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, str]:
    """The form's entries for these arguments; defaults for missing ones."""
    found: dict[str, str] = {}
    for name, entry in schema.get("properties", {}).items():
        value = arguments.get(name, entry.get("default"))
        if value is None:
            continue
        if _kind(entry) == "lines" and isinstance(value, list):
            found[name] = "\n".join(map(str, cast("list[Any]", value)))
        else:
            found[name] = value if isinstance(value, str) else as_json(value)
    return found


def arguments_of(schema: Mapping[str, Any], entered: Mapping[str, str]) -> dict[str, Any]:
    """The arguments from the entries of the form, without empty entries."""
    found: dict[str, Any] = {}
    for name, entry in schema.get("properties", {}).items():
        text = entered.get(name, "")
        kind = _kind(entry)
        if kind == "flag" or text.strip():
            found[name] = _read(kind, name, text, entry)
    return found


def _read(kind: Kind, name: str, text: str, entry: Mapping[str, Any]) -> Any:
    match kind:
        case "text" if "integer" in _types(entry) and text.strip().isdecimal():
            return int(text)
        case "text" | "choice":
            return text
        case "number":
            try:
                return json.loads(text)
            except ValueError:
                return text  # the tool says what is wrong with it
        case "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "json":
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
                raise MCPError(
                    MCPErrorType.PARAMETER_ERROR,
                    f"Not JSON in the form: {name}",
                    f"What was entered for {name} is not JSON{where}.",
                    details={"pointer": f"/{name}"},
                ) from None
        case "flag":
            return text == _CHECKED
        case _:
            assert_never(kind)


def _kind(entry: Mapping[str, Any]) -> Kind:
    types = _types(entry)
    if "enum" in entry:
        return "choice"
    if "string" in types or "anyOf" in entry:
        return "text"
    if types == ["boolean"]:
        return "flag"
    if set(types) & {"integer", "number"}:
        return "number"
    if types == ["array"] and _types(entry.get("items", {})) == ["string"]:
        return "lines"
    return "json"


def _types(entry: Mapping[str, Any]) -> list[str]:
    kind = entry.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _choices(entry: Mapping[str, Any]) -> tuple[str, ...]:
    alternatives = [entry, *entry.get("anyOf", ())]
    return tuple(str(value) for part in alternatives for value in part.get("enum", ()))


_HERE: Final = Path(__file__).parent


def page(
    request: Request, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **shown: Any
) -> Response:
    text = (
        _environment()
        .get_template(template)
        .render(
            shown,
            path=request.url.path,
            visitor=getattr(request.state, "visitor", None),
            request_id=record_of(request).request_id,
        )
    )
    # Text from outside may contain lone surrogates, which UTF-8 cannot encode.
    content = text.encode("utf-8", "replace")
    return Response(content, status, {**_HEADERS, **(headers or {})}, "text/html; charset=utf-8")


def error_page(request: Request, error: MCPError) -> Response:
    """The page for an error; if a key is missing, the sign-in page."""
    if error.status == 401:
        return sign_in_page(request, headers=error.headers)
    return page(
        request,
        "error.html",
        status=error.status,
        headers=error.headers,
        title=_TITLES.get(error.status, "Something went wrong"),
        message=error.user_message,
    )


def sign_in_page(
    request: Request, *, after: str = "/", problem: str = "", headers: dict[str, str] | None = None
) -> Response:
    """The page that asks for a key. `problem` says why the previous key was refused."""
    there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return page(
        request,
        "sign_in.html",
        status=401,
        headers=headers,
        problem=problem,
        # Only a page can be come back to: the fields of a form are gone.
        after=there if request.method == "GET" else after,
        in_the_clear=gateway_of(request).settings.needs_tls_warning,
    )


def static_file(name: str) -> Response:
    """The style sheet or the icon. Browsers may cache the file, as its URL changes with its content."""
    headers = _HEADERS | {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), 200, headers, _FILES[name])


def wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


@cache
def _content(name: str) -> bytes:
    return (_HERE / "templates" / name).read_bytes()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cast("dict[str, Any]", environment.globals).update(
        version=VERSION,
        url=_url,
        files={name: f"/{name}?v={hashlib.sha256(_content(name)).hexdigest()[:12]}" for name in _FILES},
    )
    environment.filters.update(as_json=as_json, shown=_shown)
    return environment


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    """A setting's value as text: texts unchanged, other values as JSON."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)


def _url(path: str, **query: Any) -> str:
    kept = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept)}" if kept else path
