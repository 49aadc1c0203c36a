"""From a node's settings to a route, from that with its credential to a client, and all of an execution.

Settings and tool cells hold the *name* of a credential, never a secret. At call time the name is looked up
among the credentials of KNIME or of the command line. An unknown name is an error: the request is never sent
without the chosen credential. If a template puts the password into a query value or header
(``{credential.password}``), the credential is not sent in any other way. In an execution, credentials are
looked up once and in KNIME's own thread, before calls run in other threads.
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, assert_never, cast
from urllib.parse import quote, unquote, urlsplit

from ...client.limits import Timeouts
from ...types.errors import FileFailed, MCPError, SettingInvalid
from ...types.routing import OPTIONS, TEMPLATES, ServerRoute
from ...types.tool import MCPTool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from types import TracebackType

    from ...client.authorization import Authorization
    from ...client.mcp_client import MCPClient, Step
    from ...client.network import NetworkSettings
    from ...runs.engine import WorkflowRunner
    from ...runs.server_questions import Answerers, ServerQuestions
    from ...types.tool import Tool, WorkflowTool

NO_CREDENTIAL: Final = "<none>"
"""The choice that stands for no credential. It comes first and is the default, because KNIME's dialogs
replace an empty default by the first choice."""

NO_COLUMN: Final = "<none>"
"""The choice of no column. First and default: see `NO_CREDENTIAL`."""

WorkflowMode = Literal["DEFAULT", "DETACHED", "DEBUG"]
JOURNALS: Final = "mcp-audit"
"""The folder of the journals in the workflow's data area."""

KEYRING_SERVICE: Final = "knime-mcp"
"""The beginning of the names under which credentials are in the system's keyring."""

PORT: Final = "<credential port>"
"""Stands for the name of a credential that comes from a port."""

HOW_TO_WIRE: Final = (
    "Add a Credentials Configuration node, connect its flow variable port to this node, and choose that"
    " credential"
)
_PASSWORD, _USERNAME = TEMPLATES
_PEM: Final = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
_TEMPLATE: Final = re.compile("|".join(re.escape(template) for template in TEMPLATES))


def header_lines(text: str) -> tuple[tuple[str, str], ...]:
    """The headers in ``extra_headers``: one per line, as ``Name: value``, or `SettingInvalid`."""
    headers: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if ":" not in line:
            raise SettingInvalid(  # does not show the line, which may hold a secret
                f"Line {number} of 'Extra headers' has no colon",
                setting="extra_headers",
                fix="Write each header on its own line, as Name: value",
            )
        headers.append(_header(line))
    return tuple(headers)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


