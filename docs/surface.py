"""Writes docs/surface.txt: what users and other programs can rely on, a line each, as the code has it.

Nothing is listed here by hand. Commands, nodes, tools, endpoints and public names are asked for what they
are; what is only written in the sources, such as environment variables and codes, is looked for in all of
them, and a word too many does no harm. So what changes for others is a line in the diff of a commit.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
#: The parts, by how they are called here, of which each has folders of its own but the first.
SOURCES = {
    "": ROOT / "src",
    "graph/": ROOT / "packages" / "mcp-graph" / "src" / "knime_mcp_graph",
    "knowledge/": ROOT / "packages" / "node-knowledge" / "src" / "knime_node_knowledge",
}
PROJECTS = (ROOT, ROOT / "packages" / "mcp-graph", ROOT / "packages" / "node-knowledge")
TARGET = ROOT / "docs" / "surface.txt"
INTRO = "Made by docs/surface.py from the code; do not edit. What changes here, changes for others.\n"
#: Settings without which no node promises columns, and columns that a node only passes on.
FILLED = {
    **dict.fromkeys(("server_url", "base_url"), "http://localhost"),
    **dict.fromkeys(("model_name", "prompt", "tool_name", "user_message"), "x"),
}
FREE = ("free", "Tool (JSON) (free)")
READS = re.compile(r"\benviron\b|\benvironment\.|envvar=")
CODE = "KMCP(?:-[A-Z]+)+"
Lines = Iterator[str]


@cache
def sources() -> dict[str, str]:
    """Every module by its part and its file there."""
    return {
        f"{part}{file.relative_to(folder).as_posix()}": file.read_text(encoding="utf-8")
        for part, folder in SOURCES.items()
        for file in sorted(folder.rglob("*.py"))
    }


def texts(source: str, pattern: str) -> set[str]:
    """The texts in a source that look so, whatever they are used for."""
    return set(re.findall(f'"({pattern})"', source))


def projects() -> list[Mapping[str, Any]]:
    texts = ((folder / "pyproject.toml").read_text(encoding="utf-8") for folder in PROJECTS)
    return [tomllib.loads(text)["project"] for text in texts]


def value(of: Any) -> str:
    """A value as JSON; of one that is computed where the program runs, only that."""
    return "computed" if callable(of) else json.dumps(of, ensure_ascii=False, default=str)


def package() -> Lines:
    for about in projects():
        yield f"{about['name']} requires python {about['requires-python']}"
        for extra, needs in about.get("optional-dependencies", {}).items():
            names = " ".join(re.split(r"[<>=; ]", need)[0] for need in needs)
            yield f"{about['name']} extra {extra}: {names}"


def commands() -> Lines:
    from typer.main import get_command

    from knime_mcp.cli.commands import build_app
    from knime_mcp_graph.commands import program as graphs
    from knime_node_knowledge.commands import program as nodes

    asked = {"knime-mcp": build_app, "mcpgraph": graphs.build_app, "knime-nodes": nodes.build_app}
    for about in projects():
        for name in about["scripts"]:
            yield from of_command(name, get_command(asked[name]()))
    yield from of_parser("mcpgraph", graphs.parser())


def of_command(path: str, command: Any) -> Lines:
    yield path
    arguments = [each.name for each in command.params if each.param_type_name == "argument"]
    for each in command.params:
        name = "/".join((*each.opts, *each.secondary_opts))
        name = f"argument {arguments.index(each.name) + 1} {name}" if each.name in arguments else name
        kind = "|".join(getattr(each.type, "choices", ())) or each.type.name
        limits = {"from": getattr(each.type, "min", None), "to": getattr(each.type, "max", None)}
        said = [f"{word} {limit}" for word, limit in limits.items() if limit is not None]
        said += ["flag"] if getattr(each, "is_flag", False) else []
        said += ["required"] if each.required else []
        said += ["repeated"] if each.multiple or each.nargs != 1 else []
        said += [f"in {each.envvar}"] if each.envvar else []
        yield " ".join((path, name, kind, *said, "default", value(each.default)))
    for name, inner in getattr(command, "commands", {}).items():
        yield from of_command(f"{path} {name}", inner)


def of_parser(path: str, parser: Any) -> Lines:
    for each in parser._actions:  # argparse has no other list of them
        kind = "|".join(each.choices or ()) or getattr(each.type, "__name__", "text")
        yield f"{path} {'/'.join(each.option_strings)} {kind} default {value(each.default)}"


def environment() -> Lines:
    """The gateway's settings, and the words like a variable in what reads the environment."""
    from knime_node_knowledge.gateway.gateway_settings import GatewaySettings

    for name, each in GatewaySettings.model_json_schema()["properties"].items():
        kinds = "|".join(one["type"] for one in each.get("anyOf", [each]))
        yield f"{name.upper()} {kinds} default {value(each['default']) if 'default' in each else 'computed'}"
    for source in sources().values():
        parts = re.split(r"\n(?=[\w@])", source) if READS.search(source) else []
        constants = {named[0]: part for part in parts if (named := re.match(r"[A-Z_]+\b", part))}
        for part in parts:
            if READS.search(part):
                for text in (part, *(constants.get(name, "") for name in re.findall(r"\b[A-Z_]+\b", part))):
                    yield from texts(text, "[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|HOME|PATH|[A-Z]*APPDATA")
        yield from texts(source, "(?:KNIME_MCP|OTEL)_[A-Z0-9_]+")
        yield from (re.sub("{.*?}", "<NAME>", text) for text in re.findall('f"(KNIME_MCP_.*)"', source))


