import copy
import pickle

import pytest

from knime_mcp.types import errors as e

pytestmark = pytest.mark.quick


ONE_OF_EACH = [
    e.MCPError("it broke"),
    e.ConnectError("it broke", phase="dns"),
    e.VersionError("it broke", supported=("2025-11-25",)),
    e.AuthError("it broke", status=401),
    e.SessionLost("it broke"),
    e.ProtocolError("it broke"),
    e.ServerError("it broke", code=-32602, data={"a": 1}),
    e.ToolNotFound("it broke", suggestions=("search",)),
    e.CallDenied("it broke"),
    e.OutcomeUnknown("it broke"),
    e.ArgumentsInvalid("it broke", pointer="/a/0"),
    e.ResultInvalid("it broke", pointer="/a"),
    e.ResultTooLarge("it broke", limit=10),
    e.ToolChanged("it broke", changes=("title",)),
    e.TimedOut("it broke", kind="idle"),
    e.Canceled("it broke"),
    e.SettingInvalid("it broke", setting="server_url"),
    e.ToolFormatError("it broke", field="name"),
    e.ToolFailed("it broke"),
    e.InputInvalid("it broke"),
    e.FileFailed("it broke"),
    e.NotRunHere("it broke"),
    e.Unexpected("it broke"),
]
by_name = pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)


def test_the_list_above_is_complete():
    def below(kind):
        return {kind, *(deeper for direct in kind.__subclasses__() for deeper in below(direct))}

    public = {kind for kind in below(e.MCPError) if kind.__module__ == e.__name__ and kind.__name__[0] != "_"}
    assert {type(error) for error in ONE_OF_EACH} == public


def test_messages_read_as_sentences(subtests):
    for place, text in [
        ({}, "it broke."),
        ({"fix": "Mend it"}, "it broke. Mend it."),
        ({"fix": "Mend it!"}, "it broke. Mend it!"),
        ({"server": "https://h/mcp"}, "it broke (server https://h/mcp)."),
        ({"server": "stdio:files", "tool": "t"}, "it broke (server stdio:files, tool t)."),
        ({"row": "Row0", "tool": "t", "fix": "Mend it."}, "it broke (tool t, row Row0). Mend it."),
    ]:
        for what in ["it broke", "it broke.", "it broke. "]:
            with subtests.test(place=place, text=text, what=what):
                error = e.SettingInvalid(what, setting="x", **place)
                assert error.sentence == text
                assert str(error) == f"{text} [KMCP-SETTING]"


def test_the_code_of_the_cause_says_more():
    inner = e.ConnectError("it broke", phase="dns")
    assert str(e.MCPError(f"No login: {inner}")) == "No login: it broke. [KMCP-CONNECT-DNS]"
    assert e.TimedOut("it broke", kind="idle").error_code == "KMCP-TIMEOUT-IDLE"
    assert [e.AuthError("no", status=status).error_code for status in (401, 403)] == [
        "KMCP-LOGIN",
        "KMCP-ACCESS",
    ]


def test_the_code_of_many_lines_has_a_line_of_its_own():
    assert e.coded("a\n  b", "KMCP-OTHER") == "a\n  b\n[KMCP-OTHER]"


@pytest.mark.requirement("T11")
def test_a_server_is_named_without_secrets():
    error = e.MCPError("no", server="https://user:pw@host:8080/mcp?key=s3cret#credential=prod")
    assert error.server == "https://host:8080/mcp"
    assert "pw" not in repr(vars(error))
    assert e.MCPError("no", server="https://[::1/").server == "<malformed URL>"


@by_name
def test_at_fills_in_what_is_missing_and_keeps_the_rest(error):
    placed = error.at(server="https://h/mcp?x=1", row="Row3").at(tool="t", row="Row4")
    assert (placed.server, placed.tool, placed.row) == ("https://h/mcp", "t", "Row3")
    assert type(placed) is type(error)
    own = {key: value for key, value in vars(error).items() if key not in {"server", "tool", "row"}}
    assert own.items() <= vars(placed).items()
    assert error.row is None, "one error may be reported for many rows"


def test_at_keeps_the_traceback():
    with pytest.raises(e.MCPError) as caught:
        raise e.MCPError("no")
    assert caught.value.at(row="Row0").__traceback__ is caught.value.__traceback__


@by_name
@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_survive_copies_and_processes(clone, error):
    again = clone(error)
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)
