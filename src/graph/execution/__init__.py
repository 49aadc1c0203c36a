"""Runs of graphs: nodes, calls, history, limits, and who watches them."""
