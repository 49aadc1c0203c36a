"""A stdio server that keeps every line and answers from a table: ``wire_child.py FILE TABLE``."""

import json
import sys
from pathlib import Path
from typing import Any

Replies = dict[str, list[dict[str, Any]]]


def replies_to(message: dict[str, Any], table: Replies) -> list[dict[str, Any]]:
    """What a server says to a message: what the table has for its method, and the tool or cursor in it."""
    params = message.get("params", {})
    names = message.get("method"), params.get("name") or params.get("cursor"), params.get("requestState")
    found = table.get(" ".join(filter(None, names)), [])
    return [each if "method" in each else {**each, "id": message["id"]} for each in found]


if __name__ == "__main__":
    table = json.loads(sys.argv[2])
    with Path(sys.argv[1]).open("ab", buffering=0) as kept:
        for line in sys.stdin.buffer:
            kept.write(line)
            for reply in replies_to(json.loads(line), table):
                print(json.dumps(reply), flush=True)
