"""Writes the tables that pages have from code, ``python -m docs.tables``; with ``--words`` counts the rest.

A table stands in its page between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; nobody edits it.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_args

from knime_mcp.audit.journal_reading import LINES
from knime_mcp.audit.record import FIELDS
from knime_mcp.audit.verdicts import Verdict
from knime_mcp.client.limits import Limits
from knime_mcp.client.protocol.outcomes import OUTCOMES
from knime_mcp.types.errors import ClockKind, ConnectPhase
from knime_node_knowledge.gateway.gateway_errors import CODES, MCPErrorType
from knime_node_knowledge.gateway.gateway_settings import GatewaySettings
from knime_node_knowledge.tool_definitions import TOOLS
from tests.agents.model import test_endpoints, test_strict_endpoints
from tests.client.oauth.providers import PROVIDERS
from tests.client.test_reported_servers import REPORTS
from tests.house import sources
from tests.house.test_import_arrows import MAY_IMPORT, PRODUCTS_MAY_IMPORT
from tests.house.test_links import DOCUMENTS

Rows = Iterator[tuple[str, ...]]
ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
#: What runs write into pages; pages that are made as a whole; what is no page, or grows with each release.
RESULTS = re.compile(r"<!-- results.*?<!-- end of results -->", re.DOTALL)
MADE = {ROOT / "docs" / "requirements.md", ROOT / "benchmarks" / "RESULTS.md"}
NO_PAGES = {ROOT / "examples" / "demo" / "files" / "meeting_notes.md", ROOT / "CHANGELOG.md"}
MIB = 1024 * 1024
#: Where a warm call comes by, from the caller to the wire and back.
WIRE = """
client/mcp_client.py client/calling.py client/conversation.py client/clock.py
client/transports/streamable_http.py client/transports/http_channel.py client/transports/connections.py
client/protocol/messages.py client/protocol/tools.py client/validation/schemas.py
"""
CODE = re.compile(r"KMCP-[A-Z-]+")
KINDS = {"KMCP-CONNECT": get_args(ConnectPhase), "KMCP-TIMEOUT": get_args(ClockKind)}


def record() -> Rows:
    yield "in a journal", "in a table", "hashed", "meaning"
    for name, field in FIELDS.items():
        yield f"`{name}`", field.column or "", "yes" if field.is_hashed else "", field.meaning


def lines() -> Rows:
    yield "kind of line", "member", "meaning"
    for kind, members in LINES.items():
        yield from ((f"`{kind}`", f"`{name}`", meaning) for name, meaning in members.items())


def outcomes() -> Rows:
    yield "What happened", "May it have run?", "Is it sent again at once?", "What is said"
    for row in OUTCOMES:
        yield row.happened, ": ".join(filter(None, (row.ran, row.why))), row.again, row.said


def codes() -> Rows:
    yield "code", "meaning"
    for code, meaning in sorted(meanings().items()):
        kinds = [f"`{code}-{kind.upper()}`" for kind in KINDS.get(code, ())]
        yield ", ".join(kinds) or f"`{code}`", meaning


@cache
def meanings() -> dict[str, str]:
    """What each code means: the docstring of the class that has it, or else of what names it."""
    owned: dict[str, str] = {}
    named: dict[str, str] = {}

    def look(node: ast.AST, meaning: str) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Constant(value=str(code)) if CODE.fullmatch(code):
                    named.setdefault(code, meaning)
                case ast.ClassDef(body=body):
                    own = first_sentence(ast.get_docstring(child)) or meaning
                    owned.update({code: own for line in body if (code := class_code(line))})
                    look(child, own)
                case ast.FunctionDef():
                    look(child, first_sentence(ast.get_docstring(child)) or meaning)
                case _:
                    look(child, meaning)

    for file in sources.FILES:
        look(sources.tree(file), "")
    return named | owned


def class_code(line: ast.AST) -> str:
    match line:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            found = CODE.search(ast.unparse(line))
            return found[0] if found and name in {"CODE", "error_code"} else ""
        case _:
            return ""


def first_sentence(doc: str | None) -> str:
    paragraph = " ".join((doc or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s+(?=[A-Z])", paragraph)[0].replace("``", "`")


def verdicts() -> Rows:
    yield "verdict", "it means"
    module = sources.tree(sources.SRC / "audit" / "verdicts.py")
    for verdict, meaning in documented_members(module, Verdict.__name__):
        yield f"*{verdict}*", meaning


def documented_members(module: ast.Module, name: str) -> Iterator[tuple[str, str]]:
    """The values of an enum's members, with the docstrings behind them."""
    (enum,) = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name)
    for member, doc in pairwise(enum.body):
        if isinstance(member, ast.Assign) and isinstance(doc, ast.Expr):
            yield ast.literal_eval(member.value), ast.literal_eval(doc.value)


