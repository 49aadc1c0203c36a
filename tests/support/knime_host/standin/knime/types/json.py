"""The value factory of KNIME's JSON columns. A file has the length in eight bytes, then the text."""

import json
from typing import Any, BinaryIO

from knime.api.types import TableOrFileStorePythonValueFactory


class JsonValueFactory(TableOrFileStorePythonValueFactory):
    """JSON objects as dictionaries; other JSON values can be read."""

    def __init__(self) -> None:
        super().__init__(dict)

    def deserialize(self, input: BinaryIO) -> Any:  # noqa: A002  # KNIME's name
        input.read(8)
        return json.load(input)

    def serialize(self, value: Any, output: BinaryIO) -> None:
        text = json.dumps(value).encode()
        output.write(len(text).to_bytes(8, "little"))
        output.write(text)
