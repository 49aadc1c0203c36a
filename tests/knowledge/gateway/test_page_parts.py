"""What the page is made of: forms of schemas."""

from knime_mcp.knowledge.gateway.web_page import arguments_of, fields_of


def test_what_is_entered_becomes_what_the_schema_wants():
    schema = {
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer", "minimum": 1},
            "flag": {"type": "boolean", "default": True},
            "names": {"type": "array", "items": {"type": "string"}},
            "many": {"type": "object"},
            "port": {"type": ["string", "integer"]},
            "level": {"type": "string", "enum": ["a", "b"]},
        },
        "required": ["text"],
    }
    kinds = {field["name"]: field["kind"] for field in fields_of(schema, {})}
    assert kinds == {
        "text": "text",
        "count": "number",
        "flag": "flag",
        "names": "lines",
        "many": "json",
        "port": "text",
        "level": "choice",
    }
    entered = {
        "text": " a ",
        "count": "3",
        "names": "x\r\n\r\n y ",
        "many": '{"a": [1]}',
        "port": "0",
        "level": "",
    }
    assert arguments_of(schema, entered) == {
        "text": " a ",
        "count": 3,
        "flag": False,
        "names": ["x", "y"],
        "many": {"a": [1]},
        "port": 0,
    }
