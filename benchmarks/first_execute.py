"""The first execution of a node in a fresh process, as KNIME starts one per node: prints its CPU seconds.

    python first_execute.py mcp_tool_caller URL

The extension was loaded before, as KNIME does that ahead of time.
"""

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from tests.support.host import get_host

SETTINGS = {
    "mcp_tool_caller": (
        [None] * 3,
        {"tool_name": "tool_00001", "arguments": [{"name": "query", "value": "a"}]},
    ),
    "mcp_tool_provider": ([None] * 2, {}),
}

if __name__ == "__main__":
    node, url = sys.argv[1:]
    inputs, settings = SETTINGS[node]
    host = get_host()
    before = time.process_time()
    result = host.run(node, inputs, {"server_url": url, **settings})
    print(time.process_time() - before, flush=True)
    if result.failure:
        raise SystemExit(result.failure)
