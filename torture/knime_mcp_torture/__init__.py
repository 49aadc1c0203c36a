"""A torture suite for MCP clients: servers that do what servers must not do, and what a client makes of it."""

import sys
from pathlib import Path

# The scripted servers are those of the repository's tests; they use the standard library alone.
sys.path.insert(0, str(Path(__file__).parents[2]))
