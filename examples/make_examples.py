"""Makes all workflows of this folder: ``python -m examples.make_examples [FOLDER]``, in the project's root.

They are made by the project's own writer, so that they fit the extension's present settings: run this when
settings of a node change. The same version makes the same bytes. The audit workflow is made of the calls on
record; ``audit/make_audit.py`` records them anew.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.knime_nodes import (
    Column,
    column_renamer_node,
    concatenate_node,
    message_output_node,
    row_filter_node,
    string_to_path_node,
    table_creator,
    workflow_to_tool_node,
)
from knime_mcp.knwf import (
    VARIABLE_PORT,
    Annotation,
    CanvasPosition,
    Configuration,
    Connection,
    NativeNode,
    VariableControl,
    Workflow,
    configuration_node,
    write_workflow,
)
from tests.support.host import get_host
from tests.support.new_node import new_node

if TYPE_CHECKING:
    from tests.support.host import Host

HERE = Path(__file__).resolve().parent
DEMO_URL = "http://127.0.0.1:8931/mcp"
MODEL_URL = "http://localhost:11434/v1"
_ABOUT_SERVER = "The MCP server. The demo's own starts with: knime-mcp demo --serve --port 8931"
_SERVER = VariableControl(("server_url",), used="server_url")


def _place(column: int, row: int = 0) -> CanvasPosition:
    return CanvasPosition(x=120 + column * 200, y=260 + row * 160)


def _choice(
    node_id: int,
    variable: str,
    value: str,
    label: str,
    description: str,
    *,
    at: CanvasPosition,
    annotation: str = "",
) -> NativeNode:
    return configuration_node(
        node_id,
        Configuration(
            kind="string",
            variable=variable,
            parameter=variable.replace("_", "-"),
            value=value,
            label=label,
            description=description,
        ),
        position=at,
        annotation=annotation or label,
    )


def _server() -> NativeNode:
    return _choice(
        1, "server_url", DEMO_URL, "Server URL", _ABOUT_SERVER, at=_place(0), annotation="Which server?"
    )


def _provider(host: Host) -> NativeNode:
    return new_node(
        host,
        2,
        "mcp_tool_provider",
        {"server_url": DEMO_URL},
        variables=[_SERVER],
        position=_place(1),
        annotation="List its tools",
    )


def first_call(host: Host) -> Workflow:
    """A server's tools, and one call of one of them."""
    provider = _provider(host)
    caller = new_node(
        host,
        3,
        "mcp_tool_caller",
        {"tool_name": "search_text", "arguments": [{"name": "text", "value": "desk"}]},
        inputs={"Tools": 1},
        position=_place(2),
        annotation="Call search_text",
    )
    text = (
        "First call\n\n"
        "1. Start the demo's server in a terminal:  knime-mcp demo --serve --port 8931\n"
        "2. Execute all. For another server change its URL in 'Which server?'.\n"
        "3. The view of MCP Tool Caller shows the call, its output the result."
    )
    return Workflow(
        "first-call",
        (_server(), provider, caller),
        (
            Connection(1, 1, 2, VARIABLE_PORT),
            Connection(2, provider.output_port("Tools"), 3, caller.input_port("Tools")),
        ),
        annotations=(Annotation(text, x=80, y=40, width=700, height=160),),
        description="Lists the tools of an MCP server and calls one of them.",
    )


def batch(host: Host) -> Workflow:
    """One call per row of a table; one of the rows names a file that is not there."""
    provider = _provider(host)
    files = ("customer_letter.txt", "meeting_notes.md", "install_guide.txt", "not_there.txt")
    rows = table_creator(
        3, [Column("path", "string", files)], position=_place(1, 1), annotation="One call per row"
    )
    caller = new_node(
        host,
        4,
        "mcp_tool_caller",
        {"tool_name": "count_words"},
        inputs={"Tools": 1, "Parameters": 1},
        position=_place(2),
        annotation="Call count_words",
    )
    text = (
        "One call per row\n\n"
        "Columns that are called like the tool's arguments are its arguments: here 'path'. The last row names"
        " a file that is not there; its row in the results says so, and the others do not suffer."
    )
    return Workflow(
        "batch",
        (_server(), provider, rows, caller),
        (
            Connection(1, 1, 2, VARIABLE_PORT),
            Connection(2, provider.output_port("Tools"), 4, caller.input_port("Tools")),
            Connection(3, 1, 4, caller.input_port("Parameters")),
        ),
        annotations=(Annotation(text, x=80, y=40, width=700, height=160),),
        description="Calls a tool once per row of a table.",
    )


