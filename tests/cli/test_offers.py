"""``knime-mcp resources`` and ``knime-mcp prompts``."""

import base64
import shlex
import sys
from pathlib import Path

import pytest

from knime_mcp.cli.demo_server import DemoServer
from tests.support.scripted_server import ScriptedServer, legacy, rpc, rpc_error

FILES = Path(__file__).parents[2] / "examples" / "demo" / "files"
PNG = b"\x89PNG\r\n\x1a\n..."
SECRET = "token-of-ours-90210-x"
SCRIPT = legacy(
    resources__list=rpc({"resources": [{"uri": "a://b", "name": "b"}]}),
    resources__templates__list=rpc({"resourceTemplates": [{"uriTemplate": "a://{x}", "name": "each x"}]}),
    resources__read=rpc(
        {
            "contents": [
                {"uri": "a://b", "mimeType": "text/plain", "text": f"the token is {SECRET}"},
                {"uri": "a://b", "mimeType": "image/png", "blob": base64.b64encode(PNG).decode()},
            ]
        }
    ),
    prompts__get=rpc(
        {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "What is this?"}},
                {
                    "role": "assistant",
                    "content": {
                        "type": "image",
                        "data": base64.b64encode(PNG).decode(),
                        "mimeType": "image/png",
                    },
                },
            ]
        }
    ),
)


@pytest.fixture(scope="module")
def demo():
    with DemoServer(FILES) as server:
        yield server.url


def test_resources_are_listed_and_read(cli, demo):
    done = cli("resources", "list", demo)
    assert done.code == 0
    assert "5 resources, 0 templates" in done.out
    assert "demo:///orders.csv" in done.out
    listed = cli("resources", "list", demo, "--json").json
    assert {"uri": "demo:///orders.csv", "mimeType": "text/csv"}.items() <= listed[-1].items()
    done = cli("resources", "read", demo, "demo:///orders.csv")
    assert done.out == (FILES / "orders.csv").read_text(encoding="utf-8") + "\n"


def test_a_resource_that_is_not_there(cli, demo):
    done = cli("resources", "read", demo, "demo:///gone.txt")
    assert done.code == 1
    assert "Unknown resource: demo:///gone.txt" in done.err
    assert done.out == ""


def test_prompts_are_listed_and_filled_in(cli, demo):
    done = cli("prompts", "list", demo)
    assert "answer_letter" in done.out
    assert "path, tone?" in done.out
    done = cli("prompts", "get", demo, "answer_letter", "path=customer_letter.txt", "tone=terse")
    assert done.code == 0
    assert done.out.startswith("user:\nAnswer this letter in a terse tone")
    (message,) = cli("prompts", "get", demo, "answer_letter", "path=customer_letter.txt", "--json").json[
        "messages"
    ]
    assert "a friendly tone" in message["content"]["text"]


def test_what_is_no_text_is_saved(cli, tmp_path):
    with ScriptedServer(SCRIPT) as server:
        done = cli("resources", "read", server.url, "a://b", "--save-dir", tmp_path / "saved")
        told = cli("resources", "read", server.url, "a://b")
        prompt = cli("prompts", "get", server.url, "p", "--save-dir", tmp_path / "prompt")
    assert done.code == 0
    (file,) = (tmp_path / "saved").iterdir()
    assert (file.suffix, file.read_bytes()) == (".png", PNG)
    assert str(file) in done.err
    assert "image/png" in told.out
    assert "--save-dir FOLDER saves it" in told.err
    assert prompt.out == "user:\nWhat is this?\nassistant:\n"
    assert [path.read_bytes() for path in (tmp_path / "prompt").iterdir()] == [PNG]


def test_templates_are_listed_as_such(cli):
    with ScriptedServer(SCRIPT) as server:
        done = cli("resources", "list", server.url)
    assert "1 resource, 1 template" in done.out
    assert "a://{x}" in done.out


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_secret_that_the_server_repeats_is_marked(cli, options):
    with ScriptedServer(SCRIPT) as server:
        words = ("resources", "read", server.url, "a://b", "--bearer-env", "TOKEN", *options)
        done = cli(*words, env={"TOKEN": SECRET})
    assert done.code == 0
    assert SECRET not in done.out + done.err
    assert "the token is " in done.out
    assert "repeated a secret 1 time" in done.err


def test_a_server_that_is_a_command(cli):
    program = (
        "from mcp.server import MCPServer\n"
        "server = MCPServer('s', log_level='ERROR')\n"
        "def y(): return 'hello'\n"
        "server.resource('x://y')(y)\n"
        "server.run('stdio')\n"
    )
    command = shlex.join([sys.executable, "-W", "ignore", "-c", program])
    done = cli("resources", "read", "--stdio", command, "x://y")
    assert (done.code, done.out) == (0, "hello\n"), done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["resources", "read", "URL"], "Which resource?"),
        (["prompts", "get", "URL"], "Which prompt?"),
        (["prompts", "get", "URL", "p", "a"], "is not an argument"),
        (["prompts", "get", "URL", "p", "a:=1"], "Write them as key=value"),
        (["resources", "list"], "Which server?"),
    ],
)
def test_mistakes_are_said_before_anything_is_asked(cli, words, says):
    with ScriptedServer(SCRIPT) as server:
        done = cli(*(server.url if word == "URL" else word for word in words))
        assert server.requests == []
    assert done.code == 2
    assert says in done.err


def test_a_server_that_offers_nothing(cli):
    absent = rpc_error(-32601, "Method not found")
    script = legacy(resources__list=absent, resources__templates__list=absent, prompts__list=absent)
    with ScriptedServer(script) as server:
        done = cli("resources", "list", server.url)
        assert cli("prompts", "list", server.url, "--json").json == []
    assert done.code == 0
    assert "0 resources, 0 templates" in done.out


@pytest.mark.parametrize("content", [{"uri": "a://b", "blob": "%%%"}, {"uri": "a://b"}, 5])
def test_a_content_that_is_nothing_is_a_failure(cli, content):
    good = {"uri": "a://b", "text": "kept"}
    with ScriptedServer(legacy(resources__read=rpc({"contents": [good, content]}))) as server:
        done = cli("resources", "read", server.url, "a://b")
    assert done.code == 1
    assert done.out.startswith("kept\n")
    assert "neither text nor base64" in done.err


def test_a_resource_without_content_says_so(cli):
    with ScriptedServer(legacy(resources__read=rpc({"contents": []}))) as server:
        done = cli("resources", "read", server.url, "a://b")
    assert (done.code, done.out) == (0, "")
    assert "has no content" in done.err
