"""``knime-mcp config``: servers with names and the agents' model, see `tools.node_settings.named_servers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..agents.model.chat_model import is_anthropic, model_route
from ..tools.node_settings.named_servers import is_name, known_entries, read_entries, servers_file, where
from ..types.texts import counted
from .command_errors import CommandError, ExitCode, UsageError, reports_errors
from .connection_options import ConnectionOptions, UrlArgument, is_command, takes_connection
from .named_servers import KnownModel, faults_of, is_trusted, keep_model, known_model, write_entries
from .other_programs import ExportedServers, Target, imported, programs, without_secrets
from .terminal import complain, note, print_json, say, show_table

if TYPE_CHECKING:
    from ..tools.node_settings.named_servers import Entry

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the server.")]


@reports_errors
def list_servers(
    as_json: Annotated[bool, typer.Option("--json", help="Print the file's entries as JSON.")] = False,
) -> ExitCode:
    """List the servers that have a name, and the agents' model.

    Other commands take the name instead of a URL: knime-mcp list NAME.
    """
    entries = known_entries()
    if as_json:
        print_json(entries)
        return ExitCode.OK
    if entries:
        rows = [(name, where(entry), "yes" if is_trusted(name) else "") for name, entry in entries.items()]
        show_table(None, ("name", "server", "trusted"), rows)
    else:
        say("No server has a name yet. Add one: knime-mcp config add NAME URL, or import those of another")
        say(f"program: knime-mcp config import {'|'.join(programs())}")
    known = known_model()
    say(f"Agents ask {known}" if known else "No model is kept: knime-mcp config model NAME --url URL")
    if entries or known:
        note(f"They stand in {servers_file()}")
    return ExitCode.OK


@reports_errors
@takes_connection
def add(
    name: NameArgument,
    url: UrlArgument = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a server that has this name.")] = False,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Give a server a name.

    Credentials are kept as their names only, see --credential and --bearer-env.

    Example: knime-mcp config add demo http://127.0.0.1:8931/mcp
    """
    if not is_name(name):
        raise UsageError(f"'{name}' cannot be a name. Use letters, digits, '.', '_' and '-'.")
    route, _ = connection.one_route(url)
    if is_command(route) and not connection.stdio:
        raise UsageError(f"{route.url} names no command. Give it with --stdio 'COMMAND'.")
    entries = known_entries()
    if name in entries and not force:
        raise UsageError(
            f"There is a server called '{name}': {where(entries[name])}. Replace it with --force."
        )
    if connection.stdio:
        (server,) = connection.servers
        command, *arguments = server.command
        # Arguments such as `.` mean this folder, wherever the name is used later.
        entry: Entry = {"command": command, "args": list(arguments), "cwd": str(Path.cwd())}
        if connection.env:
            entry["env"] = {variable: f"${{{variable}}}" for variable in connection.env}
    elif connection.bearer_env:
        entry = {
            "url": route.url,
            "headers": {**dict(route.headers), "Authorization": f"Bearer ${{{connection.bearer_env}}}"},
        }
    else:
        entry = {"url": route.uri}
    # Also what the person has typed: a token in a URL or an argument is one, too.
    entry, variables = without_secrets(name, entry)
    write_entries({**entries, name: entry})
    say(f"{name} is {where(entry)}. Next: knime-mcp list {name}")
    _tell(variables)
    return ExitCode.OK


@reports_errors
def remove(name: NameArgument) -> ExitCode:
    """Forget the name of a server."""
    entries = _with(name)
    write_entries({other: entry for other, entry in entries.items() if other != name})
    say(f"{name} is forgotten. It was {where(entries[name])}.")
    return ExitCode.OK


