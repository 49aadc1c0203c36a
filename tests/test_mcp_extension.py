"""What loading the extension changes in the process of its nodes, which it shares with nobody but them."""

import subprocess
import sys

from tests.support.host import KNIME_YML

SCRIPT = """
import sys
from tests.support.plugin import use_host
use_host()
from tests.support.host import get_host
get_host()
import httpx

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"sent"]

with httpx.Client(transport=httpx.WSGITransport(app)) as client:
    print(client.get("http://x/").text, sys.modules["httpx._main"])
try:
    httpx.main()
except SystemExit as end:
    print(end.code)
"""


def test_httpx_sends_and_its_command_line_is_not_loaded_for_it():
    """httpx imports its command line where click is there: 40 % of the time of its import.

    Whoever calls it all the same, in the process of our nodes, gets httpx's own answer for a missing click.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=KNIME_YML.parent, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    sent, *refused, code = done.stdout.splitlines()
    assert sent == "sent None"
    assert "The httpx command line client could not run" in " ".join(refused)
    assert code == "1"
