"""The error of the node host."""


class HeadlessError(RuntimeError):
    """KNIME would refuse this, or the host was used wrongly. The message says what to change."""
