"""Value factories of KNIME's own columns: dates, times, paths and images.

Images are ``PIL.Image.Image`` objects in KNIME, so Pillow must be installed to use a PNG column.
"""

import datetime as dt
import functools
import importlib
import io
import warnings
import zoneinfo
from dataclasses import asdict, dataclass
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


@functools.cache
def _zone_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _zone_name(value: dt.datetime) -> str | None:
    """The name of a pytz or dateutil zone; for others, as in KNIME, the zone's abbreviation on that day."""
    file: str | None = getattr(value.tzinfo, "_filename", None)
    if file is not None:
        # A zone of dateutil's knows its file only, whose last two parts are the name.
        return "/".join(file.split("/")[-2:])
    return getattr(value.tzinfo, "zone", None) or value.tzname()


class ZonedDateTimeValueFactory2(LocalDateTimeValueFactory):
    """Zoned dates with time: local date and time, offset in seconds, and the zone's name."""

    def _value(self, storage: Any) -> Any:
        zone = dt.timezone(dt.timedelta(seconds=storage["2"]), storage["3"])
        return super()._value(storage).replace(tzinfo=zone)

    def _storage(self, value: Any) -> Any:
        if value.tzinfo is None:
            raise TypeError(f"{value} has no time zone, so it cannot be a zoned date-time")
        name = _zone_name(value)
        offset = int(value.utcoffset().total_seconds())
        if name in _zone_names():
            return {**super()._storage(value), "2": offset, "3": name}
        # Java does not know the zone, so KNIME stores the time in UTC, with the offset as the zone's name.
        hours, minutes = divmod(abs(offset) // 60, 60)
        name = f"{'-' if offset < 0 else '+'}{hours:02}{f':{minutes:02}' if minutes else ''}"
        return {**super()._storage(value.astimezone(dt.UTC)), "2": 0, "3": name}


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
        if value.tzinfo is not None:
            warnings.warn(f"the time zone of {value} is dropped: KNIME's times have none", stacklevel=2)
        since = dt.datetime.combine(_EPOCH.date(), value.replace(tzinfo=None)) - _EPOCH
        return since // _MICROSECOND * 1000


class DurationValueFactory(_ValueFactory):
    """Durations: seconds and nanoseconds."""

    _of = dt.timedelta

    def _value(self, storage: Any) -> Any:
        return dt.timedelta(seconds=storage["0"], microseconds=storage["1"] // 1000)

    def _storage(self, value: Any) -> Any:
        return {"0": value // dt.timedelta(seconds=1), "1": value.microseconds * 1000}


@dataclass(eq=False, repr=False)
class FSLocationValue:
    """A path in a file system, which is given by a category and a specifier (or None)."""

    fs_category: str
    fs_specifier: str | None
    path: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        return str(self.to_dict())


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
