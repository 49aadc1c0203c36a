"""Pictures, files, XML and bytes as arguments."""

import base64
import io
import os
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
from PIL import Image

from knime_mcp.client.validation.argument_schemas import parameters_of
from knime_mcp.runs import cell_contents
from knime_mcp.runs.argument_sources import arguments_from_row, plan_columns
from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.tool import MCPTool

pytestmark = pytest.mark.quick


TEXT = {"type": "string"}


def sent(cell, schema=TEXT, name="a"):
    tool = MCPTool("t", "", {"properties": {name: schema}}, "http://127.0.0.1:1/mcp", "t")
    parameters = parameters_of(tool)
    return arguments_from_row({name: cell}, plan_columns(parameters, [name]), parameters)[name]


class FSLocationValue(SimpleNamespace):
    """As KNIME's."""


class BooleanSetValue(SimpleNamespace):
    """As KNIME's."""


class PeriodValue:
    """As another extension's."""


def local(path):
    return FSLocationValue(fs_category="LOCAL", fs_specifier=None, path=str(path))


def picture(form):
    """A picture as KNIME reads it from a cell, and the bytes in the cell."""
    data = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(data, format=form)
    return Image.open(io.BytesIO(data.getvalue())), data.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_picture_is_sent_as_the_file_that_it_is(form):
    cell, data = picture(form)
    assert sent(cell) == base64.b64encode(data).decode()
    cell.load()  # which closes the file
    assert sent(picture(form)[0], {**TEXT, "format": "data-url"}).startswith(
        f"data:image/{form.lower()};base64,"
    )


def test_a_picture_that_somebody_changed_is_sent_as_png():
    read = Image.open(io.BytesIO(base64.b64decode(sent(Image.new("RGB", (3, 2), "red")))))
    assert (read.format, read.size, read.getpixel((0, 0))) == ("PNG", (3, 2), (255, 0, 0))


def test_bytes_are_written_as_the_schema_says(subtests):
    for name, schema, start in [
        ("a", TEXT, "AAEC"),
        ("a", {**TEXT, "contentEncoding": "base64", "contentMediaType": "image/png"}, "AAEC"),
        ("a", {**TEXT, "format": "byte"}, "AAEC"),
        ("a", {**TEXT, "pattern": "^data:image/"}, "data:application/octet-stream;base64,AAEC"),
        ("a", {**TEXT, "description": "The picture as a data URL, base64 encoded"}, "data:"),
        ("a", {"anyOf": [{**TEXT, "description": "A data URI"}, {"type": "null"}]}, "data:"),
        ("image_url", TEXT, "data:"),
        ("imageUrl", TEXT, "data:"),
        ("image_base64", TEXT, "AAEC"),
        ("hourly", TEXT, "AAEC"),
    ]:
        with subtests.test(name=name, schema=schema, start=start):
            assert sent(b"\0\1\2", schema, name).startswith(start)


def test_bytes_for_a_list_of_numbers_and_for_text():
    assert sent(b"\0\1\2", {"type": "array", "items": {"type": "integer"}}) == [0, 1, 2]
    assert sent("ä".encode(), {**TEXT, "contentMediaType": "text/plain"}) == "ä"
    with pytest.raises(ArgumentsInvalid, match="Binary Objects to Strings"):
        sent(b"\xff", {**TEXT, "contentMediaType": "text/plain"})


def test_xml_is_text():
    assert sent(ET.ElementTree(ET.fromstring("<a><b>ä</b></a>"))) == "<a><b>ä</b></a>"


def test_a_path_is_text_unless_the_content_is_wanted(tmp_path):
    file = tmp_path / "note.txt"
    file.write_text("hello")
    assert sent(local(file)) == str(file)
    assert sent(local(file), {**TEXT, "contentEncoding": "base64"}) == "aGVsbG8="
    assert sent(local(file), {**TEXT, "description": "a data URL"}) == "data:text/plain;base64,aGVsbG8="
    assert sent(local(file), {**TEXT, "contentMediaType": "text/plain"}) == "hello"


def test_a_file_that_is_too_large_absent_or_elsewhere_says_what_to_do(tmp_path, monkeypatch):
    wanted = {**TEXT, "contentEncoding": "base64"}
    with pytest.raises(ArgumentsInvalid, match=r"gone\.txt: No such file"):
        sent(local(tmp_path / "gone.txt"), wanted)
    with pytest.raises(ArgumentsInvalid, match="is a device or a pipe"):  # which may have no end
        sent(local(os.devnull), wanted)
    with pytest.raises(ArgumentsInvalid, match="Files to Binary Objects"):
        sent(FSLocationValue(fs_category="CONNECTED", fs_specifier="s3", path="/x"), wanted)
    monkeypatch.setattr(cell_contents, "LARGEST_FILE", 4)
    (tmp_path / "large").write_bytes(b"12345")
    with pytest.raises(ArgumentsInvalid, match="5 bytes, more than the 4"):
        sent(local(tmp_path / "large"), wanted)


def test_sets():
    assert sent(BooleanSetValue(has_true=True, has_false=False, has_missing=True), {"type": "array"}) == [
        True,
        None,
    ]
    assert sent({"b", "a"}, {"type": "array"}) == ["a", "b"]


def test_what_cannot_be_sent_names_the_node_that_converts():
    with pytest.raises(ArgumentsInvalid, match="with the node Duration to String") as caught:
        sent(PeriodValue())
    assert caught.value.pointer == "/a"
