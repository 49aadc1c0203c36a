"""Values arrive as they were sent, whatever short credentials are in use, and so they are on record."""

import json
import random

from knime_mcp.client.mcp_client import MCPClient, SessionPool
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.engine import new_run
from knime_mcp.tools import MockTransport
from knime_mcp.types.secret_rules import stands_out
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool
from tests.support.short_secrets import CREDENTIALS, rows_of_values, some_value
from tests.support.toolboxes import toolbox

SCHEMA = {"type": "object", "properties": {"values": {"type": "array"}}}


def test_ten_thousand_values_with_short_credentials():
    chance, arrived = random.Random(23), []

    def answer(request):
        if request["method"] == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": SCHEMA}]}
        arrived.append(request["params"]["arguments"])
        said = json.dumps(request["params"]["arguments"], ensure_ascii=chance.random() < 0.5)
        content = [{"type": "text", "text": said}]
        return {"content": content, "structuredContent": request["params"]["arguments"]}

    tool = MCPTool("echo", "", json.dumps(SCHEMA), "http://mock.example/mcp", "echo")
    for _ in range(100):
        secrets = chance.sample(CREDENTIALS, 3)
        assert not any(map(stands_out, secrets))
        run = new_run(lambda _: MCPClient(transport=MockTransport(answer)), secrets=secrets)
        with run.pool:
            for _ in range(4):
                sent = {"values": [some_value(chance) for _ in range(25)]}
                outcome = run.call(PlannedCall(tool=tool, arguments=sent))
                assert arrived[-1] == sent
                assert outcome.answer.structured == sent
                assert json.loads(outcome.answer.text) == sent
                record = outcome.record
                assert record.arguments == canonical_json(sent)
                assert json.loads(record.structured_result) == sent
                assert (record.result, record.secrets) == (outcome.answer.text, None)
                assert outcome.note is None
    assert len(arrived) == 400  # of 25 values each


def test_ten_thousand_values_through_the_calls_of_an_agent():
    chance, arrived = random.Random(24), []

    def answer(request):
        if request["method"] == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": SCHEMA}]}
        arrived.append(request["params"]["arguments"])
        return {"content": [{"type": "text", "text": json.dumps(arrived[-1], ensure_ascii=False)}]}

    tool = MCPTool("echo", "", json.dumps(SCHEMA), "http://mock.example/mcp", "echo")
    for secret in CREDENTIALS:
        with SessionPool(lambda _: MCPClient(transport=MockTransport(answer))) as pool:
            box = toolbox(pool, [tool], secrets=[secret])
            for sent in rows_of_values(chance, 50, 25):
                reply = box.call("echo", sent)
                assert not reply.failed, reply.content
                assert arrived[-1] == json.loads(reply.content) == sent
                assert reply.record.arguments == canonical_json(sent)
    assert len(arrived) == 50 * len(CREDENTIALS)  # of 25 values each
