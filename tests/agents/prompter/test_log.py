"""KNIME's log takes the messages of every logger; those of libraries must stay out of it."""

import logging

from tests.support.chat_server import call, calls, says

QUESTION = "What would become of canary-7d1c?"


def test_knimes_log_gets_no_requests_and_no_prompts(ask, script, caplog):
    caplog.set_level(logging.DEBUG)  # as KNIME sets the root logger
    result = ask(script(calls(call("ask_nobody", {})), says("Nothing.")), user_message=QUESTION)
    assert result.ok, result.failure
    # "knime" for KNIME's own Python, "knime_mcp" for us
    others = {record.name for record in caplog.records if not record.name.startswith("knime")}
    assert others == set()
    assert "canary-7d1c" not in caplog.text
