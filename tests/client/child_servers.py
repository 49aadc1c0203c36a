"""Servers in processes of their own, as `stdio_child.py` is one."""

import sys
import threading
from pathlib import Path

from knime_mcp.tools import MCPClient, StdioServer, Timeouts

CHILD = Path(__file__).with_name("stdio_child.py")
QUICK = Timeouts(connect=0.5, idle=20, total=30)


def child(*habits, env=None, cwd=None, arguments=()):
    return StdioServer("child", [sys.executable, str(CHILD), *habits, *arguments], env=env or {}, cwd=cwd)


def connected(*habits, env=None, cwd=None, **options):
    return MCPClient(stdio=child(*habits, env=env, cwd=cwd), **options)


def pid_of(client):
    return int(client.call_tool("pid").text)


def in_background(work):
    box = []

    def run():
        try:
            box.append(work())
        except Exception as error:
            box.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, box
