"""``knime-mcp audit key``: the keys with which journals are signed."""

from __future__ import annotations

import getpass
import platform
import re
from datetime import UTC, datetime
from typing import Annotated

import typer

from ..audit.journal import keys_file, known_keys_file
from ..audit.signatures import PublicKey, SignatureError, SigningKey, add_key, known_keys, own_keys, trust_key
from ..system import others_may_read
from ..types.texts import visible
from .command_errors import CommandError, ExitCode, UsageError, reports_errors
from .files import text_or_file
from .terminal import note, print_text, say, show_table

_NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The name of the key in signatures; by default user and machine."),
]
_KeyringOption = Annotated[
    bool, typer.Option("--keyring", help="Keep the private part in the system's keyring, not in the file.")
]


@reports_errors
def new(name: _NameOption = None, keyring: _KeyringOption = False) -> ExitCode:
    """Make the first key: from now on, journals of this user are signed.

    Prints the public key. Give it to those who are to check your journals.

    Example: knime-mcp audit key new
    """
    if _own():
        raise CommandError(f"There is a key already, in {keys_file()}. Another one: audit key rotate.")
    return _add(name, keyring=keyring)


@reports_errors
def show() -> ExitCode:
    """Print the public keys, the newest last, which is the one that signs.

    Example: knime-mcp audit key show
    """
    keys = _own()
    if not keys:
        raise CommandError(f"There is no key in {keys_file()}. Make one: audit key new.")
    for key in keys:
        print_text(str(key.public))
        place = "in the keyring" if key.private is None else f"in {keys_file()}"
        note(f"made {key.made}, {place}")
    if others_may_read(keys_file()):
        note(f"Others may read {keys_file()}, so nothing is signed: chmod 600 {keys_file()}")
    return ExitCode.OK


@reports_errors
def rotate(name: _NameOption = None, keyring: _KeyringOption = False) -> ExitCode:
    """Make another key, which signs from now on. What older keys signed can still be checked.

    Example: knime-mcp audit key rotate
    """
    if not _own():
        raise CommandError(f"There is no key in {keys_file()}. Make one: audit key new.")
    return _add(name, keyring=keyring)


@reports_errors
def trust(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY|@FILE", help="A public key, as audit key show prints it where it was made."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Whose key it is, in your words.")] = "",
) -> ExitCode:
    """Remember whose a public key is: journals that it signed are then written by NAME's key.

    Take the key from that person, not from whoever gave you the journal. Without KEY: all that you know.

    Example: knime-mcp audit trust @ada.txt --as Ada
    """
    file, name = known_keys_file(), " ".join(visible(name).split())
    if key is not None and not name:
        raise UsageError("Whose key is it? Say it with --as NAME.")
    try:
        if key is None:
            known = known_keys(file)
            show_table(None, ("whose", "key"), [(whose, str(each)) for each, whose in known.items()])
            note(f"They stand in {file}: one that you no longer trust, take out there")
            return ExitCode.OK
        public, earlier = PublicKey.parse(text_or_file(key, "KEY")[0]), known_keys(file)
        trust_key(file, public, name)
    except SignatureError as error:
        raise CommandError(f"{error}.") from None
    if (before := earlier.get(public, name)) != name:
        note(f"Until now it was {before}'s")
    if name in [whose for each, whose in earlier.items() if each != public]:
        note(f"{name} has another key, too: knime-mcp audit trust lists them")
    say(f"What {public.label} signed counts as written by {name}'s key from now on.")
    note(f"It stands in {file}")
    return ExitCode.OK


def _own() -> list[SigningKey]:
    try:
        return own_keys(keys_file())
    except SignatureError as error:
        raise CommandError(f"{error}.") from None


def _add(name: str | None, *, keyring: bool) -> ExitCode:
    # A name in a signed note has neither spaces nor a plus: https://c2sp.org/signed-note
    named = re.sub(r"[\s+]+", "-", name or f"{getpass.getuser()}@{platform.node()}")
    try:
        key = add_key(keys_file(), named, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", keyring=keyring)
    except SignatureError as error:
        raise CommandError(f"{error}.") from None
    print_text(str(key))
    note(f"Journals are signed from now on. The keys are listed in {keys_file()}: nobody else may read it")
    return ExitCode.OK
