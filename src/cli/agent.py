"""``knime-mcp agent``: a question, answered by a model with the help of tools."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from ..agents.model.chat_model import DEFAULT_TIMEOUT, is_anthropic, model_route
from .command_errors import CommandError, ExitCode, Interrupt, UsageError, at_terminal, reports_errors
from .connection_options import ConnectionOptions
from .files import (
    check_folder,
    check_journal,
    check_page,
    check_resume,
    read_stdin,
    text_or_file,
    write_page,
)
from .named_servers import known_model
from .sessions import secret_in
from .shared_options import SAVE_DIR, SELDOM, ServersOption, options_under, takes
from .terminal import complain, note, print_json, print_markdown, print_text

if TYPE_CHECKING:
    from .agent_run import AgentRun

_model = options_under("The model")
# Who answers nobody without a key, and the variable that their own documentation puts it into.
_KEYS: Final = {"api.anthropic.com": "ANTHROPIC_API_KEY", "api.openai.com": "OPENAI_API_KEY"}
_LIMITS: Final = "What the agent may do"
_limit = options_under(_LIMITS)
_seldom = options_under(SELDOM, hidden=True)
_option = options_under()


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """The options of `agent` and `chat`."""

    model: str = _model(
        "Which model; anthropic:NAME is one of Anthropic's. By default that of config model.",
        metavar="NAME",
        envvar="KNIME_MCP_MODEL",
        show_envvar=False,
        show_default=False,
        default="",
    )
    model_url: str | None = _model(
        "Its API, such as http://localhost:11434/v1 (Ollama).",
        metavar="URL",
        envvar="KNIME_MCP_MODEL_URL",
        show_envvar=False,
    )
    api_key_env: str | None = _model("The environment variable with its API key.", metavar="VARIABLE")
    api_key: str | None = _seldom(
        "Send this credential to the model's endpoint: its password is looked up like that of"
        " --credential, in KNIME_MCP_<NAME>_PASSWORD or the system's keyring.",
        "--api-key",
        metavar="NAME",
    )
    temperature: float | None = _seldom("How much chance there is in the answers.", min=0.0, metavar="T")
    token_limit: int | None = _seldom("The most tokens of one answer of the model.", min=1, metavar="N")
    request_fields: str = _seldom(
        'What else is to be in each request to the model, such as \'{"reasoning_effort": "low"}\'.',
        metavar="JSON",
        default="",
    )
    model_timeout: float = _seldom(
        "Seconds that the model may be silent.", min=0.1, metavar="SECONDS", default=DEFAULT_TIMEOUT
    )
    longest_wait: float = _seldom(
        "The most seconds to wait in all for one answer of the model, where its service is busy or asks"
        " to wait.",
        min=0.0,
        metavar="SECONDS",
        default=120.0,
    )
    system: str | None = _option("Instructions, instead of the usual ones.", metavar="TEXT|@FILE")
    include: str = _seldom(
        "Only these tools: names with * and ?, separated by commas.", metavar="PATTERNS", default=""
    )
    rule: list[str] | None = _limit("'deny delete_*', 'ask pay if amount > 9'; repeatable.", metavar="RULE")
    trust: list[str] | None = _limit("Believe what a server says of its tools; repeatable.", metavar="HOST")
    max_iterations: int = _limit("How often it may ask for tools.", min=1, metavar="N", default=25)
    max_calls: str = _limit(
        "How many tool calls: '20', or of tools 'search_*: 5'.", metavar="LIMITS", default=""
    )
    max_tokens: int | None = _limit("How many tokens the model may read and write.", min=1, metavar="N")
    time_limit: float | None = _limit(
        "Seconds for an answer, but for questions to you.", min=0.1, metavar="SECONDS"
    )
    history: Path | None = _option("Go on with a conversation that chat has saved.", metavar="FILE")
    audit: Path | None = _option("Add the records of the calls to this journal.", metavar="FILE.jsonl")
    save_dir: Path | None = _option(SAVE_DIR, metavar="FOLDER")


@reports_errors
@takes(ConnectionOptions, "connection", seldom=True)
@takes(AgentSettings, "settings")
def agent(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="The question or task; - reads it from standard input.")
    ] = "",
    server: ServersOption = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the run as a page with all details."),
    ] = None,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask", help="Ask me before each call that no rule decides about.", rich_help_panel=_LIMITS
        ),
    ] = False,
    answer_schema: Annotated[
        str,
        typer.Option(
            metavar="SCHEMA|@FILE",
            help="The answer's form: 'price: number', or a JSON schema.",
        ),
    ] = "",
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Go on with the interrupted run in this journal."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print answer, conversation and calls as JSON.")
    ] = False,
    *,
    settings: AgentSettings,
    connection: ConnectionOptions,
) -> ExitCode:
    """Let a model answer a question with the help of tools.

    Shows the run on standard error, the answer on standard output; exit code 0 if there is one.

    Example: knime-mcp agent "Which desks do we sell?" --server shop --model anthropic:claude-opus-4
    """
    text = (read_stdin() if question == "-" else question).strip()
    if not text and resume is None:
        raise UsageError("What is the question? Write it in quotes after the command.")
    if resume is not None and settings.audit is not None:
        raise UsageError("--resume goes on in its own file: leave out --audit.")
    check_resume(resume, repeat_unknown=False)
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
        run = AgentRun(settings, connection, interrupt, answer_schema=answer_schema, resume=resume)
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
    settings = _with_known_model(settings)
    if settings.model_url is None and not is_anthropic(settings.model):
        raise UsageError(
            "Where is the model? Give its base URL with --model-url, or keep both: config model."
        )
    _check_key(settings)
    if settings.system is not None:
        settings = replace(settings, system=text_or_file(settings.system, "--system")[0])
    return settings


def _check_key(settings: AgentSettings) -> None:
    """Says that a key is missing, before anything is sent to the model, or a server is started."""
    if settings.api_key_env:
        secret_in(settings.api_key_env, "--api-key-env")
    elif not settings.api_key:
        route = model_route(settings.model_url, model=settings.model)
        variable = _KEYS.get(urlsplit(route.url).hostname or "")
        if variable is not None:
            raise UsageError(
                f"The model {settings.model} needs an API key. Put it into an environment variable, and name"
                f" that: --api-key-env {variable}"
            )


def _with_known_model(settings: AgentSettings) -> AgentSettings:
    """The settings with the kept model where no option names one; its key goes to its own endpoint only."""
    known = known_model() if not settings.model or settings.model_url is None else None
    if known is not None and not settings.model:
        settings = replace(settings, model=known.name)
    if not settings.model:
        raise UsageError(
            "Which model? Give it with --model, or keep one: knime-mcp config model NAME --url URL"
        )
    is_there = known is not None and is_anthropic(settings.model) == is_anthropic(known.name)
    if known is None or settings.model_url is not None or not is_there:
        return settings
    key = None if settings.api_key else settings.api_key_env or known.api_key_env
    return replace(settings, model_url=known.url, api_key_env=key)


def _show(run: AgentRun, *, as_json: bool) -> ExitCode:
    answered = run.answered
    if as_json:
        print_json(run.as_json())
    elif answered.error is None:
        # An answer in a form is for programs.
        (print_markdown if run.answer_schema is None else print_text)(answered.text)
    if answered.error is not None:
        if not as_json:
            for remark in answered.notes:
                note(at_terminal(remark))
            complain(at_terminal(answered.error))
        return ExitCode.FAILED
    for warning in run.runs.warnings():
        note(at_terminal(warning))
    return ExitCode.OK
