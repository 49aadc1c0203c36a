"""The parameter for a date or a date with time."""

# Signatures are KNIME's, so not every argument is used.
# ruff: noqa: ARG002

import datetime as dt
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar
from zoneinfo import ZoneInfo

from ._base import Parameter
from .version import Version

if TYPE_CHECKING:
    from .contexts import DialogCreationContext


class DateTimeParameter(Parameter[dt.date | None]):
    """A date, or with ``show_time`` a date with time, in ``timezone`` if that is given.

    The default is the largest allowed value, else the smallest, else the time when the node's module was
    imported. ``date_format`` is the format of default and limits that are texts.
    """

    _type: ClassVar[dict[str, Any]] = {"type": "string", "format": "date-time"}

    def __init__(
        self,
        label: str | None = None,
        description: str | None = None,
        default_value: str | dt.date | None = None,
        validator: Callable[[Any], object] | None = None,
        min_value: str | dt.date | None = None,
        max_value: str | dt.date | None = None,
        since_version: Version | str | None = None,
        is_advanced: bool = False,
        show_date: bool = True,
        show_time: bool = False,
        show_seconds: bool = False,
        show_milliseconds: bool = False,
        timezone: str | None = None,
        date_format: str | None = None,
    ) -> None:
        self.show_date = show_date
        self.show_time = show_time
        self.show_seconds = show_seconds
        self.show_milliseconds = show_milliseconds
        self.timezone = timezone
        self.date_format = date_format
        if default_value and not isinstance(default_value, (str, dt.date)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"the default {default_value!r} is neither a date nor a text")
        self.min_value = self._declared(min_value)
        self.max_value = self._declared(max_value)
        default = self._declared(default_value) or self.max_value or self.min_value or self._now()
        super().__init__(label, description, default, validator, since_version, is_advanced)

    def _now(self) -> dt.date:
        now = dt.datetime.now()
        return now if self.show_time else now.date()

    def _declared(self, value: Any) -> Any:
        """The value of a default or limit."""
        if isinstance(value, str) and value and self.date_format:
            return self._local(dt.datetime.strptime(value, self.date_format))
        return self._from_dict(value)

    def _from_dict(self, value: Any) -> Any:
        if not value:
            return None
        if isinstance(value, dt.date):
            return value
        return self._local(self._read(value) if isinstance(value, str) else value)

    def _read(self, text: str) -> dt.datetime:
        # KNIME 5.2 to 5.6 add a Z to local times.
        try:
            read = dt.datetime.fromisoformat(text.replace("Z", "") if text.endswith("Z") else text)
        except ValueError:
            return _read_freely(text)
        return read.astimezone(ZoneInfo(self.timezone)) if text.endswith("Z") and self.timezone else read

    def _local(self, value: Any) -> Any:
        read: Any = value if self.show_time else value.date()
        if self.timezone is not None and not read.tzinfo:
            # An hour that exists twice is taken in standard time, as in KNIME.
            moments = [read.replace(tzinfo=ZoneInfo(self.timezone), fold=fold) for fold in (0, 1)]
            return min(moments, key=lambda moment: moment.utcoffset())
        return read

    def _to_dict(self, value: Any) -> Any:
        if not value:
            return None
        # The dialog shows a local time.
        has_zone = self.timezone is not None and value.tzinfo is not None
        return (value.replace(tzinfo=None) if has_zone else value).isoformat()

    def check_type(self, value: Any) -> None:
        """Raises TypeError unless the value is a date, with ``show_time`` one with a time, or a text."""
        if value and not isinstance(value, (str, dt.datetime if self.show_time else dt.date)):
            raise TypeError(f"{value!r} is of type {type(value).__name__}, not date")

    def check_range(self, value: Any) -> None:
        """Raises ValueError unless the value is within the limits."""
        if self.min_value is not None and value < self.min_value:
            raise ValueError(f"{value} is before {self.min_value}")
        if self.max_value is not None and value > self.max_value:
            raise ValueError(f"{value} is after {self.max_value}")

    def _default_validator(self, value: Any) -> None:
        if value:
            read = self._from_dict(value)
            self.check_type(read)
            self.check_range(read)

    def _get_options(self, dialog_creation_context: "DialogCreationContext") -> dict[str, Any]:
        return {
            "format": "date-time",
            "showDate": self.show_date,
            "showTime": self.show_time,
            "showSeconds": self.show_seconds,
            "showMilliseconds": self.show_milliseconds,
            "timezone": self.timezone,
        }


def _read_freely(text: str) -> dt.datetime:
    """Reads a date that is not in ISO 8601 with python-dateutil."""
    try:
        return importlib.import_module("dateutil.parser").parse(text)
    except Exception as error:
        raise ValueError(
            f"{text!r} is not a date that can be read; write it as 2026-01-31: {error}"
        ) from error
