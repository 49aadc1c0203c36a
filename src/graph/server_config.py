"""The settings of the MCP servers that a graph calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Transport = Literal["auto", "http", "sse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioConfig:
    """A server that is a child process. Environment and arguments may hold secrets, so they are never shown.

    Attributes:
        name: Key in the document.
        command: Program.
        args: Its arguments.
        cwd: Working folder, absolute; None: the document's folder.
        env: Environment variables in addition to the minimal ones.
    """

    name: str
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlConfig:
    """A server with a URL. URL and headers may hold secrets, so they are never shown.

    Attributes:
        name: Key in the document.
        url: Its URL.
        headers: The headers of each request.
        transport: ``http`` is streamable HTTP, ``sse`` the older HTTP+SSE; ``auto`` tries both.
    """

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: Transport


ServerConfig = StdioConfig | UrlConfig
