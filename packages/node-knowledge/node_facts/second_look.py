"""Compares facts of a sample of nodes with their sources, by another way than the one that wrote them.

    python -m node_facts.second_look --clones FOLDER [--nodes 150] [--seed 1] [--every]

`java_reader` follows values through parsed Java. Here nothing is parsed: patterns look for what a fact says
in the text of `plugin.xml`, of the node's description, and of classes that its factory mentions. So a fact
that was made up, or read of another node, has no place where it stands. What was found nowhere is listed,
with `--every` also where the others were found. Numbered keys (``xpath0``) are looked for without the number.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from knime_node_knowledge.packs import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEVELS: Final = 4
"""From the factory to its model, the model's parent, its settings, and what these mention."""

_MOST_CLASSES: Final = 600
_CLASS: Final = re.compile(r"\b[A-Z]\w{3,}\b")
_NAME: Final = re.compile(r"<name>\s*(.*?)\s*</name>", re.DOTALL)
_FIXED: Final = {
    "in": re.compile(r"<(?:inPort|dataIn|modelIn|predParamIn)\b"),
    "out": re.compile(r"<(?:outPort|dataOut|modelOut|predParamOut)\b"),
}
_GROUP: Final = {
    "in": re.compile(r'<dynInPort\b[^>]*group-identifier="([^"]*)"', re.DOTALL),
    "out": re.compile(r'<dynOutPort\b[^>]*group-identifier="([^"]*)"', re.DOTALL),
}


@dataclass(slots=True)
class Sources:
    """The texts of the clones, by what they are looked up by."""

    folder: Path
    owner_names: list[str]
    classes: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))
    mentioned: dict[Path, list[Path]] = field(default_factory=dict)

    def index(self) -> None:
        for path in self.folder.rglob("*.java"):
            self.classes[path.stem].append(path)

    def repository(self, number: int) -> Path:
        return self.folder / self.owner_names[number].partition("/")[2]

    def around(self, factory: Path) -> list[Path]:
        """The factory, the classes that it mentions, those that these mention, and so on; nearest first."""
        found = {factory: None}
        edge = [factory]
        for _ in range(_LEVELS):
            edge = [path for near in edge for path in self._near(near) if path not in found]
            found |= dict.fromkeys(edge)
            if len(found) > _MOST_CLASSES:
                break
        return list(found)

    def _near(self, path: Path) -> list[Path]:
        if path not in self.mentioned:
            self.mentioned[path] = list(self._mentioned(path))
        return self.mentioned[path]

    def _mentioned(self, path: Path) -> Iterator[Path]:
        text = read(path)
        for name in dict.fromkeys(_CLASS.findall(text)):
            for other in self.classes.get(name, ()):
                package = ".".join(other.parts[other.parts.index("org") : -1]) if "org" in other.parts else ""
                if other.parent == path.parent or f"import {package}.{name};" in text:
                    yield other


@cache
def read(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def place(path: Path, words: str, folder: Path) -> str:
    """Where a text has words, for people."""
    line = read(path).partition(words)[0].count("\n") + 1
    return f"{path.relative_to(folder).as_posix()}:{line}"


def looked_up(
    fact: dict[str, Any], types: list[dict[str, Any]], sources: Sources
) -> Iterator[tuple[str, str, str]]:
    """What was looked for, as its kind and words, and where it was found; empty if nowhere."""
    root = sources.repository(fact["at"][0])
    outer = fact["id"].partition("$")[0]
    factory = root / f"{fact['at'][1]}{outer.replace('.', '/')}.java"
    if not factory.exists():
        yield "factory", fact["id"], ""
        return
    yield "factory", fact["id"], place(factory, f"class {factory.stem}", sources.folder)
    registry = [path for path in root.glob("*/plugin.xml") if f'"{fact["id"]}"' in read(path)]
    yield (
        "registration",
        fact["bundle"],
        place(registry[0], f'"{fact["id"]}"', sources.folder) if registry else "",
    )
    around = sources.around(factory)
    described = factory.with_suffix(".xml")
    if described.exists():
        yield from _described(fact, described, around, sources)
    else:
        yield "name", fact["name"], _found(f'"{fact["name"]}"', around, sources)
    for port in (*fact.get("in", ()), *fact.get("out", ())):
        if port.get("t"):
            name = types[port["t"]]["id"].rpartition(".")[2]
            yield "port class", name, _found(name.partition("$")[0], around, sources)
    for setting in fact.get("settings", ()):
        yield "setting", setting["k"], _setting(setting["k"].rpartition("/")[2], around, sources)


def _described(
    fact: dict[str, Any], described: Path, around: list[Path], sources: Sources
) -> Iterator[tuple[str, str, str]]:
    text = re.sub(r"<!--.*?-->", "", read(described), flags=re.DOTALL)
    name = _NAME.search(text)
    same = name is not None and " ".join(name[1].replace("&amp;", "&").split()) == fact["name"]
    yield "name", fact["name"], place(described, "<name>", sources.folder) if same else ""
    for side in ("in", "out"):
        ports = fact.get(side, ())
        groups = {port["n"] for port in ports if port.get("g") and "n" in port}
        fixed = [port for port in ports if not port.get("g")]
        own = [port for port in fixed if port.get("n") not in groups]
        # Some descriptions have those ports of a group that a new node has, others do not mention them.
        same = len(_FIXED[side].findall(text)) in (len(fixed), len(own))
        yield f"{side}: fixed", str(len(fixed)), place(described, "<ports", sources.folder) if same else ""
        for group in groups:
            stands = group in _GROUP[side].findall(text)
            where = (
                place(described, group, sources.folder) if stands else _found(f'"{group}"', around, sources)
            )
            yield f"{side}: group", group, where


def _found(words: str, around: list[Path], sources: Sources) -> str:
    return next((place(path, words, sources.folder) for path in around if words in read(path)), "")


def _setting(path_of_key: str, around: list[Path], sources: Sources) -> str:
    """Keys are texts, or fields of a class of parameters, with or without a prefix; groups end with a dot."""
    parts = path_of_key.rstrip("0123456789").split(".")
    for key in (".".join(parts[at:]) for at in range(len(parts))):
        if where := _found(f'"{key}"', around, sources):
            return where
    as_field = re.compile(rf"\b(?:m_)?{re.escape(parts[-1])}\b\s*(?:=|;)")
    for path in around:
        if match := as_field.search(read(path)):
            return place(path, match[0], sources.folder)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clones", type=Path, required=True)
    parser.add_argument("--facts", type=Path, default=FACTS)
    parser.add_argument("--nodes", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    header, *facts = map(json.loads, options.facts.read_text("utf-8").splitlines())
    sources = Sources(options.clones, [name for name, _ in header["repositories"]])
    sources.index()
    java = [fact for fact in facts if "python" not in fact and not fact.keys() & {"deprecated", "hidden"}]
    looked, found = Counter[str](), Counter[str]()
    for fact in random.Random(options.seed).sample(java, min(options.nodes, len(java))):
        for kind, words, where in looked_up(fact, header["types"], sources):
            looked[kind] += 1
            found[kind] += bool(where)
            if options.every or not where:
                print(f"{fact['name']}: {kind} {words}: {where or 'NOWHERE'}")
    for kind in looked:
        print(f"{kind:14} {found[kind]:5} of {looked[kind]}")
    print(f"{'together':14} {found.total():5} of {looked.total()}: {found.total() / looked.total():.2%}")


if __name__ == "__main__":
    main()