def report(host: Host) -> Workflow:
    """Records, a filter, a picture as an argument, and a file as a result."""

    def caller(node_id: int, tool: str, column: int, annotation: str, **settings: Any) -> NativeNode:
        return new_node(
            host,
            node_id,
            "mcp_tool_caller",
            {"tool_name": tool, **settings},
            inputs={"Tools": 1, "Parameters": 1},
            position=_place(column),
            annotation=annotation,
        )

    provider = _provider(host)
    rows = table_creator(
        3,
        [Column("path", "string", ("orders.csv", "climate.csv"))],
        position=_place(1, 1),
        annotation="Which files?",
    )
    check = caller(4, "check_columns", 2, "Check their columns")
    odd = row_filter_node(5, ["missing", "outliers"], position=_place(3), annotation="Keep what needs a look")
    chart = caller(6, "plot_column", 4, "Draw each of them", all_columns=True)
    renamed = column_renamer_node(
        7, {"Image": "picture"}, position=_place(5), annotation="The chart is an argument"
    )
    pages = caller(8, "report_page", 6, "Make a page on each", all_columns=True)
    text = (
        "From rows to a report\n\n"
        "1. Start the demo's server in a terminal:  knime-mcp demo --serve --port 8931\n"
        "2. 'Check their columns' is called once per file. Its second output, Records, has one row per column"
        " of a file, with typed columns, which KNIME's Row Filter can compare with numbers.\n"
        "3. 'Draw each of them' is called once per row that is left; with 'All columns', its charts are PNG"
        " cells in the column Image. Column Renamer gives it the name of an argument of the next tool, and"
        " the picture is sent.\n"
        "4. 'Make a page on each' answers with PDF files; the column Files says where they are, and the view"
        " links to them."
    )
    tools = provider.output_port("Tools")
    records = check.output_port("Records")
    return Workflow(
        "report",
        (_server(), provider, rows, check, odd, chart, renamed, pages),
        (
            Connection(1, 1, 2, VARIABLE_PORT),
            *(Connection(2, tools, own.id, own.input_port("Tools")) for own in (check, chart, pages)),
            Connection(3, 1, 4, check.input_port("Parameters")),
            Connection(4, records, 5, 1),
            Connection(5, 1, 6, chart.input_port("Parameters")),
            Connection(6, chart.output_port("Results"), 7, 1),
            Connection(7, 1, 8, pages.input_port("Parameters")),
        ),
        annotations=(Annotation(text, x=80, y=20, width=1000, height=220),),
        description="Checks files of a server, and makes a page with a chart on each odd column.",
    )


