"""A redirect concerns the request that it answers, unless a server of the protocol stands at its target."""

import pytest

from knime_mcp.tools import MCPClient
from tests.faults.rows import BAD_ROWS, PATIENT, WAYS, batch, run_rows, script_for
from tests.support.scripted_server import ScriptedServer, http

PAGE = http(200, "<html><title>Back soon</title>", content_type="text/html")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("at_the_target", "words"),
    [
        (http(307, headers={"Location": "/maintenance"}), "in circles"),
        (http(404, "Not Found", content_type="text/plain"), "404"),
        (PAGE, "Back soon"),
    ],
    ids=["circle", "nothing", "page"],
)
def test_a_redirect_that_leads_nowhere_costs_its_row_alone(way, at_the_target, words):
    script = script_for(way, http(307, headers={"Location": "/maintenance"}))
    replies = dict(script)

    def at_either_place(method):
        def reply(request):
            chosen = at_the_target if request.target == "/maintenance" else replies[method]
            return chosen(request) if callable(chosen) else chosen

        return reply

    rows, _ = batch({method: at_either_place(method) for method in replies})
    assert [row.number for row in rows if not row.good] == list(BAD_ROWS)
    for number in BAD_ROWS:
        assert words in str(rows[number].outcome)


@pytest.mark.parametrize("way", WAYS)
def test_a_redirect_that_leads_elsewhere_after_a_while_is_asked_for_again(way):
    """A balancer names the machine to go to. When that one is gone, it is the balancer who knows another."""
    script = script_for(way, None, session="s")
    machines = ["/one"]

    def from_any_machine(method):
        def reply(request):
            if request.target == "/mcp":
                return http(307, headers={"Location": machines[0]})
            if request.target != machines[0]:
                return http(404, "Not Found", content_type="text/plain")
            return script[method](request) if callable(script[method]) else script[method]

        return reply

    replies = {method: from_any_machine(method) for method in script}
    with ScriptedServer(replies) as server, MCPClient(server.url, timeouts=PATIENT) as client:
        assert run_rows(client, rows=2, bad=())[1].good
        machines[0] = "/two"
        assert all(row.good for row in run_rows(client, rows=5, bad=()))
    asked = [request.target for request in server.requests]
    assert asked.count("/mcp") < len(asked) / 2  # in between, the detour is spared
