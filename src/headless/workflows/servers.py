"""Replaces the servers in a workflow's nodes, for example by a test system."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from ...knwf import NativeNode
from ...knwf.json_parameters import to_model
from ...runs.replay_decision import ReplayOptions
from ...types.routing import ServerRoute
from .errors import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...knwf import Node, Workflow

_URL: Final = "server_url"


def with_servers(workflow: Workflow, servers: Mapping[str, str], extension_id: str) -> Workflow:
    """Replaces the servers in settings of nodes, by the rules of a replay.

    Args:
        workflow: The workflow.
        servers: New URLs by old URL or beginning of an old URL. A credential is meant for one server: if the
            new server has another origin, the node loses its credential, unless the new URL has
            ``#credential=NAME``.
        extension_id: The extension whose nodes have such settings.

    Returns:
        The workflow with changed settings.

    Raises:
        RunError: One of the servers is not in any node.
        SettingInvalid: A new URL is not valid.
    """
    if not servers:
        return workflow
    used: set[str] = set()
    known: dict[str, None] = {}
    nodes: list[Node] = []
    for node in workflow.nodes:
        if isinstance(node, NativeNode) and node.extension_id == extension_id:
            model = cast("dict[str, Any]", node.parameters["model"])
            url = model.get(_URL)
            is_set_elsewhere = any(own.path == (_URL,) and own.used for own in node.variables)
            if isinstance(url, str) and url.strip() and not is_set_elsewhere:
                known[url] = None
                used |= {old for old in servers if _is_of(url, old)}
                nodes.append(_mapped(node, model, servers))
                continue
        nodes.append(node)
    unknown = [old for old in servers if old not in used]
    if unknown:
        raise RunError(
            f"No node of the workflow names the server {unknown[0]}; they name: {', '.join(known) or 'none'}",
            fix="A URL that a flow variable sets is changed with --set",
        )
    return replace(workflow, nodes=tuple(nodes))


def _is_of(url: str, old: str) -> bool:
    return url == old or f"{url.rstrip('/')}/".startswith(f"{old.rstrip('/')}/")


def _mapped(node: NativeNode, model: dict[str, Any], servers: Mapping[str, str]) -> NativeNode:
    own = {old: new for old, new in servers.items() if _is_of(model[_URL], old)}
    if not own:
        return node
    route = ServerRoute.parse(model[_URL])
    mapped = ReplayOptions(servers=own).route(replace(route, credential=model.get("credentials")))
    changed = {**model, _URL: mapped.url}
    if "credentials" in model and mapped.credential != model["credentials"]:
        changed["credentials"] = mapped.credential or ""
    return replace(node, model=to_model({"model": changed}, node.parameters_version))
