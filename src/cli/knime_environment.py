"""The environment that ``knime-mcp knime install`` makes for the Python that runs the nodes.

It has this very version of the extension: from the wheel or folder that it was installed from here, or else
from the package index. The command itself may be gone afterwards, as one that ``uvx`` runs is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..system import user_folder
from .command_errors import CommandError, why_not

_PROJECT: Final = "knime-mcp"
_STAMP: Final = "knime-mcp.json"
_LAST_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class NodesEnvironment:
    """An environment, which may not be there yet.

    Attributes:
        folder: Where it is.
        requirement: What is installed into it, as pip and uv read it.
        content: A digest of the wheel that it is from; "" if it is from no file.
        may_differ: Whether it is from a folder, whose content may have changed since it was made.
    """

    folder: Path
    requirement: str
    content: str = ""
    may_differ: bool = False

    @property
    def python(self) -> Path:
        return self._path("scripts") / f"python{sysconfig.get_config_var('EXE') or ''}"

    @property
    def extension(self) -> Path:
        """The folder with the extension that KNIME loads."""
        return self._path("purelib") / "knime_mcp"

    @property
    def is_made(self) -> bool:
        try:
            stamp = json.loads((self.folder / _STAMP).read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return stamp == self._stamp and self.python.is_file() and not self.may_differ

    @property
    def is_ours(self) -> bool:
        """Whether `make` has made it, so that it may be removed."""
        return (self.folder / _STAMP).is_file()

    @property
    def commands(self) -> list[list[str]]:
        """What makes it: of uv, if it is there."""
        if uv := shutil.which("uv"):
            make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.folder)]
            return [make, [uv, "pip", "install", "--python", str(self.python), self.requirement]]
        make = [sys.executable, "-m", "venv", "--clear", str(self.folder)]
        return [make, [str(self.python), "-m", "pip", "install", self.requirement]]

    def make(self) -> None:
        """Makes it anew; CommandError with the last that was said if a command fails, and nothing is left."""
        for command in self.commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as shown
            if done.returncode:
                shutil.rmtree(self.folder, ignore_errors=True)
                said = "\n".join(f"{done.stdout}\n{done.stderr}".strip().splitlines()[-_LAST_LINES:])
                raise CommandError(f"The environment was not made. {' '.join(command)} said:\n{said}")
        (self.folder / _STAMP).write_text(json.dumps(self._stamp), "utf-8")

    def remove(self) -> None:
        """Takes it away, if it is ours."""
        if not self.is_ours:
            return
        try:
            shutil.rmtree(self.folder)
        except OSError as error:
            raise CommandError(
                f"{self.folder} cannot be removed: {why_not(error)}. Close KNIME first."
            ) from None

    @property
    def _stamp(self) -> dict[str, str]:
        return {"requirement": self.requirement, "content": self.content}

    def _path(self, kind: str) -> Path:
        base = str(self.folder)
        return Path(sysconfig.get_path(kind, "venv", {"base": base, "platbase": base}))


def nodes_environment(distribution: metadata.Distribution | None = None) -> NodesEnvironment | None:
    """The environment for what this is; None for an editable installation, which runs the nodes itself."""
    own = distribution or metadata.distribution(_PROJECT)
    folder = user_folder("data") / "knime-mcp" / "python"
    # https://packaging.python.org/en/latest/specifications/direct-url/
    text = own.read_text("direct_url.json")
    if text is None:
        return NodesEnvironment(folder, f"{_PROJECT}[knime]=={own.version}")
    source = json.loads(text)
    if source.get("dir_info", {}).get("editable"):
        return None
    url = str(source["url"])
    parts = urlsplit(url)
    file = Path(url2pathname(parts.path))
    is_wheel = parts.scheme == "file" and file.is_file()
    content = sha256(file.read_bytes()).hexdigest() if is_wheel else ""
    if version := source.get("vcs_info"):
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    if inside := source.get("subdirectory"):
        url = f"{url}#subdirectory={inside}"
    return NodesEnvironment(folder, f"{_PROJECT}[knime] @ {url}", content, may_differ="dir_info" in source)
