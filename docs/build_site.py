"""Builds the pages here as a site, with a reference made from code: ``python -m docs.build_site [FOLDER]``.

The pages stay as GitHub shows them. What they link to outside of this folder comes along below ``project/``.
Ends with 1 if a link leads nowhere, after counting pages, pictures and broken links in what was built.
"""

from __future__ import annotations

import ast
import inspect
import logging
import os
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from html import escape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]+)((?:#[^)\s]*)?)\)")
PROJECT = "project"
#: The pages of the three products.
PAGES = sorted([*HERE.glob("*.md"), *ROOT.glob("packages/*/docs/*.md")])


def place_of(file: Path) -> str:
    """Where a file of the repository stands in the site."""
    inside = file.relative_to(ROOT)
    match inside.parts:
        case ("README.md",):
            return "index.md"
        case ("docs", *rest) | ("packages", _, "docs", *rest):  # the pages of all products stand side by side
            return "/".join(rest)
        case _:
            return f"{PROJECT}/{inside.as_posix()}"


def take(file: Path, stage: Path, taken: set[Path]) -> None:
    """Copies a file, and what it links to, with links that fit its place."""
    if file in taken or not file.is_file():
        return
    taken.add(file)
    target = stage / place_of(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".md":
        shutil.copyfile(file, target)
        return

    def moved(link: re.Match[str]) -> str:
        linked = (file.parent / link[2]).resolve()
        if linked.is_dir():
            linked = linked / "README.md"
        if not linked.exists():
            return link[1]  # a folder that has no page
        take(linked, stage, taken)
        return f"[{link[1]}]({os.path.relpath(place_of(linked), Path(place_of(file)).parent)}{link[3]})"

    target.write_text(LINK.sub(moved, file.read_text(encoding="utf-8")), encoding="utf-8")


def write(stage: Path, name: str, lines: Iterator[str]) -> None:
    file = stage / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    if rows:
        yield from ("", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}")
        yield from (f"| {' | '.join(_cell(value) for value in row)} |" for row in rows)
        yield ""


def _cell(value: Any) -> str:
    text = escape("" if value is None else str(value), quote=False)
    return " ".join(text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").split())


def nodes() -> Iterator[str]:
    from knime_node_knowledge.sources.shipped_nodes import own_nodes

    yield "# Nodes and their settings"
    for node in sorted(own_nodes(), key=lambda each: each.name):
        yield from ("", f"## {node.name}", "", escape(node.short_description, quote=False), "")
        yield escape(node.description, quote=False)
        ports = [("input", port) for port in node.input_ports] + [
            ("output", port) for port in node.output_ports
        ]
        yield from table(
            ("port", "name", "type", ""), [(way, p.name, p.type, p.description) for way, p in ports]
        )
        settings = [
            (each.tab, each.label or each.name, _default(each), each.description) for each in node.parameters
        ]
        yield from table(("heading", "setting", "default", ""), settings)


def _default(parameter: Any) -> str:
    text = str(parameter.default_value) if parameter.has_default else ""
    return text if len(text) <= 60 else f"{text[:60]}…"


def commands() -> Iterator[str]:
    from typer.main import get_command

    from knime_mcp.cli.commands import build_app
    from knime_mcp_graph.commands import program as graphs
    from knime_node_knowledge.commands import program as knowledge

    programs = {"knime-mcp": build_app, "mcpgraph": graphs.build_app, "knime-nodes": knowledge.build_app}

    def below(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            if not inner.hidden:
                yield (*path, name), inner
                yield from below(inner, (*path, name))

    yield "# Commands"
    for path, command in (
        found for name, made in programs.items() for found in below(get_command(made()), (name,))
    ):
        yield from ("", f"{'#' * len(path)} {' '.join(path)}", "", escape(command.help or "", quote=False))
        if not hasattr(command, "commands"):
            shown = [
                each for each in command.params if "--help" not in each.opts and "--help-all" not in each.opts
            ]
            rows = [(", ".join(f"`{word}`" for word in each.opts), each.help) for each in shown]
            yield from table(("argument or option", ""), rows)


def python() -> Iterator[str]:
    source = (ROOT / "tests" / "house" / "test_public_names.py").read_text(encoding="utf-8")
    (public,) = (
        ast.literal_eval(line.value)
        for line in ast.parse(source).body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "PUBLIC"
    )
    yield from (
        "# Python",
        "",
        "What programs may import. All errors are a `knime_mcp.types.errors.MCPError`.",
    )
    for package, names in public.items():
        yield from ("", f"## {package}")
        for name in names.split():
            found = getattr(import_module(package), name)
            yield from ("", f"### {package.removeprefix('knime_mcp.')}.{name}", "", *_documented(found))
            for member, method in vars(found).items() if inspect.isclass(found) else ():
                if not member.startswith("_") and inspect.isfunction(method) and method.__doc__:
                    yield from ("", f"#### {name}.{member}", "", *_documented(method))


def _documented(found: Any) -> Iterator[str]:
    if callable(found):
        with suppress(TypeError, ValueError):
            yield from ("```python", f"{found.__name__}{inspect.signature(found)}", "```", "")
    doc = inspect.getdoc(found) if callable(found) else None
    yield from ("```text", doc, "```") if doc else ("",)


def columns() -> Iterator[str]:
    from knime_mcp.audit.record import FIELDS
    from knime_mcp.runs.replaying import REPLAY_COLUMNS, SUMMARY_COLUMNS
    from knime_mcp.tools.caller.calls_report import RESULT_COLUMNS
    from knime_mcp.tools.provider.provision_report import SERVERS_COLUMNS, TOOLS_COLUMNS

    recorded = [field for field in FIELDS.values() if field.column]
    meanings = {field.column: field.meaning for field in recorded}
    yield from ("# Columns", "", "The columns of the nodes' tables, and of the files that commands write.")
    yield from ("", "## Tool calls: Caller, agents, `--out`")
    yield from table(("column", "type", ""), [(f.column, f.column_kind, f.meaning) for f in recorded])
    yield from ("", "## Results of the Caller, behind the columns of the parameters")
    results = [(name, kind, meanings.get(name)) for name, _, kind in RESULT_COLUMNS]
    yield from table(("column", "type", ""), results)
    for title, listed in (
        ("Tools of the Provider", TOOLS_COLUMNS),
        ("Servers of the Provider", SERVERS_COLUMNS),
        ("Calls of the Replayer", REPLAY_COLUMNS),
        ("Summary of the Replayer", SUMMARY_COLUMNS),
    ):
        yield from ("", f"## {title}")
        yield from table(("column", "type"), [(name, kind) for name, kind, *_ in listed])


def gallery(stage: Path) -> Iterator[str]:
    from tests.support.archives import read_workflow

    yield from ("# Gallery of workflows", "")
    yield "Each file opens in KNIME: *File › Import KNIME Workflow*."
    yield "The project's tests run every one of them."
    for file in sorted((ROOT / "examples").rglob("*.knwf")):
        workflow = read_workflow(file)
        name = f"images/workflows/{file.stem}.svg"
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).write_text(picture(workflow), encoding="utf-8")
        shutil.copyfile(file, stage / "images" / "workflows" / file.name)
        said = [note.text for note in workflow.annotations]
        title, _, about = said[0].partition("\n") if said else (file.stem, "", "")
        yield from ("", f"## {title.strip()}", "", escape(workflow.description or "", quote=False), "")
        yield from (f"![The workflow {file.name}]({name})", "")
        yield from (escape(about.strip(), quote=False), "", f"[{file.name}](images/workflows/{file.name})")


def picture(workflow: Any) -> str:
    """A workflow as KNIME shows it: named boxes where they stand, lines between their ports."""
    colours = {"MCP": "#ffd800", "Agent": "#ffd800"}
    centre = {node.id: (node.position.x + 55, node.position.y + 30) for node in workflow.nodes}
    xs, ys = zip(*centre.values(), strict=True)
    left, top = min(xs) - 110, min(ys) - 60
    width, height = max(xs) - left + 110, max(ys) - top + 80
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {width} {height}" width="{width}"'
        ' font-family="sans-serif" font-size="11" text-anchor="middle">',
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="#fff"/>',
    ]
    for line in workflow.connections:
        if line.source in centre and line.destination in centre:
            (x, y), (to_x, to_y) = centre[line.source], centre[line.destination]
            x, to_x = x + 16, to_x - 16
            bend = max(30, abs(to_x - x) // 2)
            path = f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
            parts.append(f'<path d="{path}" fill="none" stroke="#555" stroke-width="1.5"/>')
    for node in workflow.nodes:
        x, y = centre[node.id]
        colour = next((value for word, value in colours.items() if word in node.name), "#9bc3e6")
        parts.append(f'<rect x="{x - 16}" y="{y - 16}" width="32" height="32" rx="3" fill="{colour}"/>')
        parts.append(f'<text x="{x}" y="{y - 24}" font-weight="600">{escape(node.name)}</text>')
        note = (getattr(node, "annotation", "") or "").partition("\n")[0]
        parts.append(f'<text x="{x}" y="{y + 32}" fill="#555">{escape(note[:40])}</text>')
    return "\n".join([*parts, "</svg>"])


class Page(HTMLParser):
    """The links, pictures and anchors of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.anchors = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found.get("id") or "", (found.get("name") or "") if tag == "a" else ""}
        if tag == "img":
            self.pictures.append(found.get("src") or "")
        if link := found.get("href") or found.get("src"):
            self.links.append(link)


def count(site: Path) -> tuple[int, int, list[str]]:
    """The numbers of pages and pictures, and the links that lead nowhere."""
    pages = {file: Page(file) for file in sorted(site.rglob("*.html")) if file.name != "404.html"}
    broken: list[str] = []
    shown: set[Path] = set()
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if not target.is_file() or unquote(parts.fragment) not in known:
                broken.append(f"{file.relative_to(site)}: {link}")
        shown |= {(file.parent / unquote(name)).resolve() for name in page.pictures if "://" not in name}
    return len(pages), len(shown), broken


def main(site: Path) -> int:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    from tests.support.knime_host import use_standin

    use_standin()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        taken: set[Path] = set()
        for file in (*PAGES, *(ROOT / name for name in ("README.md", "CHANGELOG.md"))):
            take(file, stage, taken)
        write(stage, "reference/nodes.md", nodes())
        write(stage, "reference/commands.md", commands())
        write(stage, "reference/python.md", python())
        write(stage, "reference/columns.md", columns())
        write(stage, "gallery.md", gallery(stage))
        build(load_config(str(HERE / "mkdocs.yml"), docs_dir=str(stage), site_dir=str(site), strict=True))
    pages, pictures, broken = count(site)
    print("\n".join(broken))
    print(f"{site}: {pages} pages, {pictures} pictures, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()))