OF_SERVER: Final = OPTIONS
"""Connection options that say how to reach a server."""
OF_CALLS: Final = ("connect_timeout", "idle_timeout", "total_timeout")
CALLS: Final = 4  # at a time: as fast as most servers go, and no flood
MOST_CALLS: Final = 64
_CLOCKS: Final = ("connect", "idle", "total")
_LONGEST: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What the setting *Connection options* says: a line for each, ``name = value``, in any order."""

    route: ServerRoute  # to no server: what was said, for `route_from_settings`
    timeouts: Timeouts
    concurrency: int
    asks_back: bool

    @classmethod
    def parse(cls, text: str, *, names: Collection[str], instead: str = "") -> Self:
        """Reads the lines; `SettingInvalid` for one that is not among ``names`` or says what cannot be.

        ``instead`` says where the other options belong.
        """
        said: dict[str, str] = {}
        headers: list[tuple[str, str]] = []
        for number, line in enumerate(text.splitlines(), 1):
            name, _, value = (part.strip() for part in line.partition("="))
            if not line.strip():
                continue
            if name == "header" and name in names and ":" in value:
                headers.append(_header(value))
            elif name != "header" and name in names and name not in said and value:
                said[name] = value
            else:
                raise SettingInvalid(  # does not show the line, which may hold a secret
                    f"Line {number} of 'Connection options' cannot be read",
                    setting="connection_options",
                    fix="Write 'name = value', each name once, and headers as 'header = Name: value'. The"
                    f" names are {', '.join(names)}{instead}",
                )
        seconds = {name: _number(said, f"{name}_timeout", 0.1, _LONGEST) for name in _CLOCKS}
        timeouts = Timeouts(**{name: value for name, value in seconds.items() if value is not None})
        calls = _number(said, "concurrency", 1, MOST_CALLS)
        if said.get("asks_back", "true") != "true":
            raise _no_value("asks_back", "true, or leave the line out")
        options = {name: said[name] for name in said.keys() & {*OF_SERVER, "digest"}}
        way = "header" if "header_name" in said else "client_credentials" if "issuer" in said else "bearer"
        options.setdefault("send_credentials_as", way)
        route = ServerRoute("https://host", headers=tuple(headers), **cast("Any", options))
        return cls(route, timeouts, CALLS if calls is None else int(calls), "asks_back" in said)


def options_text(route: ServerRoute) -> str:
    """The lines of *Connection options* for a route; the credential's name has a setting of its own."""
    _, _, fragment = replace(route, tool=None, credential=None).uri.partition("#")
    return "\n".join(unquote(option).replace("=", " = ", 1) for option in fragment.split("&") if option)


def _number(said: Mapping[str, str], name: str, low: float, high: float) -> float | None:
    if name not in said:
        return None
    try:
        number = float(said[name])
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise _no_value(name, f"a number from {low:g} to {high:g}")
    return number


def _no_value(name: str, wanted: str) -> SettingInvalid:
    return SettingInvalid(
        f"'{name}' in 'Connection options' has no possible value",
        setting="connection_options",
        fix=f"Write {wanted}",
    )


def route_from_settings(
    node: Any, options: ConnectionSettings, *, url: str | None = None, credential: str | None = None
) -> ServerRoute:
    """The route that the settings of a node describe; what the URL's fragment says wins over them.

    ``url`` and ``credential`` are used instead of the node's, such as those from a *Servers* table. In the
    node's own setting a name of ``knime-mcp config`` stands for the address; data cannot choose among names.
    """
    route = _entered(node.server_url) if url is None else ServerRoute.parse(url)
    name = chosen(node.credentials if credential is None else credential)
    return route.completed(replace(options.route, credential=name))


def _entered(server: str) -> ServerRoute:
    word = server.strip()
    if word and "/" not in word and not word.startswith("stdio:"):
        from .named_servers import is_name, named_route  # late, as most servers are given by their URL

        if is_name(word):
            return named_route(word)
    return ServerRoute.parse(word)


def timeouts_from_settings(node: Any) -> Timeouts:
    seconds = {name: getattr(node, f"{name}_timeout") for name in ("connect", "idle", "total")}
    for name, value in seconds.items():
        if math.isnan(value):  # a flow variable may be
            raise SettingInvalid(
                f"The {name} timeout is no number",
                setting=f"{name}_timeout",
                fix="Enter how many seconds to wait, or correct the flow variable",
            )
    return Timeouts(**seconds)


def client_for(
    route: ServerRoute,
    credential: Credential | None,
    *,
    timeouts: Timeouts | None = None,
    trace: Callable[[Step], None] | None = None,
    login: Authorization | None = None,
    questions: ServerQuestions | None = None,
) -> MCPClient:
    """The client for a route, which the caller closes.

    ``credential`` is the one that the route names, or that of a credential port; without it the ``login`` is
    sent, if there is one. ``trace`` is called with every step of connecting, ``questions`` with what the
    server asks.
    """
    answerers: Answerers = {} if questions is None else questions.answerers(route)
    filled = fill(route, credential)
    return filled.client(login, timeouts=timeouts or Timeouts(), trace=trace, **answerers)


