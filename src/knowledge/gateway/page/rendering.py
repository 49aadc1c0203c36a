"""Makes HTML answers. All values are escaped, and headers keep browsers from loading foreign content."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode

from fastapi import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ....version import VERSION
from ..middleware import gateway_of, record_of

if TYPE_CHECKING:
    from fastapi import Request

    from ..errors import MCPError

_HERE: Final = Path(__file__).parent
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


def page(
    request: Request, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **shown: Any
) -> Response:
    """An HTML answer.

    Args:
        request: The request.
        template: The name of the template.
        status: The HTTP status.
        headers: Further HTTP headers.
        **shown: The values for the template.
    """
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


def sign_in_page(request: Request, *, problem: str = "", headers: dict[str, str] | None = None) -> Response:
    """The page that asks for a key. `problem` says why the previous key was refused."""
    there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return page(
        request,
        "sign_in.html",
        status=401,
        headers=headers,
        problem=problem,
        after=there if request.method == "GET" else "/",
        in_the_clear=gateway_of(request).settings.needs_tls_warning,
    )


def static_file(name: str) -> Response:
    """The style sheet or the icon. Browsers may cache the file, as its URL changes with its content."""
    headers = _HEADERS | {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), 200, headers, _FILES[name])


def wants_html(request: Request) -> bool:
    """Returns whether the client is a browser, which accepts HTML."""
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
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    """A setting's value as text: texts unchanged, other values as JSON."""
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)


def _url(path: str, **query: Any) -> str:
    kept = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept)}" if kept else path
