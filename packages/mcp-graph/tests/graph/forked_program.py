"""The program ``mcpgraph`` in processes that are forked from one that has loaded it, which costs little."""

import multiprocessing
import os
import sys
from contextlib import contextmanager

from knime_mcp.web import listening, tool_server
from knime_mcp_graph import api, graph_service
from knime_mcp_graph.commands import program

_LOADED = (api, graph_service, listening, tool_server, program)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@contextmanager
def started(arguments, log):
    """The program's process, its standard input and output; what it says on standard error goes to a file."""
    (into, ours_out), (ours_in, out) = _FORKS.Pipe(duplex=False), _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_program, args=([*map(str, arguments)], str(log), into, out))
    process.start()
    try:
        into.close()
        out.close()
        yield process, ours_out, ours_in
    finally:
        ours_out.close()
        ours_in.close()
        process.kill()
        process.join()


def _program(arguments, log, into, out):
    with open(log, "w") as said:  # noqa: PTH123 - of a process, not of a file's content
        for number, end in enumerate((into, out, said)):
            os.dup2(end.fileno(), number)
            end.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - that of a forked process is empty
    sys.argv = ["mcpgraph", *arguments]
    program.main()