def word_count_tool(host: Host) -> Workflow:
    """A workflow that is a tool: a parameter, a call, and the message for the model."""
    about = "Name of the file whose words are counted, such as meeting_notes.md"
    path = _choice(2, "path", "meeting_notes.md", "File", about, at=_place(0, 1), annotation="Which file?")
    caller = new_node(
        host,
        3,
        "mcp_tool_caller",
        {
            "server_url": DEMO_URL,
            "tool_name": "count_words",
            "arguments": [{"name": "path", "value": "meeting_notes.md"}],
            "on_error": "fail",
        },
        variables=[_SERVER, VariableControl(("arguments", "0", "value"), used="path")],
        position=_place(2),
        annotation="Count its words",
    )
    column = table_creator(
        4, [Column("Result", "string", ())], position=_place(2, 1), annotation="The column to keep"
    )
    only = concatenate_node(5, position=_place(3), annotation="Keep the text only")
    message = message_output_node(6, position=_place(4), annotation="What the model reads")
    text = (
        "A tool for agents\n\n"
        "The Configuration nodes are the tool's parameters, the first cell at Tool Message Output is what the"
        " model reads. Workflow to Tool makes a tool of this file; MCP Tool Caller and the agents run it."
    )
    return Workflow(
        "word-count-tool",
        (_server(), path, caller, column, only, message),
        (
            Connection(1, 1, 2, VARIABLE_PORT),
            Connection(2, 1, 3, VARIABLE_PORT),
            Connection(3, caller.output_port("Results"), 5, 1),
            Connection(4, 1, 5, 2),
            Connection(5, 1, 6, 1),
        ),
        annotations=(Annotation(text, x=80, y=40, width=900, height=160),),
        description="Counts the words of a file.",
    )


def agent(host: Host) -> Workflow:
    """A question, a server's tools and a workflow as a tool, a model."""

    def place(column: float, row: float = 0) -> CanvasPosition:
        return CanvasPosition(x=int(320 + column * 200), y=int(420 + row * 150))

    server = _choice(1, "server_url", DEMO_URL, "Which server?", _ABOUT_SERVER, at=place(0, 1.5))
    where = _choice(2, "model_url", MODEL_URL, "Where is it?", "Base URL of the model's API", at=place(0))
    which = _choice(3, "model", "qwen3", "Which model?", "Name of the model", at=place(1))
    provider = new_node(
        host,
        4,
        "mcp_tool_provider",
        {"server_url": DEMO_URL, "include": "!count_words"},
        variables=[_SERVER],
        position=place(1, 1),
        annotation="Tools of a server",
    )
    workflows = table_creator(
        5,
        [Column("Workflow", "string", ("../word-count-tool",))],
        position=place(-1, 2),
        annotation="Workflows that are tools",
    )
    paths = string_to_path_node(6, "Workflow", position=place(0, 2), annotation="Where they are")
    made = workflow_to_tool_node(7, "Path", position=place(1, 2), annotation="Tools that are workflows")
    both = concatenate_node(8, position=place(2, 1.5), annotation="All tools in one column")
    connector = new_node(
        host,
        9,
        "openai_compatible_chat_model",
        {"base_url": MODEL_URL, "model_name": "qwen3"},
        variables=[
            VariableControl(("base_url",), used="model_url"),
            VariableControl(("model_name",), used="model"),
        ],
        position=place(2),
        annotation="The model",
    )
    question = (
        "Which product did we sell most of, and what do customers say about it? How many words has their"
        " letter? Name your sources."
    )
    prompter = new_node(
        host,
        10,
        "mcp_agent_prompter",
        {"user_message": question, "save_audit_workflow_to": "mcp-audit"},
        inputs={"Tools": 1},
        outputs={"Data outputs": 1},
        position=place(3, 0.75),
        annotation="Ask",
    )
    text = (
        "An agent with tools of a server and a workflow as a tool\n\n"
        "1. Start the demo's server in a terminal:  knime-mcp demo --serve --port 8931\n"
        "2. Import word-count-tool.knwf into the folder of this workflow. 'Workflows that are tools' names it"
        " by its path from here, ../word-count-tool; add a row for each workflow of your own.\n"
        "3. Say under 'Where is it?' and 'Which model?' which model to use. The default is Ollama on this"
        " computer. For a service with a key, add a Credentials Configuration node and choose it in"
        " the connector.\n"
        "4. Execute all. The view of MCP Agent Prompter shows what happened, its outputs are the conversation"
        " and the tool calls.\n\n"
        "Workflow to Tool comes with the KNIME AI Extension."
    )
    return Workflow(
        "agent",
        (server, where, which, provider, workflows, paths, made, both, connector, prompter),
        (
            Connection(1, 1, 4, VARIABLE_PORT),
            Connection(2, 1, 3, VARIABLE_PORT),
            Connection(3, 1, 9, VARIABLE_PORT),
            Connection(4, provider.output_port("Tools"), 8, 1),
            Connection(5, 1, 6, 1),
            Connection(6, 1, 7, 1),
            Connection(7, 1, 8, 2),
            Connection(9, connector.output_port("Chat model"), 10, prompter.input_port("Chat model")),
            Connection(8, 1, 10, prompter.input_port("Tools")),
        ),
        annotations=(Annotation(text, x=80, y=40, width=900, height=300),),
        description="Lets a chat model answer a question with tools of a server and a workflow as a tool.",
    )


