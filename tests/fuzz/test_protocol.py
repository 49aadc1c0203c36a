"""Whatever bytes a server sends, the protocol layer gives values or errors of our own tree, and ends."""

import base64
import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.clock import Wait
from knime_mcp.client.limits import Timeouts
from knime_mcp.client.listing import ttl_seconds
from knime_mcp.client.protocol import messages
from knime_mcp.client.protocol.events import iter_events
from knime_mcp.client.protocol.messages import Refusal, Response, encode_header_value, rpc_error
from knime_mcp.client.protocol.negotiation import (
    ALL_VERSIONS,
    Agreed,
    Discover,
    Failed,
    Initialize,
    Negotiation,
    OpenSse,
    Remembered,
    ServerRequests,
    SseOpened,
    answer_inputs,
    read_server_info,
)
from knime_mcp.client.protocol.tools import (
    CallToolResult,
    InvalidAnnotationError,
    ToolDefinition,
    argument_headers,
    mirrored_arguments,
    parse_page,
)
from knime_mcp.client.refusals import describe_answer, error_from, parse_challenges, parse_retry_after
from knime_mcp.client.tasks import poll_pause
from knime_mcp.types.errors import ConnectError, MCPError, ProtocolError, ResultTooLarge, TimedOut
from knime_mcp.types.texts import canonical_json

#: Names and values that the protocol gives a meaning to, so that random values come close to valid ones.
WORDS = st.sampled_from(
    [
        "jsonrpc", "2.0", "id", "method", "params", "result", "error", "code", "message", "data",
        "tools", "name",
        "inputSchema", "outputSchema", "annotations", "title", "description", "nextCursor", "content", "type",
        "text", "image", "audio", "resource", "resource_link", "uri", "blob", "mimeType", "structuredContent",
        "isError", "_meta", "resultType", "complete", "input_required", "inputRequests",
        "requestState", "ttlMs",
        "supported", "supportedVersions", "protocolVersion", "capabilities", "serverInfo", "x-mcp-header",
        "properties", "items", "elicitation/create", "requestedSchema", "default", "mode", "form", "ping",
        "pollInterval", "io.modelcontextprotocol/serverInfo", *ALL_VERSIONS,
    ]
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([-32700, -32601, -32602, -32020, -32021, -32022, 10**400, -(10**400), 2**63]),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
TEXT = st.one_of(WORDS, st.text(max_size=20))
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=6)),
    max_leaves=15,
)
DECORATION = ("type", "kind", "annotations", "_meta", "id", "index", "size", "encoding", "detail")
OBJECTS = st.dictionaries(TEXT, JSON, max_size=8)


def refusals():
    return st.builds(
        Refusal,
        status=st.one_of(
            st.sampled_from([200, 202, 400, 401, 403, 404, 405, 408, 429, 500, 503]), st.integers(100, 999)
        ),
        media_type=st.sampled_from(["", "application/json", "text/html", "text/event-stream"]),
        excerpt=st.text(max_size=30),
        error=st.one_of(
            st.none(),
            st.builds(
                messages.RpcError,
                code=NUMBERS.filter(lambda n: isinstance(n, int)),
                message=TEXT,
                data=st.one_of(JSON, st.fixed_dictionaries({"supported": st.lists(JSON, max_size=4)})),
            ),
        ),
        challenge=st.one_of(st.none(), st.text(max_size=60)),
        retry_after=st.one_of(st.none(), st.floats(0, 1e9)),
        sent_session=st.booleans(),
    )


ANSWERS = st.one_of(refusals(), st.builds(Response, message=OBJECTS))
OUTCOMES = st.one_of(
    ANSWERS,
    st.just(SseOpened()),
    st.sampled_from(["dns", "tcp", "tls", "http", "protocol"]).map(
        lambda phase: ConnectError("x", phase=phase)
    ),
    st.sampled_from(["connect", "idle", "total"]).map(lambda kind: TimedOut("x", kind=kind)),
)


