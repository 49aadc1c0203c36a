"""The pictures of the documents: `make pictures`; needs chromium, node and npm.

Everything is made anew: the example workflows run against the demo's server, and their views are drawn at the
width of KNIME's side panel, dialogs by KNIME's own controls, workflows from their files. On the way each view
is looked at at 420 and 900 pixels, light and dark, with everything opened that can be opened: nothing may be
wider than the window, and texts must stand out from what is behind them.
"""

import io
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager
from html import escape
from pathlib import Path

import pyarrow.parquet as pq
from PIL import Image

from docs.build_site import picture as drawing
from knime_mcp.cli.demo_server import DemoServer
from knime_mcp.tools.calling_hints import ParameterHint, ToolChoice, encode_choices
from tests.examples.running import EXAMPLES, command, run
from tests.graph.studio.try_in_browser import node, person_at, press, studio
from tests.screens.front_end import dialogs_in_browser
from tests.screens.try_run_page import runs_opened, tried
from tests.support.archives import read_workflow
from tests.support.browser import Browser
from tests.support.chat_server import ChatServer, call, calls, says
from tests.support.dialogs import inputs_of
from tests.support.host import get_host

IMAGES = Path(__file__).parents[2] / "docs" / "images"
NARROW, WIDE = 420, 900
#: Pixels from the top that a picture in a document has at most.
HIGHEST = 760
WORKFLOWS = ("first-call", "batch", "report", "word-count-tool", "agent", "chat")
QUESTION = "Which product did we sell most of, and what do customers say about it?"
ANSWER = "Office chairs, says orders.csv. The customers' letter praises the instructions."
PORT = 8931
URL = f"http://127.0.0.1:{PORT}/mcp"
#: The settings of dialogs in the pictures, as a person has filled them in.
DIALOGS = {
    "provider": ("mcp_tool_provider", {"server_url": URL}),
    "caller": (
        "mcp_tool_caller",
        {"tool": "search_text", "arguments": [{"name": "text", "value": "desk"}]},
    ),
    "agent": ("mcp_agent_prompter", {"user_message": QUESTION}),
    "chat": ("mcp_agent_chat", {}),
    "resources": (
        "mcp_resource_reader",
        {"server_url": URL, "uri": "demo:///meeting_notes.md"},
    ),
    "replayer": ("tool_call_replayer", {}),
}

FAULTS = Path(__file__).with_name("view_faults.js").read_text(encoding="utf-8")


