"""Lists and gives what servers of a document publish through it: their tools, resources and prompts.

All methods block, and may be used by several threads.
"""

from __future__ import annotations

import logging
import re
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..stdio.session import INVALID_PARAMS, Refused
from ..types.errors import MCPError, ServerError, SettingInvalid
from ..yaml_text import as_list, as_mapping
from .graph_model import GraphTool, for_clients
from .publications import Publication, Selection, ToolChange
from .run_control import RunError
from .run_state import RunState
from .server_calls import ServerCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from ..client.mcp_client import MCPClient, Progress
    from ..client.protocol.offers import PromptDefinition, ResourceDefinition
    from ..stdio.session import Handler
    from .graph_model import GraphDocument
    from .run_control import Hooks
    from .server_calls import GraphSessions

_log = logging.getLogger(__name__)

_NO_SCHEME: Final = re.compile(r"[^a-z0-9.-]+")
_VARIABLE: Final = re.compile(r"\{([+#./;?&]?)[^{}]*\}")
_RESULT: Final = ("content", "structuredContent", "isError", "_meta")
_LIST_SECONDS: Final = 15.0
"""For a list; what a server lists later is told as a change, so that one that starts slowly delays nobody."""
_NOT_FOUND: Final = -32002  # https://modelcontextprotocol.io/specification/2025-11-25/server/resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTool:
    """A tool of a server, as clients of the document see it."""

    server: str
    tool: str  # the server's name of it
    change: ToolChange
    listed: Mapping[str, Any]  # as MCP lists it

    @property
    def definition(self) -> GraphTool:
        """It as a tool of the document, without nodes."""
        return GraphTool(
            name=self.listed["name"],
            description="",
            input_schema=self.listed["inputSchema"],
            output_schema={},
            nodes=(),
        )


