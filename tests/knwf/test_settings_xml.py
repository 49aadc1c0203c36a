import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knime_mcp.knwf.settings_xml import (
    MAX_DEPTH,
    Config,
    KnwfError,
    SettingsEntry,
    array,
    array_values,
    escape,
    from_xml,
    string,
    to_xml,
    unescape,
)
from tests.knwf.strategies import TEXT, configs
from tests.support import real_knime as rig


@given(TEXT)
def test_escaping_is_undone(text):
    assert unescape(escape(text)) == text


@given(TEXT)
def test_escaping_is_the_same_as_knimes(text):
    assert escape(text) == rig.escape(text)
    assert rig.unescape(escape(text)) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain é", "plain é"),
        ("a\tb\r\n", "a%%00009b%%00013%%00010"),
        ("100%", "100%"),
        ("%%", "%%00037%"),
        ("%%00065", "%%00037%00065"),
        ("\ud7ff\ue000", "\ud7ff%%57344"),
        ("😀", "%%55357%%56832"),
    ],
)
def test_only_what_knime_escapes_is_escaped(text, escaped):
    assert escape(text) == escaped
    assert unescape(escaped) == text


def test_lone_surrogates_do_not_get_through():
    assert escape("a\ud83d") == "a%%65533"
    assert unescape("%%55357") == "�"
    assert unescape("%%99999") == "%%99999"


@given(configs())
def test_settings_come_back(settings):
    data = to_xml(settings)
    assert from_xml(data, "settings.xml") == settings
    assert to_xml(from_xml(data, "settings.xml")) == data
    assert ET.fromstring(data).get("key") == "settings.xml"


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "Infinity"), (-math.inf, "-Infinity"), (0.1, "0.1"), (2, "2.0")]
)
def test_doubles_are_written_as_java_reads_them(value, text):
    data = to_xml(Config("c", (SettingsEntry("d", "xdouble", value),)))
    assert f'value="{text}"' in data.decode()
    assert from_xml(data, "c").value("d") == value


def test_not_a_number_comes_back():
    data = to_xml(Config("c", (SettingsEntry("d", "xdouble", math.nan),)))
    assert math.isnan(from_xml(data, "c").value("d"))


def test_null_and_empty_text_differ():
    settings = Config("c", (string("a", None), string("b", "")))
    assert from_xml(to_xml(settings), "c") == settings
    assert 'isnull="true" value=""' in to_xml(settings).decode()


@pytest.mark.parametrize(
    "entry",
    [
        SettingsEntry("k", "xint", 2**31),
        SettingsEntry("k", "xbyte", -129),
        SettingsEntry("k", "xint", True),
        SettingsEntry("k", "xint", None),
        SettingsEntry("k", "xboolean", 1),
        SettingsEntry("k", "xstring", 1),
        SettingsEntry("k", "xdouble", "1"),
        SettingsEntry("k\x01", "xstring", ""),
    ],
)
def test_what_knime_could_not_read_is_not_written(entry):
    with pytest.raises(KnwfError, match="k"):
        to_xml(Config("c", (entry,)))


def test_doubled_keys_are_refused():
    with pytest.raises(KnwfError, match="two entries 'a'"):
        to_xml(Config("c", (string("a", ""), Config("a"))))
    with pytest.raises(KnwfError, match="two entries 'a'"):
        from_xml(b'<config key="c"><config key="a"/><config key="a"/></config>', "f")


def test_broken_settings_say_what_is_wrong(subtests):
    for xml, message in [
        ("<config", "not well-formed"),
        ("", "not well-formed"),
        ("<other key='c'/>", "<other>"),
        ("<config/>", "no key"),
        ("<entry key='a' type='xint' value='1'/>", "<entry>"),
        ("<config key='c'><entry key='a' type='xdate' value=''/></config>", "xdate"),
        ("<config key='c'><entry key='a' type='xint' value='x'/></config>", "'x', which is no xint"),
        ("<config key='c'><entry key='a' type='xint' value='2147483648'/></config>", "no xint"),
        ("<config key='c'><entry key='a' type='xboolean' value='yes'/></config>", "no xboolean"),
        ("<!DOCTYPE c [<!ENTITY a 'b'>]><config key='c'/>", "document type"),
        ("<config key='a'>" * (MAX_DEPTH + 5), "nested"),
        ("<?xml version='1.0' encoding='nonsense'?><config key='c'/>", "encoding"),
    ]:
        with subtests.test(xml=xml, message=message):
            with pytest.raises(KnwfError, match=message) as caught:
                from_xml(xml.encode(), "node/settings.xml")
            assert "node/settings.xml" in str(caught.value)


def test_deep_settings_are_not_written():
    config = Config("c")
    for _ in range(MAX_DEPTH + 2):
        config = Config("c", (config,))
    with pytest.raises(KnwfError, match="nested"):
        to_xml(config)


@given(st.lists(st.none() | TEXT))
def test_arrays_come_back(values):
    assert array_values(array("a", "xstring", values)) == values


@pytest.mark.parametrize("size", [-1, 2, 10**9])
def test_an_array_with_elements_missing_is_refused(size):
    with pytest.raises(KnwfError, match="no whole array"):
        array_values(
            Config("a", (SettingsEntry("array-size", "xint", size), string("0", "x"), string("z", "x")))
        )
