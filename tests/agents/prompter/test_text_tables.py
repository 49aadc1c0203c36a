"""Tables that a server writes as text are data outputs of the agent, as typed rows."""

import pytest

from tests.support.chat_server import call, calls, says
from tests.support.scripted_server import ScriptedServer, modern, rpc, tool

TABLES = {
    "JSON": '[{"id": 1, "city": "Ulm", "open": true}, {"id": 2, "city": "Konstanz", "open": false}]',
    "lines of JSON": '{"id": 1, "city": "Ulm", "open": true}\n{"id": 2, "city": "Konstanz", "open": false}',
    "CSV": "id,city,open\n1,Ulm,true\n2,Konstanz,false",
    "Markdown": "| id | city | open |\n|---|---|---|\n| 1 | Ulm | true |\n| 2 | Konstanz | false |",
}


@pytest.mark.parametrize("form", TABLES)
def test_a_table_in_a_text_is_a_data_output(script, ask, rows_of, tools_of, form):
    answer = rpc({"content": [{"type": "text", "text": TABLES[form]}]})
    with ScriptedServer(modern(tools__list=rpc({"tools": [tool("shops")]}), tools__call=answer)) as server:
        result = ask(script(calls(call("shops", {})), says("Two shops.")), tools_of(server.url))
    assert rows_of(result, 3) == [
        {"id": 1, "city": "Ulm", "open": True},
        {"id": 2, "city": "Konstanz", "open": False},
    ]
