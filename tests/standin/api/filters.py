"""Filters of columns, and dates."""

import datetime as dt

from tests.standin.api.tools import DOCUMENTS, abc, dialog, holder, names, raises, stored


def config(knext, mode="MANUAL", **parts):
    from knime.extension import parameter as kp

    filters = {
        "pattern": kp.PatternFilterConfig,
        "type": kp.TypeFilterConfig,
        "manual": kp.ManualFilterConfig,
    }
    given = {f"{name}_filter": filters[name](*arguments) for name, arguments in parts.items()}
    return knext.ColumnFilterConfig(kp.ColumnFilterMode[mode], **given)


def typed(knext):
    """A schema as a node's configure() gets it."""
    kinds = {"a": "IntValue", "b": "StringValue"}
    columns = [
        knext.Column(
            column.ktype,
            name,
            {"preferred_value_type": kind, "displayed_column_type": kind.removesuffix("Value")},
        )
        for column, (name, kind) in zip(abc(knext), kinds.items(), strict=False)
    ]
    return knext.Schema.from_columns([*columns, knext.Column(knext.double(), "c")])


def filtering(knext, **options):
    return holder(columns=knext.ColumnFilterParameter("Columns", "which", **options))


def loaded(knext, value, **options):
    """The columns that pass a filter after its document was loaded."""
    from knime.extension import parameter as kp

    node = filtering(knext, **options)
    document = kp.extract_parameters(node)
    document["model"]["columns"].update(value)
    kp.inject_parameters(node, document)
    return names(node.columns.apply(abc(knext)))


REGEX = {"mode": "REGEX", "patternFilter": {"pattern": "[ab]", "isCaseSensitive": True, "isInverted": False}}


FILTERS = {
    "included names change the mode": (
        lambda k, _: k.ColumnFilterConfig(config(k, "TYPE").mode, included_column_names=[]).mode.name,
        "MANUAL",
    ),
    "equal": (lambda k, _: [config(k) == config(k), config(k) == config(k, "TYPE")], [True, False]),
    "equal to a text": (lambda k, _: config(k) == "MANUAL", raises(AttributeError)),
    "stored": (
        lambda k, _: stored(filtering(k)),
        DOCUMENTS["filter, stored"],
    ),
    "loaded with an unknown mode": (lambda k, _: loaded(k, {"mode": "OTHER"}), raises(KeyError)),
    "loaded incomplete": (lambda k, _: loaded(k, {"typeFilter": {}}), raises(KeyError)),
    "default of the parameter": (
        lambda k, _: stored(filtering(k, default_value=config(k, "TYPE")))["columns"]["mode"],
        "TYPE",
    ),
    "default of a version": (
        lambda k, _: stored(filtering(k, default_value=lambda version: config(k, "REGEX")))["columns"][
            "mode"
        ],
        "REGEX",
    ),
    "set to nothing": (lambda k, _: stored(filtering(k), columns=None), raises(AttributeError)),
    "in a dialog": (
        lambda k, _: dialog(k, filtering(k), [typed(k)[:2].get()])["layout"],
        DOCUMENTS["filter, in a dialog"],
    ),
    "schema in a dialog": (
        lambda k, _: dialog(k, filtering(k), [typed(k)[:2].get()])["schema"],
        DOCUMENTS["filter, schema in a dialog"],
    ),
    "in a dialog without metadata": (
        lambda k, _: dialog(k, filtering(k), [abc(k)])["layout"],
        raises(TypeError),
    ),
    "in a dialog, of a port by a text": (
        lambda k, _: dialog(k, filtering(k, port_index="0"), [abc(k)]),
        raises(ValueError),
    ),
    "in a dialog, of a port by a list": (
        lambda k, _: dialog(k, filtering(k, port_index=[0, 0]), [[abc(k)]]),
        raises(ValueError),
    ),
    "in a dialog, of the last port": (
        lambda k, _: dialog(k, filtering(k, port_index=-1), [None, None])["data"]["columns"]["mode"],
        "MANUAL",
    ),
    "in a dialog, not connected": (
        lambda k, _: dialog(k, filtering(k), [None])["layout"][0]["options"]["possibleValues"],
        [],
    ),
}


def when(knext, **options):
    return holder(when=knext.DateTimeParameter("When", "a moment", **options))


def date(**options):
    """The default of a parameter."""
    return lambda knext, _: str(when(knext, **options).when)


def given(value, **options):
    """What is stored after a value was set."""
    return lambda knext, _: stored(when(knext, **options), when=value)["when"]


def read(text, **options):
    """What a stored text becomes."""

    def case(knext, _):
        from knime.extension import parameter as kp

        node = when(knext, **options)
        kp.inject_parameters(node, {"model": {"when": text}})
        return str(node.when)

    return case


