"""uvicorn is changed from inside: a version in which that no longer works is refused with what is missing."""

import tomllib
from pathlib import Path

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from knime_mcp.web import listening
from knime_mcp.web.listening import Listener, check_uvicorn

pytestmark = pytest.mark.quick


def test_the_installed_uvicorn_fits():
    check_uvicorn()


class Changed:
    """A protocol as a later uvicorn may have it: another name for one method, and no `cycle`."""

    connection_made = connection_lost = data_received = response_complete = H11Protocol.connection_made

    def __init__(self):
        self.loop = self.transport = None


def test_what_no_longer_fits_is_named_with_a_version_that_does():
    with pytest.raises(ImportError) as caught:
        check_uvicorn(uvicorn.Server, Changed, "9.9")
    text = str(caught.value)
    assert "uvicorn 9.9 does not fit" in text
    assert "has no H11Protocol.on_response_complete, H11Protocol().cycle." in text
    assert f"pip install 'uvicorn{listening._UVICORN}'" in text


def test_no_listener_begins_with_a_uvicorn_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(listening, "_OF_SERVER", ("no_such_method",))
    with pytest.raises(ImportError, match=r"it has no Server\.no_such_method"):
        Listener(None, "127.0.0.1", 0, patience=1, grace=1)


def test_the_bound_is_the_one_of_the_package():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    needed = tomllib.loads(text)["project"]["dependencies"]
    bounds = {entry for entry in needed if entry.startswith("uvicorn")}
    assert bounds == {f"uvicorn{listening._UVICORN}"}