@cache
def host() -> Any:
    from tests.support.host import get_host

    return get_host()


def nodes() -> Lines:
    for node in host().describe()["nodes"]:
        name = node["id"]
        flags = [flag for flag in ("is_deprecated", "is_hidden") if node[flag]]
        yield " ".join((name, value(node["name"]), node["node_type"], node["category"], *flags))
        for way in ("input", "output"):
            for place, port in enumerate(node[f"{way}_port_specifier"], 1):
                flags = [flag for flag in ("optional", "group") if port[flag]]
                yield " ".join((name, way, str(place), value(port["name"]), port["type_string"], *flags))
        yield from (f"{name} view {value(view['name'])}" for view in node["views"] if view)
        dialog = host().dialog(name, connected(node, None))
        controls = [
            each for each in mappings(dialog["ui_schema"]) if each.get("options", {}).get("isAdvanced")
        ]
        advanced = {each["scope"].replace("#/properties/model/", "") for each in controls if "scope" in each}
        schema, values = dialog["schema"]["properties"]["model"], dialog["data"]["model"]
        yield from (f"{name} setting {each}" for each in settings(schema, values, advanced))


def mappings(within: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(within, dict):
        yield within
    for each in within.values() if isinstance(within, dict) else within if isinstance(within, list) else ():
        yield from mappings(each)


def settings(schema: Any, values: Any, advanced: set[str], path: str = "", scope: str = "") -> Lines:
    for key, each in schema["properties"].items():
        place = f"{scope}properties/{key}"
        if "properties" in each:
            yield from settings(each, values[key], advanced, f"{path}{key}.", f"{place}/")
        else:
            kind = "|".join(str(one["const"]) for one in each.get("oneOf", ())) or each.get("type", "any")
            of = "".join(f" {member}" for member in each.get("items", {}).get("properties", {}))
            level = " advanced" if place in advanced else ""
            yield f"{path}{key} {kind}{of} default {value(values[key])}{level}"


def connected(node: Mapping[str, Any], also: int | None) -> list[Any]:
    """What stands at a node's inputs: what it needs, and something at one more. Needed tables hold calls."""
    import pyarrow as pa

    from knime_mcp.audit.calls_table import calls_table
    from knime_mcp.types.columns import ROW_ID

    def given(port: Mapping[str, Any]) -> Any:
        match port["type_string"]:
            case "PortType.TABLE" if port["optional"] or port["group"]:
                return host().table(pa.table({name: pa.array([], pa.string()) for name in (ROW_ID, *FREE)}))
            case "PortType.TABLE":
                return host().table(calls_table([]), "generate")
            case "PortType.CREDENTIAL":
                return host().credential_port("x")
            case own:
                return made(own)

    ports: list[Any] = []
    for place, port in enumerate(node["input_port_specifier"]):
        needed = place == also or not (port["optional"] or port["group"])
        here = [given(port)] if needed else []
        ports.append(here if port["group"] else here[0] if here else None)
    return ports


@cache
def made(port_type: str) -> Any:
    """What comes out of the node that has an output of this type."""
    for node in host().describe()["nodes"]:
        for place, port in enumerate(node["output_port_specifier"]):
            if port["type_string"] == port_type:
                unchecked = filled(node["id"], []) | {"check_connection": False}
                return host().port_object(host().run(node["id"], [], unchecked).outputs[place])
    raise LookupError(port_type)


def filled(node_id: str, inputs: list[Any]) -> dict[str, Any]:
    known = host().dialog(node_id, inputs)["data"]["model"]
    return {key: text for key, text in FILLED.items() if key in known}


def columns() -> Lines:
    """What nodes promise in ``configure``, also with other values of their settings; records, journals."""
    from knime_mcp.audit.journal_lines import LINES
    from knime_mcp.audit.record import FIELDS

    for node in host().describe()["nodes"]:
        name, outputs = node["id"], node["output_port_specifier"]
        for also in (None, *range(len(node["input_port_specifier"]))):
            inputs = connected(node, also)
            known = host().dialog(name, inputs)["schema"]["properties"]["model"]["properties"]
            usual = filled(name, inputs)
            runs = [host().run(name, inputs, usual | more, execute=False) for more in ({}, *others(known))]
            assert also is not None or runs[0].ok, f"FILLED is not enough for {name}: {runs[0].failure}"
            for port, spec in (
                pair for run in runs if run.ok for pair in zip(outputs, run.specs, strict=True)
            ):
                yield from (f"{name} {value(port['name'])}: {each}" for each in promised(spec))
    for name, field in FIELDS.items():
        shown = f" in the column {field.column} ({field.column_kind})" if field.column else ""
        yield f"record {name} {field.kind}{shown}{' hashed' if field.is_hashed else ''}"
    yield from (f"journal line {kind}: {member}" for kind, members in LINES.items() for member in members)


def others(known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, each in known.items():
        choices = [one["const"] for one in each.get("oneOf", ())]
        yield from ({key: one} for one in choices or ([True, False] if each.get("type") == "boolean" else []))


def promised(spec: Any) -> Lines:
    if spec and "columnNames" in spec:  # the first are the RowIDs
        for name, traits in list(zip(spec["columnNames"], spec["schema"]["traits"], strict=True))[1:]:
            factory = json.loads(traits["traits"]["logical_type"])["value_factory_class"]
            if name not in FREE:
                yield f"{name} ({re.sub(r'.*[.]|ValueFactory2?$', '', factory)})"


def flow_variables() -> Lines:
    for file, source in sources().items():
        yield from (f"{name} by {file}" for name in re.findall(r"flow_variables\[(.+)\] = ", source))
        yield from texts(source, r"mcp_\w+: ")


def errors() -> Lines:
    """Codes and the classes that have them, phases and clocks, and the words and numbers of ends."""
    from knime_mcp.types import errors as module

    for name, each in vars(module).items():
        yield from (f"{name} {word}" for word in (get_args(each) if get_origin(each) is Literal else ()))
    for source in sources().values():
        yield from texts(source, CODE)
        tree = ast.parse(source if re.search(f"'{CODE}'|(?:Str|Int)Enum".replace("'", '"'), source) else "")
        for each in (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
            bases = ", ".join(map(ast.unparse, each.bases))
            for line in map(ast.unparse, each.body):
                if bases in ("StrEnum", "IntEnum") and re.match(r"\w+ = ", line):
                    yield f"{each.name} {line}"
                elif code := re.search(f" = '({CODE})'$", line):
                    yield f"{code[1]} {each.name}({bases})"


def public_names() -> Lines:
    from tests.house.test_public_names import PUBLIC

    for module, name in ((module, name) for module, names in PUBLIC.items() for name in names.split()):
        found = getattr(import_module(module), name)
        yield f"{module}.{name}{parameters(found)}"
        for owner in found.__mro__ if inspect.isclass(found) else ():
            for member, each in (
                vars(owner).items() if owner.__module__.startswith(("knime_mcp.", "knime_mcp_graph.")) else ()
            ):
                if not member.startswith("_"):
                    yield f"{module}.{name}.{member}{parameters(getattr(each, '__func__', each))}"


def parameters(found: Any) -> str:
    """The names of parameters, and which have defaults. Annotations and enums differ between Pythons."""
    if not inspect.isfunction(found) and (not inspect.isclass(found) or issubclass(found, Enum | Exception)):
        return ""
    listed = inspect.signature(found).parameters.values()
    defaults = [each.empty if each.default is each.empty else ... for each in listed]
    plain = [
        each.replace(annotation=each.empty, default=it) for each, it in zip(listed, defaults, strict=True)
    ]
    return str(inspect.Signature(plain)).replace("=Ellipsis", "=")


def files() -> Lines:
    """Endings of tables, numbers of formats, and names and endings of files that are written in the code."""
    from knime_mcp.audit.table_formats import FORMATS

    for ending, form in FORMATS.items():
        yield f"table {ending}{' read' if form.read else ''}{' written' if form.open_writer else ''}"
    for file, source in sources().items():
        for text in re.findall(r"(?m)^(\w*_(?:FORMAT|VERSIONS?)\b.* = [\"(\d].*?)(?:  #.*)?$", source):
            yield f"version {file.partition('/')[0]} {text}"
        endings = "csv|html|jsonl?|knwf|sqlite|toml|xml|ya?ml|zip"
        yield from (f"name {text}" for text in texts(source, rf"[a-z~.][\w~./-]*\.(?:{endings})"))


def documents() -> Lines:
    """The words of graph documents, lists of servers and packs: those of what reads mappings key by key."""
    for file, source in sources().items():
        if re.search(r"\bFields\b", source) and "yaml_text" in source:
            yield from (f"{file.partition('/')[0]} {word}" for word in texts(source, "[a-z][A-Za-z0-9]+"))


def served() -> Lines:
    """Tools and endpoints, of servers that are made for this."""
    from knime_mcp_graph.toolkit import Toolkit
    from knime_node_knowledge.catalogue_reader import Catalogue
    from knime_node_knowledge.gateway.gateway_app import internal_app, opened_gateway, public_app
    from knime_node_knowledge.gateway.gateway_settings import GatewaySettings
    from knime_node_knowledge.gateway.observing import GatewaySpans
    from knime_node_knowledge.sources.catalogue_build import build_catalogue

    tools = asyncio.run(Toolkit(SOURCES["graph/"] / "starter.yaml").tools(any_json=True))
    yield from of_tools("toolkit", {tool["name"]: tool["inputSchema"] for tool in tools})
    with tempfile.TemporaryDirectory() as folder:
        file, keys = Path(folder) / "nodes.sqlite", Path(folder) / "keys.sqlite"
        build_catalogue(file)
        everything = GatewaySettings(
            gateway_keys_file=keys,
            gateway_public_url="https://localhost",
            gateway_oauth_issuer="https://localhost",
            elasticsearch_indices=("index",),
        )
        with Catalogue(file) as nodes, opened_gateway(everything, nodes, spans=GatewaySpans()) as gateway:
            known = gateway.registry.get_available_tools()
            yield from of_tools("nodes", {tool.name: tool.parameters for tool in known})
            for app in (public_app(gateway), internal_app(gateway)):
                yield from (f"gateway {app.state.listener} {route}" for route in of_routes(app.routes))


def of_tools(server: str, schemas: Mapping[str, Any]) -> Lines:
    for name, schema in schemas.items():
        yield f"tool of {server} {name}"
        for key, each in schema["properties"].items():
            flags = " required" if key in schema.get("required", ()) else ""
            default = f" default {value(each['default'])}" if "default" in each else ""
            yield f"tool of {server} {name}: {key} {value(each.get('type', 'any'))}{flags}{default}"


def of_routes(routes: Any) -> Lines:
    for route in routes:
        if hasattr(route, "path"):
            yield f"{'|'.join(sorted(route.methods))} {route.path}"
        else:  # what was included, which newer FastAPIs keep as it is
            yield from of_routes(route.original_router.routes)


SECTIONS: dict[str, Callable[[], Lines]] = {
    "Package": package,
    "Commands, their arguments and options": commands,
    "Environment variables": environment,
    "Nodes of KNIME, their ports, views and settings": nodes,
    "Columns, records and journals": columns,
    "Flow variables that nodes set": flow_variables,
    "Errors and ends": errors,
    "Names that programs may import": public_names,
    "Files": files,
    "Words of documents": documents,
    "Tools of our servers, and endpoints": served,
}


def surface() -> str:
    parts = ["\n".join((f"# {title}", *sorted(set(found())), "")) for title, found in SECTIONS.items()]
    return "\n".join((INTRO, *parts))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    TARGET.write_text(surface(), encoding="utf-8")
