"""Value factories of KNIME's date, time, path and PNG columns.

KNIME gives and takes images as ``PIL.Image.Image``, so Pillow has to be installed to use a PNG column.
"""

import datetime as dt
import importlib
import io
from dataclasses import dataclass
from typing import Any, BinaryIO

from knime.api.types import PythonValueFactory, TableOrFileStorePythonValueFactory

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


class LocalDateTimeValueFactory(PythonValueFactory):
    """Dates with time: days since 1970 and nanoseconds of the day."""

    def __init__(self) -> None:
        super().__init__(dt.datetime)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`; nanoseconds are cut to microseconds."""
        if storage is None:
            return None
        return _EPOCH + dt.timedelta(days=storage["0"], microseconds=storage["1"] // 1000)

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`."""
        if value is None:
            return None
        since = value.replace(tzinfo=None) - _EPOCH
        of_day = dt.timedelta(seconds=since.seconds, microseconds=since.microseconds)
        return {"0": since.days, "1": of_day // _MICROSECOND * 1000}


class ZonedDateTimeValueFactory2(PythonValueFactory):
    """Dates with time and zone: the local date and time, the offset in seconds, and the zone's name."""

    def __init__(self) -> None:
        super().__init__(dt.datetime)
        self._local = LocalDateTimeValueFactory()

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`: the value's zone has a fixed offset and the stored name."""
        if storage is None:
            return None
        zone = dt.timezone(dt.timedelta(seconds=storage["2"]), storage["3"])
        return self._local.decode(storage).replace(tzinfo=zone)

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`.

        Raises:
            TypeError: the value has no time zone.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise TypeError(f"{value} has no time zone, so it cannot be a zoned date-time")
        name = getattr(value.tzinfo, "zone", None) or getattr(value.tzinfo, "key", None) or value.tzname()
        offset = int(value.utcoffset().total_seconds())
        return {**self._local.encode(value), "2": offset, "3": name}


class LocalDateValueFactory(PythonValueFactory):
    """Dates: days since 1970."""

    def __init__(self) -> None:
        super().__init__(dt.date)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`."""
        return None if storage is None else _EPOCH.date() + dt.timedelta(days=storage)

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`."""
        return None if value is None else (value - _EPOCH.date()).days


class LocalTimeValueFactory(PythonValueFactory):
    """Times: nanoseconds of the day."""

    def __init__(self) -> None:
        super().__init__(dt.time)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`; nanoseconds are cut to microseconds."""
        return None if storage is None else (_EPOCH + dt.timedelta(microseconds=storage // 1000)).time()

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`."""
        if value is None:
            return None
        since = dt.datetime.combine(_EPOCH.date(), value.replace(tzinfo=None)) - _EPOCH
        return since // _MICROSECOND * 1000


class DurationValueFactory(PythonValueFactory):
    """Durations: seconds and nanoseconds."""

    def __init__(self) -> None:
        super().__init__(dt.timedelta)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`; nanoseconds are cut to microseconds."""
        return (
            None if storage is None else dt.timedelta(seconds=storage["0"], microseconds=storage["1"] // 1000)
        )

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`."""
        if value is None:
            return None
        return {"0": value // dt.timedelta(seconds=1), "1": value.microseconds * 1000}


@dataclass(frozen=True)
class FSLocationValue:
    """A path: of which kind of file system, of which of this kind (or None), and the path in it."""

    fs_category: str
    fs_specifier: str | None
    path: str

    def __str__(self) -> str:
        return f"({self.fs_category}, {self.fs_specifier or ''}, {self.path})"


class FSLocationValueFactory(PythonValueFactory):
    """Paths in KNIME's file systems."""

    def __init__(self) -> None:
        super().__init__(FSLocationValue)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`."""
        return None if storage is None else FSLocationValue(storage["0"], storage["1"], storage["2"])

    def encode(self, value: Any) -> Any:
        """See `PythonValueFactory`."""
        return None if value is None else {"0": value.fs_category, "1": value.fs_specifier, "2": value.path}


class PNGImageValueFactory(TableOrFileStorePythonValueFactory):
    """Images: a file with four bytes of length, then the PNG."""

    def __init__(self) -> None:
        super().__init__(_pillow().Image)

    def deserialize(self, input: BinaryIO) -> Any:  # noqa: A002  # KNIME's name
        """See `TableOrFileStorePythonValueFactory`."""
        length = int.from_bytes(input.read(4), "little")
        return _pillow().open(io.BytesIO(input.read(length)))

    def serialize(self, value: Any, output: BinaryIO) -> None:
        """See `TableOrFileStorePythonValueFactory`."""
        png = io.BytesIO()
        value.save(png, format="PNG")
        output.write(len(png.getvalue()).to_bytes(4, "little"))
        output.write(png.getvalue())


def _pillow() -> Any:
    return importlib.import_module("PIL.Image")
