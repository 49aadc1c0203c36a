# pyarrow ships no types, and the public stubs leave half of every array's type unknown to a strict check.
from typing import Any

def __getattr__(name: str) -> Any: ...
