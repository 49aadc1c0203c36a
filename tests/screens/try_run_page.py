"""The page of a run and that of `open` in a real browser: `make browser-runs`; needs chromium, node and npm.

A batch of 10,000 rows is searched, filtered, unfolded and read by keys, and must open within two seconds of
CPU; several prompts stand apart; what a run adds appears; a tool is tried. axe-core looks at each page at 420
and 1,440 pixels, light and dark. ``1000000`` as argument pages that many calls.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.record import CallRecord, CallStatus
from knime_mcp.audit.verify import verify_file
from knime_mcp.cli.demo_server import DemoServer
from knime_mcp.tools.views.journal_page import RunPages
from tests.examples.running import EXAMPLES
from tests.support.browser import Browser

AXE = Path(__file__).parents[2] / "build" / "axe"
SECONDS, BYTES = 2.0, 200 << 20
ROWS = "[...document.querySelectorAll('#steps > .step')]"
SHOWN = "document.getElementById('shown').textContent"


def axe():
    """The source of axe-core, which is fetched once."""
    file = AXE / "node_modules" / "axe-core" / "axe.min.js"
    if not file.is_file():
        AXE.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--prefix", str(AXE), "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*install, "--loglevel=error", "axe-core@4"], check=True)
    return file.read_text(encoding="utf-8")


def call(number, run, row, *, fails=False):
    return CallRecord(
        run=run,
        call=number,
        status=CallStatus.TOOL_ERROR if fails else CallStatus.OK,
        tool_type="mcp",
        tool_name="price_of" if number % 3 else "look_up",
        server="http://127.0.0.1:8931/mcp",
        input_row=row,
        arguments=json.dumps({"article": f"desk {number}", "currency": "EUR"}),
        result=None
        if fails
        else json.dumps({"price": number / 7, "stock": [{"place": "A", "count": number}] * 2}),
        error="The article is not known." if fails else None,
        started_at=f"2026-01-31T12:{number // 600 % 60:02d}:{number // 10 % 60:02d}.{number % 10}00000Z",
        duration=0.1 + number % 5 / 10,
    )


def batch(file, count):
    with Journal(file, run="batch", about="knime-mcp batch price_of", what={"kind": "calls"}) as journal:
        for number in range(1, count + 1):
            journal.append(call(number, "batch", f"Row{number - 1}", fails=number % 400 == 7))


def agent(file):
    """Three prompts whose steps stand between each other, as they were answered at once."""
    what = {"kind": "agent", "model": "m-1", "endpoint": "http://127.0.0.1:9/v1"}
    with Journal(file, run="agent", about="agent", what=what) as journal:
        for row in ("Row0", "Row1", "Row2"):
            journal.note("prompt", {"row": row, "text": f"What does {row} cost?", "history": None})
        for number in range(1, 13):
            journal.append(call(number, "agent", f"Row{number % 3}", fails=number == 5))
        for row in ("Row2", "Row0", "Row1"):
            journal.note("answer", {"row": row, "text": f"{row} costs **7**.", "ending": "answer"})


def written(journal):
    pages = RunPages(journal, f"{journal.stem}.html")
    journal.with_suffix(".html").write_text(pages.page(1, verify_file(journal)), encoding="utf-8")
    assert len(pages) == 1
    return journal.with_suffix(".html").as_uri()


def looked_at(browser, name, source, wrong):
    """Adds what axe finds in a page as it stands, at both widths and in both schemes."""
    browser.script(
        "document.querySelectorAll('#steps > details').forEach((each, at) => (each.open = at < 9))"
    )
    browser.script(source + ";0")
    for scheme in ("light", "dark"):
        browser.colours(scheme)
        for width in (420, 1440):
            browser.resize(width, 900)
            found = browser.script(
                "axe.run().then((found) => found.violations.map((each) =>"
                " `${each.id}: ${each.help} (${each.nodes.length}×, ${each.nodes[0].html.slice(0, 160)})`))"
            )
            wrong += [f"{name}, {scheme}, {width}: {each}" for each in found]
            wide = browser.script("document.documentElement.scrollWidth")
            wrong += [f"{name}, {width}: is {wide} wide"] if wide > width else []
    browser.colours("light")


def cost(browser, url):
    """The seconds of CPU until a page stands, and the bytes of its renderer."""
    browser.do("Performance.enable", timeDomain="threadTicks")
    browser.open(url)
    browser.wait_for(f"{ROWS}.length > 0")
    metrics = {each["name"]: each["value"] for each in browser.do("Performance.getMetrics")["metrics"]}
    children = [
        file.parent for file in Path("/proc").glob("[0-9]*/cmdline") if b"type=renderer" in _read(file)
    ]
    sizes = [
        int(re.search(r"RssAnon:\s+(\d+)", _read(folder / "status").decode())[1]) << 10 for folder in children
    ]
    return metrics["TaskDuration"], metrics["JSHeapUsedSize"], max(sizes, default=0)


def _read(file):
    try:
        return file.read_bytes()
    except OSError:
        return b""


def used(browser):
    """Searches, filters, unfolds and reads by keys in the batch of 10,000 rows."""
    browser.resize(1440, 900)
    assert browser.script(SHOWN) == "10,002 steps"
    browser.script("search.value = 'desk 4321'; search.dispatchEvent(new Event('input'))")
    browser.wait_for(f"{SHOWN} === '1 of 10,002 steps'")
    row = browser.script(f"[...{ROWS}[0].querySelectorAll('summary > *')].map((each) => each.textContent)")
    assert row[:3] == ["Row4320", "⚡ price_of", "ok"], row
    assert "desk 4321" in row[3], row
    assert "617.28" in row[4], row
    browser.script(f"{ROWS}[0].querySelector('summary').focus()")
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    browser.do("Input.dispatchKeyEvent", type="keyDown", **enter)
    browser.wait_for(f"{ROWS}[0].open && {ROWS}[0].innerText.includes('Arguments')")
    assert browser.script(f"{ROWS}[0].querySelectorAll('tbody tr').length") == 2
    browser.script("search.value = ''; search.dispatchEvent(new Event('input'))")
    browser.wait_for(f"{SHOWN} === '10,002 steps'")
    browser.script(
        "document.getElementById('status').value = 'tool error';"
        "document.getElementById('status').dispatchEvent(new Event('change'))"
    )
    browser.wait_for(f"{SHOWN} === '25 of 10,002 steps' && {ROWS}.length === 25")
    browser.script("document.getElementById('status').value = '';document.getElementById('order').click()")
    browser.wait_for(
        f"{ROWS}.slice(0, 25).every((each) => each.classList.contains('bad')) && {ROWS}.length > 25"
    )
    browser.script("document.getElementById('order').click(); window.scrollTo(0, 1e7)")
    browser.wait_for(f"{ROWS}.length > 200")
    browser.script(f"{ROWS}[3].querySelector('summary').focus()")
    browser.do("Input.dispatchKeyEvent", type="rawKeyDown", key="ArrowDown", windowsVirtualKeyCode=40)
    browser.wait_for(f"document.activeElement === {ROWS}[4].querySelector('summary')")
    browser.resize(420, 900)
    came = f"{ROWS}[1].querySelector('summary > :nth-child(5)')"
    assert browser.script(f"{came}.checkVisibility() && {came}.getBoundingClientRect().height > 8")


def grouped(browser):
    """Each prompt's steps stand under it, and none of another; searched, they stand alone."""
    names = f"{ROWS}.map((each) => each.querySelector('b').textContent.trim())"
    browser.resize(1440, 900)
    browser.wait_for(f"{names}.join() === 'Begin,Question,Question,Question,End'")
    browser.script(f"{ROWS}[2].open = true")
    browser.wait_for(f"{ROWS}[2].querySelectorAll('.members > .step').length === 5")
    summary = browser.script(f"{ROWS}[3].querySelector('summary').innerText")
    assert "4 calls, 1 failed · Row2 costs" in " ".join(summary.split()), summary
    inside = f"[...{ROWS}[2].querySelectorAll('.members .step.call > summary > :first-child')]"
    rows = browser.script(f"{inside}.map((each) => each.textContent)")
    assert rows == ["Row1"] * 4, rows


