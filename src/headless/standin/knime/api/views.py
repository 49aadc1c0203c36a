"""Views of nodes: self-contained HTML pages."""

import base64
from collections.abc import Callable
from typing import Any, cast

from ._absent import absent as _absent

_PAGE = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>{body}</body></html>\n'
_PNG = b"\x89PNG\r\n\x1a\n"


class NodeView:
    """A page, and optionally its picture. Views are made by the functions of this module."""

    def __init__(
        self,
        html: str,
        svg_or_png: str | bytes | None = None,
        render_fn: Callable[[], str | bytes] | None = None,
        can_be_used_in_report: bool = False,
    ) -> None:
        self.html = html
        self.can_be_used_in_report = can_be_used_in_report
        self._svg_or_png = svg_or_png
        self._render_fn = render_fn

    def render(self) -> str | bytes:
        """The picture of the page.

        Raises:
            NotImplementedError: the view has neither a picture nor a function to make a picture.
        """
        if self._svg_or_png is None:
            if self._render_fn is None:
                raise NotImplementedError("this view has no picture")
            self._svg_or_png = self._render_fn()
        return self._svg_or_png


def view_html(
    html: str,
    svg_or_png: str | bytes | None = None,
    render_fn: Callable[[], str | bytes] | None = None,
    can_be_used_in_report: bool = False,
) -> NodeView:
    return NodeView(html, svg_or_png, render_fn, can_be_used_in_report)


def view_svg(svg: str) -> NodeView:
    return NodeView(_PAGE.format(body=svg), svg, can_be_used_in_report=True)


def view_png(png: bytes) -> NodeView:
    return _picture(png, "png")


def view_jpeg(jpeg: bytes) -> NodeView:
    return _picture(jpeg, "jpeg")


def _picture(data: bytes, kind: str) -> NodeView:
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    body = f'<img id="view-container" src="{source}" style="width: 100%">'
    return NodeView(_PAGE.format(body=body), data, can_be_used_in_report=True)


def view_ipy_repr(obj: Any) -> NodeView:
    """A view of an object that notebooks can show.

    Raises:
        ValueError: the object has no representation for notebooks.
    """
    pictures = [
        (getattr(obj, f"_repr_{kind}_"), make)
        for kind, make in (("svg", view_svg), ("png", view_png), ("jpeg", view_jpeg))
        if hasattr(obj, f"_repr_{kind}_")
    ]
    if hasattr(obj, "_repr_html_"):
        return view_html(_shown(obj._repr_html_()), render_fn=pictures[0][0] if pictures else None)
    if pictures:
        show, make = pictures[0]
        return make(_shown(show()))
    raise ValueError(f"{type(obj).__name__} has no _repr_html_, _repr_svg_, _repr_png_ or _repr_jpeg_")


def _shown(shown: Any) -> Any:
    """An object's representation for notebooks, without its metadata."""
    parts: Any = cast("Any", shown) if isinstance(shown, tuple) else ()
    return parts[0] if len(parts) == 2 else cast("Any", shown)


def view(obj: Any) -> NodeView:
    """A view of HTML or SVG text, PNG or JPEG bytes, or an object that notebooks can show.

    Raises:
        ValueError: the object is none of these; HTML must start with ``<!DOCTYPE html>``.
        NotImplementedError: the object is a figure of matplotlib or plotly.
    """
    if type(obj) is str:  # as in KNIME, subclasses of str and bytes do not count
        if obj.lstrip()[:15].lower() == "<!doctype html>":
            return view_html(obj)
        if "<svg" in obj[:256] and 'xmlns="http://www.w3.org/2000/svg"' in obj[:256]:
            return view_svg(obj)
    if type(obj) is bytes:
        if obj.startswith(_PNG):
            return view_png(obj)
        if obj.startswith(b"\xff\xd8\xff") and obj.endswith(b"\xff\xd9"):
            return view_jpeg(obj)
    library = type(obj).__module__.partition(".")[0]
    if library in ("matplotlib", "plotly"):
        raise NotImplementedError(f"views of {library}'s figures are not part of the stand-in")
    try:
        return view_ipy_repr(obj)
    except ValueError as error:
        raise ValueError(f"there is no view of {type(obj).__name__} objects: {error}") from None


__getattr__ = _absent(__name__, "view_matplotlib", "view_plotly", "view_seaborn")
