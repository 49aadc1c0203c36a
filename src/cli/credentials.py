"""Secrets for the command line: from the environment, the system's keyring, or a prompt.

They are never on the command line itself, where every program on the machine could read them.
"""

import os
import re
import signal
import sys
from getpass import GetPassWarning

import typer

from ..tools.node_settings.connection import KEYRING_SERVICE, Credential, keyring_credential
from ..types.errors import SettingInvalid
from .command_errors import UsageError
from .connection_options import ConnectionOptions


class Credentials:
    """The credentials that routes name, by the options. Each credential is looked up once."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._found: dict[str, Credential] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._found) or 'none'}>"

    def __call__(self, name: str | None) -> Credential | None:
        """Looks up a credential by name; its user name may be empty. None for None."""
        if name is None:
            return None
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    @property
    def secrets(self) -> list[str]:
        """The passwords in use so far, so that records can be kept free of them."""
        return [credential.password for credential in self._found.values()]

    def _look_up(self, name: str) -> Credential:
        if self._options.bearer_prompt:
            return Credential(name, "", _ask("Token"))
        if name == self._options.bearer_env:
            return Credential(name, "", secret_in(name, "--bearer-env"))
        credential = _from_environment(name) or keyring_credential(name)
        if credential is None:
            raise SettingInvalid(
                f"There is no credential '{name}'",
                setting="credentials",
                fix=f"Set the environment variable {variable(name, 'PASSWORD')}, and if it has a user name"
                f" {variable(name, 'USERNAME')}, or store it with: keyring set {KEYRING_SERVICE}:{name} USER",
            )
        return credential


def secret_in(name: str, option: str) -> str:
    """Reads a secret from the environment variable that an option names."""
    secret = os.environ.get(name, "").strip()
    if not secret:
        # A text that is not a variable's name may be the secret, so it is not shown.
        which = name if name.isidentifier() else f"that {option} names"
        raise SettingInvalid(
            f"The environment variable {which} is not set or empty",
            setting="credentials",
            fix="Put the secret there, and write its name",
        )
    return secret


def variable(name: str, part: str) -> str:
    """The environment variable of a credential's part, such as ``KNIME_MCP_PROD_PASSWORD``."""
    return f"KNIME_MCP_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_{part}"


def _ask(what: str) -> str:
    # The first Ctrl-C ends a prompt; elsewhere it is only remembered.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return str(typer.prompt(what, hide_input=True, err=True)).strip()
    except (typer.Abort, GetPassWarning):
        if sys.stdin.isatty():
            raise
        raise UsageError(f"{what}: there is nobody to ask. Use --bearer-env VARIABLE.") from None
    finally:
        signal.signal(signal.SIGINT, before)


def _from_environment(name: str) -> Credential | None:
    password = os.environ.get(variable(name, "PASSWORD"))
    return Credential(name, os.environ.get(variable(name, "USERNAME"), ""), password) if password else None
