"""The place of KNIME's proxy settings, which the stand-in does not have."""

from knime.api._absent import absent as _absent

__getattr__ = _absent(
    __name__, "ProxySettings", "get_proxy_settings", "supported_proxy_protocols", "no_proxy_key"
)
