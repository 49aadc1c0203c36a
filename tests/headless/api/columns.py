"""Columns of logical types: as Arrow shows and takes them, and what pandas can do with them."""

import datetime as dt
import json
from zoneinfo import ZoneInfo

from tests.headless.api import frames
from tests.headless.api.frames import shown
from tests.headless.api.making import array, kinds, table
from tests.headless.api.tools import raises

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


def own_type(knext, given):
    """A type that an extension makes itself, as there is no Python value factory for it."""
    import pyarrow as pa
    from knime._arrow._pandas import PandasLogicalTypeExtensionType
    from knime.api.types import PythonValueFactory

    return str(
        PandasLogicalTypeExtensionType(
            storage_type=pa.string(),
            logical_type='{"value_factory_class":"org.example.NetFactory"}',
            converter=PythonValueFactory(str),
        )
    )


def gettz():
    from dateutil import tz

    return tz.gettz("Europe/Berlin")


def cells(use):
    """What becomes of a frame with dates and numbers."""

    def case(knext, given):
        import pandas as pd

        data = table(knext, a=DATES, n=[1, 2, 3]).to_pandas()
        found = use(data, pd)
        found = data if found is None else found
        if isinstance(found, pd.Series):
            found = found.to_frame("a")
        return shown(knext.Table.from_pandas(found))[1] if isinstance(found, pd.DataFrame) else found

    return case


def changed(key, value):
    """Cells set to a value, or to what a function makes of the frame."""

    def use(data, pd):
        rows = key(data) if callable(key) else key
        data.loc[rows, "a"] = value(data) if callable(value) else value

    return cells(use)


class Whole:
    """Counts."""

    def __init__(self, number):
        self.number = number

    def __str__(self):
        return f"{type(self).__name__} {self.number}"


class Even(Whole):
    """The same counts as another class."""


def factories(kt):
    """Registers both classes, as one type."""

    class WholeFactory(kt.PythonValueFactory):
        kind = Whole

        def __init__(self):
            super().__init__(self.kind)

        def decode(self, storage):
            return None if storage is None else self.kind(storage)

        def encode(self, value):
            return None if value is None else value.number

    class EvenFactory(WholeFactory):
        kind = Even

    name = '{"value_factory_class":"org.example.Whole"}'
    traits = {"type": "simple", "traits": {"logical_type": name}}
    for factory in (WholeFactory, EvenFactory):
        factory.__qualname__ = factory.__name__
        globals()[factory.__name__] = factory
        value = f"{__name__}.{factory.kind.__name__}"
        kt.register_python_value_factory(
            __name__, factory.__name__, "Whole", '"long"', json.dumps(traits), value, factory is WholeFactory
        )


def two_classes(use):
    def case(knext, given):
        import knime.api.types as kt
        import pandas as pd

        factories(kt)
        column = pd.Series([Whole(1), None], dtype=knext.logical(Whole).to_pandas())
        return use(knext, column)

    return case


def with_cell(cell):
    """A column of dates with one more cell, which pandas takes for a missing one."""

    def case(knext, given):
        import pandas as pd

        kind = knext.logical(dt.date).to_pandas()
        return [str(value) for value in pd.Series([dt.date(2024, 2, 29), cell(pd)], dtype=kind)]

    return case


def as_even(knext, column):
    return column.astype(knext.logical(Even).to_pandas())


def through_a_table(knext, column):
    made = knext.Table.from_pandas(column.to_frame("a"))
    return [str(made.schema["a"].ktype), str(made.to_pandas()["a"].iloc[0])]


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
PANDAS = {
    "none is a missing cell": (with_cell(lambda pd: None), ["2024-02-29", "None"]),
    "NaT is no missing cell": (with_cell(lambda pd: pd.NaT), raises(TypeError)),
    "NaN is no missing cell": (with_cell(lambda pd: float("nan")), raises(TypeError)),
    "NA is no missing cell": (with_cell(lambda pd: pd.NA), raises(AttributeError)),
    "type of an extension's own": (
        own_type,
        'knime.pandas_type<string, {"value_factory_class":"org.example.NetFactory"}>',
    ),
    "zoned moments of dateutil": (
        frames.made({"a": lambda pd: pd.Series([dt.datetime(2024, 7, 1, tzinfo=gettz())], dtype=object)}),
        [["<RowID>", "a"], [["Row0"], ["2024-07-01 00:00:00+02:00"]], ["Zoned Date Time"]],
    ),
    "shown": (
        cells(lambda data, pd: [str(data["a"].dtype), data["a"].dtype.name]),
        [
            'knime.pandas_type<int64, {"value_factory_class":'
            '"org.knime.core.data.v2.time.LocalDateValueFactory"}>',
            'PandasLogicalTypeExtensionType(int64, {"value_factory_class":'
            '"org.knime.core.data.v2.time.LocalDateValueFactory"})',
        ],
    ),
    "grouped": (cells(lambda data, pd: data.groupby("a").size()), raises(NotImplementedError)),
    "gaps filled": (cells(lambda data, pd: data["a"].fillna(DATES[0])), raises(TypeError)),
    "one cell": (
        changed("Row1", DATES[0]),
        [["Row0", "Row1", "Row2"], ["2024-02-29", "2024-02-29", "2025-01-01"], ["1", "2", "3"]],
    ),
    "cells by a condition": (changed(lambda data: data["n"] > 1, None), raises(TypeError)),
    "cells by a list": (
        changed(["Row0", "Row1"], [None, DATES[0]]),
        [["Row0", "Row1", "Row2"], ["None", "2024-02-29", "2025-01-01"], ["1", "2", "3"]],
    ),
    "cells in a row": (
        changed(slice("Row0", "Row1"), lambda data: data["a"].iloc[2]),
        [["Row0", "Row1", "Row2"], ["2025-01-01", "2025-01-01", "2025-01-01"], ["1", "2", "3"]],
    ),
    "cells of too few": (changed(slice("Row0", "Row1"), lambda data: data["a"].iloc[:0]), raises(TypeError)),
    "rows without the column": (
        cells(lambda data, pd: pd.concat([data, pd.DataFrame({"n": [7]}, index=["X"])])),
        raises(TypeError),
    ),
    "rows after fewer": (
        cells(lambda data, pd: pd.concat([data.iloc[:2], data]).reset_index(drop=True)["n"].tolist()),
        [1, 2, 1, 2, 3],
    ),
    "index with gaps": (
        cells(lambda data, pd: data.set_index(pd.Index([1, None, 3], dtype="Int64"))),
        [["Row1.0", "Rownan", "Row3.0"], ["2024-02-29", "None", "2025-01-01"], ["1", "2", "3"]],
    ),
    "another class": (two_classes(lambda k, c: [str(v) for v in as_even(k, c)]), ["Even 1", "None"]),
    "another class in a table": (
        two_classes(lambda k, c: through_a_table(k, as_even(k, c))),
        ["Whole", "Whole 1"],
    ),
    "another type": (
        two_classes(lambda k, c: c.astype(k.logical(dt.date).to_pandas())),
        raises(TypeError),
    ),
}
