"""The place of KNIME's helpers for unit tests of nodes, which the stand-in does not have."""

from knime.api._absent import absent as _absent

__getattr__ = _absent(
    __name__, "TestingConfigurationContext", "TestingExecutionContext", "register_extension"
)
