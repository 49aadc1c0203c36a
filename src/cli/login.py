"""``knime-mcp login`` and ``logout``: logins of persons or programs, stored in the system's keyring."""

import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..client.authorization import StaticAuthorization
from ..client.mcp_client import MCPClient
from ..client.network import NetworkSettings
from ..client.oauth.logins import (
    KeyringStore,
    Login,
    MemoryStore,
    RegisteredClient,
    TokenStore,
    login_from_text,
)
from ..types.errors import AuthError
from ..types.routing import ServerRoute
from ..types.texts import counted, origin_and_path
from .command_errors import ExitCode, Interrupt, UsageError, reports_errors
from .connection_options import CA_FILE, PROXY, how_to_reach
from .files import read_text
from .sessions import secret_in
from .shared_options import options_under, takes
from .terminal import note, print_text, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..client.clock import IsCanceled


_option = options_under()
_client = options_under("Registered by hand")
_UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="The server.")]


@dataclass(frozen=True, kw_only=True)
class LoginOptions:
    """The options of ``knime-mcp login``, described by their help texts."""

    scope: str | None = _option("Ask for these, instead of what the server says.", metavar="SCOPES")
    no_browser: bool = _option(
        "Show the address of the login page instead of opening it.", "--no-browser", default=False
    )
    port: int | None = _option(
        "Wait for the browser at this port of this machine, not at any free one.", min=1, max=65535
    )
    print_token: bool = _option(
        "Print the token and keep nothing. For machines without a keyring.", "--print-token", default=False
    )
    client_id: str | None = _client("The id that you got for this program.", metavar="ID")
    client_secret_env: str | None = _client("Environment variable with its secret.", metavar="VARIABLE")
    private_key: Path | None = _client("PEM file with its private key.", metavar="FILE")
    algorithm: str = _client("Signature algorithm of the private key.", default="ES256")
    client_metadata_url: str | None = _client(
        "Where a document about this program is published.", metavar="URL"
    )
    client_credentials: bool = _client(
        "Log in as a program, with secret or private key and without a person.",
        "--client-credentials",
        default=False,
    )
    issuer: str | None = _client("The only authorization server to log in at, taken as it is.", metavar="URL")
    ca_file: str | None = how_to_reach(CA_FILE, metavar="FILE")
    proxy: str | None = how_to_reach(PROXY, metavar="URL")


@reports_errors
@takes(LoginOptions, "options")
def login(url: _UrlArgument, *, options: LoginOptions) -> ExitCode:
    """Log in to a server that wants OAuth. Other commands then use the login by themselves.

    Opens the server's login page in a browser. The login is kept in the keyring of your operating system and
    renewed when it expires; `knime-mcp logout URL` forgets it.
    """
    from ..client.oauth.browser_login import LoopbackBrowser
    from ..client.oauth.grants import AuthorizationCode, ClientCredentials, Grant
    from ..client.oauth.oauth import OAuth

    server = ServerRoute.parse(url).url
    network = NetworkSettings(ca_file=options.ca_file, proxy=options.proxy)
    client = _registered(options)
    if options.client_credentials and client is None:
        raise UsageError("--client-credentials needs --client-id, and --client-secret-env or --private-key.")
    store: TokenStore = MemoryStore() if options.print_token else KeyringStore()
    with (
        Interrupt() as interrupt,
        LoopbackBrowser(_opener(show_only=options.no_browser), port=options.port) as browser,
    ):
        # Asked first, as the challenge names the metadata and the scopes (RFC 9728, section 5.1).
        challenge = _challenge(server, network, interrupt)
        if challenge is None:
            say(f"{origin_and_path(server)} lets everybody in; there is nothing to log in to.")
            return ExitCode.OK
        grant: Grant = AuthorizationCode(
            browser, client=client, client_metadata_url=options.client_metadata_url
        )
        if options.client_credentials and client is not None:
            grant = ClientCredentials(client)
        authorization = OAuth(
            server, grant, store=store, issuer=options.issuer, scope=options.scope, network=network
        )
        made = authorization.log_in(challenge.challenge, interrupt)
        with MCPClient(server, auth=authorization, network=network) as mcp:
            tools = mcp.list_tools(is_canceled=interrupt)
        # The test call may have renewed the token.
        made = authorization.login or made
    if options.print_token:
        print_text(made.tokens.access_token)
    else:
        say(_summary(made, len(tools)))
        say(f"Next step: knime-mcp list {origin_and_path(server)}")
    return ExitCode.OK


@reports_errors
def logout(url: _UrlArgument) -> ExitCode:
    """Forget the login to a server, and the client that was registered for it."""
    from ..client.oauth.grants import client_key
    from ..client.oauth.oauth import login_key

    server = ServerRoute.parse(url).url
    store = KeyringStore()
    known = login_from_text(store.load(login_key(server)) or "")
    # The client that was registered for the login goes with it.
    if known is not None:
        store.delete(client_key(known.issuer))
    if not store.delete(login_key(server)):
        say(f"There was no login to {origin_and_path(server)}.")
        return ExitCode.OK
    say(f"The login to {origin_and_path(server)} is forgotten.")
    return ExitCode.OK


class _Probe(StaticAuthorization):
    """Sends no credentials and remembers the server's challenge."""

    asked = False
    challenge: str | None = None

    def headers(self, _: "IsCanceled | None" = None, /) -> dict[str, str]:
        return {}

    def challenged(self, status: int, challenge: str | None, _: "IsCanceled | None" = None, /) -> bool:  # noqa: ARG002 - of the protocol
        self.asked = True
        self.challenge = challenge
        return False

    def describe(self) -> str:
        return "no credentials"


def _challenge(server: str, network: NetworkSettings, interrupt: Interrupt) -> _Probe | None:
    """The probe with the server's challenge, None if the server needs no login.

    The login itself happens afterwards, so that no timeout runs while a person types a password.
    """
    probe = _Probe()
    client = MCPClient(server, auth=probe, network=network)
    try:
        client.connect(is_canceled=interrupt)
        # Some servers let everybody connect, and ask who it is at the first request.
        client.list_tools(is_canceled=interrupt)
    except AuthError:
        if not probe.asked:
            raise
    finally:
        client.close()
    return probe if probe.asked else None


def _registered(options: LoginOptions) -> RegisteredClient | None:
    secret_variable, private_key = options.client_secret_env, options.private_key
    if options.client_id is None:
        if secret_variable or private_key:
            raise UsageError("--client-secret-env and --private-key need --client-id.")
        return None
    if secret_variable and private_key:
        raise UsageError("--client-secret-env and --private-key cannot be used together. Choose one of them.")
    secret = secret_in(secret_variable, "--client-secret-env") if secret_variable else None
    key = read_text(private_key) if private_key else None
    return RegisteredClient(options.client_id, secret=secret, private_key=key, algorithm=options.algorithm)


def _opener(*, show_only: bool) -> "Callable[[str], None]":
    def show(url: str) -> None:
        if show_only or not webbrowser.open(url):
            note("Open this page in a browser on this machine and log in:")
            note(url)
        else:
            note("Your browser opens the login page. Waiting for you to log in there.")

    return show


def _summary(made: Login, tools: int) -> str:
    until = ""
    if made.tokens.expires_at is not None:
        minutes = max(0, round((made.tokens.expires_at - time.time()) / 60))
        renewed = made.tokens.refresh_token is not None or made.grant == "client_credentials"
        until = f" The token lasts {counted(minutes, 'minute')}{' and is renewed then' if renewed else ''}."
    return f"Logged in at {origin_and_path(made.issuer)}; the server offers {counted(tools, 'tool')}.{until}"
