import base64
import json
import struct
import zlib
from pathlib import Path

import pytest
from mcp.server.mcpserver.exceptions import ToolError

from knime_mcp.cli.demo_server import DemoFiles

FOLDER = Path(__file__).parents[2] / "examples" / "demo" / "files"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_text("Der Müller's dog, the DOG and a dog.\n", encoding="utf-8")
    (tmp_path / "t.csv").write_text('n,s\n1,x\n2,"a|b"\n,x\n', encoding="utf-8")
    return tmp_path


def test_lists_files(folder):
    found = DemoFiles(folder).list_files()
    assert [(f.path, f.kind, f.lines) for f in found] == [("a.txt", "txt", 1), ("t.csv", "csv", 4)]


def test_counts_words_of_any_language_alike(folder):
    counted = DemoFiles(folder).count_words("a.txt", 3, 2)
    assert (counted.words, counted.distinct) == (7, 5)
    assert counted.most_common == {"dog": 3, "and": 1}


def test_finds_lines(folder):
    assert [m.line for m in DemoFiles(folder).search_text("MÜLLER", None, case_sensitive=False)] == [1]
    assert DemoFiles(folder).search_text("MÜLLER", "a.txt", case_sensitive=True) == []


def test_summarizes_columns(folder):
    number, text = DemoFiles(folder).summarize_csv("t.csv", [])
    assert (number.type, number.rows, number.missing, number.minimum, number.mean, number.maximum) == (
        ("number", 3, 1, 1.0, 1.5, 2.0)
    )
    assert (text.type, text.distinct, text.mean) == ("text", 2, None)


def test_converts(folder):
    assert DemoFiles(folder).convert_csv("t.csv", "markdown", 2).splitlines()[-1] == r"| 2 | a\|b |"
    assert json.loads(DemoFiles(folder).convert_csv("t.csv", "json", 1)) == [{"n": "1", "s": "x"}]


def test_draws_a_readable_picture():
    data = DemoFiles(FOLDER).plot_column("orders.csv", "quantity", 12).data
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    begin = data.index(b"IDAT") + 4
    pixels = zlib.decompress(data[begin : data.index(b"IEND") - 8])
    assert (depth, colour) == (8, 2)
    assert len(pixels) == height * (1 + 3 * width)


@pytest.mark.parametrize("path", ["../demo/parameters.csv", "/etc/hostname", "no.txt", ".", ""])
def test_never_leaves_the_folder(path):
    with pytest.raises(ToolError, match=r"There are: climate\.csv, "):
        DemoFiles(FOLDER).count_words(path, 1, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: DemoFiles(FOLDER).summarize_csv("orders.csv", ["prise"]), "no column 'prise'"),
        (lambda: DemoFiles(FOLDER).summarize_csv("install_guide.txt", []), "not a CSV file"),
        (lambda: DemoFiles(FOLDER).plot_column("orders.csv", "product", 5), "holds no numbers"),
    ],
)
def test_says_what_is_wrong(call, words):
    with pytest.raises(ToolError, match=words):
        call()


def test_checks_columns(tmp_path):
    readings = [5, 6, 5, 7, 6, 5, 90]
    (tmp_path / "m.csv").write_text(
        "".join(f"{line}\n" for line in ["n,s", *(f"{n},a" for n in readings), ",b"])
    )
    (check,) = DemoFiles(tmp_path).check_columns("m.csv")
    assert (check.column, check.readings, check.missing, check.outliers) == ("n", 7, 1, 1)


def test_a_page_is_a_pdf_with_the_picture():
    png = DemoFiles(FOLDER).plot_column("orders.csv", "quantity", 12).data
    made = DemoFiles(FOLDER).report_page("A (good) title", base64.b64encode(png).decode(), "Grüße")
    page = base64.b64decode(made.resource.blob)
    assert rb"(Please look at: A \(good\) title)" in page
    assert "Grüße".encode("cp1252") in page
    assert png[png.index(b"IDAT") + 4 : png.index(b"IEND") - 8] in page
    start = int(page.split(b"startxref\n")[1].split()[0])
    assert page[start:].startswith(b"xref\n0 7\n")
    for number, line in enumerate(page[start:].splitlines()[3:9], 1):
        assert page[int(line[:10]) :].startswith(b"%d 0 obj" % number)


@pytest.mark.parametrize("picture", ["no base64!", base64.b64encode(b"GIF89a").decode(), ""])
def test_a_page_wants_a_png(picture):
    with pytest.raises(ToolError, match="picture"):
        DemoFiles(FOLDER).report_page("t", picture)
