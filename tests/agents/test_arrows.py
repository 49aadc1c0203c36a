"""The files below the agent nodes import one way only, as the parts of the whole house do."""

import ast
from pathlib import Path

AGENTS = Path(__file__).parents[2] / "src" / "agents"
MAY_IMPORT = {
    "toolbox": {"model", "message_content"},
    "model": {"message_content"},
    "agent_events": {"toolbox", "answer_schema"},
    "message_content": set(),
    "answer_schema": {"message_content", "model"},
    "model_messages": {"message_content", "toolbox", "model", "agent_events"},
    "model_calls": {"model", "agent_events", "answer_schema", "message_content", "model_messages"},
    "agent_loop": {
        "toolbox",
        "model",
        "message_content",
        "agent_events",
        "model_messages",
        "model_calls",
    },
    "timeline": {"toolbox", "agent_events", "model_messages"},
    "timeline_page": {"toolbox", "agent_events", "message_content", "timeline"},
    "questions": {"toolbox", "model", "agent_events", "agent_loop", "model_messages"},
    "_tool": {"toolbox", "model"},
    "server_tools": {"toolbox", "_tool"},
    "prompter": {
        "answer_schema",
        "toolbox",
        "model",
        "message_content",
        "agent_events",
        "model_messages",
        "model_calls",
        "agent_loop",
        "questions",
        "timeline",
    },
}


def imported(path, *, types_too=True):
    """The modules of agents that a file imports, as paths below agents without ending."""
    here = path.relative_to(AGENTS).parent.parts
    tree = ast.parse(path.read_text("utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not 0 < node.level <= len(here) + 1:
            continue
        if types_too or id(node) not in for_types:
            base = here[: len(here) - node.level + 1]
            names = [node.module.split(".")] if node.module else [[alias.name] for alias in node.names]
            yield from ("/".join((*base, *name)) for name in names)


def test_rooms_import_one_way(subtests):
    for room in MAY_IMPORT:
        with subtests.test(room=room):
            files = [*AGENTS.glob(f"{room}/*.py"), *AGENTS.glob(f"{room}.py")]
            assert files
            others = {module.split("/")[0] for path in files for module in imported(path)}
            assert others - {room} <= MAY_IMPORT[room]


def test_no_circle_of_imports():
    """Also of imports inside functions; only types may be imported in a circle."""
    graph = {
        str(path.relative_to(AGENTS).with_suffix("")): set(imported(path, types_too=False))
        for path in AGENTS.rglob("*.py")
    }
    while leaves := [name for name, modules in graph.items() if not modules & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert not graph
