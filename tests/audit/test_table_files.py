"""Tables in files: CSV as spreadsheets and people write it, Parquet that may be damaged."""

from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knime_mcp.audit.table_files import TableError, read_csv, read_parquet


@pytest.fixture
def csv_of(tmp_path):
    """Reads a CSV file of some content."""

    def read(content, name="t.csv"):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_csv(tmp_path / name)

    return read


@pytest.mark.parametrize(
    "text",
    [
        "n,text\n1,a\n",
        "n, text \r\n1,a",
        "\ufeffn;text\n1;a\n",
        "sep=;\nn;text\n1;a\n",
        '"sep=,"\r\nn,text\r\n1,a\r\n',
        "sep=\t\nn\ttext\n1\ta",
        '"n"\t"\ntext"\n1\ta',
        "n,text\r1,a\r",
        "\ufeffSEP=|\nn|text\n1|a\n",
    ],
)
def test_a_csv_as_spreadsheets_write_it(csv_of, text):
    assert csv_of(text).to_pylist() == [{"n": "1", "text": "a"}]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_csv_without_rows(csv_of, end):
    table = csv_of(f"n,text{end}")
    assert (table.column_names, table.num_rows) == (["n", "text"], 0)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a;b\n1,5;x\n", {"a": "1,5", "b": "x"}),
        ("a\tb\n1,5\tx\n", {"a": "1,5", "b": "x"}),
        ('a,b\n"one\ntwo",3\n', {"a": "one\ntwo", "b": "3"}),
        ('a,b\n5" pipe,"one\ntwo"\n', {"a": '5" pipe', "b": "one\ntwo"}),
        ('"name, first";"name, last";b\nA;B;1\n', {"name, first": "A", "name, last": "B", "b": "1"}),
        (f"a,b\n{'x' * 3_000_000},1\n", {"a": "x" * 3_000_000, "b": "1"}),
    ],
    ids=["semicolons", "tabs", "lines in a cell", "inches", "separators in names", "a long cell"],
)
def test_separators_and_marks_within_cells_separate_nothing(csv_of, text, row):
    assert csv_of(text).to_pylist() == [row]


def test_a_tsv_is_separated_by_tabs(csv_of):
    assert csv_of("text, or not\na,b\n", "t.tsv").to_pylist() == [{"text, or not": "a,b"}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,a\n1,2\n", "more than one column called 'a'"),
        (b"a,b\n1\n", "cannot be read as CSV"),
        (b"x" * 200_000, "cannot be read as CSV"),
        (b"a,,\n1,,\n", "more than one column without a name"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "quotation mark that is not closed"),
        (b"\xe4,b\n1,2\n", "is not UTF-8"),
        (b"a,b\n\xe4,2\n", "is not UTF-8"),
        (b"text\n" + b"a\n" * 9000 + b"caf\xe9\n", "is not UTF-8. Save it as 'CSV UTF-8'"),
        ("text,times\na,1\n".encode("utf-16"), "is not UTF-8"),
        ("text,times\na,1\n".encode("utf-16-le"), "is not UTF-8"),
    ],
)
def test_a_csv_that_cannot_be_read_says_why(csv_of, content, words):
    with pytest.raises(TableError, match=words):
        csv_of(content)


@pytest.mark.parametrize("place", range(4, 700, 13))
def test_a_damaged_parquet_file_is_read_or_refused(tmp_path, place):
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [str(n) for n in range(50)], "n": range(50)}), file)
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 0xFF
    file.write_bytes(data)
    with suppress(TableError):
        read_parquet(file)
