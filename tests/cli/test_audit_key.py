"""``knime-mcp audit key``, and verifying with keys."""

import pytest

from tests.audit.signing import write_journal


@pytest.fixture
def audit(cli, tmp_path, monkeypatch):
    variables = {"KNIME_MCP_AUDIT_KEYS": str(tmp_path / "keys" / "audit-keys.json")}
    monkeypatch.setenv("KNIME_MCP_AUDIT_KEYS", variables["KNIME_MCP_AUDIT_KEYS"])
    return lambda *words: cli("audit", *words, env=variables)


def test_keys_on_the_command_line(audit, tmp_path):
    assert "Make one: audit key new" in audit("key", "show").err
    made = audit("key", "new", "--name", "me")
    assert made.code == 0
    assert audit("key", "new").code == 1
    write_journal(tmp_path / "r.jsonl")
    assert audit("verify", "r.jsonl").code == 0
    assert audit("key", "rotate", "--name", "me-2").code == 0
    shown = audit("key", "show").out.split()
    assert [text.split("+")[0] for text in shown] == ["me", "me-2"]
    assert audit("verify", "r.jsonl", "--key", shown[0]).code == 0
    assert audit("verify", "r.jsonl", "--key", shown[1]).code == 4
    assert "is not a public key" in audit("verify", "r.jsonl", "--key", "x").err
    assert audit("verify", "r.jsonl", "--json").json["covered"][0]["by"]