def refuse_commands(route: ServerRoute) -> None:
    """Refuses a server that is a command: a table or a workflow must not start programs."""
    if route.url.startswith("stdio:"):
        raise SettingInvalid(
            "A server that is a command on this computer cannot be started from a workflow",
            setting="server_url",
            server=route.url,
            fix="Run it as an HTTP server and enter its URL",
        )


def as_setting_error(error: MCPError) -> Exception:
    """KNIME's error for settings that cannot work, to raise in ``configure``, with the same text."""
    import knime.extension as knext

    return knext.InvalidParametersError(str(error))


class CredentialStore(Protocol):
    """A store of credentials; KNIME's contexts are such stores."""

    def get_credential_names(self) -> Iterable[str]: ...

    def get_credentials(self, name: str, /) -> Any:
        """The credential of that name, with ``username`` and ``password``. Raises `KeyError` if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Credential:
    """User name, which may be empty, and password, or a token or key as password."""

    name: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Filled:
    """The parts of requests that hold secrets; lives as long as the connection and is never displayed.

    URL and headers have their templates filled in.
    """

    route: ServerRoute
    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    auth: Authorization | None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What a template put into URL or headers."""

    def client(self, login: Authorization | None = None, **settings: Any) -> MCPClient:
        """The client, which the caller closes; it sends the ``login`` if there is no credential."""
        from ...client.mcp_client import MCPClient

        return MCPClient(
            self.url,
            auth=self.auth or login,
            headers=self.headers,
            secrets=self.secrets,
            transport=self.route.transport,
            **settings,
        )


def chosen(name: str | None) -> str | None:
    """The name of a credential in a setting or a cell; None for `NO_CREDENTIAL`, empty and missing."""
    name = (name or "").strip()
    return None if name in ("", NO_CREDENTIAL) else name


def chosen_column(name: str | None) -> str | None:
    """The column that a setting names, None for none."""
    return None if name in (None, "", NO_COLUMN) else name


def keyring_credential(name: str) -> Credential | None:
    """The credential that ``keyring set knime-mcp:NAME USER`` stored; None without it or a keyring."""
    try:
        import keyring  # imported late: looks for the system's keyrings
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return None
    try:
        entry = keyring.get_credential(f"{KEYRING_SERVICE}:{name}", None)
    except KeyringError:  # no keyring on this machine, or a locked one
        return None
    return Credential(name, entry.username, entry.password) if entry else None


def find_credential(store: CredentialStore, name: str | None) -> Credential | None:
    if name is None:
        return None
    available = sorted(str(each) for each in store.get_credential_names())
    if name in available:
        try:
            entry = store.get_credentials(name)
        except KeyError:
            pass
        else:
            return Credential(name, str(entry.username or ""), str(entry.password or ""))
    listed = f"Available: {', '.join(available)}" if available else "None is available"
    raise SettingInvalid(
        f"There is no credential '{name}' here",
        setting="credentials",
        fix=f"{listed}. {HOW_TO_WIRE}",
    )


def fill(
    route: ServerRoute, credential: Credential | None, *, network: NetworkSettings | None = None
) -> Filled:
    """Resolves a route's credential into the URL, headers and authorization to send, secrets included.

    ``credential`` is the one that the route names, or that of a credential port; None to send none.
    ``network`` is for requests to an authorization server. No error shows the secret.
    """
    texts = [route.url, *(value for _, value in route.headers)]
    used = {template for text in texts for template in TEMPLATES if template in text}
    if credential is None:
        if used:
            raise SettingInvalid(
                f"The URL or a header holds {min(used)}, but no credential is chosen",
                setting="credentials",
                server=route.url,
                fix=HOW_TO_WIRE,
            )
        return Filled(route, route.url, dict(route.headers), None)
    for template in used:
        _require(credential, "user name" if template == _USERNAME else "password", template, route)
    headers = {name: _fill_template(value, credential, in_url=False) for name, value in route.headers}
    url = _fill_template(route.url, credential, in_url=True)
    # The server gets the secret where it wants it; a second copy as Bearer token would go to its log.
    if _PASSWORD in used:
        return Filled(route, url, headers, None, (credential.password,))
    return Filled(route, url, headers, _authorization(route, credential, network))