def finite(value):
    """No number that JSON does not have, however deep."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, float):
            assert math.isfinite(part)
        elif isinstance(part, dict):
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300), JSON.map(lambda value: json.dumps(value))))
def test_bytes_become_a_value_that_can_be_written_again_or_a_protocol_error(data):
    try:
        value = messages.decode(data)
    except ProtocolError:
        return
    finite(value)
    canonical_json(value).encode()


@given(st.integers(1, 3000), st.sampled_from(["[", '{"a":']), st.sampled_from(["1", '"\\ud800"', "1e999"]))
def test_depth_is_bounded(levels, opening, leaf):
    closing = "]" if opening == "[" else "}"
    try:
        value = messages.decode(opening * levels + leaf + closing * levels)
    except ProtocolError as error:
        value = str(error)
    assert ("too deeply" in value) == (levels > messages.DEEPEST)
    canonical_json(value)


@given(OBJECTS, st.integers(0, 5))
def test_only_responses_answer_and_their_errors_have_codes(message, request_id):
    assert messages.is_response(message) or not messages.answers(message, request_id)
    error = messages.error_of(message)
    assert error is None or isinstance(error.code, int)
    if messages.is_response(message):
        try:
            messages.result_of(message)
        except ProtocolError:
            assert not isinstance(message.get("result"), dict)


@given(ANSWERS)
def test_every_answer_can_be_told_as_an_error(answer):
    rpc_error(answer)
    error = error_from(answer, None)
    assert isinstance(error, MCPError)
    assert str(error)
    assert len(describe_answer(answer)) < 1000


@given(OBJECTS, st.one_of(JSON, st.lists(st.one_of(OBJECTS, JSON), max_size=4)))
def test_nothing_in_the_content_of_a_result_is_lost(raw, content):
    result = CallToolResult.from_raw(raw | {"content": content})
    shown = result.text + json.dumps([block.raw for block in result.content], ensure_ascii=False)
    for part in texts_in(content):
        assert part in shown or json.dumps(part, ensure_ascii=False)[1:-1] in shown


def texts_in(value):
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            for key, item in value.items():
                if item and key not in DECORATION:
                    yield from texts_in(item)


@given(st.lists(st.one_of(OBJECTS, JSON), max_size=4), JSON)
def test_lists_of_tools_are_read(entries, cursor):
    objects, following = parse_page({"tools": entries, "nextCursor": cursor})
    assert following is None or isinstance(following, str)
    for raw in objects:
        try:
            tool = ToolDefinition.from_raw(raw)
        except ProtocolError:
            assert not raw.get("name") or not isinstance(raw["name"], str)
            continue
        assert tool.digest.startswith("sha256:")
        assert isinstance(tool.display_title, str)
        assert json.loads(tool.input_schema_json) == tool.input_schema


SCHEMAS = st.recursive(
    OBJECTS,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"properties": st.dictionaries(TEXT, inner, max_size=3)}, optional={"x-mcp-header": TEXT}
        ),
        st.fixed_dictionaries({"items": inner}, optional={"x-mcp-header": TEXT}),
    ),
    max_leaves=8,
)


@given(SCHEMAS, OBJECTS)
def test_mirrored_arguments_are_headers_that_can_be_sent(schema, arguments):
    try:
        mirrored = mirrored_arguments(schema)
    except InvalidAnnotationError:
        return
    for name, value in argument_headers(mirrored, arguments).items():
        assert all("!" <= character <= "~" for character in name)
        assert all(" " <= character <= "~" for character in value)


@given(st.text())
def test_header_values_are_visible_ascii_and_can_be_read_back(value):
    encoded = encode_header_value(value)
    assert all(" " <= character <= "~" for character in encoded)
    assert encoded == encoded.strip(" ")
    marked = encoded.startswith("=?base64?") and encoded.endswith("?=")
    assert (base64.b64decode(encoded[9:-2]).decode() if marked else encoded) == value


@given(OUTCOMES.flatmap(lambda first: st.tuples(st.just(first), st.lists(OUTCOMES, max_size=15))), st.data())
def test_negotiation_ends(outcomes, data):
    first, more = outcomes
    remembered = data.draw(
        st.one_of(
            st.none(), st.builds(Remembered, st.sampled_from(ALL_VERSIONS), st.sampled_from(["http", "sse"]))
        )
    )
    negotiation = Negotiation(
        transport=data.draw(st.sampled_from(["auto", "http", "sse", "stdio"])),
        pinned=data.draw(st.one_of(st.none(), st.sampled_from(ALL_VERSIONS))),
        remembered=remembered,
        looks_like_sse=data.draw(st.booleans()),
    )
    action = negotiation.start()
    for outcome in [first, *more, *[first] * 20]:
        assert isinstance(action, Discover | Initialize | OpenSse)
        impossible = isinstance(outcome, SseOpened) and not isinstance(action, OpenSse)
        action = negotiation.after(Refusal(status=404) if impossible else outcome)
        if isinstance(action, Agreed | Failed):
            break
    assert isinstance(action, Agreed | Failed)
    if isinstance(action, Agreed):
        assert action.version in ALL_VERSIONS


@given(OBJECTS, st.sampled_from(ALL_VERSIONS))
def test_servers_are_described(result, version):
    info = read_server_info(result, protocol_version=version, transport="http", url="http://x/")
    assert isinstance(info.name, str)
    assert isinstance(info.capabilities, dict)


@given(OBJECTS, st.sampled_from(["unsupported", "decline", "defaults"]))
def test_requests_of_servers_are_answered(wanted, elicitation):
    requests = ServerRequests(elicitation)
    answer = requests.respond(wanted)
    assert answer is None or answer["id"] == wanted["id"]
    try:
        answers = answer_inputs(requests, wanted)
    except ProtocolError:
        return
    assert len(answers) == len(wanted)
    messages.encode(messages.request(1, "tools/call", {"inputResponses": answers}))


@given(st.one_of(NUMBERS, JSON))
def test_times_that_servers_name_are_bounded(milliseconds):
    assert 0 <= ttl_seconds({"ttlMs": milliseconds}) <= 24 * 3600
    assert 0 < poll_pause(milliseconds, Wait(Timeouts(total=10))) <= 10


HEADER_TEXT = st.one_of(
    st.text(max_size=100),
    st.text(alphabet=' ",=\\abB-/\t', max_size=200),
    st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,20} [A-Z][a-z]{2} [0-9]{1,20} [0-9]{1,9}:[0-9]{1,9}:[0-9]{1,9} "
        r"(GMT|[+-][0-9]{1,12})",
        fullmatch=True,
    ),
)


@given(HEADER_TEXT)
def test_header_texts_are_read(value):
    for challenge in parse_challenges(value):
        assert challenge.scheme
    seconds = parse_retry_after(value)
    assert seconds is None or seconds >= 0


def test_long_challenges_take_no_time(subtests):
    for pattern in [
        'a="',
        'a=\\"',
        "a" * 50 + " ",
        " ",
        "a b",
        "a= ",
        ',a="\\',
        '"',
        "Bearer x=",
        "a" * 8000 + "!",
    ]:
        with subtests.test(pattern=pattern):
            parse_challenges(pattern * 8192)


PIECES = st.one_of(
    st.sampled_from(
        [b"data: ", b"data", b":", b"event: message", b"id: 1", b"id: \0", b"retry: 5",
        b"retry: " + b"9" * 5000,
         b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xff", b"{}", "\u2028".encode(), b"\0"]
    ),
    st.binary(max_size=12),
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map(b"".join), st.lists(st.integers(0, 300), max_size=8))
def test_events_do_not_depend_on_how_the_stream_is_cut(data, cuts):
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[start:end] for start, end in itertools.pairwise(edges)]
    whole = [(e.name, e.data, e.id, e.retry) for e in iter_events([data], limit=1_000_000)]
    assert [(e.name, e.data, e.id, e.retry) for e in iter_events(chunks, limit=1_000_000)] == whole


@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=2, max_size=60), st.integers(1, 30))
def test_only_events_count_towards_the_limit_of_one_event(ends, size):
    # Lines of any ending; after each line a blank one, so that every event is small.
    data = b"".join(b"data: " + b"x" * size + end + end for end in ends)
    chunks = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert sum(1 for _ in iter_events(chunks, limit=60)) == len(ends)


@given(st.sampled_from([b"\n", b"\r", b"\r\n"]), st.integers(1, 50))
def test_an_event_that_grows_beyond_the_limit_ends(end, size):
    chunks = [b"data: " + b"x" * size + end] * 2000
    with pytest.raises(ResultTooLarge):
        list(iter_events(chunks, limit=1000))
