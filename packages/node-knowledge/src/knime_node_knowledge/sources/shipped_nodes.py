"""The nodes of KNIME that come along: facts from its public sources, and our own words for the best known.

The facts are in ``packs/knime-nodes.jsonl``, which ``node_facts`` writes. Its first line has what all nodes
share: repositories with the commits that were read, and types of ports with what they are kinds of. Each
other line is a node. Our own summaries are by the names of the nodes: in ``packs/knime-basics.yaml`` with
details, in ``packs/knime-words.toml`` for all others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from knime_mcp.version import VERSION

from ..catalogue_file import node_of
from ..node_model import NodeParameter, NodeSpec, Option, Origin, Port, SourceKind
from ..packs import BASICS, FACTS, OWN_NODES
from ..query_words import compact
from .node_descriptions import port_of
from .phrase_tables import words_of
from .spec_packs import read_pack

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = "Port"
_EARLIER: Final = "read from workflows of earlier versions"
_TYPES: Final = {"s": "string", "i": "integer", "f": "float", "b": "boolean", "e": "enum"}
RENAMED: Final[Mapping[str, str]] = {
    "Auto Type Cast": "Column Auto Type Cast",
    "Create Collection Column": "Columns to Collection",
    "Email Reader": "Email Reader (Labs)",
    "Email Sender": "Email Sender (Labs)",
    "Extract Column Header": "Column Name Extractor",
    "Insert Column Header": "Column Renamer (Dictionary)",
    "Partitioning": "Table Partitioner",
    "Row Sampling": "Row Sampler",
    "Sentiment Analyzer": "Amazon Comprehend (Sentiment)",
}
"""The names of today, by the names under which our summaries know the nodes. People search for both."""


@cache
def shipped_nodes() -> tuple[NodeSpec, ...]:
    """All nodes that come along. Those whose sources are not public have our words alone, and no facts."""
    texts = {compact(RENAMED.get(node.name, node.name)): node for node in _basics()}
    found: list[NodeSpec] = []
    for fact in facts():
        if fact.deprecated or fact.hidden:
            found.append(fact)
        elif compact(fact.name) in texts:
            found.append(_in_our_words(fact, texts.pop(compact(fact.name))))
        else:
            words = words_of(fact)
            found.append(replace(fact, short_description=words.summary) if words else fact)
    return (*found, *texts.values())


def own_nodes() -> list[NodeSpec]:
    """The nodes of this extension, of this version."""
    lines = (json.loads(line) for line in OWN_NODES.read_text("utf-8").splitlines())
    return [_of_this_version(node_of(line)) for line in lines]


def _of_this_version(node: NodeSpec) -> NodeSpec:
    return replace(node, version=VERSION, origin=replace(node.origin, version=VERSION))


@cache
def facts_by_id() -> Mapping[str, NodeSpec]:
    return {node.id: node for node in shipped_nodes()}


@cache
def facts() -> tuple[NodeSpec, ...]:
    """The nodes of the file of facts, without any text of ours."""
    lines = FACTS.read_text("utf-8").splitlines()
    header = json.loads(lines[0])
    return tuple(_node(json.loads(line), header) for line in lines[1:])


def _basics() -> tuple[NodeSpec, ...]:
    """Our summaries. They have the labels of dialogs, not the keys of settings."""
    pack = read_pack(BASICS, shown_as=BASICS.name)
    return tuple(replace(node, settings_known=False) for node in pack.nodes)


def _in_our_words(fact: NodeSpec, own: NodeSpec) -> NodeSpec:
    described = [own.description, *(f"- {entry.name}: {entry.description}" for entry in own.parameters)]
    return replace(
        fact,
        short_description=own.short_description,
        description="\n".join(filter(None, described)),
        aliases=tuple(dict.fromkeys((*own.aliases, *([own.name] if own.name != fact.name else ())))),
        keywords=own.keywords,
    )


def _node(line: Mapping[str, Any], header: Mapping[str, Any]) -> NodeSpec:
    number, place = line["at"]
    repository, commit = header["repositories"][number]
    # Of Java's nodes only the folder is on file: the class, or the outer one, names its file.
    if not line.get("python"):
        place = f"{place}{line['id'].partition('$')[0].replace('.', '/')}.java"
    return NodeSpec(
        id=line["id"],
        node_type="OTHER" if line["kind"] == "UNKNOWN" else line["kind"],
        subtype=line["id"],
        name=line["name"],
        version=line["version"],
        category=tuple(line["category"]),
        parameters=tuple(_parameter(entry) for entry in line.get("settings", ())),
        settings_known="settings" in line,
        open_settings=tuple(line.get("open", ())),
        followed_by=tuple(line.get("next", ())),
        preceded_by=tuple(line.get("prev", ())),
        input_ports=_ports(line["in"], header, is_input=True),
        output_ports=_ports(line["out"], header, is_input=False),
        deprecated="deprecated" in line,
        successor=line.get("successor"),
        hidden="hidden" in line,
        origin=Origin(
            kind=SourceKind.FACTS,
            name=line["bundle"],
            version=line["version"],
            file=f"github.com/{repository}/blob/{commit}/{place}",
        ),
    )


def settings_of_line(line: Mapping[str, Any]) -> NodeSpec:
    """A node with nothing but its settings."""
    return NodeSpec(
        id=line["id"],
        node_type="",
        subtype="",
        name="",
        parameters=tuple(_parameter(entry) for entry in line["settings"]),
        settings_known=True,
        open_settings=tuple(line.get("open", ())),
        origin=Origin(kind=SourceKind.FACTS, name=""),
    )


def _parameter(entry: Mapping[str, Any]) -> NodeParameter:
    """A setting. One of earlier versions (``r``) is accepted, but not written any more."""
    return NodeParameter(
        name=entry["k"],
        type=_TYPES[entry["t"]] if "t" in entry else None,
        default_value=entry.get("d"),
        has_default="d" in entry,
        options=tuple(Option(value=value) for value in entry.get("c", ())),
        min=entry.get("min"),
        max=entry.get("max"),
        advanced="h" in entry,
        label=_EARLIER if "r" in entry else "",
    )


def _ports(entries: list[dict[str, Any]], header: Mapping[str, Any], *, is_input: bool) -> tuple[Port, ...]:
    found: list[Port] = []
    for entry in entries:
        kind = header["types"][entry["t"]] if "t" in entry else {"name": "", "id": None}
        found.append(
            port_of(
                name=entry.get("n") or kind["name"] or _PLAIN,
                type=kind["name"],
                type_id=kind["id"],
                accepts=tuple(header["types"][number]["id"] for number in entry.get("a", ())),
                is_input=is_input,
                optional="o" in entry,
                group="g" in entry,
            )
        )
    return tuple(found)
