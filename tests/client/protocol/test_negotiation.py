"""The decisions of the probing order, as tables: no server, no socket."""

import itertools

import pytest

from knime_mcp.client.protocol.messages import Refusal, Response, RpcError
from knime_mcp.client.protocol.negotiation import (
    Agreed,
    Discover,
    Failed,
    Initialize,
    Negotiation,
    OpenSse,
    Remembered,
    SseOpened,
)
from knime_mcp.types.errors import ConnectError, SessionLost, TimedOut, VersionError

pytestmark = pytest.mark.quick


MODERN, LEGACY = "2026-07-28", "2025-11-25"
DISCOVER, INITIALIZE, SSE = Discover(MODERN), Initialize(LEGACY), OpenSse()


def result(**members):
    return Response({"jsonrpc": "2.0", "id": 1, "result": members})


def error(code, data=None, status=None):
    if status is None:
        members = {"code": code, "message": "no"} | ({} if data is None else {"data": data})
        return Response({"jsonrpc": "2.0", "id": 1, "error": members})
    return Refusal(status, "application/json", error=RpcError(code, "no", data))


discovered = result(supportedVersions=[MODERN])
initialized = result(protocolVersion=LEGACY)
closed = ConnectError("closed", phase="http")
refused = ConnectError("refused", phase="tcp")
silent = TimedOut("silent", kind="idle")


def run(negotiation, *outcomes):
    """The actions that follow the outcomes, the first one included."""
    actions = [negotiation.start()]
    for outcome in outcomes:
        actions.append(negotiation.after(outcome))
    return actions


def agreed(action, version):
    return isinstance(action, Agreed) and action.version == version


def test_a_modern_server_is_settled_by_one_request():
    first, last = run(Negotiation(), discovered)
    assert first == DISCOVER
    assert agreed(last, MODERN)


@pytest.mark.parametrize(
    "outcome",
    [
        error(-32601),
        error(-32602, status=400),
        error(-32600, status=400),
        error(-32000, status=400),
        error(0),
        Refusal(400),
        Refusal(404, "text/plain", "Not Found"),
        Refusal(403),
        Refusal(405),
        Refusal(406),
        Refusal(415),
        Refusal(200, "text/html", "A page"),
        Refusal(202),
        Refusal(500),
        Refusal(502),
        Refusal(503),
        result(),
        result(supportedVersions="x"),
        result(supportedVersions=["2025-11-25"]),
        result(supportedVersions=["2099-01-01"]),
        closed,
        silent,
        error(-32022, {"supported": [LEGACY], "requested": MODERN}, status=400),
        error(-32022, status=400),
    ],
)
def test_everything_else_than_a_modern_answer_means_the_handshake_era(outcome):
    _, second, third = run(Negotiation(), outcome, initialized)
    assert second == INITIALIZE
    assert agreed(third, LEGACY)


@pytest.mark.parametrize(
    "outcome",
    [
        error(-32020, status=400),
        error(-32021, {"requiredCapabilities": {}}, status=400),
        Refusal(401, challenge="Bearer"),
        Refusal(403, challenge="Bearer"),
        Refusal(429),
        Refusal(408),
        refused,
        TimedOut("total", kind="total"),
    ],
)
def test_outages_logins_and_modern_errors_are_no_verdict(outcome):
    _, last = run(Negotiation(), outcome)
    assert last == Failed(outcome)


def test_a_modern_version_is_tried_once_more():
    wrong = error(-32022, {"supported": [MODERN]}, status=400)
    _, again, last = run(Negotiation(), wrong, discovered)
    assert again == DISCOVER
    assert agreed(last, MODERN)
    *_, second = run(Negotiation(), wrong, wrong)
    assert isinstance(second, Failed)
    assert isinstance(second.cause, VersionError)


