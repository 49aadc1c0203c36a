"""A redirect concerns the request that it answers, unless a server of the protocol stands at its target."""

import pytest

from tests.faults.rows import BAD_ROWS, WAYS, batch, script_for
from tests.support.scripted_server import http

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
