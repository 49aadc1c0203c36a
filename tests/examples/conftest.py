import re
import signal
import subprocess
import sys

import pytest

from tests.examples.running import DEADLINE, ENVIRONMENT


@pytest.fixture(scope="module")
def demo():
    """The URL of the demo's server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "knime_mcp.cli.app", "demo", "--serve"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        line = process.stdout.readline()
        assert "http://" in line, f"the demo's server did not start: {line}"
        yield re.search(r"http://\S+", line)[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