def small(png, file, *, highest=None):
    """Keeps a picture with as many colours as fit into a byte per pixel."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    if highest is not None and picture.height > highest:
        picture = picture.crop((0, 0, picture.width, highest))
    picture.quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)


@contextmanager
def in_browser():
    browser = Browser(tempfile.mkdtemp())
    try:
        yield browser
    finally:
        browser.close()


def shown(browser, page, name, *, width=NARROW, opened=False):
    """Draws a page, and keeps its picture."""
    browser.resize(width, HIGHEST, 2)
    browser.open(page.as_uri())
    if opened:
        browser.script("document.querySelector('details').open = true")
    height = browser.script("Math.ceil(document.body.getBoundingClientRect().bottom)")
    browser.resize(width, min(HIGHEST, height), 2)
    file = page.with_suffix(".shot")
    browser.picture(file)
    small(file.read_bytes(), IMAGES / f"{name}.png")


def faults(browser, page):
    """What is wrong with a view, at both widths and in both schemes."""
    for scheme in ("light", "dark"):
        browser.colours(scheme)
        for width in (NARROW, WIDE):
            browser.resize(width, HIGHEST)
            browser.open(page.as_uri())
            browser.script("document.querySelectorAll('details').forEach((each) => (each.open = true))")
            yield from (f"{page.name}, {scheme}, {width}: {what}" for what in browser.script(FAULTS))


def failed(browser, folder):
    """The view of a Provider whose server is not there; what is wrong with it."""
    settings = {"server_url": "http://127.0.0.1:9/mcp", "on_failure": "warn"}
    result = get_host().run("mcp_tool_provider", [None, None], settings, workflow_dir=folder / "failed")
    page = folder / "view-failed.html"
    page.write_text(result.view_html, encoding="utf-8")
    shown(browser, page, "view-failed")
    return list(faults(browser, page))


def as_page(table, file, columns):
    """The first rows of a table, about as KNIME shows them."""
    kinds = {"string": "String", "int64": "Number (Integer)", "double": "Number (Float)"}
    head = "".join(
        f"<th>{escape(name)}<small>{kinds.get(str(table.schema.field(name).type), '')}</small></th>"
        for name in columns
    )
    rows = table.select(columns).slice(0, 8).to_pylist()
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row.values()) for row in rows)
    body = "".join(f"<tr><td class=id>Row{place}</td>{row}</tr>" for place, row in enumerate(cells))
    file.write_text(
        "<!doctype html><meta charset=utf-8><style>body{margin:0;font:13px Roboto,sans-serif}"
        "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:6px 10px;border-bottom:1px"
        " solid #d9dce1;white-space:nowrap}th{background:#f4f5f7}small{display:block;color:#5c6370;"
        "font-weight:400}.id{color:#5c6370}</style>"
        f"<table><tr><th>RowID</th>{head}</tr>{body}</table>",
        encoding="utf-8",
    )
    return file


def asks(_request):
    return calls(
        call("check_columns", {"path": "orders.csv"}),
        call("search_text", {"text": "chair"}),
        call("summarize_csv", {"path": "orders.csv", "columns": ["product", "quantity"]}),
    )


def views(browser, folder, url):
    """The views and tables of the examples; what is wrong with them."""
    ran = {name: run(name, folder / name, server_url=url) for name in ("first-call", "batch", "report")}
    with ChatServer([asks, lambda _: says(ANSWER)]) as chat:
        ran["agent"] = run("agent", folder, server_url=url, model_url=chat.url, model="test-model")
    views = {
        "view-provider": ran["first-call"].results[2],
        "view-call": ran["first-call"].results[3],
        "view-batch": ran["batch"].results[4],
        "view-report": ran["report"].results[6],
        "view-agent": ran["agent"].results[10],
    }
    wrong = []
    for name, result in views.items():
        page = folder / f"{name}.html"
        page.write_text(result.view_html, encoding="utf-8")
        shown(browser, page, name, opened=name in ("view-provider", "view-report"))
        wrong += faults(browser, page)
    journal = EXAMPLES / "audit" / "what-the-agent-did.jsonl"
    for words in (("audit", "show", journal), ("replay", journal, "--server", f"{URL}={url}")):
        page = folder / f"{words[0]}.html"
        command("-m", "knime_mcp.cli.app", *words, "--html", page, folder=folder)
        wrong += faults(browser, page)
    shown(browser, folder / "audit.html", "audit", width=WIDE)
    (folder / "runs").mkdir()
    shutil.copy(journal, folder / "runs")
    with runs_opened(folder / "runs") as address:
        tool = tried(browser, address, url)
        browser.resize(WIDE, HIGHEST, 2)
        browser.script(f"window.scrollTo(0, {tool}.getBoundingClientRect().top - 260)")
        kept(browser, folder, "open", "light")
    # Where KNIME would show the table: the last node's Records are empty, so the first one's are read alone.
    words = ("-m", "knime_mcp.cli.app", "batch", url, "check_columns", "rows.csv", "--records", "r.parquet")
    (folder / "rows.csv").write_text("path\norders.csv\nclimate.csv\n", encoding="utf-8")
    command(*words, folder=folder)
    table = pq.read_table(folder / "r.parquet")
    columns = ["Input row", "Position", "path", "column", "readings", "missing", "outliers"]
    shown(browser, as_page(table, folder / "records.html", columns), "table-records", width=WIDE)
    return wrong


def dialogs():
    """Dialogs of connected nodes, filled in."""
    host = get_host()
    text, path = ParameterHint("text", "string", is_required=True), ParameterHint("path", "string", False)
    offered = encode_choices(
        [
            ToolChoice(
                name="search_text",
                route=URL,
                description="Find the lines that hold a text.",
                parameters=(text, path),
            ),
            ToolChoice(
                name="count_words", route=URL, description="Count the words of a file.", parameters=(path,)
            ),
        ]
    )
    with dialogs_in_browser() as browser:
        for name, (node, settings) in DIALOGS.items():
            inputs = None if "server_url" in settings else inputs_of(host, node)
            dialog = host.dialog(node, inputs, parameters=settings, flow_variables={"mcp_tools: 1": offered})
            browser.show(dialog, advanced=False, width=400)
            file = Path(tempfile.mkdtemp()) / "dialog.png"
            browser.picture(file)
            small(file.read_bytes(), IMAGES / f"dialog-{name}.png", highest=2 * HIGHEST)


def studios(folder, url):
    """The studio with a run of the document in graph-documents.md, and with a mistake in its text."""
    whole = (IMAGES.parents[1] / "packages" / "mcp-graph" / "docs" / "graph-documents.md").read_text(
        encoding="utf-8"
    )
    document = re.search(r'```yaml\n(version: "1.0".*?)```', whole, re.DOTALL)[1]
    file = folder / "desk.yaml"
    file.write_text(document.replace(URL, url), encoding="utf-8")
    with studio(file) as address, person_at(address) as person:
        person.resize(1240, HIGHEST, 2)
        person.script("document.querySelector('#fit').click()")
        person.click("document.querySelector('#tab-run')")
        press(person, "Run")
        person.wait_for("document.querySelector('#result')?.textContent.includes('words')")
        person.click(node("longest"))
        kept(person, folder, "studio-run", "light")
        person.click("document.querySelector('#tab-text')")
        person.click("document.querySelector('#yaml')")
        with person.changing():
            person.write(document.replace(URL, url).replace("next: words", "next: wrods"))
        person.wait_for("document.querySelector('#problems li')")
        person.click(node("some"))
        kept(person, folder, "studio-text", "dark")


def kept(browser, folder, name, scheme):
    file = folder / f"{name}.shot"
    browser.picture(file, scheme)
    small(file.read_bytes(), IMAGES / f"{name}.png")


def main():
    folder = Path(tempfile.mkdtemp())
    for name in WORKFLOWS:
        svg = drawing(read_workflow(EXAMPLES / f"{name}.knwf"))
        (IMAGES / f"workflow-{name}.svg").write_text(svg, encoding="utf-8")
    with DemoServer(EXAMPLES / "demo" / "files", PORT) as server, in_browser() as browser:
        wrong = views(browser, folder, server.url) + failed(browser, folder)
        studios(folder, server.url)
    dialogs()
    print(*wrong, sep="\n")
    files = sorted(IMAGES.iterdir())
    print(f"{len(files)} pictures, {sum(file.stat().st_size for file in files) / 1e6:.2f} MB in {IMAGES}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
