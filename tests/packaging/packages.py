"""Builds what is handed out into dist/, and proves what a receiver relies on.

Run by `make packages` rather than by pytest, because it builds and installs: the wheels of the three products
and the source distribution of the first pass the index's checks, are the same bytes when built twice, and can
be built without a network; every wheel and every extra starts what it promises in an environment of its own,
where wheels find each other by `--find-links`; the lowest allowed versions run the demo and the quick tests.
A list of all parts (CycloneDX) and the licences of each stand beside them.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packaging.ways_in import CLEAN, ROOT, run
from tests.peers import build_peers

DIST = ROOT / "dist"
UV = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))

#: Extra -> what somebody who installed only this can do. Each is a program that ends with 0.
PROMISES = {
    "": "import sys; from knime_mcp.agents import langchain_tools; from knime_mcp.client.oauth import grants;"
    " from knime_mcp.cli.app import main; sys.argv = ['', 'demo']; main()",
    "embedding": "from knime_mcp.agents.toolbox.tool_search import _word_vectors; assert _word_vectors()",
    "serving": "from knime_mcp.web import tool_server",
    "dask": "import distributed; from knime_mcp.runs.dask_calls import DaskCalls",
    "knime": "import markdown, pandas, PIL, py4j, pytz; from knime_mcp.cli.knime_setup import doctor",
    "audit": "import rfc3161_client; from knime_mcp.audit.signatures import SigningKey",
    "all": "from knime_mcp.cli.commands import build_app; build_app()",
}
#: Product in packages/ -> the same for it and its extras.
PRODUCTS = {
    "mcp-graph": {
        "": "import sys; from knime_mcp_graph import McpGraphApi;"
        " from knime_mcp_graph.commands.program import main; sys.argv = ['', 'new', 'g.yaml']; main()",
    },
    "node-knowledge": {
        "": "import sys; from knime_node_knowledge.commands.program import main;"
        " sys.argv = ['', 'search', 'VLOOKUP']; main()",
        "gateway": "from knime_node_knowledge.gateway import gateway_app",
        "elasticsearch": "from knime_node_knowledge.gateway import elasticsearch_tool",
        "all": "from knime_node_knowledge.gateway import outside_services",
    },
}


OURS = [word for name in ("knime-mcp", *PRODUCTS) for word in ("--no-binary", name)]
EDITABLE = [
    word
    for name in (f"{ROOT}[all]", f"{ROOT}/packages/mcp-graph", f"{ROOT}/packages/node-knowledge[all]")
    for word in ("--editable", name)
]


def uv(*words: str | Path, **more: str) -> None:
    assert UV, "uv is in the dev group; make packages installs it"
    build_peers.network(f"uv {words[0]}", [UV, *map(str, words)], cwd=ROOT, env=CLEAN | more)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build(folder: Path, *options: str) -> list[Path]:
    """The wheels, and the source distribution that the first is built from."""
    uv("build", "--quiet", "--no-create-gitignore", "--out-dir", folder, *options, ROOT)
    for product in PRODUCTS:
        where = ROOT / "packages" / product
        uv("build", "--quiet", "--no-create-gitignore", "--wheel", "--out-dir", folder, *options, where)
    return sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])


def packages(work: Path) -> Path:
    shutil.rmtree(DIST, ignore_errors=True)
    first, again = build(DIST), build(work / "again")
    assert [digest(file) for file in first] == [digest(file) for file in again], "two builds differ"
    builder = work / "builder"
    uv("venv", "--quiet", builder)
    uv("pip", "install", "--quiet", "--python", builder, "hatchling>=1.27")
    offline = {"VIRTUAL_ENV": str(builder), "UV_OFFLINE": "1"}
    alone = work / "alone"
    (source,) = DIST.glob("*.tar.gz")
    unpacked = work / "unpacked"
    shutil.unpack_archive(source, unpacked)
    (tree,) = unpacked.iterdir()
    uv("build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", alone, tree, **offline)
    (wheel,) = DIST.glob("knime_mcp-*.whl")
    (from_source,) = alone.glob("*.whl")
    assert digest(wheel) == digest(from_source), "the wheel from the source distribution differs"
    uv("tool", "run", "--quiet", "twine", "check", "--strict", *first)
    # W002: knime.yml names the licence beside it, and the package index wants it in its own place.
    uv("tool", "run", "--quiet", "check-wheel-contents", "--ignore", "W002", *DIST.glob("*.whl"))
    for file in first:
        print(f"{file.name}  sha256:{digest(file)}  {file.stat().st_size:,} bytes, twice the same")
    return wheel


def environment(folder: Path, *what: str | Path) -> Path:
    uv("venv", "--quiet", folder)
    uv("pip", "install", "--quiet", "--python", folder, *what)
    return folder / "bin" / "python"


def extras(work: Path, wheel: Path) -> None:
    for extra, program in PROMISES.items():
        python = environment(work / f"extra-{extra or 'none'}", f"{wheel}[{extra}]" if extra else wheel)
        run(python, "-W", "error", "-c", program)
        print(f"knime-mcp, extra {extra or '(none)':14} starts what it promises")
    for product, promises in PRODUCTS.items():
        for extra, program in promises.items():
            what = f"{product}[{extra}]" if extra else product
            found = ("--find-links", DIST, what)
            python = environment(work / f"{product}-{extra or 'none'}", *found)
            run(python, "-W", "error", "-c", program)
            print(f"{product}, extra {extra or '(none)':14} starts what it promises")


def lowest(work: Path, _: Path) -> None:
    """Demo and quick tests with the lowest versions that pyproject.toml allows, as wheels for this Python."""
    folder = work / "lowest"
    binaries = ("--only-binary", ":all:", *OURS)
    python = environment(folder, "--resolution", "lowest-direct", *binaries, *EDITABLE)
    run(python.with_name("knime-mcp"), "demo")
    print("lowest versions run the demo", flush=True)
    # The newest test tools: what is installed already stays as low as it is.
    uv("pip", "install", "--quiet", "--python", folder, "--group", "test")
    tests = (
        "-m",
        "pytest",
        "-q",
        "-m",
        "quick",
        "-n",
        "auto",
        "--dist",
        "worksteal",
        "-p",
        "no:cacheprovider",
    )
    subprocess.run([python, *tests], cwd=ROOT, env=CLEAN, check=True)
    print("lowest versions pass the quick tests")


def parts(work: Path, wheel: Path) -> None:
    python = environment(
        work / "parts", "--find-links", DIST, f"{wheel}[all]", "mcp-graph", "node-knowledge[all]"
    )
    out = DIST / f"{wheel.stem.rsplit('-', 3)[0]}.cdx.json"
    uv("tool", "run", "--quiet", "--from", "cyclonedx-bom", "cyclonedx-py", "environment", python, "-o", out)
    licences = DIST / "licences.csv"
    uv(
        *("tool", "run", "--quiet", "pip-licenses", "--python", python, "--format", "csv"),
        *("--with-urls", "--output-file", licences),
    )
    print(f"{out.name}, and {len(licences.read_text().splitlines()) - 1} licences")


if __name__ == "__main__":
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument(
        "--only", choices=["build", "extras", "lowest", "parts"], help="build, and this alone"
    )
    only = wanted.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        built = packages(Path(folder))
        for step in (extras, lowest, parts):
            if only in (None, step.__name__):
                step(Path(folder), built)
