"""Columns of logical types: as Arrow shows and takes them."""

import datetime as dt
from zoneinfo import ZoneInfo

from tests.standin.api.making import array, kinds, table
from tests.standin.api.tools import raises

DATES = [dt.date(2024, 2, 29), None, dt.date(2025, 1, 1)]


def zone(make):
    """The storage of a moment with a zone."""

    def case(knext, given):
        return knext.logical(dt.datetime).to_pyarrow().encode(make())

    return case


class Pytz(ZoneInfo):
    """A zone that has its name where those of pytz have it."""

    zone = "Europe/Berlin"


def berlin(kind=ZoneInfo):
    return dt.datetime(2024, 7, 1, 12, tzinfo=kind("Europe/Berlin"))


def no_rows(kind):
    def case(knext, given):
        import pyarrow as pa

        return kinds(knext.Table.from_pyarrow(pa.table({"a": array([], kind)()})))

    return case


def dictionary(values):
    def case(knext, given):
        import pyarrow as pa

        return kinds(table(knext, a=pa.array(values).dictionary_encode()))

    return case


def written(*batches):
    def case(knext, given):
        import pyarrow as pa

        made = knext.BatchOutputTable.create("generate")
        for values in batches:
            made.append(pa.table({"a": values}))

    return case


ARROW = {
    "zone by offset": (
        zone(lambda: dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-7, minutes=-30)))),
        {"0": 19905, "1": 70200000000000, "2": 0, "3": "-07:30"},
    ),
    "zone UTC": (
        zone(lambda: dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)),
        {"0": 19905, "1": 43200000000000, "2": 0, "3": "UTC"},
    ),
    "zone by name": (zone(berlin), {"0": 19905, "1": 36000000000000, "2": 0, "3": "+02"}),
    "zone of pytz": (
        zone(lambda: berlin(Pytz)),
        {"0": 19905, "1": 43200000000000, "2": 7200, "3": "Europe/Berlin"},
    ),
    "no zone": (zone(lambda: dt.datetime(2024, 7, 1, 12)), raises(TypeError)),
    "shown": (
        lambda k, g: str(k.datetime().to_pyarrow()),
        "extension<knime.logical_type<struct<0:int64,1:int64>,"
        ' {"value_factory_class":"org.knime.core.data.v2.time.LocalDateTimeValueFactory"}>>',
    ),
    "no rows": (no_rows("int32"), ["Number (Integer)"]),
    "no rows of narrow numbers": (no_rows("float32"), {"raised": "ArrowInvalid"}),
    "no rows of lists of narrow numbers": (
        no_rows(lambda pa: pa.list_(pa.float32())),
        {"raised": "ArrowInvalid"},
    ),
    "dictionary of texts": (dictionary(["x", None]), ["String"]),
    "dictionary of dates": (dictionary(DATES), raises(KeyError)),
    "larger batch of another type": (written([1], ["x", "y"]), raises(ValueError)),
    "batch of another type": (written([1, 2], ["x", "y"]), {"raised": "ArrowInvalid"}),
}
