"""The page in a real browser, by keyboard alone: `make browser`; needs chromium and chromedriver.

Signs in, searches, opens a card, tries a tool with a wrong and with right arguments, and compares light and
dark. Screenshots go into the folder that is named, to be looked at. Not among the tests, because a machine
without a browser would have to skip it.
"""

import base64
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from knime_mcp.knowledge.sources.catalogue_build import build_catalogue
from tests.knowledge.gateway.running import running_gateway

TAB, ENTER, END, SPACE = "\ue004", "\ue007", "\ue010", " "
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # https://www.w3.org/TR/webdriver2/#elements


class Browser:
    """A session of chromedriver, see https://www.w3.org/TR/webdriver2/."""

    def __init__(self, driver, profile, *arguments):
        self._http = httpx.Client(timeout=60, verify=False)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        options += [f"--user-data-dir={profile}", "--window-size=1100,1300", "--hide-scrollbars", *arguments]
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args": options}}}
        self._url = f"{driver}/session"
        self._url += "/" + self._do("", capabilities=wanted)["sessionId"]

    def _do(self, path, method="POST", **body):
        answer = self._http.request(method, self._url + path, json=body if method == "POST" else None)
        value = answer.json()["value"]
        if answer.status_code != 200:
            raise AssertionError(f"{path}: {value['error']}: {value['message']}")
        return value

    def open(self, url):
        self._do("/url", url=url)

    def script(self, code):
        return self._do("/execute/sync", script=code, args=[])

    @property
    def title(self):
        return self._do("/title", "GET")

    @property
    def focused(self):
        """What has the focus: its id, or else its text."""
        return self.script("const e = document.activeElement; return e.id || e.innerText.trim()")

    def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._do("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def tab_to(self, what):
        """Presses Tab until an element with this id or text has the focus, and is seen to have it."""
        for _ in range(80):
            if self.focused == what:
                outline = "const s = getComputedStyle(document.activeElement); return s.outlineStyle"
                assert self.script(outline) != "none", f"the focus on {what} is not seen"
                return
            self.press(TAB)
        raise AssertionError(f"Tab does not get to {what}")

    def wait_for_title(self, pattern):
        deadline = time.monotonic() + 20
        while not re.search(pattern, self.title):
            assert time.monotonic() < deadline, f"{pattern} is not the title, {self.title} is"
            time.sleep(0.05)

    def text(self, selector):
        return self._do(f"/element/{self._element(selector)}/text", "GET")

    def background(self):
        return self.script("return getComputedStyle(document.body).backgroundColor")

    def problems(self):
        """What the page tried and the browser refused."""
        found = self._do("/se/log", type="browser")
        # An answer of 400 or 401 is one that the page itself shows.
        return [entry["message"] for entry in found if "Failed to load resource" not in entry["message"]]

    def shot(self, file):
        height = self.script("return Math.min(2600, document.documentElement.scrollHeight)")
        self._do("/window/rect", width=1100, height=max(700, height + 20))
        file.write_bytes(base64.b64decode(self._do("/screenshot", "GET")))

    def close(self):
        self._do("", "DELETE")
        self._http.close()

    def _element(self, selector):
        return self._do("/element", using="css selector", value=selector)[_ELEMENT]


@contextlib.contextmanager
def chromedriver():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([shutil.which("chromedriver"), f"--port={port}"], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/status").json()["value"]["ready"]:
                    break
            assert time.monotonic() < deadline, "chromedriver does not start"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def walk(browser, running, shots, name):
    browser.open(f"{running.url}/tools")
    browser.wait_for_title("^Sign in")
    assert browser.focused == "key"
    browser.shot(shots / f"{name}-1-sign-in.png")
    browser.press("wrong" + ENTER)
    browser.wait_for_title("^Sign in")
    assert "unknown" in browser.text("#problem")
    browser.press(running.key(name="Ada") + ENTER)
    browser.wait_for_title("^Tools")  # the page that was asked for

    browser.open(running.url)
    browser.wait_for_title("^Overview")
    assert browser.focused == "q"
    browser.shot(shots / f"{name}-2-overview.png")
    browser.press("ask a person in slack" + ENTER)
    browser.wait_for_title("^ask a person in slack – search")
    browser.shot(shots / f"{name}-3-search.png")
    browser.tab_to("Skip to the content")
    browser.press(ENTER)
    browser.tab_to("Slack Interaction")
    browser.press(ENTER)
    browser.wait_for_title("^Slack Interaction")
    assert "confirmed" in browser.text("main")
    browser.shot(shots / f"{name}-4-card.png")

    browser.tab_to("What can be connected")
    browser.press(ENTER)
    browser.wait_for_title("^find_compatible")
    browser.tab_to("f-max_results")
    browser.press(END + "000")
    browser.tab_to("Call the tool")
    browser.press(ENTER)
    browser.wait_for_title("^find_compatible")  # the browser itself refuses a number that is too large
    assert browser.focused == "f-max_results"
    browser.press(END + "\ue003" * 3)
    browser.tab_to("Call the tool")
    browser.press(SPACE)
    browser.wait_for_title("^Result: find_compatible")
    assert '"total"' in browser.text("#result pre")
    browser.shot(shots / f"{name}-5-tried.png")

    browser.open(f"{running.url}/tools/get_node_details?nodes=%5B%7B")
    browser.tab_to("Call the tool")
    browser.press(ENTER)
    browser.wait_for_title("^Failed: get_node_details")
    assert "not JSON" in browser.text("#result")
    browser.shot(shots / f"{name}-6-failed.png")
    browser.tab_to("Sign out")
    browser.press(ENTER)
    browser.wait_for_title("^Sign in")
    assert browser.problems() == []
    return browser.background()


def main(shots):
    shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        catalogue = Path(folder, "nodes.sqlite")
        build_catalogue(catalogue)
        running = stack.enter_context(running_gateway(catalogue, Path(folder, "keys.sqlite")))
        driver = stack.enter_context(chromedriver())
        grounds = []
        # https://source.chromium.org/chromium/chromium/src/+/main:third_party/blink/public/mojom/css/preferred_color_scheme.mojom
        for name, scheme in (("light", 1), ("dark", 0)):
            setting = f"--blink-settings=preferredColorScheme={scheme}"
            browser = Browser(driver, Path(folder, name), setting)
            try:
                grounds.append(walk(browser, running, shots, name))
            finally:
                browser.close()
        assert len(set(grounds)) == 2, f"light and dark look the same: {grounds}"
    print(f"Everything worked; screenshots are in {shots}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
