"""Takes the JavaScript of expressions from npm when the package is built or installed, pinned and checked."""

import base64
import hashlib
import io
import json
import os
import tarfile
import time
import urllib.request
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
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling calls it so
        folder = Path(self.root, FOLDER)
        stamp = folder / "pins.json"  # written last: without it, or with other pins, all is taken anew
        if not stamp.is_file() or json.loads(stamp.read_text("utf-8")) != _listed():
            for name, (release, file, digest) in PINS.items():
                _unpack(_archive(name, release, digest), (file, "LICENSE"), folder / name)
            stamp.write_text(json.dumps(_listed()), "utf-8")
        build_data["artifacts"].append(f"{FOLDER}/**")


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
    address = f"{_registry()}/{name}/-/{name}-{release}.tgz"
    for pause in (*PAUSES, None):
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - the user's registry
                archive: bytes = answer.read()
            break
        except OSError as error:
            if pause is None:
                raise SystemExit(
                    f"{address} cannot be fetched: {error}. Name another registry: npm_config_registry=URL"
                ) from None
            time.sleep(pause)
    if hashlib.sha512(archive).digest() != base64.b64decode(digest):
        raise SystemExit(f"{address} is not the archive of {name} {release}: its digest differs")
    return archive


def _registry() -> str:
    """The registry that npm uses: https://docs.npmjs.com/cli/configuring-npm/npmrc."""
    given = {name.lower(): value for name, value in os.environ.items() if value}
    found = given.get("npm_config_registry")
    own = Path(given.get("npm_config_userconfig") or Path.home() / ".npmrc")
    if not found and own.is_file():
        lines = [line.partition("=") for line in own.read_text("utf-8", "replace").splitlines()]
        found = next((value.strip() for key, _, value in lines if key.strip() == "registry"), None)
    return (found or "https://registry.npmjs.org").rstrip("/")
