import base64
import tracemalloc

import pytest

from knime_mcp.client.protocol.tools import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
    format_size,
    read_blocks,
)

pytestmark = pytest.mark.quick


PIXEL = base64.b64encode(b"\x89PNG" * 3080).decode()


@pytest.mark.parametrize(
    ("raw", "block"),
    [
        ({"type": "text", "text": "hi"}, TextContent("hi")),
        ({"type": "text", "text": 5.5}, TextContent("5.5")),
        ({"type": "text", "text": {"ä": [True]}}, TextContent('{"ä": [true]}')),
        ({"type": "text", "text": None}, UnknownContent("text", {"type": "text", "text": None})),
        ({"type": "image", "data": "AAEC", "mimeType": "image/png"}, ImageContent(b"\0\1\2", "image/png")),
        ({"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}, AudioContent(b"\0\1\2", "audio/wav")),
        ({"type": "image", "data": "AA\nEC"}, ImageContent(b"\0\1\2", "application/octet-stream")),
        ({"type": "image", "data": "!!"}, UnknownContent("image", {"type": "image", "data": "!!"})),
        (
            {"type": "resource_link", "uri": "f:x", "name": "x", "size": 3},
            ResourceLink("f:x", "x", size=3),
        ),
        (
            {"type": "resource", "resource": {"uri": "f:x", "text": "t", "mimeType": "text/plain"}},
            EmbeddedResource("f:x", "text/plain", text="t"),
        ),
        (
            {"type": "resource", "resource": {"uri": "f:x", "blob": "AAEC"}},
            EmbeddedResource("f:x", blob=b"\0\1\2"),
        ),
        (
            {"type": "hologram", "x": 1, "y": 2},
            UnknownContent("hologram", {"type": "hologram", "x": 1, "y": 2}),
        ),
        ({"text": "no type"}, TextContent("no type")),
        (3, TextContent("3")),
    ],
)
def test_every_kind_of_block_is_read_and_what_is_malformed_is_kept(raw, block):
    assert read_blocks(raw) == [block]


def test_unknown_fields_are_kept():
    result = CallToolResult.from_raw({"content": [], "future": 1, "_meta": {"a": 1}, "isError": True})
    assert result.raw["future"] == 1
    assert result.meta == {"a": 1}
    assert result.is_error


def test_text_names_and_sizes_what_is_no_text():
    result = CallToolResult.from_raw(
        {
            "content": [
                {"type": "text", "text": "before"},
                {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                {
                    "type": "resource_link",
                    "uri": "demo://1",
                    "name": "One",
                    "mimeType": "text/plain",
                    "size": 2048,
                },
                {
                    "type": "resource",
                    "resource": {"uri": "demo://2", "blob": "AAEC", "mimeType": "application/zip"},
                },
                {"type": "resource", "resource": {"uri": "demo://3", "text": "inside"}},
                {"type": "hologram", "depth": 3, "width": 4},
                {"type": "text", "text": "after"},
            ]
        }
    )
    assert result.text.split("\n") == [
        "before",
        "[image image/png, 12.3 KB]",
        "[resource link One, demo://1, text/plain, 2.0 KB]",
        "[resource demo://2, application/zip, 3 bytes]",
        "inside",
        '{"type": "hologram", "depth": 3, "width": 4}',
        "after",
    ]
    assert PIXEL[:40] not in result.text


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 bytes"), (999, "999 bytes"), (12_345, "12.3 KB"), (5_000_000_000_000, "5000.0 GB")],
)
def test_sizes_are_told_in_decimal_units(count, expected):
    assert format_size(count) == expected


def test_a_picture_in_pieces_takes_no_more_memory_than_a_whole_one():
    text = "A-_ " * 1_000_000
    tracemalloc.start()
    (block,) = read_blocks({"type": "image", "mimeType": "image/png", "data": text})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert block.data == base64.urlsafe_b64decode(text.replace(" ", ""))
    assert peak < 6 * len(text)
