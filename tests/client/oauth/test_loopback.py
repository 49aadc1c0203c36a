"""The listener that a browser comes back to."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest

from knime_mcp.client.oauth.browser_login import LoopbackBrowser
from knime_mcp.types.errors import AuthError, Canceled, SettingInvalid

pytestmark = pytest.mark.quick


def visit(*paths):
    """A browser that visits paths of the listener, one after the other; what it got."""
    got: list[tuple[int, str]] = []

    def open_url(url):
        listener = url.partition("/callback?")[0]

        def work():
            with httpx.Client(trust_env=False) as client:
                for path in paths:
                    host = {"Host": "rebound.example"} if path.startswith("/callback?rebound") else {}
                    answer = client.get(listener + path, headers=host)
                    got.append((answer.status_code, answer.text))

        threading.Thread(target=work, daemon=True).start()

    return open_url, got


def test_the_answer_is_taken_and_everything_else_is_not():
    open_url, got = visit("/favicon.ico", "/callback", "/callbackx?code=1", "/callback?code=c%20d&state=s")
    with LoopbackBrowser(open_url) as browser:
        uri = browser.redirect_uri(None)
        assert uri.startswith("http://127.0.0.1:")
        answer = browser.authorize(f"{uri}?state=s", None)
    assert answer == f"{uri}?code=c%20d&state=s"
    assert [status for status, _ in got[:3]] == [404, 404, 404]


def test_the_page_echoes_nothing():
    open_url, got = visit("/callback?code=canary<script>&state=s")
    with LoopbackBrowser(open_url) as browser:
        browser.authorize(f"{browser.redirect_uri(None)}?state=s", None)
        for _ in range(200):
            if got:
                break
            threading.Event().wait(0.05)
    (status, page) = got[0]
    assert status == 200
    assert "canary" not in page
    assert "return to where you started" in page


def test_the_registered_port_is_used_again_if_it_is_free():
    with LoopbackBrowser(lambda url: None) as browser:
        first = browser.redirect_uri(None)
    with LoopbackBrowser(lambda url: None) as browser:
        assert browser.redirect_uri(first) == first
        with LoopbackBrowser(lambda url: None) as other:
            assert other.redirect_uri(first) != first


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            LoopbackBrowser(lambda url: None, port=port) as browser,
            pytest.raises(SettingInvalid, match=f"Port {port} of this machine is taken"),
        ):
            browser.redirect_uri(None)


def test_a_person_who_does_not_come_is_not_awaited_for_ever():
    with LoopbackBrowser(lambda url: None, seconds=0.3) as browser:
        uri = browser.redirect_uri(None)
        with pytest.raises(AuthError, match="Nobody logged in within"):
            browser.authorize(uri, None)


def test_cancel_ends_the_wait():
    with LoopbackBrowser(lambda url: None) as browser:
        uri = browser.redirect_uri(None)
        with pytest.raises(Canceled):
            browser.authorize(uri, lambda: True)


@pytest.mark.parametrize(
    ("foreign", "status"),
    [
        ("/callback?code=x&state=wrong", 400),
        ("/callback?code=x", 400),
        ("/callback?code=x&state=wrong&state=s", 400),
        ("/callback?error=access_denied&state=", 400),
        ("/callback?rebound=1&code=x&state=s", 403),
    ],
)
def test_what_another_page_sends_does_not_end_the_login(foreign, status):
    open_url, got = visit(foreign, "/callback?code=c&state=s")
    with LoopbackBrowser(open_url) as browser:
        assert browser.authorize(f"{browser.redirect_uri(None)}?state=s", None).endswith("?code=c&state=s")
    assert got[0][0] == status


@pytest.mark.parametrize("number", [1, 6, 100])
def test_who_connects_and_says_nothing_does_not_hold_up_the_answer(number):
    open_url, _ = visit("/callback?code=c&state=s")
    with contextlib.ExitStack() as idle:

        def open_all(url):
            def work():
                for _ in range(number):
                    idle.enter_context(socket.create_connection(("127.0.0.1", urlsplit(url).port), 20))
                open_url(url)

            threading.Thread(target=work, daemon=True).start()

        with LoopbackBrowser(open_all, seconds=60) as browser:
            uri = browser.redirect_uri(None)
            assert browser.authorize(f"{uri}?state=s", None).endswith("?code=c&state=s")


def test_nobody_is_asked_for_the_name_of_this_machine(monkeypatch):
    """Which takes seconds where the resolver does not answer."""

    def ask(*_):
        raise AssertionError("a name server was asked")

    monkeypatch.setattr(socket, "getfqdn", ask)
    with LoopbackBrowser(lambda _: None) as browser:
        assert browser.redirect_uri(None).startswith("http://127.0.0.1:")
