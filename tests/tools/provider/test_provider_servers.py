"""Servers that fail, and servers that come from a table."""

import pyarrow as pa
import pytest

from .running import NOBODY, NODE, list_tools, rows, servers_table, tool

pytestmark = pytest.mark.quick


@pytest.mark.requirement("T28")
def test_a_failure_says_phase_cause_and_next_step(host, serve):
    nobody = list_tools(host, NOBODY)
    assert not nobody.ok
    assert "phase 'tcp' failed" in nobody.failure["message"]
    assert "/mcp" in nobody.failure["message"]
    closed = list_tools(host, serve([], wants={"Authorization": "Bearer x"}).url)
    assert not closed.ok
    assert "phase 'auth' failed" in closed.failure["message"]
    assert "401" in closed.failure["message"]
    assert "Warn and go on" in closed.failure["message"]


@pytest.mark.parametrize(("status", "phase"), [(403, "auth"), (404, "http"), (429, "http"), (500, "http")])
def test_refusals_are_rows_when_the_node_goes_on(host, serve, status, phase):
    server = serve([], status=status)
    result = list_tools(host, server.url, on_failure="warn", connection_options="total_timeout = 5")
    assert rows(result) == []
    (row,) = rows(result, 1)
    assert (row["Status"], row["Phase"], row["Tools"]) == ("failed", phase, 0)
    assert str(status) in row["Error"]
    assert row["Next step"]
    assert "1 of 1 server failed" in result.warnings[-1]
    assert "failed" in result.view_html
    assert row["Next step"].split(".")[0][:30] in result.view_html


def test_servers_from_a_table(host, serve):
    one, two = serve([tool("search"), tool("a")]), serve([tool("search"), tool("b")])
    secret = serve([tool("c")], wants={"Authorization": "Bearer t0ken-canary"})
    table = servers_table(one.url, two.url, secret.url, Credential=[None, "", "prod"])
    result = list_tools(
        host,
        servers=table,
        server_url_column="URL",
        credentials_column="Credential",
        credentials="dev",
        credentials_in={"prod": ("u", "t0ken-canary"), "dev": ("u", "other-canary")},
    )
    tools = rows(result)
    first, second = (server.url.split("/")[2] for server in (one, two))
    names = [f"search @ {first}", "a", f"search @ {second}", "b", "c"]
    assert [row["Tool name"] for row in tools] == names
    assert [row["Server"] for row in tools] == [one.url] * 2 + [two.url] * 2 + [secret.url]
    assert [row["Tools"] for row in rows(result, 1)] == [2, 2, 1]
    assert result.outputs[1].row_ids == ["Row0", "Row1", "Row2"]
    # A credential goes to the server that names it and to no other.
    assert all("authorization" not in request.headers for request in one.requests + two.requests)
    assert list(result.flow_variables)[-1].endswith(" + 2 more")


def test_tools_of_one_name_on_two_servers(host, serve):
    one, two = serve([tool("search"), tool("a")]), serve([tool("search")])
    result = list_tools(host, servers=servers_table(one.url, two.url), server_url_column="URL")
    rows(result)
    hosts = [server.url.split("/")[2] for server in (one, two)]
    assert result.outputs[0].row_ids == [f"search @ {hosts[0]}", "a", f"search @ {hosts[1]}"]
    assert "1 tool name on several servers" in result.warnings[-1]


def test_one_server_that_fails_does_not_lose_the_others(host, serve):
    good = serve([tool("a")])
    table = servers_table(
        NOBODY,
        good.url,
        None,
        "https://ann:canary-7f3a@host/mcp",
        good.url,
        Credential=[None, None, None, None, "gone"],
    )
    settings = {"server_url_column": "URL", "credentials_column": "Credential"}
    result = list_tools(host, servers=table, on_failure="warn", **settings)
    assert [row["Tool name"] for row in rows(result)] == ["a"]
    states = [(row["Status"], row["Phase"]) for row in rows(result, 1)]
    assert states == [("failed", "tcp"), ("ok", None)] + [("failed", "settings")] * 3
    assert "4 of 5 servers failed" in result.warnings[-1]
    assert len(result.warnings) == 1
    assert "canary" not in str(result)
    assert "'gone'" in rows(result, 1)[4]["Error"]
    # The person wants all or none: nobody is asked while a setting cannot work.
    good.requests.clear()
    refused = list_tools(host, servers=table, **settings)
    assert not refused.ok
    assert "Row2" in refused.failure["message"]
    assert good.requests == []


def test_several_failures_are_counted_and_named(host, serve):
    table = servers_table(NOBODY, NOBODY, NOBODY, serve([]).url)
    result = list_tools(host, servers=table)
    assert not result.ok
    message = result.failure["message"]
    assert "3 of 4 servers failed" in message
    assert "Row0" in message
    assert message.count("(tcp)") == 2


def test_a_table_without_rows_gives_tables_without_rows(host):
    result = list_tools(host, servers=servers_table())
    assert rows(result) == []
    assert rows(result, 1) == []


def test_the_column_with_urls_is_guessed_and_kept(host, serve):
    server = serve([tool("a")])
    table = pa.table({"note": ["x"], "url": [server.url]})
    result = list_tools(host, servers=table)
    assert len(rows(result)) == 1
    assert result.parameters["model"]["server_url_column"] == "url"


def test_a_column_that_is_not_there_or_cannot_be_guessed_fails_in_configure(host):
    table = host.table(pa.table({"x": ["a"], "y": ["b"], "n": [1]}))
    for settings, words in [
        ({}, "No column with server URLs"),
        ({"server_url_column": "gone"}, "no column 'gone'"),
        ({"server_url_column": "x", "credentials_column": "gone"}, "no column 'gone'"),
    ]:
        result = host.run(NODE, [table, None], settings, execute=False)
        assert not result.ok
        assert words in result.failure["message"]
