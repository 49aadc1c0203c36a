"""Values arrive as they were sent, whatever short credentials are in use, and so they are on record."""

import json
import random

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.engine import new_run
from knime_mcp.tools import MockTransport
from knime_mcp.types.secret_rules import stands_out
from knime_mcp.types.texts import canonical_json
from knime_mcp.types.tool import MCPTool

SCHEMA = {"type": "object", "properties": {"values": {"type": "array"}}}
KEYS = ["test", "latest", "1234", "error", "wrong", "list", "=1+1", '"', "\\", "ü", " "]
WORDS = [*KEYS, "⟨secret 0123456789ab⟩"]


def some_value(chance, depth=0):
    match chance.randrange(4 if depth > 2 else 6):
        case 0:
            return chance.choice([None, True, False, 1234, -5, 1.5, 0])
        case 1 | 2 | 3:
            return "".join(chance.choices(WORDS, k=chance.randrange(5)))
        case 4:
            return [some_value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {chance.choice(KEYS): some_value(chance, depth + 1) for _ in range(chance.randrange(4))}


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
        secrets = chance.sample(["test", "1234", "error", "wrong", "list", "text", "a", "secret"], 3)
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
                assert record.arguments == record.structured_result == canonical_json(sent)
                assert (record.result, record.secrets) == (outcome.answer.text, None)
                assert outcome.note is None
    assert len(arrived) == 400  # of 25 values each
