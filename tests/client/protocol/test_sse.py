import contextlib
import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.client.protocol.events import iter_events
from knime_mcp.types.errors import ResultTooLarge

STREAM = (
    '\ufeff: comment\n\nid: 1\nretry: 500\ndata:\n\nevent: message\ndata: {"a":\ndata: 1}\n\n'
    "data: ü\u2028\x85x\r\n\r\nevent: ping\n\ndata: last\r\rdata: never finished"
).encode()


def _cut(data: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in positions), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_events_do_not_depend_on_how_bytes_are_cut(positions):
    events = [e for e in iter_events(_cut(STREAM, positions), limit=10_000) if e.data]
    assert [e.data for e in events] == [b'{"a":\n1}', "ü\u2028\x85x".encode(), b"last"]
    assert all(e.id == "1" for e in events)


def test_one_byte_at_a_time():
    chunks = [STREAM[i : i + 1] for i in range(len(STREAM))]
    assert [e.data for e in iter_events(chunks, limit=10_000) if e.data] == [
        b'{"a":\n1}',
        "ü\u2028\x85x".encode(),
        b"last",
    ]


def test_retry_is_reported():
    assert next(iter(iter_events([STREAM], limit=10_000))).retry == 500


def test_an_endless_event_ends_at_the_limit():
    taken = 0

    def endless():
        nonlocal taken
        yield b"data: "
        while True:
            taken += 1000
            yield b"x" * 1000

    with pytest.raises(ResultTooLarge) as caught:
        list(iter_events(endless(), limit=50_000))
    assert caught.value.limit == 50_000
    assert taken <= 52_000


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_many_small_events_never_reach_the_limit(size):
    stream = b"data: 0123456789\n\n" * 500 + b"data: 0123456789\r\n\r\n" * 500
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert len(list(iter_events(chunks, limit=64))) == 1000


def test_a_large_event_in_one_chunk_with_small_ones_is_found():
    with pytest.raises(ResultTooLarge):
        list(iter_events([b"data: a\n\n", b"data: " + b"x" * 200 + b"\n\ndata: b\n\n"], limit=100))


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_events_go_on_after_one_beyond_the_limit_however_bytes_are_cut(positions):
    data = (
        b'data: {"id": 1}\n\ndata: {"id": 2, "a": "' + b"x" * 50_000 + b'",\ndata: "b": 3}\n\ndata: last\n\n'
    )
    chunks = _cut(data, [*positions, *range(0, len(data), 150)])  # counted is from chunk to chunk
    events = [e for e in iter_events(chunks, limit=200, goes_on=True) if e.data]
    assert [e.refused is None for e in events] == [True, False, True]
    assert (events[0].data, events[2].data) == (b'{"id": 1}', b"last")
    assert events[1].data.startswith(b'{"id": 2, "a": "xx')
    assert events[1].data.endswith(b'xx",\n"b": 3}')
    assert len(events[1].data) < 30_000


@pytest.mark.parametrize("line", [b": \n\n", b"data\n", b"x: y\n", b"\n", b"id: 1\n\n"])
def test_lines_without_a_message_count_like_values(line):
    chunks = [line * 100] * 20
    with pytest.raises(ResultTooLarge, match="lines on its stream"):
        list(iter_events(chunks, limit=10**6, values=1000))


def test_comments_between_messages_do_not_add_up():
    stream = [b"data: {}\n\n" + b": still here\n\n" * 40] * 50
    assert len(list(iter_events(stream, limit=1000, values=100))) == 50


def test_an_event_of_too_many_values_is_refused_while_it_arrives():
    taken = 0

    def endless():
        nonlocal taken
        yield b'data: {"text": "'
        yield b"a, b, [c], " * 1000 + b'\\", d", "values": ['  # in a text they do not count
        while True:
            taken += 100
            yield b"0," * 100

    with pytest.raises(ResultTooLarge, match="more than 2,000 values: 2,"):
        list(iter_events(endless(), limit=10**6, values=2000))
    assert taken <= 2100


def test_growth_of_a_large_event_is_told():
    told = []
    list(iter_events([b"data: " + b"x" * 20_000, b"y" * 10, b"\n\n"], limit=10**6, on_growth=told.append))
    assert told == [20_006, 20_016]


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_of_any_bytes_no_event_is_larger_than_the_limit_unless_it_says_so(chunks):
    with contextlib.suppress(ResultTooLarge):
        assert all(len(event.data) <= 100 for event in iter_events(chunks, limit=100))
    for event in iter_events(chunks, limit=50, goes_on=True):
        assert event.refused is not None or len(event.data) <= 50


@pytest.mark.long
@pytest.mark.parametrize("line", [b"x: y\n", b"data: \n"])
def test_millions_of_lines_in_one_chunk_are_not_texts_all_at_once(line):
    chunk = line * 900_000 + b"data: 1\n\n"
    tracemalloc.start()
    try:
        events = [event.data.strip() for event in iter_events([chunk], limit=len(chunk))]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert events == [b"1"]
    assert peak < 5 * len(chunk)  # the texts of all lines take 15 times as much


def test_comments_beyond_a_limit_are_refused_once_and_count_anew():
    """They may be what has kept a stream open for days."""
    chunks = [b": ping\n\n"] * 120
    events = list(iter_events(chunks, limit=10_000, values=100, goes_on=True))
    assert sum(event.refused is not None for event in events) == 2