class Published:
    """What the servers of one document publish.

    Where two things have one name, the document's own keeps it, then that of the server that comes first;
    the others have the name of their server before theirs.
    """

    def __init__(self, document: GraphDocument, sessions: GraphSessions) -> None:
        self._document = document
        self._sessions = sessions
        self._tools: dict[str, PublishedTool] | None = None
        self._unlisted: tuple[str, ...] = ()  # servers whose tools are not known yet
        self._resources: dict[str, tuple[str, str, ResourceDefinition]] | None = None

    def has(self, what: str) -> bool:
        """Whether a server publishes ``tools``, ``resources``, ``prompts`` or ``logs``."""
        return any(
            getattr(publication, what) not in (None, False)
            for publication in self._document.publications.values()
        )

    def forget(self) -> None:
        """Lists anew when the tools are next asked for, as a server has told of a change."""
        self._tools = self._resources = None

    def tools(self) -> dict[str, PublishedTool]:
        """The tools by the names that clients know."""
        if self._tools is None:
            found: dict[str, PublishedTool] = {}
            unlisted: list[str] = []
            for server, publication, tools in self._listed("tools", _tools_of):
                if tools is None:
                    unlisted.append(server)
                for tool in tools or ():
                    if _takes(publication.tools, tool.name):
                        self._add(found, server, publication, tool.raw)
            self._unlisted = tuple(unlisted)
            if unlisted:
                return found  # and the server is asked again the next time
            self._tools = found
        return self._tools

    def _add(
        self, found: dict[str, PublishedTool], server: str, publication: Publication, raw: Mapping[str, Any]
    ) -> None:
        change = publication.changes.get(raw["name"], ToolChange())
        name = f"{publication.prefix}{change.name or raw['name']}"
        # The document's own tools come first: a server must not take the place of one of them.
        taken = found.keys() | {tool.name for tool in self._document.tools}
        name = name if name not in taken else f"{server}_{name}"
        try:
            # Even with the server's name in front.
            if name in taken:
                raise SettingInvalid("its name is taken", setting="publish", fix="Give the server a 'prefix'")
            listed = change.described(raw, name)
        except SettingInvalid as error:
            _log.warning(
                "the tool '%s' of the server '%s' is left out: %s", raw["name"], server, error.sentence
            )
            return
        found[name] = PublishedTool(server=server, tool=raw["name"], change=change, listed=listed)

    def listed_tools(self, *, any_json: bool) -> list[dict[str, Any]]:
        """The tools as MCP lists them; `any_json`: the client takes results that are not objects."""
        return [for_clients(tool.listed, any_json=any_json) for tool in self.tools().values()]

    def tool(self, name: str) -> PublishedTool:
        """A server's tool by the name that clients know; `RunError` if there is none."""
        tools = self.tools() if self.has("tools") else {}
        if name not in tools:
            known = ", ".join([*(tool.name for tool in self._document.tools), *tools])
            what, fix = f"Tool not found: {name}", f"There are: {known or 'none'}"
            if self._unlisted:
                what += f"; not listed yet: the tools of {', '.join(self._unlisted)}"
                fix = f"Try again once it answers. {fix}"
            raise RunError(what, kind="arguments", fix=fix)
        return tools[name]

    def call(
        self,
        tool: PublishedTool,
        arguments: Mapping[str, Any],
        hooks: Hooks,
        on_progress: Callable[[Progress], None] | None,
        is_canceled: Callable[[], bool],
    ) -> dict[str, Any]:
        """Calls a tool; the result is the server's own. Raises `RunError` if there is none."""
        run = RunState(
            expression_seconds=0,
            tool=tool.definition,
            arguments=dict(arguments),
            limits=self._document.limits,
            hooks=hooks,
            controller=None,
            is_canceled=is_canceled,
        )
        try:
            result = self._sessions.call(
                ServerCall(
                    server=tool.server,
                    tool=tool.tool,
                    arguments=tool.change.sent(arguments),
                    run=run,
                    timeout=run.left,
                    on_progress=on_progress,
                    is_canceled=is_canceled,
                )
            )
        except MCPError as error:
            what = f"The server '{tool.server}' did not answer: {error.what}"
            raise RunError(what, tool=tool.listed["name"], kind="call", fix=error.fix) from None
        # What else a result has, such as `resultType`, is of the server's revision, not of the client's.
        return {key: result.raw[key] for key in _RESULT if key in result.raw}

    def resources(self, *, templates: bool) -> list[dict[str, Any]]:
        """The resources, or the templates of resources, as MCP lists them."""
        key = "uriTemplate" if templates else "uri"
        return [
            {**definition.raw, key: uri}
            for uri, (_, _, definition) in self._known_resources(anew=True).items()
            if definition.is_template == templates
        ]

    def _known_resources(self, *, anew: bool) -> dict[str, tuple[str, str, ResourceDefinition]]:
        """Server and own URI of each resource and template, by the URI that clients know."""
        if anew or self._resources is None:
            found: dict[str, tuple[str, str, ResourceDefinition]] = {}
            for server, publication, listed in self._listed(
                "resources", lambda client: client.list_resources()
            ):
                for definition in listed or ():
                    if _takes(publication.resources, definition.uri):
                        uri = (
                            definition.uri if definition.uri not in found else _marked(server, definition.uri)
                        )
                        found[uri] = server, definition.uri, definition
            self._resources = found
        return self._resources

    def read(self, uri: str) -> dict[str, Any]:
        """The contents of a resource, also of one that is not listed: as links of results can name it."""
        refusals: list[Refused] = []
        for server, own in dict.fromkeys(self._places(uri)):
            try:
                result = self._sessions.client(server).read_resource(own)
            except ServerError as error:
                # Another server may have it: URIs say nothing of the server.
                refusals.append(Refused(error.code or INVALID_PARAMS, error.what))
            except MCPError as error:
                raise Refused(INVALID_PARAMS, f"The server '{server}' did not answer: {error.what}") from None
            else:
                contents = [
                    {**as_mapping(content), "uri": uri} if as_mapping(content).get("uri") == own else content
                    for content in as_list(result.get("contents"))
                ]
                return {"contents": contents}
        # The first place was the surest, so its reason tells the most.
        raise refusals[0] if refusals else Refused(_NOT_FOUND, "Resource not found", uri=uri)

    def _places(self, uri: str) -> Iterator[tuple[str, str]]:
        """Where a resource may be, as server and URI: the surest first."""
        known = self._known_resources(anew=False)
        if uri in known and not known[uri][2].is_template:
            yield known[uri][:2]
        for listed, (server, own, definition) in known.items():
            if definition.is_template and _pattern(listed).fullmatch(uri):
                yield server, uri.removeprefix(_marked(server, "")) if listed != own else uri
        for server, publication in self._document.publications.items():
            if _takes(publication.resources, own := uri.removeprefix(_marked(server, ""))):
                yield server, own

    def prompts(self) -> dict[str, tuple[str, PromptDefinition]]:
        """Server and definition of each prompt, by the name that clients know."""
        found: dict[str, tuple[str, PromptDefinition]] = {}
        for server, publication, listed in self._listed("prompts", lambda client: client.list_prompts()):
            for prompt in listed or ():
                if _takes(publication.prompts, prompt.name):
                    name = f"{publication.prefix}{prompt.name}"
                    found[name if name not in found else f"{server}_{name}"] = server, prompt
        return found

    def prompt(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """The messages of a prompt; `Refused` if there is none, or its server gives none."""
        found = self.prompts().get(name)
        if found is None:
            raise Refused(INVALID_PARAMS, f"There is no prompt '{name}'")
        server, prompt = found
        try:
            result = self._sessions.client(server).get_prompt(prompt.name, arguments)
        except MCPError as error:
            code = error.code if isinstance(error, ServerError) and error.code else INVALID_PARAMS
            raise Refused(code, error.what) from None
        return {key: result[key] for key in ("description", "messages") if key in result}

    def offers(self, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> dict[str, Handler]:
        """Handlers of the requests that it answers beside those about tools; `in_thread` runs what blocks."""

        async def answered(work: Callable[[dict[str, Any]], dict[str, Any]], params: dict[str, Any]) -> Any:
            return await in_thread(partial(work, params))

        offered: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        if self.has("resources"):
            offered["resources/list"] = lambda _: {"resources": self.resources(templates=False)}
            offered["resources/templates/list"] = lambda _: {
                "resourceTemplates": self.resources(templates=True)
            }
            offered["resources/read"] = lambda params: self.read(_text(params, "uri"))
        if self.has("prompts"):
            offered["prompts/list"] = lambda _: {
                "prompts": [{**prompt.raw, "name": name} for name, (_, prompt) in self.prompts().items()]
            }
            offered["prompts/get"] = lambda params: self.prompt(
                _text(params, "name"), as_mapping(params.get("arguments"))
            )
        if self.has("logs"):
            # The session keeps the level and filters by it; servers are asked for everything.
            offered["logging/setLevel"] = lambda _: {}
        return {method: partial(answered, work) for method, work in offered.items()}

    def _listed(
        self, what: str, ask: Callable[[MCPClient], list[Any]]
    ) -> Iterator[tuple[str, Publication, list[Any] | None]]:
        """What the servers that publish it list, asked at once; None for one that cannot be asked."""
        asked = {
            server: publication
            for server, publication in self._document.publications.items()
            if getattr(publication, what) is not None
        }

        def listed(server: str) -> list[Any] | None:
            try:
                return ask(self._sessions.client(server))
            except MCPError as error:
                _log.warning("the %s of the server '%s' cannot be listed: %s", what, server, error.sentence)
                return None

        # Without `with`, which would wait for the slowest server.
        pool = ThreadPoolExecutor(max_workers=max(len(asked), 1))
        lists = {server: pool.submit(listed, server) for server in asked}
        pool.shutdown(wait=False)
        wait(lists.values(), timeout=_LIST_SECONDS)
        for server, publication in asked.items():
            if lists[server].done():
                yield server, publication, lists[server].result()
                continue
            _log.warning("the server '%s' has not listed its %s yet", server, what)
            lists[server].add_done_callback(
                lambda _: self._sessions.changed(f"notifications/{what}/list_changed")
            )
            yield server, publication, None


def _tools_of(client: MCPClient) -> list[Any]:
    tools = client.list_tools()
    client.watch_tools()
    return tools


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise Refused(INVALID_PARAMS, f"'{name}' must be text")
    return value


def _takes(selection: Selection | None, name: str) -> bool:
    return selection is not None and selection.takes(name)


def _marked(server: str, uri: str) -> str:
    """A URI that another server has, too: the server's name is part of its scheme."""
    return f"{_NO_SCHEME.sub('-', server.lower())}+{uri}"


def _pattern(template: str) -> re.Pattern[str]:
    """What the URIs of a template (RFC 6570) look like."""
    parts: list[str] = []
    end = 0
    for variable in _VARIABLE.finditer(template):
        # With an operator a value may hold slashes and more; a plain one has these escaped (RFC 6570,
        # section 3.2.2).
        parts += [re.escape(template[end : variable.start()]), ".*" if variable[1] else "[^/?#]*"]
        end = variable.end()
    return re.compile("".join([*parts, re.escape(template[end:])]), re.DOTALL)
