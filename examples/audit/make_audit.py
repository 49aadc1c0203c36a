"""Records the example audit and makes its workflow: ``python examples/audit/make_audit.py [FOLDER]``.

Starts the demo's server on port 8931, makes the calls that a question about its files needs, as an agent
would in three turns, and writes the journal, the table *Tool calls* and the audit workflow.
"""

import sys
from pathlib import Path

from knime_mcp.audit.calls_table import read_calls, write_calls
from knime_mcp.cli.demo_server import DemoServer
from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.runs.call_values import PlannedCall
from knime_mcp.runs.checked_calls import Pinning, pinned_tool
from knime_mcp.runs.engine import new_run
from knime_mcp.tools.audit_workflow import save_audit_workflow
from knime_mcp.types.routing import ServerRoute

PORT = 8931
NAME = "what-the-agent-did"
QUESTION = "Where do our files mention desks, how long are the meeting notes, and how many orders do we have?"
ANSWER = (
    "Desks are mentioned in the install guide, in the meeting notes, and as a product in the orders. The"
    " notes have 59 words of five letters or more. There are 240 orders."
)
TURNS = (
    (("list_files", {}),),
    (
        ("search_text", {"text": "desk"}),
        ("count_words", {"path": "meeting_notes.md", "min_length": 5, "top": 5}),
        ("summarize_csv", {"path": "orders.csv", "columns": ["product", "quantity"]}),
    ),
    (
        ("convert_csv", {"path": "orders.csv", "to": "markdown", "rows": 3}),
        ("count_words", {"path": "customer_leter.txt"}),  # a mistake, as models make them
        ("count_words", {"path": "customer_letter.txt"}),
    ),
)


def record(folder: Path, url: str) -> Path:
    """Makes the calls.

    Args:
        folder: Where to write.
        url: The server.

    Returns:
        The journal.
    """
    route = ServerRoute.parse(url)
    journal_file = folder / f"{NAME}.jsonl"
    journal_file.unlink(missing_ok=True)
    run = new_run(lambda found: MCPClient(found.url))
    run.pinning = Pinning.IGNORE
    with run.pool, run.open_journal(journal_file, about="example"):
        for turn, calls in enumerate(TURNS, start=1):
            for name, arguments in calls:
                tool = pinned_tool(run.definitions.find(route, name), route, shown_name=name)
                run.call(PlannedCall(tool=tool, arguments=arguments, iteration=turn))
    return journal_file


def write_workflow(journal: Path, folder: Path) -> None:
    """Makes the audit workflow of a journal.

    Args:
        journal: The journal.
        folder: Where to write.
    """
    save_audit_workflow(read_calls(journal), folder / f"{NAME}.knwf", question=QUESTION, answer=ANSWER)


def main(folder: Path) -> None:
    """Writes all three files.

    Args:
        folder: Where to write.
    """
    root = Path(__file__).resolve().parents[2]
    with DemoServer(root / "examples" / "demo" / "files", PORT) as server:
        journal = record(folder, server.url)
    write_calls(read_calls(journal), folder / f"{NAME}.csv")
    write_workflow(journal, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