def _authorization(
    route: ServerRoute, credential: Credential, network: NetworkSettings | None
) -> Authorization:
    """Bearer, basic or header authorization, or OAuth by client credentials, as the route says."""
    from ...client.authorization import BasicAuth, BearerAuth, HeaderAuth

    shown = "" if credential.name == PORT else credential.name
    try:
        match route.send_credentials_as:
            case "bearer":
                _require(credential, "password", "a Bearer token", route)
                return BearerAuth(credential.password, credential=shown)
            case "basic":
                # One of the two may be empty, as with API keys that are user
                # names (RFC 7617 §2), but not both.
                if not credential.username:
                    _require(credential, "password", "Basic authentication", route)
                return BasicAuth(credential.username, credential.password, credential=shown)
            case "header":
                _require(credential, "password", "a header", route)
                return HeaderAuth(route.header_name or "X-API-Key", credential.password, credential=shown)
            case "client_credentials":
                return _client_credentials(route, credential, network)
            case _:
                assert_never(route.send_credentials_as)
    except SettingInvalid as error:
        # It says already which credential it is about.
        if f"'{credential.name}'" in error.what:
            raise
        raise SettingInvalid(
            f"Credential '{credential.name}' cannot be sent: {error.what}",
            setting=error.setting,
            server=error.server or route.url,
            fix=error.fix,
        ) from None


def _client_credentials(
    route: ServerRoute, credential: Credential, network: NetworkSettings | None
) -> Authorization:
    from ...client.network import NetworkSettings
    from ...client.oauth.grants import ClientCredentials
    from ...client.oauth.logins import RegisteredClient
    from ...client.oauth.oauth import OAuth

    _require(credential, "user name", "the client id of OAuth", route)
    _require(credential, "password", "the client secret of OAuth", route)
    if route.issuer is None:
        raise SettingInvalid(
            "OAuth client credentials need to know which authorization server may see the client secret",
            setting="issuer",
            server=route.url,
            fix="Name it: issuer = https://…; the server's documentation gives it",
        )
    client = RegisteredClient(credential.username, credential.password)
    if key := _private_key(credential.password):
        from ...client.oauth.identity import key_algorithm

        client = RegisteredClient(credential.username, private_key=key, algorithm=key_algorithm(key))
    url = _fill_template(route.url, credential, in_url=True)
    grant = ClientCredentials(client)
    settings = network or NetworkSettings()
    return OAuth(url, grant, issuer=route.issuer, scope=route.scope, network=settings)


def _private_key(password: str) -> str | None:
    """The private key that a password is, with the line breaks that a dialog's field has lost."""
    match = _PEM.fullmatch(password.strip())
    if match is None:
        return None
    kind, text = match[1], "".join(match[2].split())
    # RFC 7468 §2: 64 characters a line; readers of PEM are strict about it.
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])


def credential_from_port(port: Any) -> Credential:
    """The Bearer token of a credential port, without user name; `SettingInvalid` if it has none."""
    try:
        kind, parameters = str(port.spec.auth_schema), str(port.spec.auth_parameters)
    except (ValueError, AttributeError, KeyError):
        raise SettingInvalid(
            "The node at the credential port has no credential yet",
            setting="credentials",
            fix="Execute it first; KNIME forgets tokens when a workflow is closed",
        ) from None
    if kind.lower() != "bearer":
        raise SettingInvalid(
            f"The credential port gives a credential of type '{kind}', but only Bearer tokens can be sent",
            setting="credentials",
            fix="For user name and password use a Credentials Configuration node and 'Credentials'",
        )
    if not parameters:
        raise SettingInvalid(
            "The Bearer token of the credential port is empty",
            setting="credentials",
            fix="Execute the node at the port again; KNIME forgets tokens when a workflow is closed",
        )
    return Credential(PORT, "", parameters)


