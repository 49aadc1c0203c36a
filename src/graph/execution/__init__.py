"""Runs of graphs: nodes, calls, history, limits, hooks and spans."""
