"""Dialogs in a browser, drawn by the controls that KNIME publishes on npm; see `node/dialog.js`."""

import hashlib
import json
import shutil
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.browser import Browser

SOURCES = Path(__file__).parent / "node"
#: Nothing of what is fetched is kept in the repository.
CACHE = Path(__file__).parents[2] / "build" / "dialogs"
PAGE = """<!doctype html><meta charset="utf-8"><title>Dialog</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="dialog.css">
<div id="dialog"></div><script type="module" src="dialog.js"></script>"""
ESBUILD = [
    "--bundle",
    "--format=esm",
    "--splitting",  # Vue takes a component that is loaded late from a real module only
    "--loader:.woff=dataurl",
    "--loader:.woff2=dataurl",
    "--loader:.svg=text",
    "--external:@fontsource/roboto/files/roboto-all-*",  # characters that no dialog has
    '--define:process.env.NODE_ENV="development"',
    "--define:__VUE_OPTIONS_API__=true",
    "--define:__VUE_PROD_DEVTOOLS__=false",
    "--define:__VUE_PROD_HYDRATION_MISMATCH_DETAILS__=false",
    "--log-level=warning",
]


def built():
    """The page that draws dialogs. Packages are fetched once; bundling takes a second."""
    package = (SOURCES / "package.json").read_bytes()
    folder = CACHE / hashlib.sha256(package).hexdigest()[:16]
    if not (folder / "installed").is_file():
        shutil.rmtree(CACHE, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_bytes(package)
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
        subprocess.run([*install, "--loglevel=error"], cwd=folder, check=True)
        (folder / "installed").touch()
    for name in ("dialog.js", "dialog.css"):
        shutil.copy(SOURCES / name, folder)
    bundle = ["node_modules/.bin/esbuild", "dialog.js", "--outdir=page"]
    subprocess.run([*bundle, *ESBUILD], cwd=folder, check=True)
    page = folder / "page" / "index.html"
    page.write_text(PAGE)
    return page


class Dialogs(Browser):
    """A browser that shows one dialog after another."""

    def show(self, dialog, *, advanced, width):
        """Draws a dialog of `Host.dialog`, and waits until it stands still."""
        self.complaints.clear()
        self.resize(width, 900)
        self.script(f"draw({json.dumps(dialog)}, {json.dumps(advanced)})")
        self.wait_for("now.isReady && document.fonts.status === 'loaded'")
        self.fit(width)

    def fit(self, width):
        """Makes the window so wide, and as high as the dialog is then."""
        self.resize(width, 900, 2)
        self.script("new Promise((done) => setTimeout(done, 60))")
        self.resize(width, self.script("document.querySelector('#dialog').scrollHeight + 8"), 2)

    @property
    def values(self):
        return self.script("now.data")

    @property
    def headings_and_labels(self):
        """What is written in the dialog, as pairs of a heading and a label below it."""
        return [tuple(pair) for pair in self.script(_LABELS)]

    @property
    def texts(self):
        return self.script("document.querySelector('#dialog').innerText")

    @property
    def overflowing(self):
        """Texts of what is wider than the window, or stands out of it."""
        return self.script(_OVERFLOWING)


_LABELS = """(() => {
  const found = [];
  let heading = "";
  for (const each of document.querySelectorAll("#dialog h3, #dialog label, #dialog [role=checkbox]")) {
    const text = each.textContent.trim();
    if (each.tagName === "H3") heading = text;
    else if (!each.closest(".array")) found.push([heading, text]);
  }
  return found;
})()"""
_OVERFLOWING = """(() => {
  const wide = document.documentElement.clientWidth;
  return [...document.querySelectorAll("#dialog *")]
    .filter((each) => each.getBoundingClientRect().right > wide + 1)
    .map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`);
})()"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def dialogs_in_browser():
    page, profile = built(), tempfile.mkdtemp()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=page.parent))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    browser = Dialogs(profile)
    try:
        browser.open(f"http://127.0.0.1:{http.server_port}/")
        browser.wait_for("globalThis.draw")
        yield browser
    finally:
        browser.close()
        http.shutdown()
        shutil.rmtree(profile, ignore_errors=True)
