"""Value factories of KNIME's own columns: dates, times, paths, sets and vectors, XML and PNG.

Images are ``PIL.Image.Image`` objects in KNIME, so Pillow must be installed to use a PNG column.
"""

import datetime as dt
import functools
import importlib
import io
import warnings
import xml.etree.ElementTree as ET  # KNIME's cells are such trees
import zoneinfo
from dataclasses import asdict, astuple, dataclass
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
        return "/".join(file.split("/")[-2:])
    return getattr(value.tzinfo, "zone", None) or value.tzname()


class ZonedDateTimeValueFactory2(LocalDateTimeValueFactory):
    """Dates with time and zone: the local date and time, the offset in seconds, and the zone's name.

    Values from cells have a zone with a fixed offset and the stored name. For values without a zone,
    ``encode`` raises a TypeError.
    """

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


class _StructValueFactory(_ValueFactory):
    """Values of a dataclass. The storage has the fields in order."""

    def _value(self, storage: Any) -> Any:
        return self._of(*(storage[str(i)] for i in range(len(storage))))

    def _storage(self, value: Any) -> Any:
        return {str(i): part for i, part in enumerate(astuple(value))}


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


class FSLocationValueFactory(_StructValueFactory):
    """Paths in KNIME's file systems."""

    _of = FSLocationValue


@dataclass(eq=False, repr=False)
class BooleanSetValue:
    """A set that may contain true, false and missing."""

    has_true: bool
    has_false: bool
    has_missing: bool

    def to_dict(self) -> dict[str, bool]:
        return asdict(self)


class BooleanSetValueFactory(_StructValueFactory):
    _of = BooleanSetValue


class DenseBitVectorValue(str):
    """Bits as a text of zeros and ones."""

    def to_bytes(self) -> bytes:
        """The length in eight bytes, then the bits, with the last bit first."""
        return len(self).to_bytes(8, "little") + int(self, 2).to_bytes(len(self), "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> "DenseBitVectorValue":
        """The bits from the bytes of `to_bytes`."""
        length = int.from_bytes(data[:8], "little")
        return cls("".join(format(byte, "08b") for byte in reversed(data[8:]))[-length:])


class DenseBitVectorValueFactory(_ValueFactory):
    _of = DenseBitVectorValue

    def _value(self, storage: Any) -> Any:
        return DenseBitVectorValue.from_bytes(storage)

    def _storage(self, value: Any) -> Any:
        return value.to_bytes()


class DenseByteVectorValue(bytes):
    pass


class DenseByteVectorValueFactory(_ValueFactory):
    """Vectors of bytes, which are their own storage."""

    _of = DenseByteVectorValue

    def _value(self, storage: Any) -> Any:
        return DenseByteVectorValue(storage)

    def _storage(self, value: Any) -> Any:
        return value


class XmlValueFactory(TableOrFileStorePythonValueFactory):
    """XML documents. A file has the length in eight bytes, then the document."""

    def __init__(self) -> None:
        super().__init__(ET.ElementTree)

    def deserialize(self, input: BinaryIO) -> Any:  # noqa: A002  # KNIME's name
        length = int.from_bytes(input.read(8), "little")
        return ET.parse(io.BytesIO(input.read(length)))  # noqa: S314  # as KNIME reads its cells

    def serialize(self, value: Any, output: BinaryIO) -> None:
        document = io.BytesIO()
        value.write(document)
        output.write(len(document.getvalue()).to_bytes(8, "little"))
        output.write(document.getvalue())


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