def chat(host: Host) -> Workflow:
    """A model with tools of a server, to talk to in a view."""

    def place(column: int, row: int = 0) -> CanvasPosition:
        return CanvasPosition(x=120 + column * 200, y=260 + row * 160)

    server = _choice(1, "server_url", DEMO_URL, "Which server?", _ABOUT_SERVER, at=place(0, 1))
    where = _choice(2, "model_url", MODEL_URL, "Where is it?", "Base URL of the model's API", at=place(0))
    which = _choice(3, "model", "qwen3", "Which model?", "Name of the model", at=place(1))
    provider = new_node(
        host,
        4,
        "mcp_tool_provider",
        {"server_url": DEMO_URL},
        variables=[_SERVER],
        position=place(1, 1),
        annotation="Tools of a server",
    )
    controls = [
        VariableControl(("base_url",), used="model_url"),
        VariableControl(("model_name",), used="model"),
    ]
    connector = new_node(
        host,
        5,
        "openai_compatible_chat_model",
        {"base_url": MODEL_URL, "model_name": "qwen3"},
        variables=controls,
        position=place(2),
        annotation="The model",
    )
    talk = new_node(
        host,
        6,
        "mcp_agent_chat",
        {
            "questions": "Which columns of orders.csv and climate.csv need a look?",
            "trusted_servers": "127.0.0.1",
        },
        inputs={"Tools": 1},
        position=place(3),
        annotation="Open its view, and write",
    )
    text = (
        "A chat that may call tools\n\n"
        "1. Start the demo's server in a terminal:  knime-mcp demo --serve --port 8931\n"
        "2. Say under 'Where is it?' and 'Which model?' which model to use. The default is Ollama on this"
        " computer.\n"
        "3. 127.0.0.1 is a trusted server, so tools that it calls read-only are called unasked. Of all others"
        " the chat asks you.\n"
        "4. Execute all, open the view of MCP Agent Chat, and write. 'Hand on' in the view executes the node"
        " again: its outputs are then what was said and done.\n\n"
        "Without KNIME, in a terminal:  knime-mcp chat"
    )
    return Workflow(
        "chat",
        (server, where, which, provider, connector, talk),
        (
            Connection(1, 1, 4, VARIABLE_PORT),
            Connection(2, 1, 3, VARIABLE_PORT),
            Connection(3, 1, 5, VARIABLE_PORT),
            Connection(4, provider.output_port("Tools"), 6, talk.input_port("Tools")),
            Connection(5, connector.output_port("Chat model"), 6, talk.input_port("Chat model")),
        ),
        annotations=(Annotation(text, x=80, y=20, width=800, height=210),),
        description="A chat with a model that calls tools of a server, and asks before it changes something.",
    )


def main(folder: Path) -> None:
    """Writes the workflows into a folder."""
    host = get_host()
    for workflow in (
        first_call(host),
        batch(host),
        report(host),
        word_count_tool(host),
        agent(host),
        chat(host),
    ):
        write_workflow(workflow, folder / f"{workflow.name}.knwf")
    audit = runpy.run_path(str(HERE / "audit" / "make_audit.py"))
    (folder / "audit").mkdir(exist_ok=True)
    audit["write_workflow"](HERE / "audit" / f"{audit['NAME']}.jsonl", folder / "audit")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
