from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")

def sync(loop: Any, func: Callable[..., Coroutine[Any, Any, R]], *args: Any) -> R: ...
