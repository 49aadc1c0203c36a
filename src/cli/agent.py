"""``knime-mcp agent``: a question, answered by a model with the help of tools."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..agents.model.chat_model import DEFAULT_TIMEOUT, is_anthropic
from ..agents.toolbox.tool_scan import SuspiciousTools
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, at_terminal, reports_errors
from .connection_options import ConnectionOptions, takes_connection
from .files import (
    check_folder,
    check_journal,
    check_page,
    check_resume,
    read_stdin,
    text_or_file,
    write_page,
)
from .shared_options import SaveDirOption, ServersOption, options_under, takes
from .terminal import complain, note, print_json, print_text

if TYPE_CHECKING:
    from .agent_run import AgentRun

_model = options_under("The model")
_limit = options_under("What the agent may do")


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    model: Annotated[
        str,
        _model(
            "Which model; anthropic:NAME is one of Anthropic's, by its own protocol.",
            metavar="NAME",
            envvar="KNIME_MCP_MODEL",
        ),
    ]
    model_url: Annotated[
        str | None,
        _model(
            "Base URL of an API in OpenAI's form, such as https://api.openai.com/v1 or, for Ollama,"
            " http://localhost:11434/v1. Only Anthropic's own may be left out.",
            metavar="URL",
            envvar="KNIME_MCP_MODEL_URL",
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        _model("Send the API key in this environment variable to the model's endpoint.", metavar="VARIABLE"),
    ] = None
    api_key: Annotated[
        str | None,
        _model(
            "Send this credential to the model's endpoint: its password is looked up like that of"
            " --credential, in KNIME_MCP_<NAME>_PASSWORD or the system's keyring.",
            "--api-key",
            metavar="NAME",
        ),
    ] = None
    temperature: Annotated[float | None, _model("How much chance there is in the answers.", min=0.0)] = None
    token_limit: Annotated[int | None, _model("The most tokens of one answer of the model.", min=1)] = None
    top_p: Annotated[
        float | None,
        _model(
            "Choose only from the most likely words, which have this probability together.", min=0.0, max=1.0
        ),
    ] = None
    reasoning_effort: Annotated[
        str | None,
        _model(
            "How much the model thinks: none, minimal, low, medium, high, or what it knows.", metavar="EFFORT"
        ),
    ] = None
    request_fields: Annotated[
        str,
        _model("What else is to be in each request to the model, such as '{\"seed\": 1}'.", metavar="JSON"),
    ] = ""
    model_timeout: Annotated[float, _model("Seconds that the model may be silent.", min=0.1)] = (
        DEFAULT_TIMEOUT
    )
    system: Annotated[
        str | None,
        typer.Option(metavar="TEXT|@FILE", help="Instructions for the model, instead of the usual ones."),
    ] = None
    include: Annotated[
        str, _limit("Only these tools: names with * and ?, separated by commas.", metavar="PATTERNS")
    ] = ""
    rule: Annotated[
        list[str] | None,
        _limit(
            "Which calls may be made: 'deny delete_*', 'deny * if destructive', 'ask pay if amount"
            " > 100', 'allow *'; the first rule that fits decides; may be repeated.",
            metavar="RULE",
        ),
    ] = None
    trust: Annotated[
        list[str] | None,
        _limit(
            "Believe what this server says of its tools (read-only, destructive); may be repeated.",
            metavar="HOST",
        ),
    ] = None
    suspicious_tools: Annotated[
        SuspiciousTools,
        _limit("What to do with tools whose descriptions hold orders to the model and the like."),
    ] = SuspiciousTools.WARN
    prefix: Annotated[
        str,
        _limit(
            "Put this in front of the names of tools; {server} stands for the server's name.", metavar="TEXT"
        ),
    ] = ""
    longest_wait: Annotated[
        float, _model("The most seconds to wait if the model's service asks to.", min=0.0)
    ] = 120.0
    max_iterations: Annotated[int, _limit("How many times the model may ask for tools.", min=1)] = 25
    max_calls: Annotated[int | None, _limit("How many tool calls may be made in all.", min=0)] = None
    max_calls_per_turn: Annotated[int, _limit("How many tool calls may be made in one turn.", min=1)] = 128
    calls_per_tool: Annotated[
        str,
        _limit(
            "How many calls of tools may be made, such as 'search_*: 5, delete_row: 1'.", metavar="LIMITS"
        ),
    ] = ""
    retries: Annotated[
        int, _limit("How often a call that failed is made again, if that does no harm.", min=0)
    ] = 0
    max_tokens: Annotated[
        int | None, _limit("How many tokens the model may read and write in all.", min=1)
    ] = None
    max_input_tokens: Annotated[int | None, _limit("How many it may read.", min=1)] = None
    max_output_tokens: Annotated[int | None, _limit("How many it may write.", min=1)] = None
    max_cost: Annotated[float | None, _limit("What the model may cost; needs --prices.", min=0.0)] = None
    prices: Annotated[
        str | None,
        _limit(
            "Prices of a million tokens that the model reads, and writes, such as 1.25,10.",
            metavar="INPUT,OUTPUT",
        ),
    ] = None
    time_limit: Annotated[
        float | None, _limit("Seconds for the whole answer, without those in which you are asked.", min=0.1)
    ] = None
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Go on with a conversation that chat has saved.")
    ] = None
    audit: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Add the records of the calls to this journal.")
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Go on with the run in this --audit file, which was killed or failed: what was answered and"
            " called is not asked or called again. The question may be left out.",
        ),
    ] = None
    repeat_unknown: Annotated[
        bool,
        typer.Option(
            "--repeat-unknown",
            help="With --resume: make calls again of which nobody knows whether they were carried out,"
            " instead of telling the model so.",
        ),
    ] = False
    save_dir: SaveDirOption = None

    @property
    def journal(self) -> Path | None:
        return self.audit or self.resume


@reports_errors
@takes_connection
@takes(AgentSettings, "settings")
def agent(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="The question or task; - reads it from standard input.")
    ] = "",
    server: ServersOption = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the run as a page with all details, for a browser."),
    ] = None,
    ask: Annotated[
        bool,
        _limit(
            "Ask me before each call that no rule decides about. What was typed before a question is no"
            " answer to it.",
            "--ask",
        ),
    ] = False,
    answer_schema: Annotated[
        str,
        typer.Option(
            metavar="SCHEMA|@FILE",
            help="The form that the answer must have: a JSON schema of an object, or lines such as 'price:"
            " number, in euros'. An answer that does not fit is asked for again.",
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print answer, conversation and calls as JSON.")
    ] = False,
    *,
    settings: AgentSettings,
    connection: ConnectionOptions,
) -> ExitCode:
    """Let a model answer a question with the help of tools.

    What happens is shown on standard error as it happens; the answer goes to standard output. The exit code
    is 0 if there is an answer.

    Example: knime-mcp agent "Which desks do we sell?" --server http://127.0.0.1:8931/mcp
    --model-url http://localhost:11434/v1 --model qwen3
    """
    text = (read_stdin() if question == "-" else question).strip()
    if not text and settings.resume is None:
        raise UsageError("What is the question? Write it in quotes after the command.")
    if settings.resume is not None and settings.audit is not None:
        raise UsageError("--resume goes on in its own file: leave out --audit.")
    check_resume(settings.resume, repeat_unknown=settings.repeat_unknown)
    check_page(html)
    settings = checked_settings(settings)
    if answer_schema:
        answer_schema = text_or_file(answer_schema, "--answer-schema")[0]
    if ask:
        # Last, so that it holds only where no rule of the person decides.
        settings = replace(settings, rule=[*(settings.rule or ()), "ask *"])
    urls = server or []
    routes = connection.routes(urls) if urls or connection.servers else []
    from .agent_run import AgentRun

    with Interrupt() as interrupt:
        run = AgentRun(settings, connection, interrupt, answer_schema=answer_schema)
        with run.asked(text, routes=routes):
            if html is not None:
                write_page(html, run.page())
            code = _show(run, as_json=as_json)
            # While the block still stands, so that a pipe that has closed is an error of this command.
            sys.stdout.flush()
    return code


def checked_settings(settings: AgentSettings) -> AgentSettings:
    """The settings with the text of the system message, after their files were looked for."""
    check_journal(settings.audit)
    if settings.history is not None and not settings.history.is_file():
        raise CommandError(f"There is no file {settings.history}.")
    check_folder(settings.save_dir)
    if settings.api_key and settings.api_key_env:
        raise UsageError("--api-key and --api-key-env cannot be used together. Choose one of them.")
    if settings.model_url is None and not is_anthropic(settings.model):
        raise UsageError("Where is the model? Give its base URL with --model-url.")
    if settings.system is not None:
        settings = replace(settings, system=text_or_file(settings.system, "--system")[0])
    return settings


def _show(run: AgentRun, *, as_json: bool) -> ExitCode:
    answered = run.answered
    if as_json:
        print_json(run.as_json())
    elif answered.error is None:
        print_text(answered.text)
    if answered.error is not None:
        if not as_json:
            for remark in answered.notes:
                note(at_terminal(remark))
            complain(at_terminal(answered.error))
        return ExitCode.FAILED
    if warning := run.warning():
        note(at_terminal(warning))
    return ExitCode.OK