def check_one_origin(urls: Iterable[str]) -> None:
    """Refuses to send the token of a credential port to several servers, as the token is meant for one."""
    origins = sorted({f"{parts.scheme}://{parts.netloc}" for parts in map(urlsplit, urls)})
    if len(origins) > 1:
        raise SettingInvalid(
            f"The token of the credential port would go to {len(origins)} servers: {', '.join(origins)}",
            setting="credentials",
            fix="Use one node per server, or name a credential for each server",
        )


def sent_in_clear(url: str) -> bool:
    """Returns whether others could read a credential sent to the URL: plain http to another machine."""
    from ...client.network import is_loopback_host  # loads ssl

    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback_host(parts.hostname or "")


def _require(credential: Credential, part: str, purpose: str, route: ServerRoute) -> None:
    if credential.username if part == "user name" else credential.password:
        return
    raise SettingInvalid(
        f"Credential '{credential.name}' has no {part}, which is needed for {purpose}",
        setting="credentials",
        server=route.url,
        fix="Open the Credentials Configuration node and enter it; KNIME forgets passwords when a workflow is"
        " closed unless the node is set to save them",
    )


def _fill_template(text: str, credential: Credential, *, in_url: bool) -> str:
    # One pass over the text, as a user name that looks like a template must not be filled in again.
    def value(match: re.Match[str]) -> str:
        secret = credential.username if match.group() == _USERNAME else credential.password
        if in_url:
            return quote(secret, safe="")
        if not secret.isascii() or not secret.isprintable():
            raise SettingInvalid(
                f"Credential '{credential.name}' holds a line break or a character that no header can hold",
                setting="credentials",
                fix="Enter it again; a line break at the end of a pasted secret is the usual cause",
            )
        return secret

    return _TEMPLATE.sub(value, text)


class Sessions:
    """The sessions of one execution and its `run`, both ended on exit.

    `port` is the object at the credential port, None if the port is not connected. `find` looks up a
    credential by its name, and `login` gives what a person has logged in to; by default only KNIME's
    credentials are known. `questions` are those of servers, where somebody can be asked. Raises
    `SettingInvalid` if the port has no token that can be sent.
    """

    def __init__(
        self,
        ctx: Any,
        port: Any | None,
        timeouts: Timeouts,
        *,
        pinning: str = "ignore",
        workflow_mode: WorkflowMode = "DETACHED",
        secret_arguments: str = "",
        find: Callable[[str], Credential | None] | None = None,
        login: Callable[[ServerRoute], Authorization | None] | None = None,
        questions: ServerQuestions | None = None,
    ) -> None:
        from ...runs.checked_calls import Pinning
        from ...runs.engine import new_run

        self.questions = questions
        self._find = find or partial(find_credential, ctx)
        self._login = login
        self.stop = threading.Event()  # set to make calls in flight end
        self._timeouts = timeouts
        self._found: dict[str, Credential] = {}
        self._problems: dict[str, MCPError] = {}
        self.notes: list[str] = []  # what the node has to say beside what its calls say
        self._port = None if port is None else credential_from_port(port)
        named = filter(None, map(str.strip, secret_arguments.split(",")))
        self.run = new_run(self._connect, secrets=[self._port.password] if self._port else [], named=named)
        self.run.pinning = Pinning(pinning)
        self.run.run_workflow = workflow_runner(ctx, workflow_mode)
        self.run.workflow_digest = workflow_digest
        self.run.is_canceled = self.stop.is_set

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.run.__exit__(kind, error, trace)
        finally:
            self.run.pool.close()

    def know(self, *routes: ServerRoute) -> None:
        """Looks up the credentials that routes name. An unknown name fails only the calls that need it.

        Raises `SettingInvalid` if the credential port's token would go to more than one server.
        """
        for name in {route.credential for route in routes if route.credential is not None}:
            try:
                credential = self._find(name)
            except MCPError as error:
                self._problems[name] = error
            else:
                if credential is not None:
                    self._found[name] = credential
                    self.run.secrets.learn([credential.password])
        if self._port is not None:
            check_one_origin([route.url for route in routes if route.credential is None])

    def _connect(self, route: ServerRoute) -> MCPClient:
        refuse_commands(route)
        if route.credential is None:
            login = None if self._login is None else self._login(route)
            return client_for(
                route, self._port, timeouts=self._timeouts, login=login, questions=self.questions
            )
        problem = self._problems.get(route.credential)
        if problem is not None:
            raise problem
        found = self._found[route.credential]
        return client_for(route, found, timeouts=self._timeouts, questions=self.questions)


