"""Every dialog in every state, as KNIME's own controls draw it: `make dialogs`; needs chromium, node and npm.

Under the stand-in, or with KNIME_PYTHON_ROOT under KNIME's own Python sources, which then build the
documents. Pictures go into the folder that is named, to be looked at. Not among the tests, because a machine
without a browser would have to skip it; what the documents say is tested in
`tests/tools/test_dialog_sections.py`.
"""

import sys
import tempfile
from pathlib import Path

from tests.screens.front_end import dialogs_in_browser
from tests.support.dialogs import GONE, NODES, drawn, labelled, states
from tests.support.host import get_host
from tests.support.plugin import REAL_KNIME

WIDTHS = (400, 900)
#: KNIME's radio buttons complain about KNIME's error messages, in development only.
KNIMES_OWN = "Extraneous non-props attributes"


def complaints(browser, dialog, state, advanced):
    """What is wrong with a dialog that is drawn."""
    yield from (text for text in browser.complaints if KNIMES_OWN not in text)
    if browser.values != dialog["data"]:
        yield f"opening it changed a value: {browser.values}"
    found, expected = browser.headings_and_labels, labelled(dialog, advanced=advanced)
    if found != expected:
        yield f"other settings or headings: {found} instead of {expected}"
    if wide := browser.overflowing:
        yield f"wider than the window: {wide[:3]}"
    gone = [key for _, key in drawn(dialog, advanced=advanced) if key in GONE] if "stale" in state else []
    if browser.texts.count("(MISSING)") != len(gone):
        yield f"missing without a cause: {browser.texts}"


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    host, opened, wrong = get_host(), 0, []
    with dialogs_in_browser() as browser:
        for node in NODES:
            for state, dialog in states(host, node):
                for advanced in (False, True):
                    browser.show(dialog, advanced=advanced, width=WIDTHS[0])
                    for width in WIDTHS:
                        browser.fit(width)
                        name = f"{node}, {state}, {width}{', advanced' if advanced else ''}"
                        browser.picture(folder / f"{name}.png")
                        wrong += [f"{name}: {what}" for what in complaints(browser, dialog, state, advanced)]
                        opened += 1
            print(f"{node}: {opened} drawn, {len(wrong)} complaints", flush=True)
    print(*wrong, sep="\n")
    of = "KNIME's own Python sources" if REAL_KNIME else "the stand-in"
    print(f"{opened} dialogs of {of}, {len(wrong)} complaints. Pictures are in {folder}.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="dialogs-"))))