DAY = dt.date(2024, 2, 29)
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15)
ZONE = {"show_time": True, "timezone": "Europe/Berlin"}
DATES = {
    "of a text": (date(default_value="2024-02-29"), "2024-02-29"),
    "of a date": (date(default_value=DAY), "2024-02-29"),
    "of a text with time": (date(default_value="2024-02-29T12:30", show_time=True), "2024-02-29 12:30:00"),
    "of a text with too much time": (date(default_value="2024-02-29T12:30"), "2024-02-29"),
    "of a text without time": (date(default_value="2024-02-29", show_time=True), "2024-02-29 00:00:00"),
    "of a format": (date(default_value="29/02/24", date_format="%d/%m/%y"), "2024-02-29"),
    "of another format": (date(default_value="2024-02-29", date_format="%d/%m/%y"), raises(ValueError)),
    "of words": (date(default_value="29 February 2024"), "2024-02-29"),
    "of nonsense": (date(default_value="some day"), raises(ValueError)),
    "of a number": (date(default_value=20240229), raises(ValueError)),
    "by default the last": (date(min_value="2024-01-01", max_value="2024-12-31"), "2024-12-31"),
    "by default the first": (date(min_value="2024-01-01"), "2024-01-01"),
    "by default today": (
        lambda k, _: [type(when(k).when).__name__, type(when(k, show_time=True).when).__name__],
        ["date", "datetime"],
    ),
    "before the first": (given(DAY, min_value="2024-03-01"), raises(ValueError)),
    "after the last": (given(DAY, max_value="2024-02-01"), raises(ValueError)),
    "on the last": (given(DAY, max_value="2024-02-29"), "2024-02-29"),
    "text set": (given("2024-02-29"), raises(AttributeError)),
    "number set": (given(5), raises(AttributeError)),
    "nothing set": (given(None), None),
    "date set": (given(DAY), "2024-02-29"),
    "moment set": (given(MOMENT, show_time=True), "2024-02-29T12:30:15"),
    "date set for a moment": (given(DAY, show_time=True), raises(TypeError)),
    "moment set for a date": (given(MOMENT), "2024-02-29T12:30:15"),
    "moment set between dates": (given(MOMENT, min_value="2024-01-01"), raises(TypeError)),
    "own check instead of the limits": (
        given(DAY, min_value="2024-03-01", validator=lambda value: None),
        "2024-02-29",
    ),
    "read": (read("2024-02-29"), "2024-02-29"),
    "read with time": (read("2024-02-29T12:30:15", show_time=True), "2024-02-29 12:30:15"),
    "read from old documents": (read("2024-02-29T12:30:15Z", show_time=True), "2024-02-29 12:30:15"),
    "read with another offset": (
        read("2024-02-29T12:30:15+04:00", show_time=True),
        "2024-02-29 12:30:15+04:00",
    ),
    "read nothing": (read(""), "None"),
    "read none": (read(None), "None"),
    "read too early": (read("2023-01-01", min_value="2024-01-01"), raises(ValueError)),
    "read nonsense": (read("some day"), raises(ValueError)),
    "in a zone": (date(default_value="2024-07-01T12:30", **ZONE), "2024-07-01 12:30:00+02:00"),
    "in a zone in winter": (date(default_value="2024-01-01T12:30", **ZONE), "2024-01-01 12:30:00+01:00"),
    "date in a zone": (date(default_value="2024-07-01", timezone="Europe/Berlin"), raises(AttributeError)),
    "in an hour that comes twice": (
        date(default_value="2024-10-27T02:30", **ZONE),
        "2024-10-27 02:30:00+01:00",
    ),
    "in an hour that never comes": (
        date(default_value="2024-03-31T02:30", **ZONE),
        "2024-03-31 02:30:00+01:00",
    ),
    "day stored in a zone": (given(DAY, validator=lambda value: None, **ZONE), raises(AttributeError)),
    "number set for a moment": (given(5, show_time=True), raises(TypeError)),
    "types": (
        lambda k, _: [k.DateTimeParameter().check_type(value) for value in (None, "text", DAY)],
        [None] * 3,
    ),
    "stored in a zone": (
        lambda k, _: stored(when(k, default_value="2024-07-01T12:30", **ZONE))["when"],
        "2024-07-01T12:30:00",
    ),
    "read in a zone": (read("2024-07-01T12:30", **ZONE), "2024-07-01 12:30:00+02:00"),
    "limits in a zone": (
        given(MOMENT, min_value="2024-01-01T00:00", **ZONE),
        raises(TypeError),
    ),
    "in a dialog": (
        lambda k, _: dialog(k, when(k, default_value="2024-02-29", show_seconds=True))["layout"],
        DOCUMENTS["date, in a dialog"],
    ),
    "schema in a dialog": (
        lambda k, _: dialog(k, when(k, default_value="2024-02-29"))["schema"],
        {"when": {"title": "When", "description": "a moment", "type": "string", "format": "date-time"}},
    ),
}
