"""The output *Answers*: one row per prompt, with the columns of its row, and those of a structured answer."""

import datetime as dt
import json

import pyarrow as pa

from tests.support.chat_server import fails, says

SCHEMA = "price: number, in euros\nsince: date\nlevel: low | high"


def gives(price, since="2026-01-31", level="low"):
    return says(json.dumps({"price": price, "since": since, "level": level}))


def test_the_columns_of_the_prompts_stay_and_the_answers_are_appended(script, ask, rows_of):
    prompts = {"text": ["first", "second"], "n": [1, 2], "Answer": ["old", "older"]}
    result = ask(script(says("one"), fails(401, "wrong key")), data=[prompts], prompt_column="text")
    table = result.outputs[2]
    assert table.column_names == [
        *("text", "n", "Answer", "Outcome", "Answer (2)", "Error", "Iterations", "Input tokens"),
        *("Output tokens", "Duration (s)"),
    ]
    first, second = rows_of(result, 2)
    assert (first["text"], first["n"], first["Answer"]) == ("first", 1, "old")
    assert (first["Outcome"], first["Answer (2)"], first["Error"]) == ("answer", "one", None)
    assert (second["Outcome"], second["Answer (2)"]) == ("error", None)
    assert "401" in second["Error"]
    assert (first["Iterations"], second["Iterations"]) == (1, 0)
    assert str(table.row_ids) == str(["Row0", "Row1"])


def test_a_structured_answer_becomes_typed_columns(host, script, ask, rows_of, said):
    server = script(gives(1.5), *[says("no")] * 4, gives(2, level="high"))
    result = ask(server, data=[{"text": ["a", "b", "c"]}], prompt_column="text", answer_schema=SCHEMA)
    rows = rows_of(result, 2)
    assert [row["price"] for row in rows] == [1.5, None, 2.0]
    assert [row["since"] for row in rows] == [dt.date(2026, 1, 31), None, dt.date(2026, 1, 31)]
    assert [row["level"] for row in rows] == ["low", None, "high"]
    assert "does not fit the schema" in rows[1]["Error"]
    assert ("AI", "no", []) in said(result)  # the failed answer is not lost
    assert json.loads(rows[0]["Answer"]) == {"price": 1.5, "since": "2026-01-31", "level": "low"}
    system = server.requests[0].messages[0]
    assert system["role"] == "system"
    assert '"in euros"' in system["content"]


def test_a_single_prompt_has_one_row(script, ask, rows_of):
    result = ask(script(gives(3)), answer_schema=SCHEMA)
    (row,) = rows_of(result, 2)
    assert (row["price"], row["Outcome"]) == (3.0, "answer")


def test_a_refusal_is_a_row_without_parts(script, ask, rows_of):
    from tests.support.chat_server import refuses

    (row,) = rows_of(ask(script(refuses("I will not.")), answer_schema=SCHEMA), 2)
    assert (row["Outcome"], row["Answer"], row["price"]) == ("refused", "I will not.", None)


def test_configure_promises_what_execute_gives(host, script, ask, model_of):
    data = {"text": ["a"], "price": [1]}
    result = ask(script(gives(3)), data=[data], prompt_column="text", answer_schema=SCHEMA)
    promised = str(result.specs[2])
    for column in result.outputs[2].column_names:
        assert column in promised
    assert "price (2)" in promised


def test_a_schema_that_cannot_be_read_is_an_invalid_setting(script, ask):
    result = ask(script(), answer_schema="price: money", execute=False)
    assert not result.ok
    assert "Line 1 of the schema of the answer" in result.failure["message"]
    assert result.failure["invalid_settings"]


def test_an_empty_table_of_prompts(host, script, ask, rows_of):
    empty = host.table(pa.table({"text": pa.array([], pa.string())}))
    result = ask(script(), data=[empty], prompt_column="text", answer_schema=SCHEMA)
    assert rows_of(result, 2) == []
    assert "price" in result.outputs[2].column_names
