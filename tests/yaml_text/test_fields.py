"""Mappings that are read key by key: every invalid value is a problem with its place."""

import pytest

from knime_mcp.yaml_text import TRUTH, WHOLE, Findings, Hints, Rules, Severity, read

pytestmark = pytest.mark.quick


RULES = Rules(merge_keys=False, most_values=1000, deepest=60)


def findings_of(text, **hints):
    return Findings(read(text, RULES), hints=Hints(**hints))


def texts(findings):
    return [problem.text("f") for problem in findings.problems]


def test_values_of_the_wrong_kind_are_reported_where_they_stand():
    findings = findings_of("a: 1\nb: {c: [x, 2]}\nd: 0\n", forms={"a": "Write it as a: text"})
    fields = findings.fields(findings.source.data, ())
    assert fields.text("a") == ""
    assert fields.inside("b").texts("c") == ["x"]
    assert fields.number("d", WHOLE, default=7) == 7
    assert fields.get("e", TRUTH, default=True) is True
    assert fields.text("f") == ""
    assert not fields.end()
    assert texts(findings) == [
        "f:1:1: error: 'a' must be text, not the number 1 (at a). Put it in quotes.",
        "f:2:12: error: 'b.c[1]' must be text, not the number 2 (at b.c[1]). Put it in quotes.",
        "f:3:1: error: 'd' must be greater than 0, not 0 (at d)",
        "f:1:1: error: 'f' is missing",
    ]


def test_unknown_keys_are_as_bad_as_the_format_says():
    for severity, ending, fit in ((Severity.WARNING, " and is ignored", True), (Severity.ERROR, "", False)):
        findings = findings_of("name: x\nnmae: y\nx-own: z\n", unknown=severity)
        fields = findings.fields(findings.source.data, ())
        fields.text("name")
        assert fields.end() is fit
        said = f"the key 'nmae' is not known here{ending} (at nmae). Did you mean 'name'?"
        assert texts(findings) == [f"f:2:1: {severity}: {said}"]


def test_mappings_in_lists():
    findings = findings_of("b: [{n: two}, three]\n")
    fields = findings.fields(findings.source.data, ())
    assert [inner.text("n") for inner in fields.mappings("b")] == ["two"]
    assert "b" in fields
    assert "c" not in fields
    assert texts(findings) == ["f:1:15: error: 'b[1]' must be a mapping, not text (at b[1])"]