@reports_errors
def import_servers(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|FILE",
            help="claude, claude-code, cursor, vscode or windsurf; or a mcp.json file of any program.",
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace servers that have these names.")] = False,
) -> ExitCode:
    """Take over the servers that another program knows.

    Secrets in its file are not copied: a variable of the environment stands in their place, and is named.
    """
    file = _file(source)
    found, entries = read_entries(file), known_entries()
    if not found:
        raise CommandError(f"{file} has no servers.")
    taken: dict[str, Entry] = {}
    variables: list[str] = []
    for name, entry in found.items():
        shown = name if is_name(name) else "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
        if not is_name(shown):
            note(f"'{name}' is left out, as it cannot be a name on the command line.")
        elif shown in entries and not force:
            note(f"'{shown}' is left out, as there is a server with this name. Replace it with --force.")
        elif shown in taken:
            note(f"'{name}' is left out, as another one of that file is called so.")
        elif entry.get("disabled") is True or entry.get("enabled") is False:
            note(f"'{shown}' is left out, as it is switched off there.")
        else:
            taken[shown], wanted = imported(shown, entry, file)
            variables += [variable for variable in wanted if variable not in variables]
            if isinstance(entry.get("envFile"), str):
                note(
                    f"'{shown}' has variables in {entry['envFile']}, which is not read: set them before use."
                )
    write_entries({**entries, **taken})
    say(f"{counted(len(taken), 'server')} of {file}: {', '.join(taken) or 'none'}")
    _tell(variables)
    faults = faults_of(taken)
    for fault in faults:
        complain(fault)
    return ExitCode.OK if taken and not faults else ExitCode.FAILED


@reports_errors
def export(
    program: Annotated[
        Target,
        typer.Option("--for", help="Whose file it is going to be; claude is Claude Desktop."),
    ],
) -> ExitCode:
    """Print all servers as JSON for the file of another program, without secrets.

    Example: knime-mcp config export --for cursor > .cursor/mcp.json
    """
    exported = ExportedServers(program, known_entries())
    print_json(exported.content())
    for remark in exported.remarks:
        note(remark)
    known = programs()[program]
    note(
        f"{known.name} reads it in {' or '.join(map(str, known.files))}: add it to what stands there already"
    )
    return ExitCode.OK


@reports_errors
def trust(
    name: NameArgument,
    stop: Annotated[bool, typer.Option("--stop", help="Do not believe it any more.")] = False,
) -> ExitCode:
    """Believe what a server says of its tools: agents call those that only read without asking you.

    Example: knime-mcp config trust demo
    """
    entries = _with(name)
    entry = {key: value for key, value in entries[name].items() if key != "trust"}
    write_entries({**entries, name: entry if stop else {**entry, "trust": True}})
    say(f"{name} is {'no longer ' if stop else ''}believed when it says that a tool only reads.")
    return ExitCode.OK


@reports_errors
def model(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The model; anthropic:NAME is one of Anthropic's.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Its API, such as http://localhost:11434/v1 (Ollama).")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="The environment variable with its API key.")
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Keep none any more.")] = False,
) -> ExitCode:
    """Keep the model that agent and chat use, so that their commands need not name it. Without NAME: say it.

    Example: knime-mcp config model qwen3 --url http://localhost:11434/v1
    """
    if name is None and (url or api_key_env):
        raise UsageError("Which model? Write its name before the options.")
    if name is not None and forget:
        raise UsageError("--forget takes no name: at most one model is kept.")
    if name is not None:
        if url is None and not is_anthropic(name):
            raise UsageError("Where is the model? Give its base URL with --url.")
        if url is not None:
            model_route(url, model=name, credential=api_key_env)  # what cannot be one is said now
        keep_model(KnownModel(name, url, api_key_env))
    known = known_model()
    if known is None:
        raise CommandError("No model is kept yet: knime-mcp config model NAME --url URL")
    if forget:
        keep_model(None)
    say(f"{known}{' is forgotten.' if forget else ''}")
    return ExitCode.OK


def _with(name: str) -> dict[str, Entry]:
    """All servers, one of which has this name."""
    entries = known_entries()
    if name not in entries:
        raise UsageError(f"There is no server called '{name}'. All names: knime-mcp config list")
    return entries


def _file(source: str) -> Path:
    program = programs().get(source)
    if program is None:
        return Path(source)
    for file in program.files:
        if file.is_file():
            return file
    looked = " and ".join(map(str, program.files))
    raise CommandError(f"There are no servers of {program.name} on this computer: looked for {looked}.")


def _tell(variables: list[str]) -> None:
    if variables:
        note(f"Secrets are not kept in the file. Set these variables before use: {', '.join(variables)}")
