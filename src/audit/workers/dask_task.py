"""The Dask task that a worker runs.

Dask repeats a task whose worker was lost: as often as the scheduler's setting allows, and without limit if a
worker leaves in order or is lost between the end of the call and the transfer of its result. So a call that
must not be repeated is noted at the scheduler before it begins. Dask deletes the note with the task.
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
        worker: The worker that runs the task.
        key: The task's key, which is unique.
    """

    worker: Worker
    key: str

    @classmethod
    def current(cls) -> Self | None:
        """The task that is running, None outside of a Dask worker."""
        import distributed

        try:
            worker = distributed.get_worker()
        except ValueError:
            return None
        return cls(worker, worker.get_current_task())

    def begin(self) -> None:
        """Marks the call as begun at the scheduler.

        Raises:
            OutcomeUnknown: The call has begun before, in a worker that was lost.
        """
        from distributed.utils import sync

        if len(sync(self.worker.loop, self._begun)) > 1:
            raise OutcomeUnknown("The worker that began this call was lost")

    async def _begun(self) -> dict[str, Any]:
        # Written before it is read: if two workers begin at the same time, at most one of them continues.
        scheduler = self.worker.scheduler
        await scheduler.set_metadata(keys=[self.key, uuid.uuid4().hex], value=self.worker.address)
        return await scheduler.get_metadata(keys=[self.key])

    def is_canceled(self) -> bool:
        """Returns whether the scheduler no longer wants the result."""
        state = self.worker.state.tasks.get(self.key)
        return state is None or state.state == "cancelled"


def installed_version() -> str:
    """The version of this package; every worker is asked for it before calls are sent."""
    return VERSION
