"""Proxy settings, which KNIME hands to nodes as environment variables."""

import os
from dataclasses import dataclass
from urllib.parse import quote_plus, unquote_plus, urlsplit

_PROTOCOLS = ("http", "https")


@dataclass
class ProxySettings:
    """A proxy for one protocol."""

    protocol_name: str | None = None
    host_name: str | None = None
    port_number: str | None = None
    exclude_hosts: str | None = None
    user_name: str | None = None
    password: str | None = None

    def has_credentials(self) -> bool:
        """Whether the proxy wants a user name and password."""
        return self.user_name is not None and self.password is not None

    def __str__(self) -> str:
        """The proxy's URL, with its credentials; KNIME always talks http to a proxy."""
        if self.protocol_name not in _PROTOCOLS:
            return ""
        user = (
            f"{quote_plus(self.user_name or '')}:{quote_plus(self.password or '')}@"
            if self.has_credentials()
            else ""
        )
        return f"http://{user}{self.host_name}{':' + self.port_number if self.port_number else ''}"

    @classmethod
    def from_string(cls, proxy_string: str, exclude_hosts: str | None = None) -> "ProxySettings":
        """The settings in a URL.

        Raises:
            ValueError: the URL is neither http nor https.
        """
        parts = urlsplit(proxy_string)
        if parts.scheme.lower() not in _PROTOCOLS:
            raise ValueError(f"a proxy needs an http or https URL, not {parts.scheme or 'no'} protocol")
        return cls(
            parts.scheme.lower(),
            parts.hostname,
            str(parts.port) if parts.port is not None else None,
            exclude_hosts,
            unquote_plus(parts.username) if parts.username else None,
            unquote_plus(parts.password) if parts.password else None,
        )


def get_proxy_settings(protocol_name: str | None = None) -> ProxySettings | None:
    """The proxy for a protocol, from the environment; without a protocol, the first one there is.

    Raises:
        ValueError: the protocol is neither http nor https, or none was given and there is no proxy.
    """
    if not protocol_name:
        for name in _PROTOCOLS:
            found = get_proxy_settings(name)
            if found:
                return found
        raise ValueError("neither http_proxy nor https_proxy is set")
    if protocol_name.lower() not in _PROTOCOLS:
        raise ValueError(f"there are proxies for http and https, not for {protocol_name}")
    url = os.environ.get(f"{protocol_name.lower()}_proxy")
    return ProxySettings.from_string(url, os.environ.get("no_proxy")) if url else None
