"""The page's endpoints. On the public listener visitors sign in with a key, whose scopes and limits apply."""

from __future__ import annotations

import re
import secrets
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response

from ...tool_arguments import count_in
from ..admission import (
    KEY_HEADER,
    admit,
    admit_key,
    from_elsewhere,
    invalid_key,
    read_body,
    verified_key,
)
from ..endpoints import PREFIX
from ..errors import MCPError, invalid_request
from ..gateway import SESSION_SECONDS
from ..keys import Scope
from ..middleware import gateway_of, record_of
from ..routing import guarded, noted
from . import browsing
from .forms import arguments_of, entered_of, fields_of
from .rendering import as_json, error_page, page, sign_in_page, static_file

if TYPE_CHECKING:
    from ...tool_definitions import ToolDefinition

COOKIE: Final = "knime_mcp_session"
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 100
_PATH: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*")


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


async def _enter(request: Request) -> None:
    if request.method == "POST":
        if from_elsewhere(request):
            raise invalid_request("This form was not sent from this page.", status=403)
        await read_body(request, kind=_FORM)


async def _enter_with_key(request: Request, *, scope: Scope) -> None:
    if KEY_HEADER in request.headers:
        admit(request, scope)
    else:
        gateway = gateway_of(request)
        key_id = gateway.sessions.get(request.cookies.get(COOKIE, ""))
        key = gateway.keys.working(key_id) if key_id else None
        if key is None:
            raise invalid_key("Nobody is signed in.")
        request.state.visitor = key
        admit_key(request, key, scope)
    await _enter(request)


# Endpoints that read the catalogue are not `async`, so that they run in a thread: they may wait for the disk.
def _overview(request: Request) -> Response:
    gateway = gateway_of(request)
    tools = gateway.tools().get_available_tools()
    shown = browsing.overview(gateway.catalogue)
    return page(request, "overview.html", overview=shown, tools=tools)


def _nodes(request: Request) -> Response:
    gateway = gateway_of(request)
    gateway.tools()
    asked = {name: request.query_params.get(name, "") for name in ("q", "type", "page")}
    if asked["q"]:
        record_of(request).query_hash = gateway.keys.hashed(asked["q"])
    shown = browsing.listed(gateway.catalogue, query=asked["q"], node_type=asked["type"], page=asked["page"])
    return page(request, "nodes.html", list=shown, query=asked["q"], node_type=asked["type"])


def _node(request: Request) -> Response:
    gateway = gateway_of(request)
    gateway.tools()
    card = browsing.card(gateway.catalogue, request.query_params.get("id", ""))
    return page(request, "node.html", card=card)


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
    tool: ToolDefinition,
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
        key = verified_key(request, form.get("key", "").strip())
    except MCPError as error:
        if error.status != 401:
            raise
        return sign_in_page(request, problem=noted(request, error).user_message, headers=error.headers)
    record_of(request).client, record_of(request).key_id = key.name, key.id
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
