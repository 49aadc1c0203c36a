"""Content blocks as servers write them that miss the schema: nothing of them is lost."""

import base64

import pytest

from knime_mcp.client.protocol.media_types import file_ending, media_type
from knime_mcp.client.protocol.tools import CallToolResult, blobs_in

pytestmark = pytest.mark.quick

PNG = b"\x89PNG\r\n\x1a\n one"
PDF = b"%PDF-1.4 small"
PNG64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()
WORD = "Gewürz"
A_PNG, A_PDF = [(PNG, "image/png")], [(PDF, "application/pdf")]

BLOCKS = [
    # block, its text (None: any), its files
    ({"type": "resource", "resource": {"mimeType": "text/csv", "text": WORD}}, WORD, []),
    ({"type": "resource", "resource": {"uri": None, "text": WORD}}, WORD, []),
    ({"type": "resource", "resource": {"uri": "f:x", "text": {"a": 1}}}, '{"a": 1}', []),
    ({"type": "resource", "uri": "f:x", "text": WORD}, WORD, []),
    ({"type": "resource", "resource": WORD}, f'{{"type": "resource", "resource": "{WORD}"}}', []),
    ({"type": "resource", "resource": {"uri": "f:x", "text": "", "blob": PDF64}}, None, A_PDF),
    ({"type": "resource", "resource": {"uri": "f:x", "text": WORD, "blob": PDF64}}, WORD, A_PDF),
    ({"type": "resource", "resource": {"blob": PDF64}}, None, A_PDF),
    ({"type": "resource", "resource": {"uri": "f:x", "data": PDF64, "mime_type": A_PDF[0][1]}}, None, A_PDF),
    ({"type": "resource", "resource": {"contents": [{"uri": "f:x", "text": WORD}]}}, WORD, []),
    ({"type": "resource", "resource": {"uri": "f:x"}}, "[resource link f:x]", []),
    ({"type": "resource", "resource": {"uri": "f:x", "blob": f"{WORD} is no base64!"}}, None, []),
    ({"uri": "f:x", "mimeType": "text/plain", "text": WORD}, WORD, []),
    ({"type": "resource_link", "url": "f:x", "name": WORD}, f"[resource link {WORD}, f:x]", []),
    ({"type": "resource_link", "uri": None, "name": WORD}, None, []),
    ({"type": "blob", "data": PDF64, "mimeType": "application/pdf"}, None, A_PDF),
    ({"type": "blob", "blob": {"data": PDF64}}, None, A_PDF),
    ({"type": "file", "file": {"file_data": f"data:a/b;base64,{PDF64}"}}, None, [(PDF, "a/b")]),
    ({"type": "file", "name": "notes.txt", "content": WORD}, None, []),
    ({"type": "file", "name": "x", "content": PDF64}, None, A_PDF),
    ({"type": "document", "source": {"type": "base64", "data": PDF64}}, None, A_PDF),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}}, None, A_PNG),
    ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG64}"}}, None, A_PNG),
    ({"type": "image", "url": f"data:image/png;base64,{PNG64}"}, None, A_PNG),
    ({"type": "image", "url": "https://files.example/1.png"}, None, []),
    ({"type": "image", "data": "https://files.example/1.png", "mimeType": "image/png"}, None, []),
    ({"type": "image", "data": f"DATA:image/png;base64,{PNG64}"}, None, A_PNG),
    ({"type": "image", "data": list(PNG), "mimeType": "image/png"}, None, A_PNG),
    ({"type": "image", "data": {"type": "Buffer", "data": list(PNG)}, "mimeType": "image/png"}, None, A_PNG),
    ({"type": "image", "base64": PNG64, "caption": WORD}, None, A_PNG),
    ({"type": "image", "image": {"data": PNG64, "mimeType": "image/png"}}, None, A_PNG),
    ({"inlineData": {"mimeType": "image/png", "data": PNG64}}, None, A_PNG),
    ({"data": PNG64, "mimeType": "image/png"}, None, A_PNG),
    ({"type": "text", "data": PNG64}, None, A_PNG),
    ({"type": "audio", "input_audio": {"data": "AAEC", "format": "wav"}}, None, [(b"\0\1\2", "audio/wav")]),
    ({"type": "video", "data": "AAEC", "mimeType": "video/mp4"}, None, [(b"\0\1\2", "video/mp4")]),
    ({"type": "text", "content": WORD}, WORD, []),
    ({"type": "text", "value": WORD}, WORD, []),
    ({"type": "text", "message": WORD}, WORD, []),
    ({"type": "text", "data": WORD}, WORD, []),
    ({"type": "text", "text": None, "content": WORD}, WORD, []),
    ({"type": "text", "text": [{"a": WORD}]}, f'[{{"a": "{WORD}"}}]', []),
    ({"type": "text", "content": [{"type": "text", "text": WORD}]}, WORD, []),
    ({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": WORD}]}, None, []),
    ({"type": "json", "json": {"a": WORD}}, f'{{"a": "{WORD}"}}', []),
    ({"type": "json", "data": [1, 2, 3]}, "[1, 2, 3]", []),
    ({"type": "json", "data": 0}, "0", []),
    ({"type": "markdown", "text": WORD}, WORD, []),
    ({"type": "html", "html": WORD}, WORD, []),
    ({"type": "TEXT", "text": WORD}, WORD, []),
    ({"text": WORD}, WORD, []),
    ({"kind": "text", "text": WORD}, WORD, []),
    ({"a": WORD, "b": [1]}, f'{{"a": "{WORD}", "b": [1]}}', []),
    ({"type": "table", "rows": [[WORD]], "columns": ["a"]}, None, []),
    ({"type": "table", "text": "see", "rows": [[WORD]]}, None, []),
    ([{"type": "text", "text": WORD}], WORD, []),
    (True, "true", []),
    (None, "null", []),
]  # fmt: skip


def test_nothing_of_an_irregular_block_is_lost():
    wrong = []
    for block, text, files in BLOCKS:
        result = CallToolResult.from_raw({"content": [block]})
        if blobs_in(result.content) != files:
            wrong.append((block, blobs_in(result.content)))
        if text is not None and result.text != text:
            wrong.append((block, result.text))
        if WORD in str(block) and WORD not in result.text:
            wrong.append((block, result.text))
        if "example" in str(block) and "https://files.example/1.png" not in result.text:
            wrong.append((block, result.text))
    assert not wrong


def test_what_is_irregular_is_named_once_and_what_is_regular_is_not():
    picture = {"type": "image", "data": PNG64}
    content = [
        {"type": "text", "text": "a", "_meta": {}},
        {**picture, "mimeType": "image/png"},
        {**picture, "mimeType": "IMAGE/PNG; x=1"},
        {"type": "resource", "resource": {"uri": "f:x", "blob": PDF64}},
        {"type": "json", "json": 1},
        {"type": "json", "json": 2},
        {**picture, "mimeType": "image/jpg"},
    ]
    result = CallToolResult.from_raw({"content": content})
    assert result.irregular == ("a block of type json", "image/jpg that is image/png")


JPEG, GIF, WEBP, WAV = b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0WAVE"


@pytest.mark.parametrize(
    ("declared", "data", "options", "found"),
    [
        ("image/png", PNG, {}, "image/png"),
        ("image/jpg", JPEG, {}, "image/jpeg"),
        ("image/pjpeg", b"", {}, "image/jpeg"),
        ("Image/PNG ; charset=binary", b"", {}, "image/png"),
        ("image/jpeg", PNG, {}, "image/png"),
        ("jpg", b"", {"family": "image"}, "image/jpeg"),
        (".PNG", b"", {"family": "image"}, "image/png"),
        ("application/octet-stream", GIF, {}, "image/gif"),
        ("binary/octet-stream", b"x", {}, "application/octet-stream"),
        ("image/*", WEBP, {}, "image/webp"),
        ("application/pdf", PNG, {}, "application/pdf"),
        ("audio/x-wav", WAV, {}, "audio/wav"),
        ("audio/mp3", b"ID3", {}, "audio/mpeg"),
        ("audio/mp4", b"x", {}, "audio/mp4"),
        (None, PDF, {}, "application/pdf"),
        (7, b"", {}, "application/octet-stream"),
        ("", b"a,b", {"name": "file:///t.csv"}, "text/csv"),
        ("nonsense", b"x", {}, "application/octet-stream"),
    ],
)
def test_a_media_type_is_that_of_the_data_however_it_is_written(declared, data, options, found):
    assert media_type(declared, data, **options) == found


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("image/jpeg", ".jpg"),
        ("audio/mpeg", ".mp3"),
        ("audio/wav", ".wav"),
        ("application/vnd.apache.parquet", ".parquet"),
        ("text/html", ".txt"),
        ("text/x-python", ".txt"),
        ("application/x-sh", ".bin"),
    ],
)
def test_a_file_has_an_ending_with_which_it_does_not_run(kind, ending):
    assert file_ending(kind) == ending
