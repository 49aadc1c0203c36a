"""Loads an extension as KNIME's launcher does. One process takes one extension, as in KNIME."""

import dataclasses
import logging
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from . import sources
from .java_side import CREDENTIAL_CLASS, RigError

_hosts = []


@dataclasses.dataclass
class Host:
    """A loaded extension, and the files of its runs."""

    id: str
    version: str
    root: Path
    backend: Any
    logs: list[tuple[str, str, str]]
    dir: Path = dataclasses.field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="knime_rig_")))
    file_stores: dict[str, str] = dataclasses.field(default_factory=dict)

    def new_file(self, suffix):
        return self.dir / (uuid.uuid4().hex + suffix)

    def add_file_store(self, key, data=b""):
        """A file store that cells of input tables can name; returns the key."""
        path = self.new_file("")
        path.write_bytes(data)
        self.file_stores[key] = str(path)
        return key

    @property
    def nodes(self):
        import knime.extension.nodes as kn

        return kn._nodes

    def proxy(self, node_id):
        """A fresh node, behind KNIME's own proxy of it."""
        if node_id not in self.nodes:
            raise RigError(f"no node id {node_id!r}; have {sorted(self.nodes)}")
        return self.backend.createNodeFromExtension(node_id)


def any_host(host=None):
    """The host that is given, else the one of this process; without an extension, one that has only files."""
    if host is None and not _hosts:
        sources.bootstrap()
        _hosts.append(Host("rig", "0.0.0", Path(), None, []))
    return host or _hosts[-1]


class _LogList(logging.Handler):
    def __init__(self, records):
        super().__init__(logging.DEBUG)
        self._records = records

    def emit(self, record):
        if not record.name.startswith(("py4j", "asyncio")):
            self._records.append((record.levelname, record.name, record.getMessage()))


def load_extension(path_to_knime_yml):
    """Reads knime.yml and loads the extension's module, after KNIME's types and converters."""
    import yaml

    path = Path(path_to_knime_yml).resolve()
    path = path / "knime.yml" if path.is_dir() else path
    if path.name != "knime.yml":
        raise RigError("KNIME looks for a file called knime.yml")
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key in ("name", "group_id", "extension_module"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise RigError(f"knime.yml: '{key}' missing or not a text")
    version = document.get("version")
    if version is not None and not isinstance(version, str):
        raise RigError(f"knime.yml: version {version!r} is not a text: ClassCastException in KNIME; quote it")
    module = path.parent / document["extension_module"]
    launcher = sources.bootstrap()
    import knime.extension.nodes as kn

    if kn._nodes:
        raise RigError("an extension is already loaded in this process")
    sys.path.insert(len(sources.API_FOLDERS), str(module.parent))
    logs = []
    logging.getLogger().addHandler(_LogList(logs))
    logging.getLogger().setLevel(logging.DEBUG)
    backend = launcher._KnimeNodeBackend()
    for register in (
        backend.registerKnimeToPyPortObjectConverter,
        backend.registerPyToKnimePortObjectConverter,
    ):
        register(
            "_port_impl", "CredentialConverter", CREDENTIAL_CLASS, f"{CREDENTIAL_CLASS}Spec", "Credential"
        )
    extension_id = f"{document['group_id']}.{document['name']}"
    backend.loadExtension(extension_id, module.name, version or "0.0.0")
    _hosts.append(Host(extension_id, version or "0.0.0", path.parent, backend, logs))
    return _hosts[-1]
