"""Proxy settings, which KNIME passes to nodes as environment variables."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import quote_plus, unquote_plus, urlsplit

LOGGER = logging.getLogger(__name__)
supported_proxy_protocols = ["http", "https"]
no_proxy_key = "no_proxy"


@dataclass
class ProxySettings:
    """A proxy for one protocol."""

    protocol_name: str | None = None
    host_name: str | None = None
    port_number: str | None = None
    exclude_hosts: str | None = None
    user_name: str | None = None
    password: str | None = None

    def __post_init__(self) -> None:
        self.protocol_name = self.protocol_name.lower() if self.protocol_name else None

    def has_credentials(self) -> bool:
        """Returns whether the settings have a user name and password."""
        return self.user_name is not None and self.password is not None

    def _is_supported(self) -> bool:
        if self.protocol_name not in supported_proxy_protocols:
            LOGGER.warning("there are proxies for http and https only, not for %s", self.protocol_name)
        return self.protocol_name in supported_proxy_protocols

    def __str__(self) -> str:
        """The proxy's URL with credentials; its scheme is always http, as in KNIME."""
        if not self.protocol_name or not self._is_supported():
            return ""
        user = (
            f"{quote_plus(self.user_name or '')}:{quote_plus(self.password or '')}@"
            if self.has_credentials()
            else ""
        )
        return f"http://{user}{self.host_name}{f':{self.port_number}' if self.port_number else ''}"

    def create_proxy_environment_key_value_pair(self) -> tuple[str, str]:
        """The environment variable for the proxy and its value; two empty texts without protocol or host."""
        if not (self.protocol_name and self.host_name):
            return "", ""
        return f"{self.protocol_name}_proxy", str(self)

    def set_as_environment_variable(self) -> None:
        """Sets the environment variables for proxies; excluded hosts are converted from Java's notation."""
        if not self._is_supported():
            return
        name, value = self.create_proxy_environment_key_value_pair()
        if name and value:
            os.environ[name] = value
        if self.exclude_hosts:
            os.environ[no_proxy_key] = ",".join(map(_excluded_host, self.exclude_hosts.split("|")))

    @staticmethod
    def supported_proxy_protocols() -> str:
        """The protocols with proxy support, as text."""
        return f"Protocols that a proxy can be for: {', '.join(supported_proxy_protocols)}"

    @classmethod
    def from_dict(cls, proxy_dict: Mapping[str, str | None]) -> "ProxySettings":
        """The settings in a dictionary with the names of the attributes."""
        return cls(*(proxy_dict.get(field.name) for field in fields(cls)))

    @classmethod
    def from_string(cls, proxy_string: str, exclude_hosts: str | None = None) -> "ProxySettings":
        """The settings in a URL.

        Raises:
            ValueError: the URL is neither http nor https.
        """
        parts = urlsplit(proxy_string)
        if parts.scheme.lower() not in supported_proxy_protocols:
            raise ValueError(f"a proxy needs an http or https URL, not {parts.scheme or 'no'} protocol")
        return cls(
            parts.scheme.lower(),
            parts.hostname,
            str(parts.port) if parts.port is not None else None,
            exclude_hosts,
            unquote_plus(parts.username) if parts.username else None,
            unquote_plus(parts.password) if parts.password else None,
        )


def _excluded_host(host: str) -> str:
    """An excluded host in Python's notation (the end of the name) instead of Java's (``*`` for a part)."""
    host = host.strip()
    bare = re.sub(r"\.{2,}", ".", host.replace("*", ""))
    if host == "*" or bare == ".":
        return "*"
    return f".{bare}" if re.match(r"\*[^.]", host) else bare


def get_proxy_settings(protocol_name: str | None = None) -> ProxySettings | None:
    """The proxy for a protocol, from the environment; without a protocol, the first proxy that is set.

    Raises:
        ValueError: the protocol is neither http nor https, or none was given and there is no proxy.
    """
    if not protocol_name:
        for name in supported_proxy_protocols:
            found = get_proxy_settings(name)
            if found:
                return found
        raise ValueError("neither http_proxy nor https_proxy is set")
    if protocol_name.lower() not in supported_proxy_protocols:
        raise ValueError(f"there are proxies for http and https, not for {protocol_name}")
    url = os.environ.get(f"{protocol_name.lower()}_proxy")
    return ProxySettings.from_string(url, os.environ.get(no_proxy_key)) if url else None
