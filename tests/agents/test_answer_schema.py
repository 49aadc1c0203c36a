"""The form of an agent's final answer: how it is written, read and checked, and the columns it becomes."""

import json

import pytest

from knime_mcp.agents.answer_schema import AnswerSchema
from knime_mcp.agents.model.model_errors import AnswerUnfit
from knime_mcp.types.errors import SettingInvalid

pytestmark = pytest.mark.quick


LINES = """
price: number, in euros
stock: integer
sold out: boolean
level: low | high, how urgent
since: date
at: moment
tags: list
name: text
"""
FITTING = {
    "price": 1.5,
    "stock": 3,
    "sold out": False,
    "level": "low",
    "since": "2026-01-31",
    "at": "2026-01-31T12:00:00+01:00",
    "tags": ["a"],
    "name": "Desk",
}


def test_lines_are_a_closed_schema_with_descriptions():
    schema = AnswerSchema.parse("price: number, in euros, net\nlevel: low | high").schema
    assert schema == {
        "type": "object",
        "properties": {
            "price": {"type": "number", "description": "in euros, net"},
            "level": {"type": "string", "enum": ["low", "high"]},
        },
        "required": ["price", "level"],
        "additionalProperties": False,
    }
    assert AnswerSchema.parse("  \n") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "price",
            "Line 1 of the schema of the answer cannot be read: price. Write 'name: kind, description'",
        ),
        ("a: text\nprice: money", "Line 2 "),
        (": number", "Line 1 "),
        ("level: low |", "Line 1 "),
        ('{"type": "object"', "The schema of the answer cannot be read: it is not JSON"),
        ('{"type": "object"}', "declares no properties"),
        (
            '{"type": "object", "properties": {"a": {"type": "much"}}}',
            "The schema of the answer cannot be used",
        ),
        ('{"properties": {"a": {"$ref": "https://x.example/a"}}}', "The schema of the answer cannot be used"),
    ],
)
def test_a_schema_that_cannot_be_used_says_what_to_write(text, said):
    with pytest.raises(SettingInvalid) as caught:
        AnswerSchema.parse(text)
    assert said in str(caught.value)
    assert caught.value.setting == "answer_schema"


@pytest.mark.parametrize(
    "written",
    [
        "{}",
        "\n {} ",
        "```json\n{}\n```",
        "This is it:\n```\n{}\n```\nGood luck!",
        "The answer is {}, as far as I know.",
    ],
)
def test_an_answer_is_found_in_what_models_write_around_it(written):
    text = written.replace("{}", json.dumps(FITTING))
    assert AnswerSchema.parse(LINES).read(text) == FITTING


def test_what_is_lossless_is_coerced():
    answer = AnswerSchema.parse("stock: integer\nok: boolean").read('{"stock": "3", "ok": "true"}')
    assert answer == {"stock": 3, "ok": True}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"price": None}, "price"),
        ({"level": "middle"}, "low"),
        ({"more": 1}, "more"),
        ({"since": "yesterday"}, "/since"),
        ({"at": "2026-01-31T12:00:00"}, "with an offset"),
        ({"stock": 2**63}, "64 bits"),
    ],
)
def test_an_answer_that_does_not_fit_says_why(change, said):
    with pytest.raises(AnswerUnfit) as caught:
        AnswerSchema.parse(LINES).read(json.dumps(FITTING | change))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["It costs 3 euros.", "[1, 2]", "", "{ not JSON }"])
def test_no_object_is_no_answer(text):
    with pytest.raises(AnswerUnfit, match="no JSON object"):
        AnswerSchema.parse(LINES).read(text)


def test_columns_have_the_kinds_of_the_schema():
    schema = AnswerSchema.parse(LINES)
    assert [kind for _, kind in schema.columns] == [
        *("double", "int64", "boolean", "string", "date", "moment", "string", "string"),
    ]
    columns = schema.cells([FITTING, {}])
    assert [str(column.type) for column in columns] == [
        *("double", "int64", "bool", "string", "date32[day]", "timestamp[us, tz=UTC]", "string", "string"),
    ]
    assert [column[1].is_valid for column in columns] == [False] * 8
    assert columns[6][0].as_py() == '["a"]'
    assert columns[5][0].as_py().isoformat() == "2026-01-31T11:00:00+00:00"


def test_strict_only_where_every_object_is_closed():
    def strict(text):
        return AnswerSchema.parse(text).response_format()["json_schema"]["strict"]

    assert strict("a: text")
    inner = {"type": "object", "properties": {"b": {}}, "required": ["b"]}
    outer = {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}
    assert not strict(json.dumps(outer))
    inner["additionalProperties"] = False
    assert strict(json.dumps(outer))
