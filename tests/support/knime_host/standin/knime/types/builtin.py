"""Value factories of KNIME's own columns: dates, times, paths and images.

Images are ``PIL.Image.Image`` objects in KNIME, so Pillow must be installed to use a PNG column.
"""

import datetime as dt
import importlib
import io
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from knime.api.types import PythonValueFactory, TableOrFileStorePythonValueFactory

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


class _ValueFactory(PythonValueFactory):
    """A value factory for which missing cells are None; subclasses convert only other cells."""

    _of: ClassVar[type]  # the class of the values

    def __init__(self) -> None:
        super().__init__(self._of)

    def decode(self, storage: Any) -> Any:
        """See `PythonValueFactory`. Nanoseconds are truncated to microseconds."""
        return None if storage is None else self._value(storage)

    def encode(self, value: Any) -> Any:
        return None if value is None else self._storage(value)

    def _value(self, storage: Any) -> Any:
        raise NotImplementedError

    def _storage(self, value: Any) -> Any:
        raise NotImplementedError


class LocalDateTimeValueFactory(_ValueFactory):
    """Dates with time: days since 1970 and nanoseconds of the day."""

    _of = dt.datetime

    def _value(self, storage: Any) -> Any:
        return _EPOCH + dt.timedelta(days=storage["0"], microseconds=storage["1"] // 1000)

    def _storage(self, value: Any) -> Any:
        since = value.replace(tzinfo=None) - _EPOCH
        of_day = dt.timedelta(seconds=since.seconds, microseconds=since.microseconds)
        return {"0": since.days, "1": of_day // _MICROSECOND * 1000}


class ZonedDateTimeValueFactory2(LocalDateTimeValueFactory):
    """Zoned dates with time: local date and time, offset in seconds, and the zone's name."""

    def _value(self, storage: Any) -> Any:
        zone = dt.timezone(dt.timedelta(seconds=storage["2"]), storage["3"])
        return super()._value(storage).replace(tzinfo=zone)

    def _storage(self, value: Any) -> Any:
        if value.tzinfo is None:
            raise TypeError(f"{value} has no time zone, so it cannot be a zoned date-time")
        if value.tzname() != "UTC":
            raise NotImplementedError("a moment in another zone than UTC is not part of the stand-in")
        return {**super()._storage(value), "2": 0, "3": "UTC"}


class LocalDateValueFactory(_ValueFactory):
    """Dates: days since 1970."""

    _of = dt.date

    def _value(self, storage: Any) -> Any:
        return _EPOCH.date() + dt.timedelta(days=storage)

    def _storage(self, value: Any) -> Any:
        return (value - _EPOCH.date()).days


class LocalTimeValueFactory(_ValueFactory):
    """Times: nanoseconds of the day."""

    _of = dt.time

    def _value(self, storage: Any) -> Any:
        return (_EPOCH + dt.timedelta(microseconds=storage // 1000)).time()

    def _storage(self, value: Any) -> Any:
        since = dt.datetime.combine(_EPOCH.date(), value) - _EPOCH
        return since // _MICROSECOND * 1000


class DurationValueFactory(_ValueFactory):
    """Durations: seconds and nanoseconds."""

    _of = dt.timedelta

    def _value(self, storage: Any) -> Any:
        return dt.timedelta(seconds=storage["0"], microseconds=storage["1"] // 1000)

    def _storage(self, value: Any) -> Any:
        return {"0": value // dt.timedelta(seconds=1), "1": value.microseconds * 1000}


@dataclass(eq=False)
class FSLocationValue:
    """A path in a file system, which is given by a category and a specifier (or None)."""

    fs_category: str
    fs_specifier: str | None
    path: str


class FSLocationValueFactory(_ValueFactory):
    """Paths in KNIME's file systems. The storage has the three fields in order."""

    _of = FSLocationValue

    def _value(self, storage: Any) -> Any:
        return FSLocationValue(storage["0"], storage["1"], storage["2"])

    def _storage(self, value: Any) -> Any:
        return {"0": value.fs_category, "1": value.fs_specifier, "2": value.path}


class PNGImageValueFactory(TableOrFileStorePythonValueFactory):
    """Images. A file has the length in four bytes, then the PNG."""

    def __init__(self) -> None:
        super().__init__(_pillow().Image)

    def deserialize(self, input: BinaryIO) -> Any:  # noqa: A002  # KNIME's name
        length = int.from_bytes(input.read(4), "little")
        return _pillow().open(io.BytesIO(input.read(length)))

    def serialize(self, value: Any, output: BinaryIO) -> None:
        png = io.BytesIO()
        value.save(png, format="PNG")
        output.write(len(png.getvalue()).to_bytes(4, "little"))
        output.write(png.getvalue())


def _pillow() -> Any:
    return importlib.import_module("PIL.Image")
