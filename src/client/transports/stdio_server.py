"""The settings for starting a server on this computer: command, environment, folder.

Starting a server runs code. Tables and workflows cannot make a `StdioServer`; only a program or a person at a
command line can.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...system import needed_variables
from ...types.errors import SettingInvalid
from ...types.secret_rules import KnownSecrets, looks_secret, secrets_in_environment

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_SHORTEST_SECRET: Final = 6
# Names of environment variables, but not the codes of Node's errors, which look similar.
_VARIABLE: Final = re.compile(
    r"(?<![\w/.-])(?<!code: ')(?!ERR_)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w(])", re.ASCII
)
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a child process, with messages over its standard input and output.

    Attributes:
        name: The name in tables and messages, shown as ``stdio:<name>``.
        command: Program and arguments. No shell is involved.
        env: Environment variables, in addition to the few that every program needs. May hold secrets.
        taken: What was taken from our own environment, for variables or arguments: these values are secrets.
        cwd: The folder to start in; None for the current folder.

    Raises:
        SettingInvalid: The command is empty, or the name cannot be part of a URL.
    """

    name: str
    command: Sequence[str] = field(repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    taken: Collection[str] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.command, str):
            fix = "Give a list: the program and each of its arguments"
            raise self._wrong("The command that starts the server is one text", fix)
        object.__setattr__(self, "command", tuple(map(os.fspath, self.command)))
        object.__setattr__(self, "env", dict(self.env))
        if not _NAME.fullmatch(self.name):
            raise SettingInvalid(
                f"'{self.name}' cannot be the name of a server",
                setting="stdio",
                fix="Use letters, digits, '.', '_' and '-'",
            )
        if not self.command or not self.command[0].strip():
            raise self._wrong("The command that starts the server is empty")
        for name, value in self.env.items():
            if not isinstance(value, str) or not name or "=" in name:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise self._wrong(
                    f"The environment variable '{name}' needs a name without '=', and text as value"
                )
        if any("\0" in part for part in (*self.command, *self.env, *self.env.values())):
            raise self._wrong("The command or its environment holds a null character")

    def _wrong(self, what: str, fix: str | None = None) -> SettingInvalid:
        return SettingInvalid(what, setting="stdio", server=self.url, fix=fix)

    @property
    def url(self) -> str:
        """The text that is shown instead of a URL."""
        return f"stdio:{self.name}"

    @property
    def program(self) -> str:
        """The program without its arguments, which may hold secrets."""
        return self.command[0]

    def environment(self) -> dict[str, str]:
        """The whole environment of the process."""
        inherited = {name: os.environ[name] for name in needed_variables() if name in os.environ}
        # bash exports functions as values that begin with "()", which attackers have used to run code.
        safe = {name: value for name, value in inherited.items() if not value.startswith("()")}
        return safe | dict(self.env)

    def missing_variables(self, output: str) -> list[str]:
        """The names in a server's output that look like environment variables the server does not have."""
        given = self.environment()
        return [name for name in dict.fromkeys(_VARIABLE.findall(output)) if name not in given][:_MOST_NAMED]

    def without_secrets(self, text: str) -> str:
        """A text that the process wrote, without the server's `secrets`."""
        return KnownSecrets(self.secrets()).in_foreign(text, lambda _: "[secret]")

    @property
    def longest_secret(self) -> int:
        """Bytes of the longest of the `secrets`; texts are kept longer by that until secrets are removed."""
        return max((len(secret.encode("utf-8", "replace")) for secret in self.secrets()), default=0)

    def secrets(self) -> Iterator[str]:
        """Secrets that the server may print: among its variables, and keys in its arguments."""
        for value in secrets_in_environment(self.env, self.taken):
            # The lines of a private key may be printed separately.
            yield from (part for part in (value, *value.splitlines()) if len(part) >= _SHORTEST_SECRET)
        for option, value in zip(("", *self.command), self.command, strict=False):
            name, equals, content = value.partition("=")
            if equals and looks_secret(name, content):
                yield content
            elif looks_secret(option if option.startswith("-") else "", value):
                yield value
