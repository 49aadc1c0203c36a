"""Schemas are compiled once, each for itself: also while others are compiled, and in forked children."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knime_mcp.client.limits import Limits
from knime_mcp.client.validation import schemas

FORKED = """
import os, signal, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
from knime_mcp.client.limits import Limits
from knime_mcp.client.validation.schemas import compile_schema
from tests.client.validation.test_compiling import Held
held = Held('{"required": ["forked"]}')
threading.Thread(target=compile_schema, args=(held, Limits()), daemon=True).start()
held.reached.wait(60)
child = os.fork()
if not child:
    signal.alarm(60)  # ends it
    os._exit(0 if compile_schema(str.__str__(held), Limits()).fault is None else 1)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Held(str):
    """A schema's text that holds up who compiles it, in the middle, until it is released."""

    def __init__(self, _text):
        self.reached, self.released = threading.Event(), threading.Event()
        self.compiled = 0

    __hash__ = str.__hash__

    def strip(self, *characters):
        self.compiled += 1
        self.reached.set()
        assert self.released.wait(60)
        return super().strip(*characters)


@pytest.fixture
def held(request):
    text = Held(json.dumps({"required": [request.node.name]}))
    with ThreadPoolExecutor(4) as threads:
        text.threads = [threads.submit(schemas.compile_schema, text, Limits()) for _ in range(3)]
        assert text.reached.wait(60)
        yield text
        text.released.set()


def test_a_schema_is_not_kept_waiting_by_another_one(held):
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(schemas.compile_schema, '{"required": ["other"]}', Limits())
        try:
            assert other.result(timeout=30).fault is None
        finally:
            held.released.set()


def test_calls_in_flight_compile_a_schema_once_and_leave_no_lock(held):
    held.released.set()
    first, *others = [future.result(timeout=60) for future in held.threads]
    assert all(other is first for other in others)
    assert held.compiled == 1
    assert held not in schemas._compiling


def test_a_child_forked_in_the_middle_compiles_for_itself():
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], timeout=120, check=False)
    assert done.returncode == 0
