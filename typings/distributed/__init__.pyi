from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Self

class Client:
    def __init__(
        self,
        address: str,
        *,
        timeout: float | str = ...,
        set_as_default: bool = ...,
        name: str | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def nthreads(self) -> dict[str, int]: ...
    def run(self, function: Callable[..., Any], *args: Any, on_error: str = ...) -> dict[str, Any]: ...
    def get_executor(self, *, pure: bool, retries: int) -> Executor: ...

class TaskState:
    state: str

class WorkerState:
    tasks: dict[str, TaskState]

class Scheduler:
    def set_metadata(self, *, keys: list[str], value: Any) -> Coroutine[Any, Any, None]: ...
    def get_metadata(self, *, keys: list[str]) -> Coroutine[Any, Any, Any]: ...

class Worker:
    address: str
    loop: Any
    scheduler: Scheduler
    state: WorkerState
    def get_current_task(self) -> str: ...

def get_worker() -> Worker: ...