def parts() -> Rows:
    yield "part", "what it is", "may import"
    files = {name: sources.SRC / name / "__init__.py" for name in MAY_IMPORT}
    files["types"] = sources.SRC / "types" / "tool.py"  # the only part that is no package
    files |= {name: folder / "__init__.py" for name, folder in sources.PRODUCTS.items()}
    for name, allowed in (MAY_IMPORT | PRODUCTS_MAY_IMPORT).items():
        about = first_sentence(ast.get_docstring(sources.tree(files[name])))
        yield f"`{name}/`", about, ", ".join(sorted(allowed)) or "nothing"


def wire() -> Rows:
    yield "file", "what it has"
    for name in WIRE.split():
        about = first_sentence(ast.get_docstring(sources.tree(sources.SRC / name)))
        yield f"`{name}`", about


def node_tools() -> Rows:
    yield "tool", "what it does", "arguments"
    for tool in TOOLS:
        properties = tool.parameters["properties"].items()
        given = [
            f"`{name}` ({json.dumps(schema['default'])})" if "default" in schema else f"`{name}`"
            for name, schema in properties
        ]
        yield f"`{tool.name}`", first_sentence(tool.description), ", ".join(given)


def limits() -> Rows:
    doc = inspect.cleandoc(Limits.__doc__ or "").partition("Attributes:\n")[2]
    described = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", doc, re.MULTILINE)
    meanings = {name: " ".join(text.split()).replace("``", "`") for name, text in described}
    yield "limit", "usual", "of what"
    for field in fields(Limits):
        is_large = field.name.endswith("_bytes") and field.default % MIB == 0
        usual = f"{field.default // MIB} MiB" if is_large else f"{field.default:,}"
        yield f"`{field.name}`", usual, meanings[field.name]


def settings() -> Rows:
    yield "variable", "default", "meaning"
    for name, field in GatewaySettings.model_fields.items():
        match field.default:
            case _ if field.default_factory is not None:
                default = "in the data folder"
            case None | ():
                default = ""
            case bool() as value:
                default = f"`{str(value).lower()}`"
            case value:
                default = f"`{value}`"
        yield f"`{name.upper()}`", default, field.description or ""


def gateway_errors() -> Rows:
    yield "`error_type`", "HTTP", "JSON-RPC", "when"
    module = sources.tree(sources.PRODUCTS["knime_node_knowledge"] / "gateway" / "gateway_errors.py")
    meanings = dict(documented_members(module, MCPErrorType.__name__))
    for kind, (status, code) in CODES.items():
        yield f"`{kind.value}`", str(status), str(code), meanings[kind.value]


def providers() -> Rows:
    yield "provider", "options of `knime-mcp login`", "what is particular"
    yield from ((each.name, each.how, each.particular) for each in PROVIDERS)


def reports() -> Rows:
    yield "report", "the server"
    for of, check in REPORTS.items():
        repository, number = of.split("#")
        link = f"https://github.com/{repository}/issues/{number}"
        yield f"[{of}]({link})", check.__name__.replace("_", " ")


TABLES: dict[str, Callable[[], Rows]] = {
    "record": record,
    "lines": lines,
    "outcomes": outcomes,
    "codes": codes,
    "limits": limits,
    "verdicts": verdicts,
    "parts": parts,
    "wire": wire,
    "gateway errors": gateway_errors,
    "node tools": node_tools,
    "settings": settings,
    "providers": providers,
    "reports": reports,
    "endpoints": test_endpoints.table,
    "schemas": test_strict_endpoints.table,
}


def table(name: str) -> str:
    head, *rows = TABLES[name]()
    lines = [f"| {' | '.join(row)} |\n" for row in (head, *rows)]
    return "".join([lines[0], "|---" * len(head), "|\n", *lines[1:]])


def with_tables(page: str) -> str:
    """The page with its tables as they have to be."""
    return BLOCK.sub(lambda found: f"{found[1]}{table(found[2])}{found[3]}", page)


def words(page: str) -> int:
    """The words that people wrote: without what is made."""
    return len(re.findall(r"\S*\w\S*", RESULTS.sub("", BLOCK.sub("", page))))


if __name__ == "__main__":
    written = {file: file.read_text(encoding="utf-8") for file in DOCUMENTS if file not in MADE | NO_PAGES}
    if sys.argv[1:] == ["--words"]:
        counted = {file: words(text) for file, text in written.items()}
        for file, count in sorted(counted.items(), key=lambda each: each[1]):
            print(f"{count:6} {file.relative_to(ROOT)}")
        print(f"{sum(counted.values()):6} in all")
    else:
        for file, text in written.items():
            file.write_text(with_tables(text), encoding="utf-8")