def routes_of(tools: list[Tool]) -> list[ServerRoute]:
    """The servers that the tools need, each once; workflows need no server."""
    return list(dict.fromkeys(tool.route for tool in tools if isinstance(tool, MCPTool)))


def data_area(ctx: Any) -> Path:
    """The data area, with the folder of the journals, which is made; `FileFailed` if it cannot be."""
    folder = Path(ctx.get_workflow_data_area_dir())
    try:
        (folder / JOURNALS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFailed(
            "The journal of the calls goes to the workflow's data area, where its folder cannot be made:"
            f" {folder / JOURNALS}: {error.strerror or error}",
            fix="Save the workflow where you may write, and see that nothing else has that name",
        ) from None
    return folder


def opening(ctx: Any) -> str:
    """Tells whether the workflow was closed, or its KNIME has died, since: a digest of its temporary folder.

    KNIME makes that folder anew when it opens a workflow, and has one for all its nodes and their executions.
    """
    return sha256(str(ctx.get_workflow_temp_dir()).encode()).hexdigest()[:16]


def place_in_workflow(ctx: Any) -> str:
    """The node's number in its workflow, such as 4:0:7 in a component: it tells equal nodes apart.

    KNIME says the node's name and its whole id. The first number there is the workflow's, and another one
    each time that it is opened.
    """
    _, _, whole = ctx._java_ctx.get_node_id().rpartition(" ")  # since KNIME 5.1
    return whole.partition(":")[2]


def workflow_runner(ctx: Any, mode: WorkflowMode) -> WorkflowRunner | None:
    """Runs workflow tools in KNIME, in the thread that calls it; None before KNIME 5.5, which cannot.

    ``DEFAULT`` keeps the output tables readable, ``DETACHED`` does not, ``DEBUG`` also shows each workflow as
    a metanode, which stays if it fails.
    """
    execute = getattr(ctx, "_execute_tool", None)
    if execute is None:
        return None

    from ...types.columns import knime_value

    def run(
        tool: WorkflowTool, arguments: dict[str, Any], tables: tuple[Any, ...]
    ) -> tuple[str, tuple[Any, ...]]:
        hints = {"execution-mode": mode, "with-view-nodes": "False"}
        # KNIME 5.5 returns two values, later versions return three.
        message, outputs, *_ = execute(knime_value(tool), arguments, list(tables), hints)
        return str(message or ""), tuple(outputs or ())

    return run


def workflow_digest(tool: WorkflowTool) -> str | None:
    """The digest of a tool's workflow, as the definition's digest identifies an MCP tool.

    It is that of its contents, None where the file cannot be resolved. KNIME keeps the workflow's data area
    elsewhere, which the digest does not cover.
    """
    from ...types.arrow import store_file

    path = store_file(tool.filestore_keys)
    try:
        if path is None:
            return None
        about = path.stat()
        return _digest(path, about.st_mtime_ns, about.st_size)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _digest(path: Path, mtime: int, size: int) -> str:  # noqa: ARG001 - part of the cache key
    from ...knwf import segment_digest

    return segment_digest(path.read_bytes())
