"""``knime-mcp agent``: a question, answered by a model with the help of tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .exits import CommandError, ExitCode, UsageError, how_here, reports_errors
from .interrupt import Interrupt
from .options import ConnectionOptions, takes_connection
from .terminal import complain, note, print_json, print_text

if TYPE_CHECKING:
    from .agent_run import AgentRun

_MODEL = "The model"
_LIMITS = "What the agent may do"


@reports_errors
@takes_connection
def agent(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="The question or task; - reads it from standard input.")
    ],
    model_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="KNIME_MCP_MODEL_URL",
            help="Base URL of an API in OpenAI's form, such as https://api.openai.com/v1 or, for Ollama,"
            " http://localhost:11434/v1.",
            rich_help_panel=_MODEL,
        ),
    ],
    model: Annotated[
        str,
        typer.Option(metavar="NAME", envvar="KNIME_MCP_MODEL", help="Which model.", rich_help_panel=_MODEL),
    ],
    api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="Send the API key in this environment variable to the model's endpoint.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="NAME",
            help="Send this credential to the model's endpoint: its password is looked up like that of"
            " --credential, in KNIME_MCP_<NAME>_PASSWORD or the system's keyring.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="How much chance there is in the answers.", rich_help_panel=_MODEL),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A server whose tools the model may call; may be repeated."),
    ] = None,
    workflow: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.knwf", help="A KNIME workflow that the model may call as a tool; may be repeated."
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT|@FILE", help="Instructions for the model, instead of the usual ones."),
    ] = None,
    include: Annotated[
        str,
        typer.Option(
            metavar="PATTERNS",
            help="Only these tools: names with * and ?, separated by commas.",
            rich_help_panel=_LIMITS,
        ),
    ] = "",
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help="Which calls may be made: 'deny delete_*', 'deny * if destructive', 'allow *'; the first"
            " rule that fits decides; may be repeated.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Believe what this server says of its tools (read-only, destructive); may be repeated.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    max_iterations: Annotated[
        int,
        typer.Option(min=0, help="How many times the model may ask for tools.", rich_help_panel=_LIMITS),
    ] = 25,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds for the whole answer.", rich_help_panel=_LIMITS),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Add the records of the calls to this journal."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the run as a page with all details, for a browser."),
    ] = None,
    save_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Save pictures, sounds and other files of the results there."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print answer, conversation and calls as JSON.")
    ] = False,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Let a model answer a question with the help of tools.

    What happens is shown on standard error as it happens; the answer goes to standard output. The exit code
    is 0 if there is an answer.

    Example: knime-mcp agent "Which desks do we sell?" --server http://127.0.0.1:8931/mcp
    --model-url http://localhost:11434/v1 --model qwen3
    """
    text = (sys.stdin.read() if question == "-" else question).strip()
    if not text:
        raise UsageError("What is the question? Write it in quotes after the command.")
    _check_files(audit, html, workflow or [])
    if api_key and api_key_env:
        raise UsageError("--api-key and --api-key-env cannot be used together. Choose one of them.")
    urls = server or []
    routes = connection.routes(urls) if urls or connection.servers else []
    from .agent_run import AgentRun, AgentSettings

    settings = AgentSettings(
        model_url=model_url,
        model=model,
        api_key_env=api_key_env,
        api_key=api_key,
        temperature=temperature,
        system=None if system is None else _text(system),
        include=include,
        rules="\n".join(rule or ()),
        trusted=",".join(trust or ()),
        max_iterations=max_iterations,
        time_limit=time_limit,
        audit=audit,
        save_dir=save_dir,
    )
    with Interrupt() as interrupt:
        run = AgentRun(settings, connection, interrupt)
        run.ask(text, routes=routes, workflows=workflow or [])
    if html is not None:
        html.write_text(run.page(), encoding="utf-8")
        note(f"Wrote {html}")
    return _show(run, as_json=as_json)


def _show(run: AgentRun, *, as_json: bool) -> ExitCode:
    answered = run.answered
    if as_json:
        print_json(run.as_json())
    elif answered.error is None:
        print_text(answered.text)
    if answered.error is not None:
        if not as_json:
            complain(f"{answered.error}{how_here(answered.error)}")
        return ExitCode.FAILED
    for text in run.remarks():
        note(text)
    return ExitCode.OK


def _check_files(audit: Path | None, html: Path | None, workflows: list[Path]) -> None:
    if audit is not None and audit.suffix.lower() != ".jsonl":
        raise UsageError(f"{audit} should end in .jsonl: it gets one line of JSON per call.")
    if html is not None and html.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"{html} should end in .html: it gets a page for a browser.")
    for file in filter(None, (audit, html)):
        if not file.parent.is_dir():
            raise UsageError(f"There is no folder {file.parent} to write {file.name} into.")
    for file in workflows:
        if not file.is_file():
            raise UsageError(f"There is no file {file}.")


def _text(option: str) -> str:
    if not option.startswith("@"):
        return option
    try:
        return Path(option[1:]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{option[1:]} is not UTF-8 text.") from None
