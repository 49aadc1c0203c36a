"""The former name of ``knime.api.env``."""

from knime.api._absent import absent as _absent

__getattr__ = _absent(__name__, "ProxySettings", "get_proxy_settings")
