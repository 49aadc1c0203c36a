"""Results that are huge, odd, or no valid Unicode: a row each, and never a lost table."""

import json

import pytest

IN_TURN = {"connection_options": "concurrency = 1"}


def test_lone_surrogates_become_replacement_characters(shapes, call, rows_of):
    (row,) = rows_of(call(server_url=shapes.url("/modern/json/surrogates"), tool_name="talk"))
    assert row["Status"] == "ok"
    assert row["Result"] == "before \ufffd after \U0001f600"
    assert json.loads(row["Structured result"]) == {"k\ufffd": ["v\ufffd"]}


def test_lone_surrogates_in_arguments_are_named(shapes, call, rows_of):
    url = shapes.url("/modern/json/surrogates")
    text = '{"a": {"b": "\\ud83d"}}'
    rows = rows_of(
        call(
            None,
            {"j": [text, "{}"]},
            server_url=url,
            tool_name="talk",
            arguments_column="j",
        )
    )
    assert [row["Status"] for row in rows] == ["invalid arguments", "ok"]
    assert "/a/b" in rows[0]["Error"]
    assert "surrogate" in rows[0]["Error"]
    failed = call(server_url=url, tool_name="talk", arguments_json=text)
    assert "/a/b" in failed.failure["message"]


@pytest.mark.long
@pytest.mark.parametrize("tool", ["text", "structured"])
def test_results_of_50_megabytes_are_kept_whole(shapes, call, rows_of, tool):
    (row,) = rows_of(call(server_url=shapes.url("/legacy/json/huge"), tool_name=tool))
    assert row["Status"] == "ok"
    assert max(len(row["Result"]), len(row["Structured result"] or "")) >= 50 * 1000 * 1000


def test_a_huge_image_that_is_none_is_a_file_without_a_picture(shapes, call, rows_of):
    (row,) = rows_of(call(server_url=shapes.url("/legacy/json/huge"), tool_name="image"))
    assert row["Status"] == "ok"
    assert row["Files"].endswith(".png")
    assert row.get("Image") is None


def test_too_large_a_result_is_a_row(server, tools_of, call, rows_of):
    result = call(
        tools_of(server.url("/two")),
        {"megabytes": [1, 70, 2]},
        tool_name="big",
        **IN_TURN,
    )
    rows = rows_of(result)
    assert [row["Status"] for row in rows] == ["ok", "outcome unknown", "ok"]
    assert len(rows[2]["Result"]) == 2 * 1024 * 1024
    assert result.warnings[-1].startswith("1 of 3 calls failed; first: row Row1, ")


@pytest.mark.parametrize("tool", ["unknown", "none", "null", "list", "failed", "refused", "missing"])
def test_every_kind_of_content_is_a_row_with_result_or_error(shapes, call, rows_of, tool):
    (row,) = rows_of(call(server_url=shapes.url("/modern/sse/contents"), tool_name=tool))
    assert row["Status"] in {"ok", "tool error", "failed"}
    if tool == "null":
        assert row["Structured result"] == "null"
    assert (row["Error"] is None) == (row["Status"] == "ok")


@pytest.mark.parametrize("tool", ["bare", "no_properties", "closed", "empty_schema"])
def test_tools_without_parameters_are_called(shapes, call, rows_of, tool):
    url = shapes.url("/modern/json/parameterless")
    assert rows_of(call(server_url=url, tool_name=tool))[0]["Status"] == "ok"
    extra = rows_of(call(server_url=url, tool_name=tool, arguments={"x": "1"}))[0]
    assert extra["Status"] == ("invalid arguments" if tool == "closed" else "ok")


def test_a_tool_with_a_recursive_schema_is_called(shapes, call, rows_of):
    forest = {"tree": {"label": "a", "children": [{"label": "b", "children": []}]}}
    url = shapes.url("/modern/json/schemas")
    (row,) = rows_of(call(server_url=url, tool_name="forest", arguments_json=json.dumps(forest)))
    assert row["Status"] == "ok", row["Error"]


def test_a_second_tool_of_one_name_is_called_by_its_number(shapes, call, rows_of, tools_of):
    tools = tools_of(shapes.url("/modern/json/twins"))
    (row,) = rows_of(call(tools, tool_name="twin (2)"))
    assert row["Status"] == "ok"


def test_tools_are_called_by_names_of_all_kinds(shapes, call, rows_of, tools_of, host):
    tools = tools_of(shapes.url("/modern/json/names"))
    listed = host.run(
        "mcp_tool_provider", [None, None], {"server_url": shapes.url("/modern/json/names")}
    ).outputs[0]
    names = [row["Tool name"] for row in listed.to_pylist()]
    rows = rows_of(call(tools, {"which": names}, tool_per_row_column="which"))
    # A name that is no valid Unicode cannot be kept in a cell, so the server does not know it again.
    assert {row["Status"] for row in rows if "\ufffd" not in row["Tool name"]} == {"ok"}
    assert {row["Status"] for row in rows if "\ufffd" in row["Tool name"]} == {"not found"}
    assert [row["Tool name"] for row in rows] == names