def test_no_common_version_names_what_the_server_speaks():
    _, last = run(Negotiation(), error(-32022, {"supported": ["2030-01-01"]}, status=400))
    assert isinstance(last, Failed)
    assert isinstance(last.cause, VersionError)
    assert last.cause.supported == ("2030-01-01",)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_the_server_may_answer_an_older_handshake_version(version):
    *_, last = run(Negotiation(), error(-32601), result(protocolVersion=version))
    assert agreed(last, version)


@pytest.mark.parametrize("version", ["2030-01-01", "2026-07-28", None, 3])
def test_an_unknown_handshake_version_is_an_error(version):
    *_, last = run(Negotiation(), error(-32601), result(protocolVersion=version))
    assert isinstance(last, Failed)
    assert isinstance(last.cause, VersionError)


def test_initialize_is_repeated_once_with_a_version_that_the_server_names():
    rejected = error(-32602, {"supported": ["2024-11-05", "2025-03-26"], "requested": LEGACY})
    *_, again, last = run(Negotiation(), error(-32601), rejected, result(protocolVersion="2025-03-26"))
    assert again == Initialize("2025-03-26")
    assert agreed(last, "2025-03-26")


def test_a_server_that_locked_itself_modern_is_discovered_again():
    *_, again, last = run(
        Negotiation(transport="stdio"), silent, error(-32022, {"supported": [MODERN]}), discovered
    )
    assert again == DISCOVER
    assert agreed(last, MODERN)


WORDS = "Unsupported protocol version (supported versions: 2025-06-18, 2024-11-05)"


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(400, "text/plain", WORDS),
        Refusal(400, "application/json", error=RpcError(-32000, WORDS)),
        Refusal(422, "application/json", error=RpcError(-32602, "no", {"versions": ["2025-06-18"]})),
        Response({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": WORDS}}),
        Refusal(400, "application/json", '{"error": "invalid_request"}'),
        Refusal(400, "text/plain", "Unsupported MCP-Protocol-Version"),
        Refusal(400),
    ],
)
def test_a_revision_that_is_refused_in_words_is_followed_by_one_the_server_may_know(refusal):
    older = result(protocolVersion="2025-06-18")
    *_, second, last = run(Negotiation(), Refusal(404), refusal, older)
    assert second == Initialize("2025-06-18")
    assert agreed(last, "2025-06-18")


def test_every_revision_is_asked_for_once_where_a_server_gives_no_reason():
    *_, last = actions = run(Negotiation(), *[Refusal(400)] * 5)
    asked = [action.version for action in actions if isinstance(action, Initialize)]
    assert asked == ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert last == SSE


@pytest.mark.parametrize(
    "refusal", [Refusal(400, "text/plain", "No session"), Refusal(404, excerpt="Not found"), Refusal(500)]
)
def test_other_refusals_are_no_matter_of_the_revision(refusal):
    *_, last = run(Negotiation(), Refusal(404), refusal)
    assert not isinstance(last, Initialize)
    *_, last = run(Negotiation(pinned="2025-06-18"), Refusal(400, "text/plain", WORDS))
    assert isinstance(last, OpenSse)


@pytest.mark.parametrize("status", [404, 405, 406, 410])
def test_a_4xx_to_initialize_leads_to_the_old_transport(status):
    *_, third, fourth, last = run(Negotiation(), Refusal(404), Refusal(status), SseOpened(), discovered)
    assert (third, fourth) == (SSE, DISCOVER)
    assert agreed(last, MODERN)


@pytest.mark.parametrize("unheard", [silent, closed, Refusal(503)])
def test_a_modern_server_that_was_slow_or_being_restarted_is_asked_once_more(unheard):
    *_, third, last = run(Negotiation(), unheard, error(-32601, status=404), discovered)
    assert third == DISCOVER
    assert agreed(last, MODERN)


def test_a_modern_server_is_not_asked_again_and_again():
    *_, last = run(Negotiation(), silent, error(-32601, status=404), silent)
    assert last == Failed(silent)


