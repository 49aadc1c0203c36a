"""The options of ``knime-mcp login`` and ``logout``; `oauth_login` does the work."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .command_errors import ExitCode, reports_errors
from .connection_options import CaFileOption, ProxyOption
from .shared_options import options_under, takes

_client = options_under("Registered by hand")


@dataclass(frozen=True, kw_only=True)
class LoginOptions:
    """The options of ``knime-mcp login``, described by their help texts."""

    url: Annotated[str, typer.Argument(metavar="URL", help="The server.")]
    scope: Annotated[
        str | None, typer.Option(metavar="SCOPES", help="Ask for these, instead of what the server says.")
    ] = None
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Show the address of the login page instead of opening it.")
    ] = False
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Wait for the browser at this port of this machine, not at any free one."
        ),
    ] = None
    print_token: Annotated[
        bool,
        typer.Option(
            "--print-token", help="Print the token and keep nothing. For machines without a keyring."
        ),
    ] = False
    client_id: Annotated[str | None, _client("The id that you got for this program.", metavar="ID")] = None
    client_secret_env: Annotated[
        str | None, _client("Environment variable with its secret.", metavar="VARIABLE")
    ] = None
    private_key: Annotated[Path | None, _client("PEM file with its private key.", metavar="FILE")] = None
    algorithm: Annotated[str, _client("Signature algorithm of the private key.")] = "ES256"
    client_metadata_url: Annotated[
        str | None, _client("Where a document about this program is published.", metavar="URL")
    ] = None
    client_credentials: Annotated[
        bool,
        _client(
            "Log in as a program, with secret or private key and without a person.", "--client-credentials"
        ),
    ] = False
    issuer: Annotated[
        str | None, _client("The only authorization server to log in at, taken as it is.", metavar="URL")
    ] = None
    ca_file: CaFileOption = None
    proxy: ProxyOption = None


@reports_errors
@takes(LoginOptions, "options")
def login(*, options: LoginOptions) -> ExitCode:
    """Log in to a server that wants OAuth. Other commands then use the login by themselves.

    Opens the server's login page in a browser. The login is kept in the keyring of your operating system and
    renewed when it expires; `knime-mcp logout URL` forgets it.
    """
    from .oauth_login import log_in

    return log_in(options)


@reports_errors
def logout(url: Annotated[str, typer.Argument(metavar="URL", help="The server.")]) -> ExitCode:
    """Forget the login to a server, and the client that was registered for it."""
    from .oauth_login import log_out

    return log_out(url)
