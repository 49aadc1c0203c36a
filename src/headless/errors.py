"""The error of the node host, for what KNIME would refuse before or after a node's own code runs."""


class HeadlessError(RuntimeError):
    """KNIME would refuse here, or the host was used wrongly; the message says what to change."""
