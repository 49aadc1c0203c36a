"""The options of a replay: the calls to make again, their servers, and the differences to ignore."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...client.server_url import origin_of
from ...types.errors import SettingInvalid
from ...types.routing import ServerRoute
from .ignore import IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...types.tool import MCPTool
    from ..record import CallRecord

_RANGE: Final = re.compile(r"(\d*)\s*-\s*(\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of a replay. With the defaults, a replay changes nothing on any server.

    Attributes:
        also_call: Names of tools, with ``*`` and ``?``, that are called although they are not declared as
            read-only. A name is either the shown name or the name that the server knows.
        call_changed: Whether tools are called whose definition differs from the recorded one.
        dry_run: Whether no calls are made at all.
        rows: The calls to replay.
        servers: New server by old server: a URL or the beginning of a URL, to a URL, which may hold routing
            in its fragment. Credentials are not sent to another origin, see `credentials`.
        tools: New name of a tool by its old name, either the server's or the shown one.
        credentials: New credential by the name of the old one; "" for no credential.
        named_credentials_only: Whether only credentials that `credentials` names may be sent.
        secrets: The secrets in arguments, by the digest in their mark.
        stop_at_first_difference: Whether the first call that is not the same ends the replay.
        ignore: The differences to ignore.
        concurrency: The maximum number of read-only calls in flight.
    """

    also_call: tuple[str, ...] = ()
    call_changed: bool = False
    dry_run: bool = False
    rows: RowSelection = field(default_factory=lambda: RowSelection())
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    credentials: Mapping[str, str] = field(default_factory=dict[str, str])
    named_credentials_only: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    stop_at_first_difference: bool = False
    ignore: IgnoreRules = field(default_factory=IgnoreRules)
    concurrency: int = 1

    def may_call(self, *names: str) -> bool:
        """Returns whether a person allowed to call a tool by one of its names."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.also_call for name in names)

    def new_name(self, tool: MCPTool) -> str | None:
        """Returns the tool's new name, None if no new name was given."""
        return self.tools.get(tool.tool_name) or self.tools.get(tool.name)

    def route(self, recorded: ServerRoute) -> ServerRoute:
        """Finds the server for a call.

        Args:
            recorded: The recorded route.

        Returns:
            The new route, without tool and pin.

        Raises:
            SettingInvalid: The new server is not a valid URL, or the route needs a credential that may not be
                sent.
        """
        route = self._server(replace(recorded, tool=None, digest=None))
        if route.credential is None:
            return route
        if route.credential in self.credentials:
            return replace(route, credential=self.credentials[route.credential] or None)
        if self.named_credentials_only and route.credential not in self.credentials.values():
            raise SettingInvalid(
                f"The record wants to send the credential '{route.credential}' to {route.display}",
                setting="credentials",
                fix=f"If that is right, allow it: --with-credential {route.credential}",
            )
        return route

    def _server(self, route: ServerRoute) -> ServerRoute:
        for old in sorted(self.servers, key=len, reverse=True):
            start = old.rstrip("/")
            if route.url == old or route.url.rstrip("/") == start or route.url.startswith(f"{start}/"):
                rest = "" if route.url == old else route.url[len(start) :]
                url, _, fragment = self.servers[old].partition("#")
                new = ServerRoute.parse(f"{url.rstrip('/') if rest else url}{rest}#{fragment}".rstrip("#"))
                return new if fragment else self._taken_along(route, new)
        return route

    def _taken_along(self, old: ServerRoute, new: ServerRoute) -> ServerRoute:
        """The new URL with the old routing. The credential is kept only on the same origin, or if mapped."""
        follows = origin_of(old.url) == origin_of(new.url) or old.credential in self.credentials
        return replace(old, url=new.url, credential=old.credential if follows else None)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The selection of calls to replay; all of them by default.

    Attributes:
        calls: Numbers of calls: from the column *Call*, or places in the table if that is empty.
        input_rows: RowIDs, as in the column *Input row*.
    """

    calls: tuple[range, ...] = ()
    input_rows: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> RowSelection:
        """Reads a selection.

        Args:
            text: Numbers, ranges (``3-8``, ``10-``) and RowIDs, separated by commas. Empty for all.

        Returns:
            The selection.

        Raises:
            SettingInvalid: A range that ends before it begins.
        """
        calls: list[range] = []
        rows: set[str] = set()
        for part in filter(None, (entry.strip() for entry in re.split(r"[,;\n]", text))):
            bounds = _RANGE.fullmatch(part)
            if part.isdecimal():
                calls.append(range(int(part), int(part) + 1))
            elif bounds and (bounds[1] or bounds[2]):
                first, last = int(bounds[1] or 1), int(bounds[2]) if bounds[2] else 2**31
                if last < first:
                    raise SettingInvalid(
                        f"The range {part} ends before it begins",
                        setting="rows",
                        fix=f"Write {last}-{first}",
                    )
                calls.append(range(first, last + 1))
            else:
                rows.add(part)
        return cls(tuple(calls), frozenset(rows))

    def has(self, record: CallRecord, place: int) -> bool:
        """Returns whether a call is to be replayed.

        Args:
            record: The call.
            place: Its place in the table, from 1.
        """
        if not (self.calls or self.input_rows):
            return True
        number = record.call or place
        return record.input_row in self.input_rows or any(number in part for part in self.calls)


def pairs(entries: Iterable[tuple[str, str]], setting: str) -> dict[str, str]:
    """Reads a mapping that a person entered.

    Args:
        entries: Pairs of old and new; pairs without an old value are skipped.
        setting: The setting, for errors.

    Returns:
        The mapping.

    Raises:
        SettingInvalid: Two entries give the same old value different new ones.
    """
    mapping: dict[str, str] = {}
    for old, new in ((old.strip(), new.strip()) for old, new in entries):
        if not old:
            continue
        if old in mapping and mapping[old] != new:
            raise SettingInvalid(
                f"There are two entries for '{old}'", setting=setting, fix="Remove one of them"
            )
        mapping[old] = new
    return mapping
