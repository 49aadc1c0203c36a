"""Makes the example ``agent.knwf``: ``python examples/make_agent_example.py [FOLDER]``.

Like those of ``make_examples.py`` it is made by the project's own writer; the same version makes the same
bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from knime_mcp.headless import load_own_extension
from knime_mcp.headless.workflows.making import new_node
from knime_mcp.knwf import (
    VARIABLE_PORT,
    Annotation,
    Column,
    Concatenation,
    Configuration,
    Connection,
    NativeNode,
    PathConversion,
    Position,
    ToolColumn,
    VariableControl,
    Workflow,
    concatenate_node,
    configuration_node,
    string_to_path_node,
    table_creator,
    workflow_to_tool_node,
    write_workflow,
)

if TYPE_CHECKING:
    from knime_mcp.headless.host import ExtensionHost

DEMO_URL = "http://127.0.0.1:8931/mcp"
MODEL_URL = "http://localhost:11434/v1"
MODEL = "qwen3"
TOOL_WORKFLOW = "../word-count-tool"
QUESTION = (
    "Which product did we sell most of, and what do customers say about it? How many words has their letter?"
    " Name your sources."
)
TEXT = (
    "An agent with tools of a server and a workflow as a tool\n\n"
    "1. Start the demo's server in a terminal:  knime-mcp demo --serve --port 8931\n"
    "2. Import word-count-tool.knwf into the folder of this workflow. 'Workflows that are tools' names it by"
    " its path from here, ../word-count-tool; add a row for each workflow of your own.\n"
    "3. Say under 'Where is it?' and 'Which model?' which model to use. The default is Ollama on this"
    " computer. For a service with a key, add a Credentials Configuration node and choose it in"
    " the connector.\n"
    "4. Execute all. The view of MCP Agent Prompter shows what happened, its outputs are the conversation and"
    " the tool calls.\n\n"
    "Workflow to Tool comes with the KNIME AI Extension.\n\n"
    "Without KNIME:  knime-mcp run agent.knwf --set model=qwen3 --out results"
)


def _place(column: float, row: float = 0) -> Position:
    return Position(x=int(320 + column * 200), y=int(420 + row * 150))


def _choice(
    node_id: int, variable: str, value: str, label: str, description: str, *, at: Position
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
        annotation=label,
    )


def agent(host: ExtensionHost) -> Workflow:
    """A question, a server's tools and a workflow as a tool, a model."""
    server = _choice(
        1,
        "server_url",
        DEMO_URL,
        "Which server?",
        "The MCP server. The demo's own starts with: knime-mcp demo --serve --port 8931",
        at=_place(0, 1.5),
    )
    where = _choice(2, "model_url", MODEL_URL, "Where is it?", "Base URL of the model's API", at=_place(0))
    which = _choice(3, "model", MODEL, "Which model?", "Name of the model", at=_place(1))
    provider = new_node(
        host,
        4,
        "mcp_tool_provider",
        {"server_url": DEMO_URL, "exclude": "count_words"},
        variables=[VariableControl(("server_url",), used="server_url")],
        position=_place(1, 1),
        annotation="Tools of a server",
    )
    workflows = table_creator(
        5,
        [Column("Workflow", "string", (TOOL_WORKFLOW,))],
        position=_place(-1, 2),
        annotation="Workflows that are tools",
    )
    paths = string_to_path_node(
        6, PathConversion("Workflow"), position=_place(0, 2), annotation="Where they are"
    )
    made = workflow_to_tool_node(
        7, ToolColumn("Path"), position=_place(1, 2), annotation="Tools that are workflows"
    )
    both = concatenate_node(
        8, Concatenation(intersection=True), position=_place(2, 1.5), annotation="All tools in one column"
    )
    connector = new_node(
        host,
        9,
        "openai_compatible_chat_model",
        {"base_url": MODEL_URL, "model_name": MODEL},
        variables=[
            VariableControl(("base_url",), used="model_url"),
            VariableControl(("model_name",), used="model"),
        ],
        position=_place(2),
        annotation="The model",
    )
    prompter = new_node(
        host,
        10,
        "mcp_agent_prompter",
        {"user_message": QUESTION, "save_audit_workflow_to": "mcp-audit"},
        inputs={"Tools": 1},
        outputs={"Data outputs": 1},
        position=_place(3, 0.75),
        annotation="Ask",
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
        annotations=(Annotation(TEXT, x=80, y=40, width=900, height=300),),
        description="Lets a chat model answer a question with tools of a server and a workflow as a tool.",
    )


def main(folder: Path) -> None:
    """Writes the workflow into a folder."""
    write_workflow(agent(load_own_extension()), folder / "agent.knwf")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
