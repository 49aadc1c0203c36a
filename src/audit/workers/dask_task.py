"""The Dask task that a worker runs.

Dask runs a task again whose worker was lost: as often as the scheduler's setting says, and without limit when
a worker leaves in order or when it is lost after the call and before the result was fetched. So a call that
must not be repeated is noted at the scheduler before it begins. Dask forgets the note with the task.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ...version import VERSION
from .errors import OutcomeUnknown

if TYPE_CHECKING:
    from distributed import Worker


@dataclass(frozen=True, slots=True)
class DaskTask:
    """A task while it runs.

    Attributes:
        worker: The worker that runs it.
        key: Its key, which no other call has.
    """

    worker: Worker
    key: str

    @classmethod
    def current(cls) -> Self | None:
        """The task that calls this, None outside of a Dask worker."""
        import distributed

        try:
            worker = distributed.get_worker()
        except ValueError:
            return None
        return cls(worker, worker.get_current_task())

    def begin(self) -> None:
        """Notes that the call begins.

        Raises:
            OutcomeUnknown: It began before, in a worker that was lost.
        """
        from distributed.utils import sync

        if len(sync(self.worker.loop, self._begun)) > 1:
            raise OutcomeUnknown("The worker that began this call was lost")

    async def _begun(self) -> dict[str, Any]:
        # Written before it is read: of two workers that begin at the same time, at most one goes on.
        scheduler = self.worker.scheduler
        await scheduler.set_metadata(keys=[self.key, uuid.uuid4().hex], value=self.worker.address)
        return await scheduler.get_metadata(keys=[self.key])

    def is_canceled(self) -> bool:
        """Returns whether the scheduler no longer wants the result."""
        state = self.worker.state.tasks.get(self.key)
        return state is None or state.state == "cancelled"


def installed_version() -> str:
    """The version of this package, asked of every worker before it gets calls."""
    return VERSION
