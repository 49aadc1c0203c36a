"""How often a search among 500 tools has the right one among its first ten, for paraphrases.

``python -m tests.agents.toolbox.try_recall`` prints it. The search was worked on with every second line of
``paraphrases.txt``; the lines between are held out.
"""

from knime_mcp.agents.toolbox.tool_search import ToolIndex
from tests.agents.toolbox import many_tools

FIRST = 10


def recall() -> dict[tuple[str, str], float]:
    """The share of queries whose tool is among the first ten, by language and half."""
    tools, rows = many_tools.tools(), many_tools.paraphrases()
    names = [tool["function"]["name"] for tool in tools]
    index = ToolIndex(tools)
    shares: dict[tuple[str, str], float] = {}
    for column, language in enumerate(("English", "German")):
        for start, half in enumerate(("worked on", "held out")):
            part = [(row[column], row[2]) for row in rows[start::2]]
            found = [wanted in [names[place] for place in index.find(query, FIRST)] for query, wanted in part]
            shares[language, half] = sum(found) / len(found)
    return shares


if __name__ == "__main__":
    for (language, half), share in recall().items():
        print(f"recall@{FIRST} of tools, {language}, {half}: {share:.2f}")
