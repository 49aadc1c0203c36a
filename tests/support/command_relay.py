"""Is a program that `command_server` forks for whoever starts this, with its streams, signals and end."""

import os
import pickle
import signal
import socket
import sys

_, door, *words = sys.argv
task = {"words": words, "env": dict(os.environ), "folder": os.getcwd(), "prepare": None}  # noqa: PTH109
status, its = socket.socketpair()
with its, socket.socket(socket.AF_UNIX) as asked:
    status.sendall(pickle.dumps(task))
    asked.connect(door)
    socket.send_fds(asked, [b"."], [its.fileno(), 0, 1, 2])
told = status.makefile("rb")
pid = int(told.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
# They are the program's alone, and end with it.
nothing = os.open(os.devnull, os.O_RDWR)
for stream in range(3):
    os.dup2(nothing, stream)
end = int(told.readline())
if end < 0:
    if -end != signal.SIGKILL:
        signal.signal(-end, signal.SIG_DFL)
    os.kill(os.getpid(), -end)
os._exit(end)
