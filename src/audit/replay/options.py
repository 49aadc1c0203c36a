"""The options of a replay: which calls are made again, on which servers, and what is compared."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...tools.server_url import origin_of
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
            read-only. A name is the one shown or the one that the server knows.
        call_changed: Whether tools are called whose definition is not the one on record.
        dry_run: Whether nothing is called at all.
        rows: Which calls to replay.
        servers: Another server for a server: URL, or its beginning, to URL, which may hold routing in its
            fragment. Credentials do not follow to another origin, see `credentials`.
        tools: Another name for a tool, by the name that the server knew, or the one shown.
        credentials: Another credential for a credential, by name; "" for no credential.
        named_credentials_only: Whether only credentials may be sent that `credentials` names.
        secrets: What marks of secrets in arguments stand for, by the digest in the mark.
        stop_at_first_difference: Whether the first call that is not the same ends the replay.
        ignore: What comparing passes over.
        concurrency: How many read-only calls may be in flight.
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
        """Finds what a tool is called now, None if nobody said that it has another name."""
        return self.tools.get(tool.tool_name) or self.tools.get(tool.name)

    def route(self, recorded: ServerRoute) -> ServerRoute:
        """Finds where a call goes now.

        Args:
            recorded: Where it went.

        Returns:
            The route, without tool and pin.

        Raises:
            SettingInvalid: The server that it is mapped to cannot be one, or a credential is needed that
                nobody allowed to send.
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
        """The old routing at the new URL. A secret is meant for one origin and does not follow by itself."""
        follows = origin_of(old.url) == origin_of(new.url) or old.credential in self.credentials
        return replace(old, url=new.url, credential=old.credential if follows else None)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The selection of calls to replay; all of them by default.

    Attributes:
        calls: Numbers of calls: the column *Call*, or places in the table where it has none.
        input_rows: RowIDs as the column *Input row* has them.
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
        entries: Old and new; entries without both are passed over.
        setting: The setting, for errors.

    Returns:
        The mapping.

    Raises:
        SettingInvalid: Two entries for the same.
    """
    found: dict[str, str] = {}
    for old, new in ((old.strip(), new.strip()) for old, new in entries):
        if not old:
            continue
        if old in found and found[old] != new:
            raise SettingInvalid(
                f"There are two entries for '{old}'", setting=setting, fix="Remove one of them"
            )
        found[old] = new
    return found
