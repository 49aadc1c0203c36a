"""The document on the desk: changes, undo, the file, and what others do with it."""

import pytest

from knime_mcp_graph.document_edits import GraphEditError
from knime_mcp_graph.studio.desk import ConflictError, Desk

from .. import graphs

pytestmark = pytest.mark.quick


TEXT = graphs.one_tool(graphs.ENTRY, graphs.transform("1", following="exit"), graphs.EXIT) + "# end\n"


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "g.yaml"
    file.write_bytes(TEXT.encode())
    return file


def rename(desk, name):
    desk.apply(desk.number, {"kind": "set", "path": ["tools", 0, "name"], "value": name})


def write(desk, text):
    desk.apply(desk.number, {"kind": "text", "text": text})


def test_changes_are_undone_and_done_again(file):
    desk = Desk(file)
    rename(desk, "one")
    rename(desk, "two")
    assert not desk.is_saved
    desk.undo()
    assert "name: one" in desk.text
    desk.undo()
    assert desk.text == TEXT
    assert desk.is_saved
    desk.undo()
    desk.redo()
    desk.redo()
    assert "name: two" in desk.text
    assert file.read_text() == TEXT
    desk.save()
    assert file.read_text() == TEXT.replace("name: t\n", "name: two\n")
    assert [one.name for one in file.parent.iterdir()] == ["g.yaml"]


def test_a_mark_ends_of_lines_and_a_link_stay(file, tmp_path):
    whole = tmp_path / "real.yaml"
    whole.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    whole.chmod(0o640)
    file.unlink()
    file.symlink_to(whole)
    desk = Desk(file)
    write(desk, desk.state()["text"].replace("# end", "# the end"))
    desk.save()
    assert (
        whole.read_bytes()
        == b"\xef\xbb\xbf" + TEXT.replace("# end", "# the end").replace("\n", "\r\n").encode()
    )
    assert file.is_symlink()
    assert whole.stat().st_mode & 0o777 == 0o640


def test_a_changed_file_is_taken_over_while_nothing_was_changed_here(file):
    desk = Desk(file)
    assert not desk.look()
    file.write_text(TEXT.replace("# end", "# other"))
    assert desk.look()
    assert "# other" in desk.text
    assert desk.is_saved
    desk.undo()
    assert "# end" in desk.text


def test_nothing_of_others_is_overwritten_unasked(file):
    desk = Desk(file)
    rename(desk, "mine")
    theirs = TEXT.replace("# end", "# theirs")
    file.write_text(theirs)
    with pytest.raises(ConflictError):
        desk.save()
    assert file.read_text() == theirs
    assert desk.state()["theirs"] == theirs
    desk.take_theirs()
    assert desk.text == theirs
    assert desk.is_saved
    desk.undo()
    assert "name: mine" in desk.text
    desk.save(overwrite=True)
    assert "name: mine" in file.read_text()
    assert desk.state()["theirs"] is None


def test_a_conflict_ends_with_its_cause(file):
    desk = Desk(file)
    rename(desk, "mine")
    file.write_text(TEXT.replace("# end", "# theirs"))
    assert desk.look()
    assert not desk.look()
    file.write_text(TEXT)
    assert desk.look()
    assert desk.state()["theirs"] is None
    desk.save()
    assert "name: mine" in file.read_text()


def test_a_change_of_an_older_version_is_refused(file):
    desk = Desk(file)
    rename(desk, "one")
    with pytest.raises(ConflictError):
        desk.apply(1, {"kind": "text", "text": "nothing"})
    with pytest.raises(ConflictError):
        desk.apply(1, {"kind": "undo"})


def test_a_text_with_mistakes_stays_and_is_judged(file):
    desk = Desk(file)
    write(desk, TEXT.replace("next: x", "next: y"))
    state = desk.state()
    assert not state["canRun"]
    assert state["problems"][0]["path"] == ["tools", 0, "nodes", 0, "next"]
    assert state["problems"][0]["line"] == 9
    (way,) = [way for way in state["tools"][0]["ways"] if way["target"] == "y"]
    assert [*state["tools"][0]["nodes"][0]["path"], *way["key"]] == state["problems"][0]["path"]
    assert [node["id"] for node in state["tools"][0]["nodes"]] == ["entry", "x", "exit"]
    assert [line["source"] for line in state["tools"][0]["drawing"]["lines"]] == ["x"]
    write(desk, "tools: [\n")
    assert desk.state()["tools"] is None
    with pytest.raises(GraphEditError):
        rename(desk, "one")


def test_a_file_that_cannot_be_written_is_told(file):
    desk = Desk(file)
    rename(desk, "one")
    (file.parent / f".{file.name}.studio").mkdir()
    with pytest.raises((GraphEditError, OSError)):
        desk.save()
    assert file.read_text() == TEXT