@pytest.mark.parametrize("lost", [silent, closed, SessionLost("gone")])
def test_over_the_stream_silence_means_the_handshake_era_on_another_stream(lost):
    found = [Refusal(405), Refusal(405), SseOpened()]
    *_, again, sixth, last = run(Negotiation(), *found, lost, SseOpened(), initialized)
    assert (again, sixth) == (SSE, INITIALIZE)
    assert agreed(last, LEGACY)
    *_, last = run(Negotiation(), *found, lost, SseOpened(), closed)
    assert last == Failed(closed)
    *_, last = run(Negotiation(), *found, lost, Refusal(404))
    assert last == Failed(Refusal(404))


@pytest.mark.parametrize(
    "outcome", [Refusal(401), Refusal(403), Refusal(429), Refusal(500), error(-32603), closed]
)
def test_other_answers_to_initialize_end_it(outcome):
    *_, last = run(Negotiation(), error(-32601), outcome)
    assert last == Failed(outcome)


@pytest.mark.parametrize("outcome", [Refusal(404), refused, TimedOut("no endpoint", kind="connect")])
def test_when_the_old_transport_fails_too_it_is_over(outcome):
    *_, last = run(Negotiation(), Refusal(404), Refusal(404), outcome)
    assert last == Failed(outcome)


def test_a_url_that_looks_like_the_old_transport_is_tried_there_first():
    first, second, last = run(Negotiation(looks_like_sse=True), SseOpened(), discovered)
    assert (first, second) == (SSE, DISCOVER)
    assert agreed(last, MODERN)


@pytest.mark.parametrize("outcome", [Refusal(404), Refusal(405), TimedOut("no endpoint", kind="connect")])
def test_the_look_of_a_url_is_a_hint_only(outcome):
    _, second, last = run(Negotiation(looks_like_sse=True), outcome, discovered)
    assert second == DISCOVER
    assert agreed(last, MODERN)


def test_a_hint_that_fails_is_not_followed_twice():
    *_, last = run(Negotiation(looks_like_sse=True), Refusal(404), Refusal(404), Refusal(404))
    assert isinstance(last, Failed)


def test_transports_can_be_ruled_out():
    *_, last = run(Negotiation(transport="http"), Refusal(404), Refusal(404))
    assert isinstance(last, Failed)
    first, last = run(Negotiation(transport="sse"), Refusal(404))
    assert first == SSE
    assert isinstance(last, Failed)


def test_a_pinned_version_is_the_only_one():
    first, last = run(Negotiation(pinned="2025-03-26"), result(protocolVersion="2025-03-26"))
    assert first == Initialize("2025-03-26")
    assert agreed(last, "2025-03-26")
    _, last = run(Negotiation(pinned="2025-03-26"), initialized)
    assert isinstance(last, Failed)
    first, last = run(Negotiation(pinned=MODERN), error(-32601))
    assert first == DISCOVER
    assert isinstance(last, Failed)


def test_what_is_remembered_comes_first():
    assert Negotiation(remembered=Remembered(LEGACY, "http")).start() == INITIALIZE
    first, second = run(Negotiation(remembered=Remembered(LEGACY, "sse")), SseOpened())
    assert (first, second) == (SSE, INITIALIZE)


OUTCOMES = [
    discovered,
    initialized,
    error(-32601),
    error(-32022, {"supported": [MODERN, LEGACY]}),
    Refusal(404),
]
OUTCOMES += [Refusal(500), Refusal(401), closed, silent, error(-32602, {"supported": ["2024-11-05"]})]


def test_it_always_ends():
    def ends(outcome, transport, pinned):
        negotiation = Negotiation(transport=transport, pinned=pinned, looks_like_sse=True)
        action = negotiation.start()
        for _ in range(10):
            action = negotiation.after(SseOpened() if action == SSE else outcome)
            if isinstance(action, Agreed | Failed):
                return True
        return False

    ways = itertools.product(OUTCOMES, ["auto", "http", "sse", "stdio"], [None, MODERN, "2024-11-05"])
    assert [way for way in ways if not ends(*way)] == []
