"""The errors of calls that are made by workers."""

from __future__ import annotations

from ...types.errors import Canceled, MCPError

_LOOK = "Look at the server what it did: resuming the run, or running it again, makes the call again"


class OutcomeUnknown(MCPError):  # noqa: N818
    """A worker took a call and was lost: it is unknown whether the call ran."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}. It is unknown whether the call ran", fix=_LOOK)


class StoppedWithin(Canceled):
    """The run was stopped while a worker had a call: it is unknown whether the call ran."""

    def __init__(self) -> None:
        what = "The run was stopped while a worker had this call. It is unknown whether the call ran"
        super().__init__(what, fix=_LOOK)


class StoppedBefore(Canceled):
    """The run was stopped before any worker had a call."""

    def __init__(self) -> None:
        super().__init__("The run was stopped before this call")


class WorkersGone(MCPError):  # noqa: N818
    """No worker is left; the call was not made."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"There is no worker any more ({why}), so the call was not made",
            fix="See why the workers ended, then resume the run",
        )
