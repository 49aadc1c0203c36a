"""Value factories, which convert Python values to the storage of a column, and their registry."""

import functools
import importlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO


class PythonValueFactory:
    """Encodes values of one class into a column's storage, and decodes them. Both pass None through."""

    def __init__(self, compatible_type: Any) -> None:
        self.compatible_type = compatible_type

    def decode(self, storage: Any) -> Any:
        return storage

    def encode(self, value: Any) -> Any:
        return value


class FileStorePythonValueFactory(PythonValueFactory):
    """A value factory that stores part of each value in files.

    The storage is ``{"0": keys, "1": data}``: the keys of the files joined by ``;`` (or null), and the part
    in the table. Subclasses implement ``read`` and ``write``.
    """

    def read(self, file_paths: list[str], table_data: Any) -> Any:
        """The value from its files and the part in the table."""
        raise NotImplementedError

    def write(self, file_store_creator: Callable[[], str], value: Any) -> Any:
        """Writes the value's files to paths from the creator; returns the part for the table."""
        raise NotImplementedError

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`; works only while a node runs."""
        if storage is None:
            return None
        keys = storage["0"]
        # A value without files is written with no key at all.
        paths = (
            [_file_stores().file_store_key_to_absolute_path(key) for key in keys.split(";")] if keys else []
        )
        return self.read(paths, storage["1"])

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`; works only while a node executes."""
        if value is None:
            return None
        stores = _file_stores()
        keys: list[str] = []

        def create() -> str:
            path, key = stores.create_file_store()
            keys.append(key)
            return path

        data = self.write(create, value)
        return {"0": ";".join(keys) if keys else None, "1": data}


def _file_stores() -> Any:
    from . import table

    return table.running_backend().file_store_handler


class TableOrFileStorePythonValueFactory(FileStorePythonValueFactory):
    """Stores a value in a file, and reads it also from the table; subclasses serialize and deserialize it."""

    serialize: Callable[[Any, BinaryIO], None]
    deserialize: Callable[[BinaryIO], Any]

    def write(self, file_store_creator: Callable[[], str], value: Any) -> Any:
        output = io.BytesIO()
        self.serialize(value, output)
        Path(file_store_creator()).write_bytes(output.getvalue())
        return None

    def read(self, file_paths: list[str], table_data: Any) -> Any:
        return self.deserialize(io.BytesIO(Path(file_paths[0]).read_bytes() if file_paths else table_data))


class FallbackPythonValueFactory(PythonValueFactory):
    """Returns the storage unchanged; used for types without a registered value factory."""

    def __init__(self) -> None:
        super().__init__(None)


@dataclass(eq=False)
class PythonValueFactoryBundle:
    """A registered value factory: its Java class, its storage as JSON, and its Python class."""

    logical_type: str
    data_type: str
    data_spec_json: Any
    data_traits: Any
    python_module: str
    python_value_factory_name: str
    python_type: str

    def __post_init__(self) -> None:
        self.java_value_factory = self.logical_type
        self.data_spec_json = json.loads(self.data_spec_json)
        self.data_traits = json.loads(self.data_traits)

    @functools.cached_property
    def value_factory(self) -> PythonValueFactory:
        """The value factory, which is imported and made on first use."""
        return _make(self.python_module, self.python_value_factory_name)


def _make(module_name: str, class_name: str) -> PythonValueFactory:
    try:
        cls: Any = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no value factory {class_name} in {module_name}: {error}") from error
    return cls()


_java_value_factory_to_bundle: dict[str, PythonValueFactoryBundle] = {}
_python_type_to_bundle: dict[str, PythonValueFactoryBundle] = {}
_fallback = FallbackPythonValueFactory()


def register_python_value_factory(
    python_module: str,
    python_value_factory_name: str,
    data_type: str,
    data_spec_json: str,
    data_traits: str,
    python_value_type_name: str,
    is_default_python_representation: bool = True,
) -> None:
    """Registers a value factory, as KNIME does for each one that an extension contributes.

    ``data_spec_json`` is JSON of the storage: the name of a primitive type, or a struct or list of storages.
    In that of ``data_traits``, ``logical_type`` names the Java value factory.
    """
    if not is_default_python_representation:
        raise NotImplementedError("a second Python class for a type is not part of the stand-in")
    logical_type: str = json.loads(data_traits)["traits"]["logical_type"]
    bundle = PythonValueFactoryBundle(
        logical_type,
        data_type,
        data_spec_json,
        data_traits,
        python_module,
        python_value_factory_name,
        python_value_type_name,
    )
    _java_value_factory_to_bundle[logical_type] = bundle
    _python_type_to_bundle[python_value_type_name] = bundle


def name_of(python_type: type) -> str:
    return f"{python_type.__module__}.{python_type.__qualname__}"


def get_converter(logical_type: str) -> PythonValueFactory:
    """The Python value factory for a Java value factory; if there is none, one that changes nothing."""
    bundle = _java_value_factory_to_bundle.get(logical_type)
    return _fallback if bundle is None else bundle.value_factory


def get_value_factory_bundle_for_java_value_factory(logical_type: str) -> PythonValueFactoryBundle:
    """Looks a type up by its Java value factory. Raises ValueError: it is not registered."""
    if logical_type not in _java_value_factory_to_bundle:
        raise ValueError(f"no Python value factory is registered for {logical_type}")
    return _java_value_factory_to_bundle[logical_type]


def get_value_factory_bundle_for_python_type(python_type: type) -> PythonValueFactoryBundle:
    """Looks a type up by its Python class. Raises TypeError: it is not registered."""
    name = name_of(python_type)
    if name not in _python_type_to_bundle:
        raise TypeError(f"no Python value factory is registered for {name}")
    return _python_type_to_bundle[name]


# KNIME has no cell type for tools of both kinds, and takes none from a Python extension; here it is.
_FIELDS = ["int", "string", "string", "string", "string", "string", "int", "string", "string"]
_TRAITS: dict[str, Any] = {
    "type": "struct",
    "traits": {"logical_type": '{"value_factory_class":"org.knime_mcp.types.ToolValueFactory"}'},
    "inner": [{"type": "simple", "traits": {}} for _ in _FIELDS],
}
for _value_type in ("WorkflowTool", "MCPTool"):
    register_python_value_factory(
        "knime_mcp.types.tool_cells",
        "ToolValueFactory",
        "Tool",
        json.dumps({"type": "struct", "inner_types": _FIELDS}),
        json.dumps(_TRAITS),
        f"knime_mcp.types.tool.{_value_type}",
    )
