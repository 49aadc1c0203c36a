"""``knime-mcp resources`` and ``knime-mcp prompts``: what a server offers beside tools, listed and read."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..types.texts import counted
from .command_errors import ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import ConnectionOptions, UrlArgument, takes_connection
from .files import check_folder, split_pairs
from .shared_options import SaveDirOption
from .terminal import complain, note, one_line, print_json, print_text, say, show_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from ..client.mcp_client import MCPClient
    from ..client.protocol.tools import ContentBlock

JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print what the server answered as JSON, with base64 for bytes.")
]


@reports_errors
@takes_connection
def list_resources(
    url: UrlArgument = None, as_json: JsonOption = False, *, connection: ConnectionOptions
) -> ExitCode:
    """List the resources of a server, and behind them its templates of resources.

    Example: knime-mcp resources list http://127.0.0.1:8931/mcp
    """
    with _asking(connection, [url], "") as (client, is_canceled, _, marked):
        listed = client.list_resources(is_canceled=is_canceled)
        if as_json:
            print_json(marked([each.raw for each in listed]))
            return ExitCode.OK
        rows = [
            (marked(each.uri), marked(each.mime_type or ""), one_line(marked(each.description or each.name)))
            for each in listed
        ]
    templates = sum(each.is_template for each in listed)
    title = f"{counted(len(listed) - templates, 'resource')}, {counted(templates, 'template')}"
    show_table(title, ("URI", "media type", "description"), rows)
    return ExitCode.OK


@reports_errors
@takes_connection
def read_resource(
    url: UrlArgument = None,
    uri: Annotated[
        str | None, typer.Argument(metavar="URI", help="The resource's URI, as resources list gives it.")
    ] = None,
    as_json: JsonOption = False,
    save_dir: SaveDirOption = None,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Read a resource: text is printed, anything else is saved in a folder.

    Example: knime-mcp resources read http://127.0.0.1:8931/mcp demo:///meeting_notes.md
    """
    check_folder(save_dir)
    with _asking(connection, [url, uri], "Which resource? Write its URI") as asking:
        client, is_canceled, (uri, *more), marked = asking
        if more:
            raise UsageError(f"'{more[0]}' is one word too many.")
        raw = marked(client.read_resource(uri, is_canceled=is_canceled))
    if as_json:
        print_json(raw)
        return ExitCode.OK
    from ..client.protocol.offers import contents_of
    from ..client.protocol.tools import EmbeddedResource

    contents = contents_of(raw)
    _print(contents, save_dir)
    if not contents:
        note("The resource has no content.")
    if all(isinstance(content, EmbeddedResource) for content in contents):
        return ExitCode.OK
    complain("The server sent a content that is neither text nor base64.")
    return ExitCode.FAILED


@reports_errors
@takes_connection
def list_prompts(
    url: UrlArgument = None, as_json: JsonOption = False, *, connection: ConnectionOptions
) -> ExitCode:
    """List the prompts of a server with their arguments.

    Example: knime-mcp prompts list http://127.0.0.1:8931/mcp
    """
    with _asking(connection, [url], "") as (client, is_canceled, _, marked):
        listed = client.list_prompts(is_canceled=is_canceled)
        if as_json:
            print_json(marked([each.raw for each in listed]))
            return ExitCode.OK
        rows = [
            (
                marked(each.name),
                ", ".join(own.name if own.is_required else f"{own.name}?" for own in each.arguments),
                one_line(marked(each.description)),
            )
            for each in listed
        ]
    show_table(counted(len(listed), "prompt"), ("prompt", "arguments", "description"), rows)
    return ExitCode.OK


@reports_errors
@takes_connection
def get_prompt(
    url: UrlArgument = None,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The name, as prompts list gives it.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments, which are texts.")
    ] = None,
    as_json: JsonOption = False,
    save_dir: SaveDirOption = None,
    *,
    connection: ConnectionOptions,
) -> ExitCode:
    """Fill in a prompt of a server and print its messages.

    Example: knime-mcp prompts get http://127.0.0.1:8931/mcp answer_letter path=customer_letter.txt
    """
    check_folder(save_dir)
    words = [url, prompt, *(arguments or ())]
    with _asking(connection, words, "Which prompt? Write its name") as asking:
        client, is_canceled, (prompt, *rest), marked = asking
        pairs = split_pairs(rest)
        if any(pair.is_json for pair in pairs):
            raise UsageError("Arguments of prompts are texts. Write them as key=value.")
        given = {pair.key: pair.value for pair in pairs}
        raw = marked(client.get_prompt(prompt, given, is_canceled=is_canceled))
    if as_json:
        print_json(raw)
        return ExitCode.OK
    from ..client.protocol.offers import messages_of_prompt

    for place, (role, content) in enumerate(messages_of_prompt(raw)):
        say(f"{role}:", "bold")
        _print([content], save_dir, place)
    return ExitCode.OK


@contextmanager
def _asking(
    connection: ConnectionOptions, words: Sequence[str | None], wanted: str
) -> Generator[tuple[MCPClient, Callable[[], bool], list[str], Callable[[Any], Any]]]:
    """A client of the one server, whether to stop, the other words, and what marks secrets in an answer.

    ``wanted`` is the error if there are no other words; empty if none are needed.
    """
    given = [word for word in words if word is not None]
    # With a command there is no URL, so the first word is already what is asked for. `one_route` gets no
    # other words, as it would take a resource's URI for the URL of a second server.
    urls = [] if connection.stdio else given[:1]
    route, _ = connection.one_route(*urls)
    rest = given[len(urls) :]
    if wanted and not rest:
        raise UsageError(f"{wanted} after the server.")
    if rest and not wanted:
        raise UsageError(f"'{rest[0]}' is one word too many.")
    from .sessions import CommandSessions

    hidden = Counter[str]()
    with Interrupt() as interrupt, CommandSessions(connection, interrupt) as sessions:
        run = sessions.run_for([route])
        yield run.pool.client(route), interrupt, rest, lambda answer: run.secrets.data(answer, hidden)
    if hidden:
        note(f"The server repeated a secret {counted(hidden.total(), 'time')}; a mark stands in its place.")


def _print(contents: Sequence[ContentBlock], folder: Path | None, first: int = 0) -> None:
    """Prints texts, and saves what is none; without a folder it is described."""
    from ..client.protocol.tools import AudioContent, EmbeddedResource, ImageContent, describe_block
    from ..runs.saved_files import save_blob

    for number, content in enumerate(contents, first + 1):
        match content:
            case EmbeddedResource(text=str(text)):
                print_text(text)
            case (
                ImageContent(data=data, mime_type=media_type)
                | AudioContent(data=data, mime_type=media_type)
                | EmbeddedResource(blob=bytes(data), mime_type=media_type)
            ) if folder is not None:
                fix = "Make room, or name another folder with --save-dir"
                path = save_blob(folder, f"content-{number}", data, media_type or "", fix=fix)
                note(f"Saved {path}")
            case EmbeddedResource(blob=bytes()) | ImageContent() | AudioContent():
                print_text(describe_block(content))
                note("--save-dir FOLDER saves it.")
            case _:
                print_text(describe_block(content))
