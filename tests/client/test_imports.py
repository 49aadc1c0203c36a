"""What importing costs: other modules must not be dragged in. Times are for the benchmarks."""

import subprocess
import sys


def loaded_by(statement):
    code = f"import sys\n{statement}\nprint(' '.join(sorted(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(found.stdout.split())


HEAVY = {"pyarrow", "pandas", "numpy", "jsonschema_rs", "langchain_core", "mcp", "pydantic", "truststore"}
HTTP = {"httpx", "httpcore", "httpx_sse"}


def test_importing_the_client_does_not_import_http():
    modules = loaded_by("from knime_mcp.tools import MCPClient; MCPClient('http://127.0.0.1:9/mcp')")
    assert "knime_mcp.client.mcp_client" in modules
    assert not (HEAVY | HTTP) & modules


def test_connecting_imports_http_and_nothing_heavy():
    code = (
        "from knime_mcp.tools import MCPClient\n"
        "try: MCPClient('http://127.0.0.1:9/mcp').connect()\n"
        "except Exception: pass"
    )
    modules = loaded_by(code)
    assert "httpx" in modules
    assert not HEAVY & modules


def test_the_package_alone_does_not_import_the_client():
    assert "knime_mcp.client.mcp_client" not in loaded_by("import knime_mcp.tools")


def test_every_public_name_exists():
    import knime_mcp.tools as tools

    for name in tools.__all__:
        assert getattr(tools, name) is not None
