import re
import socket

import pytest


def test_every_step_of_a_good_connection(cli, server):
    done = cli("inspect", server.url)
    assert done.code == 0
    for word in ("tcp", "protocol", "tools", "tests", "1.2.3"):
        assert word in done.out


def test_every_step_as_json(cli, server):
    found = cli("inspect", server.url, "--json").json
    assert found["ok"] is True
    assert {"phase", "what", "ok", "seconds"} <= found["steps"][0].keys()
    assert found["server"]["version"] == "1.2.3"
    assert found["tools"][0] == "echo"


def test_a_port_where_nobody_listens(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = cli("inspect", f"http://127.0.0.1:{port}/mcp", "--json")
    assert done.code == 1
    assert (done.json["ok"], done.json["error"]["phase"]) == (False, "tcp")
    assert done.json["error"]["fix"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/guarded/mcp", "401"),
        ("/forbidden", "403"),
        ("/page", "web page"),
        ("/nowhere", "404"),
    ],
)
def test_what_servers_answer_and_what_to_do(cli, server, path, words):
    done = cli("inspect", server.base + path)
    assert done.code == 1
    assert words in done.out + done.err
    assert "Next step" in done.out
    assert not re.search("[\ufdd0\ufdd1]", done.out)  # marks of ours


def test_a_host_that_does_not_exist(cli):
    done = cli("inspect", "http://no-such-host.invalid/mcp", "--json")
    assert (done.code, done.json["error"]["phase"]) == (1, "dns")


@pytest.mark.parametrize(
    "url", ["", "ftp://x/mcp", "host/mcp", "http://anna:canary-1@host/mcp", "http://h/mcp?api_key=canary-1"]
)
def test_urls_that_cannot_work_are_a_matter_of_usage(cli, url):
    done = cli("inspect", url)
    assert done.code == 2
    assert "canary" not in done.err
    assert done.err.strip()
