"""Chromium without a window, for programs that look at pages; it is not among what the tests need."""

import fcntl
import json
import os
import subprocess
import time
from base64 import b64decode

DEADLINE = 30.0


class Browser:
    """Chromium, over a pipe. See https://chromedevtools.github.io/devtools-protocol/."""

    def __init__(self, profile):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        command += [f"--user-data-dir={profile}", "--window-size=1000,1100", "--hide-scrollbars"]

        def descriptors():
            ends = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (to_browser, from_browser)]
            for end, wanted in zip(ends, (3, 4), strict=True):  # where Chromium looks for them
                os.dup2(end, wanted)

        self._process = subprocess.Popen(
            command, preexec_fn=descriptors, close_fds=False, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest, self.complaints = 0, b"", []
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.do(f"{domain}.enable")

    def do(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            if complaint := _complaint(answer):
                self.complaints.append(complaint)

    def _next(self):
        while b"\0" not in self._rest:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, url):
        self.do("Page.navigate", url=url)
        deadline = time.monotonic() + DEADLINE
        while Browser.script(self, "document.readyState") != "complete":
            assert time.monotonic() < deadline, url
            time.sleep(0.02)

    def script(self, code):
        """The value of an expression."""
        result = self.do("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, code):
        deadline = time.monotonic() + DEADLINE
        while not self.script(f"!!({code})"):
            assert time.monotonic() < deadline, (
                code,
                Browser.script(self, "document.body.innerText"),
                self.complaints,
            )
            time.sleep(0.02)

    def resize(self, width, height, scale=1):
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def colours(self, scheme):
        """``light`` or ``dark``, as the page's user prefers it."""
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, file, scheme="light"):
        self.colours(scheme)
        file.write_bytes(b64decode(self.do("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self._session = None
        self.do("Browser.close")
        self._process.wait(DEADLINE)
        os.close(self._write)
        os.close(self._read)


def _complaint(event):
    """What the page says went wrong, in one text; empty for other events."""
    match event.get("method"), event.get("params", {}):
        case "Runtime.consoleAPICalled", {"type": "error" | "assert", "args": said}:
            return " ".join(str(each.get("value", each.get("description", ""))) for each in said)
        case "Runtime.exceptionThrown", {"exceptionDetails": details}:
            return details.get("exception", {}).get("description", details["text"])
        case "Log.entryAdded", {"entry": entry}:
            return f"{entry['text']} {entry.get('url', '')}"
    return ""
