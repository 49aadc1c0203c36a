"""A program on a terminal of its own, into which a test types."""

import codecs
import os
import pty
import select
import signal
import sys
import time

from tests.support import commands

DEADLINE = 120  # seconds; it only detects a hang: a busy machine takes a minute to start a program


class Terminal:
    """A program on a terminal, into which somebody types."""

    def __init__(self, folder, *arguments, kind="dumb"):
        self._ours, its = pty.openpty()
        environment = {**os.environ, "TERM": kind, "COLUMNS": "200"}
        self._process = commands.Popen(
            [sys.executable, "-m", "knime_mcp.cli.app", *map(str, arguments)],
            cwd=folder,
            env={**environment, "KNIME_MCP_SERVERS": str(folder / "servers.json")},
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        self.shown = ""
        self._read = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a character may arrive in two parts

    def until(self, text, meanwhile=lambda: None):
        """Waits until a text is shown, after what was waited for before; returns what came before it.

        ``meanwhile`` is called again and again where nothing comes.
        """
        deadline = time.monotonic() + DEADLINE
        while (found := self.shown.find(text, self._read)) < 0:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.shown}"
            if select.select([self._ours], [], [], 0.2)[0]:
                try:
                    self._take()
                except OSError:
                    raise AssertionError(f"it ended without {text!r}: {self.shown}") from None
            else:
                meanwhile()
        before, self._read = self.shown[self._read : found], found + len(text)
        return before

    def _take(self):
        self.shown += self._decoder.decode(os.read(self._ours, 4096))

    def type(self, line):
        self.press(f"{line}\n")

    def press(self, keys):
        os.write(self._ours, keys.encode())

    def paste(self, text):
        """Pastes as terminals do: marked if the program wants that, and with carriage returns."""
        marked = self.shown.rfind("\x1b[?2004h") > self.shown.rfind("\x1b[?2004l")
        begin, end = ("\x1b[200~", "\x1b[201~") if marked else ("", "")
        self.press(f"{begin}{text.replace(chr(10), chr(13))}{end}")

    def terminate(self):
        self._process.terminate()

    def interrupt(self):
        os.killpg(self._process.pid, signal.SIGINT)

    def ends(self):
        while self._process.poll() is None and select.select([self._ours], [], [], DEADLINE)[0]:
            try:
                self._take()
            except OSError:
                break
        return self._process.wait(DEADLINE)

    def close(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._ours)
