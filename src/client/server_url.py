"""Checks the URL of a server before anything is sent there, and finds its origin."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from ..types.errors import SettingInvalid

_NAME: Final = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z_][a-z0-9_-]*\.?")  # the last label is not a number


def checked_url(server_uri: str) -> str:
    """The URL to send requests to.

    Raises:
        SettingInvalid: The URL is empty, malformed, not http(s), or has a login. The message does not show
            the URL, as any part of a malformed URL may be a secret.
    """
    url = server_uri.strip().partition("#")[0]
    fix = "Enter the full URL, such as https://host/mcp"
    if not url:
        raise SettingInvalid("The server URL is empty", setting="server_url", fix=fix)
    try:
        parts = urlsplit(url)
        host = parts.hostname
        if parts.port == 0:  # other code would take the default port
            raise ValueError
    except ValueError:
        raise SettingInvalid(
            "The server URL has a malformed host or port", setting="server_url", fix=fix
        ) from None
    if parts.scheme not in {"http", "https"} or not host:
        raise SettingInvalid(
            "The server URL does not start with http:// or https:// and a host", setting="server_url", fix=fix
        )
    if "@" in parts.netloc:
        raise SettingInvalid(
            "The server URL holds a user name or password before '@'",
            setting="server_url",
            fix="Remove that part and give user name and password as credentials",
        )
    if any(character <= " " or character == "\x7f" for character in url):
        raise SettingInvalid(
            "The server URL holds a space or control character", setting="server_url", fix=fix
        )
    if "[" in parts.netloc or not _is_plain(host):
        from .transports.http_channel import is_usable  # imported here, as only unusual hosts need it

        if not is_usable(url):
            raise SettingInvalid(
                "The server URL names a host that cannot exist", setting="server_url", fix=fix
            )
    return parts.scheme + url[len(parts.scheme) :]  # in lower case, as other code compares it


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in normalized form; empty for a URL without an origin."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""
    except ValueError:
        return ""


def is_loopback_host(host: str) -> bool:
    """Returns whether a host is a loopback name or address (RFC 6761 §6.3, RFC 8252 §7.3)."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_plain(host: str) -> bool:
    """Returns whether a host is an address or an ordinary name, which all parsers understand alike."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _NAME.fullmatch(host) is not None and "xn--" not in host
    return True
