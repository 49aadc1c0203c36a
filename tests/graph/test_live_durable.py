"""A served graph whose server is killed while it waits for a person: the next call with its name goes on."""

import json

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.types.errors import MCPError

from .graphs import yaml
from .live import SERVE, command, served
from .test_durable_runs import SHORT, paid, paying

RUN = {"knime-mcp/run": "order-7"}


def test_a_killed_server_goes_on_with_the_run_that_its_client_names(tmp_path):
    journal, file, asked = tmp_path / "j.jsonl", tmp_path / "g.yaml", []
    with paying() as paying_server:
        servers = f"mcpServers:\n  s: {{type: streamableHttp, url: {paying_server.url!r}}}\n"
        file.write_text(yaml(SHORT, servers=servers), "utf-8")
        serve = [*SERVE, file, "--http", "0", "--resume", journal]
        with served(*serve) as server:

            def killed(params):
                asked.append(params["message"])
                server.process.kill()
                return {"action": "cancel"}

            with MCPClient(server.url, elicitation=killed) as client, pytest.raises(MCPError):
                client.call_tool("t", {}, meta=RUN)
            server.process.wait(40)
        with served(*serve) as server:
            assert server.line("The run order-7 of the tool 't' was interrupted")
            with MCPClient(server.url) as alone:
                refused = alone.call_tool("t", {}, meta=RUN)
                assert refused.is_error
                assert "nobody can be asked: Go on?" in refused.text
            with MCPClient(server.url, elicitation=lambda _: {"action": "decline"}) as client:
                assert "Denied by a person at the client" in client.call_tool("t", {}, meta=RUN).text
            server.end("SIGTERM")
    assert asked == ["Go on?"]
    assert paid(paying_server) == [1]
    verified = command("audit", "verify", journal, "--json")
    assert json.loads(verified.stdout)["verdict"] == "truncated"  # of the first process
