"""Names of the files of results."""

from pathlib import Path

import pytest

from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.saved_files import BlobStore

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("mime_type", "ending"),
    [
        ("image/png", ".png"),
        ("IMAGE/PNG; q=1", ".png"),
        ("audio/wav", ".wav"),
        ("audio/mpeg", ".mp3"),
        ("image/jpg", ".jpg"),
        ("application/pdf", ".pdf"),
        ("", ".bin"),
        ("../evil", ".bin"),
        ("image/svg+xml", ".svg"),
        ("text/csv; charset=utf-8", ".csv"),
        # What a double click would run, or a browser with the rights of a local file, is not called so.
        ("application/x-msdownload", ".bin"),
        ("application/x-sh", ".bin"),
        ("application/vnd.ms-excel.sheet.macroenabled.12", ".bin"),
        ("application/java-archive", ".bin"),
        ("application/javascript", ".bin"),
        ("text/html", ".txt"),
        ("text/x-python", ".txt"),
    ],
)
def test_a_file_is_called_what_it_is(tmp_path, mime_type, ending):
    path = BlobStore(tmp_path, "run").save(PlannedCall(tool=None, input_row="Row1"), 0, b"data", mime_type)
    assert Path(path).name == f"000001-Row1-1{ending}"
    assert Path(path).read_bytes() == b"data"


@pytest.mark.parametrize("row", ["a/../b", "\U0001d518" * 300, " ", "x" * 300, "CON\n"])
def test_a_row_with_an_odd_id_has_files(tmp_path, row):
    path = BlobStore(tmp_path, "run").save(PlannedCall(tool=None, input_row=row), 0, b"data", "text/plain")
    assert Path(path).parent == tmp_path / "mcp-files" / "run"
