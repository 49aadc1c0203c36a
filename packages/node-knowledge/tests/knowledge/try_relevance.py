"""How well searches find what people look for, by set of queries and catalogue, beside plain BM25.

``python -m tests.knowledge.try_relevance [CATALOGUE …]``; without one, with the catalogue that comes along. A
query counts where the catalogue has one of its nodes.
"""

import sys
from pathlib import Path

from knime_node_knowledge.commands.node_catalogue import open_catalogue
from knime_node_knowledge.node_search import search
from knime_node_knowledge.query_words import folded
from tests.knowledge.test_search_relevance import FOLDER, read

#: Sets with a half that nobody tuned to; of the others misses were looked at.
HALVES = ("english", "german", "tools", "wishes", "seventh", "eighth")


def ours(reader, query):
    return [hit.node for hit in search(reader, query).hits]


def bm25(reader, query):
    """SQLite's BM25 over the same fields and weights, of nodes with any of the words."""
    words = " OR ".join(f'"{word}"' for word in dict.fromkeys(folded(query).split()))
    score = "bm25(search, 10.0, 7.0, 3.0, 2.0, 1.0)"
    statement = f"SELECT rowid FROM search WHERE search MATCH ? ORDER BY {score} LIMIT 10"
    nodes = {node.row: node for node in reader.summaries()}
    return [nodes[row] for (row,) in reader.rows(statement, words)] if words else []


def figures(wanted, answer):
    """Hit@1, hit@5 and MRR among ten."""
    ranks = []
    for entry in wanted:
        found = [{node.name, node.id} for node in answer(entry.query)[:10]]
        ranks.append(next((rank for rank, names in enumerate(found, 1) if names & set(entry.nodes)), 0))
    count = len(ranks) or 1
    return (
        sum(rank == 1 for rank in ranks) / count,
        sum(0 < rank <= 5 for rank in ranks) / count,
        sum(1 / rank for rank in ranks if rank) / count,
    )


def print_table(catalogue):
    with catalogue.reading() as reader:
        known = {name for node in reader.summaries() for name in (node.name, node.id)}
        print(f"\n{len(reader):,} nodes: {catalogue.path}")
        print(f"{'set':16} queries   hit@1 hit@5  MRR     BM25: hit@1 hit@5  MRR")
        for file in sorted(FOLDER.glob("*.txt")):
            entries = [entry for entry in read(file.name) if known.intersection(entry.nodes)]
            for half in ("dev", "test") if file.stem in HALVES else ("",):
                wanted = [entry for entry in entries if half in ("", entry.section)]
                own = "  ".join(f"{value:.3f}" for value in figures(wanted, lambda q: ours(reader, q)))
                plain = "  ".join(f"{value:.3f}" for value in figures(wanted, lambda q: bm25(reader, q)))
                print(f"{file.stem} {half:4}".ljust(16), f"{len(wanted):5}    {own}        {plain}")


if __name__ == "__main__":
    for path in [Path(text) for text in sys.argv[1:]] or [None]:
        with open_catalogue(path) as opened:
            print_table(opened)
