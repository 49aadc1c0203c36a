"""Views of nodes: self-contained HTML pages."""

from collections.abc import Callable

from ._absent import not_here


class NodeView:
    """A page, and optionally its picture, which only KNIME's reports show."""

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

    render = not_here("NodeView.render")


view_html = NodeView
view = not_here("view")
view_svg = not_here("view_svg")
view_png = not_here("view_png")
view_jpeg = not_here("view_jpeg")
view_ipy_repr = not_here("view_ipy_repr")
