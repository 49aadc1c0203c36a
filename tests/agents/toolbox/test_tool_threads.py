"""Threads for tools: as many as calls, used again, and they do not keep the process alive."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from knime_mcp.agents.toolbox.tool_threads import in_thread

SECONDS = 30


def awaited(*works):
    """Runs functions at the same time and returns their results."""

    async def all_of_them():
        found = asyncio.gather(*(in_thread(work) for work in works))
        return await asyncio.wait_for(found, SECONDS)

    return asyncio.run(all_of_them())


def test_as_many_run_at_once_as_are_asked_for():
    meeting = threading.Barrier(50, timeout=SECONDS)
    assert sorted(awaited(*[meeting.wait] * 50)) == list(range(50))


def test_one_after_the_other_shares_a_thread():
    async def one_by_one():
        threads = []
        for _ in range(20):
            threads.append(await in_thread(threading.get_ident))
            await asyncio.sleep(0.01)  # the thread becomes idle a moment after its result arrives
        return threads

    assert len(set(asyncio.run(one_by_one()))) < 5


def test_arguments_options_and_context_arrive():
    seen = ContextVar("seen", default="not")

    async def one():
        seen.set("yes")
        return await in_thread(lambda first, *, second: (first, second, seen.get()), 1, second=2)

    assert asyncio.run(one()) == (1, 2, "yes")


def test_what_is_raised_arrives():
    with pytest.raises(ZeroDivisionError):
        awaited(lambda: 1 / 0)


def test_who_is_canceled_does_not_wait_and_the_thread_works_on():
    leave, ended = threading.Event(), threading.Event()

    def work():
        assert leave.wait(SECONDS)
        ended.set()

    async def one():
        task = asyncio.create_task(in_thread(work))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()
        assert await in_thread(ended.wait, SECONDS)

    asyncio.run(one())


HANGING = """
import asyncio, threading
from knime_mcp.agents.toolbox.tool_threads import in_thread
async def main():
    asyncio.create_task(in_thread(threading.Event().wait))
    await asyncio.sleep(0.1)
asyncio.run(main())
"""

FORKED = """
import asyncio, os, sys
from knime_mcp.agents.toolbox.tool_threads import in_thread
asyncio.run(in_thread(os.getpid))
child = os.fork()
if not child:
    os._exit(asyncio.run(asyncio.wait_for(in_thread(os.getpid), 10)) != os.getpid())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("program", [HANGING, FORKED], ids=["a tool that hangs", "a fork has no threads"])
def test_a_process_ends_whatever_its_tool_threads_do(program):
    assert subprocess.run([sys.executable, "-c", program], timeout=SECONDS, check=False).returncode == 0


def test_what_no_future_takes_is_raised_all_the_same():
    with pytest.raises(RuntimeError, match="StopIteration"):
        awaited(lambda: next(iter(())))
