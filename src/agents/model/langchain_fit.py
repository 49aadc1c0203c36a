"""Says in plain words if LangChain is of a version whose inner methods are not those that this project knows.

Some methods that are overridden here are not public, so they may change in any version: `StructuredTool._run`
and `_arun` (in `_tool`; documented as hooks, but not their parameters), `ChatAnthropic._get_request_payload`
(in `anthropic_model`). So the versions have an upper bound, and what is there is checked when it is loaded.
"""

from __future__ import annotations

import inspect
from importlib import metadata
from typing import TYPE_CHECKING, Final

from ...types.errors import MCPError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: As in pyproject.toml and pixi.toml; raise the bound after the tests have passed with the next version.
VERSIONS: Final = {"langchain-core": ">=1.0,<1.9", "langchain-anthropic": ">=1.7,<1.8"}


class PackageUnfit(MCPError):  # noqa: N818
    """A package is of a version that this project does not know."""

    CODE = "KMCP-PACKAGE"


def require_fit(owner: type, package: str, methods: Mapping[str, Sequence[str]]) -> None:
    """Checks that a class has methods with the parameters of these names.

    The error, if it has not, names package, version and methods.
    """
    odd = [name for name, parameters in methods.items() if not _takes(owner, name, parameters)]
    if odd:
        raise PackageUnfit(
            f"{package} {metadata.version(package)} does not fit: {owner.__name__} has other methods"
            f" ({', '.join(odd)}) than this extension knows",
            fix=f"Install {package}{VERSIONS[package]}",
        )


def _takes(owner: type, name: str, parameters: Sequence[str]) -> bool:
    method = getattr(owner, name, None)
    return callable(method) and inspect.signature(method).parameters.keys() >= set(parameters)