@contextmanager
def runs_opened(folder):
    """The address of `open` for a folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "knime_mcp.cli.app", "open", str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().removeprefix("Open in a browser: ").strip()
    finally:
        process.terminate()
        process.wait(30)


def tried(browser, address, url):
    """Lists a server's tools, and calls one of them by its form."""
    browser.open(address)
    browser.script(f"server.value = {json.dumps(url)}; ask.requestSubmit()")
    browser.wait_for("document.querySelectorAll('#tools > details').length > 5")
    tools = "[...document.querySelectorAll('#tools > details')]"
    tool = f"{tools}.find((each) => each.innerText.includes('search_text'))"
    browser.script(f"{tool}.open = true")
    browser.wait_for(f"{tool}.querySelector('form')")
    fill = f"{tool}.querySelector('textarea').value = 'desk'"
    browser.script(f"{fill}; {tool}.querySelector('form').requestSubmit()")
    browser.wait_for(f"{tool}.querySelector('[role=status] .badge')?.textContent === 'ok'")
    assert "--json-arguments" in browser.script(f"{tool}.textContent")
    return tool


def opened(browser, folder, url, source, wrong):
    """The list, a run while it goes on, and a tool that is tried."""
    with runs_opened(folder) as address:
        with Journal(folder / "live.jsonl", run="live", about="a long run") as journal:
            journal.append(call(1, "live", "Row0"))
            browser.open(address)
            browser.wait_for("document.querySelector('#runs td .badge')?.textContent === 'goes on'")
            browser.script("document.querySelector('#runs a').click()")
            browser.wait_for("document.getElementById('shown')?.textContent === '2 steps'")
            browser.script(f"{ROWS}[1].open = true")
            for number in (2, 3):
                journal.append(call(number, "live", f"Row{number}"))
            browser.wait_for(f"{SHOWN} === '4 steps' && {ROWS}.length === 4 && {ROWS}[1].open")
            looked_at(browser, "live", source, wrong)
        browser.wait_for("document.getElementById('top').textContent.includes('nobody vouches')")
        tried(browser, address, url)
        browser.wait_for("document.querySelector('#runs').textContent.includes('tried-')")
        browser.script("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        looked_at(browser, "open", source, wrong)


def paged(folder, count):
    """A journal of so many calls on pages; each page is asked for once."""
    began, cpu = time.monotonic(), time.process_time()
    batch(folder / "large.jsonl", count)
    print(
        f"{count:,} calls written in {time.monotonic() - began:.0f} s,"
        f" {(folder / 'large.jsonl').stat().st_size / 1e6:,.0f} MB"
    )
    began, cpu = time.monotonic(), time.process_time()
    pages, verified = RunPages(folder / "large.jsonl", "large.html"), verify_file(folder / "large.jsonl")
    for number in range(1, len(pages) + 1):
        pages.page(number, verified)
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10
    cpu = time.process_time() - cpu
    print(f"{len(pages)} pages in {time.monotonic() - began:.0f} s ({cpu:.0f} of CPU), at most {peak:,} MB")


def main():
    folder = Path(tempfile.mkdtemp())
    if len(sys.argv) > 1:
        return paged(folder, int(sys.argv[1]))
    source, wrong = axe(), []
    batch(folder / "batch.jsonl", 10_000)
    agent(folder / "agent.jsonl")
    with DemoServer(EXAMPLES / "demo" / "files", 0) as server:
        browser = Browser(tempfile.mkdtemp())
        try:
            seconds, heap, resident = cost(browser, written(folder / "batch.jsonl"))
            sizes = f"{heap / 1e6:.0f} MB of objects, {resident / 1e6:.0f} MB in all"
            print(f"10,000 rows: {seconds:.2f} s of CPU, {sizes}")
            wrong += [f"10,000 rows took {seconds:.2f} s"] if seconds > SECONDS else []
            wrong += [f"10,000 rows took {resident:,} bytes"] if resident > BYTES else []
            used(browser)
            looked_at(browser, "batch", source, wrong)
            browser.open(written(folder / "agent.jsonl"))
            grouped(browser)
            looked_at(browser, "agent", source, wrong)
            opened(browser, folder, server.url, source, wrong)
            wrong += browser.complaints
        finally:
            browser.close()
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
