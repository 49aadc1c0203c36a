"""The Caller's defaults in workflows that commands write, which import no node, are those of its dialog.

    python -m tests.tools.caller.test_caller_defaults

writes them anew, after a setting was added or changed.
"""

import json

from knime_mcp.tools.recorded_steps import CALLER_DEFAULTS
from tests.support.host import get_host


def in_the_dialog(host):
    return host.dialog("mcp_tool_caller")["data"]["model"]


def test_they_are_the_dialogs(host):
    assert json.loads(CALLER_DEFAULTS.read_text(encoding="utf-8")) == in_the_dialog(host)


if __name__ == "__main__":
    CALLER_DEFAULTS.write_text(json.dumps(in_the_dialog(get_host()), indent=1) + "\n", encoding="utf-8")
