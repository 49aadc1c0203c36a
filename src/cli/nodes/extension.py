"""Describes the nodes of Python extensions for the node catalogue, after importing the extensions."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...headless.host import ExtensionHost
    from ...knowledge.node_model import NodeSpec

_PARTS = ("agents", "audit", "headless", "tools", "types")
_ENDED = "its code ends the process that imports it"
_STRANGER = "<no such choice>"


def extension_nodes(knime_yml: Path) -> list[NodeSpec]:
    """Imports an extension and describes its nodes.

    The import runs in a separate process, as in KNIME, because extensions may have modules of the same name.

    Args:
        knime_yml: The extension's ``knime.yml``, or the folder of that file.

    Raises:
        CommandError: The extension cannot be loaded.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_print_to_stderr) as process:
        try:
            return process.submit(_imported_nodes, knime_yml).result()
        except BrokenProcessPool:
            raise _unreadable(knime_yml, _ENDED) from None


def _imported_nodes(knime_yml: Path) -> list[NodeSpec]:
    from ...headless import HeadlessError, load_extension

    try:
        return nodes_of(load_extension(knime_yml), str(knime_yml))
    except HeadlessError as error:
        # The other lines are a traceback in the extension's code.
        raise _unreadable(knime_yml, str(error).partition("\n")[0]) from None
    except SystemExit:
        raise _unreadable(knime_yml, _ENDED) from None


def _print_to_stderr() -> None:
    """Redirects an extension's prints to standard error, as standard output is the command's."""
    os.dup2(2, 1)


def _unreadable(knime_yml: Path, why: str) -> CommandError:
    return CommandError(f"The extension {knime_yml} cannot be read: {why}")


def own_nodes() -> list[NodeSpec]:
    """The nodes of this project's own extension.

    Raises:
        CommandError: The extension cannot be loaded, so this installation is broken.
    """
    from ...headless import HeadlessError, load_own_extension

    try:
        return nodes_of(load_own_extension(), "knime.yml")
    except HeadlessError as error:
        raise CommandError(f"The nodes of knime-mcp itself cannot be read: {error}") from None


def own_files() -> list[Path]:
    """The files that `own_nodes` are made of."""
    package = Path(__file__).resolve().parents[2]
    return sorted(file for folder in _PARTS for file in (package / folder).rglob("*.py"))


def nodes_of(host: ExtensionHost, file: str) -> list[NodeSpec]:
    """Describes the nodes of a loaded extension.

    Args:
        host: The extension.
        file: The given path of its ``knime.yml``.

    Returns:
        The extension's nodes, in their order.
    """
    from ...headless import HeadlessError
    from ...knowledge.sources.python_extensions import read_extension

    description = host.describe()
    dialogs: dict[str, Mapping[str, Any]] = {}
    for node_id in host.nodes:
        # Some dialogs open only with connected inputs; such nodes are described without settings.
        with suppress(HeadlessError):
            dialogs[node_id] = host.get_dialog(node_id)
    closed = {node_id: _closed(host, node_id, dialog) for node_id, dialog in dialogs.items()}
    return read_extension(description, dialogs, closed=closed, file=file)


def _closed(host: ExtensionHost, node_id: str, dialog: Mapping[str, Any]) -> set[str]:
    """The parameters with a fixed set of choices, which refuse any other value.

    Documents do not distinguish them from choices that depend on inputs, so a value is tried on the node.
    """
    data = dialog["data"]
    if not _accepts(host, node_id, data):
        return set()
    choices = _with_choices(dialog["schema"]["properties"]["model"], ())
    return {
        ".".join(keys) for keys in choices if not _accepts(host, node_id, _replaced(data, ("model", *keys)))
    }


def _accepts(host: ExtensionHost, node_id: str, document: Mapping[str, Any]) -> bool:
    try:
        host.load_parameters(node_id, document, host.version)
    except Exception:  # an extension's own check may raise anything
        return False
    return True


def _with_choices(schema: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, inner in schema.get("properties", {}).items():
        if "oneOf" in inner:
            yield (*keys, key)
        elif inner.get("type") == "object":
            yield from _with_choices(inner, (*keys, key))


def _replaced(data: Any, keys: tuple[str, ...]) -> Any:
    if not keys:
        return _STRANGER
    return {**data, keys[0]: _replaced(data[keys[0]], keys[1:])}
