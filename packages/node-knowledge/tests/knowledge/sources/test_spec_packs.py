"""Spec packs in both formats: what they become, and where their errors are said to be."""

import re
from pathlib import Path

import pytest

from knime_node_knowledge.packs import own_packs
from knime_node_knowledge.sources.spec_packs import PackError, parse_pack, read_pack

HEAD = "pack: {name: p, version: 1.2.3}\nnodes:\n"
LEGACY = """\
  - node_type: ACTION
    subtype: SEND_MAIL
    description: Sends.
    parameters:
      - {name: to, type: string, required: true, description: Who., validation_pattern: "@"}
      - {name: retries, type: integer, default_value: 3, min: 0, max: 5, description: How often.}
      - {name: kind, type: enum, default_value: "no", enum_values: ["no", yes, on], description: Which.}
    input_ports:
      - name: main
        type: main
        description: In.
        max_connections: 4
        data_format: {mime_type: application/json, schema: {type: object}, examples: [{a: 1}, "text"]}
        validation_schema: {type: object}
    output_ports: [{name: main, type: main, description: Out.}]
"""
MODERN = """\
  - type: AI_AGENT
    subtype: MODEL
    name: The Model
    version: "2.0"
    description: Thinks.
    configurations:
      temperature: {type: float, default: 0.5, min: 0, max: 2, description: Warmth.}
      nothing: {type: any, default: null, description: None by default.}
    input_params: {user_input: {type: string, required: true, description: What.}}
    output_params: {output: {type: string, description: Answer.}}
    attached_nodes: [ACTION]
"""


def parsed(text):
    return parse_pack(HEAD + text, file="f.yaml")


@pytest.mark.requirement("N11")
def test_both_formats_become_the_same_kind_of_node():
    legacy, modern = parsed(LEGACY + MODERN).nodes
    assert (legacy.id, legacy.name, legacy.version) == ("ACTION.SEND_MAIL", "Send Mail", "1.2.3")
    assert legacy.parameters == legacy.configurations
    to, retries, kind = legacy.parameters
    assert (to.required, to.has_default, to.validation_pattern) == (True, False, "@")
    assert (retries.default_value, retries.min, retries.max) == (3, 0, 5)
    assert kind.enum_values == ("no", "yes", "on")
    (port,) = legacy.input_ports
    assert (port.max_connections, port.required, port.validation_schema) == (4, True, {"type": "object"})
    assert port.data_format.schema == '{"type": "object"}'
    assert port.data_format.examples == ('{"a": 1}', "text")
    assert legacy.output_ports[0].max_connections == -1
    assert legacy.attached_nodes is None
    assert (modern.id, modern.name, modern.version) == ("AI_AGENT.MODEL", "The Model", "2.0")
    assert modern.parameters == modern.configurations
    assert [(p.name, p.default_value, p.has_default) for p in modern.parameters] == [
        ("temperature", 0.5, True),
        ("nothing", None, True),
    ]
    assert [p.name for p in (*modern.input_params, *modern.output_params)] == ["user_input", "output"]
    assert modern.attached_nodes == ("ACTION",)
    assert legacy.settings_known
    assert modern.settings_known
    assert modern.origin.file == "f.yaml:18"


WRONG = [
    (
        LEGACY.replace("node_type: ACTION", "node_typ: ACTION"),
        r"3:5: nodes\[0\].node_typ: .*mean 'node_type'",
    ),
    (
        LEGACY.replace("subtype: SEND_MAIL", "subtype: send-mail"),
        r"4:5: nodes\[0\].subtype: 'send-mail' must be",
    ),
    (LEGACY.replace("ACTION\n", "ACTION_NODE\n"), r"3:5: nodes\[0\].node_type: .*must not end in _NODE"),
    (LEGACY.replace("    description: Sends.\n", ""), r"3:5: nodes\[0\]: 'description' is missing"),
    (
        LEGACY.replace("type: integer", "type: int"),
        r"8:\d+: nodes\[0\].parameters\[1\].type: 'int' is not a type. Did you mean 'integer'\?",
    ),
    (LEGACY.replace("default_value: 3", "default_value: 9"), r"parameters\[1\].default_value: 9 is outside"),
    (LEGACY.replace("default_value: 3", "default_value: three"), r"is text, but the type is integer"),
    (LEGACY.replace("min: 0", "min: 8"), r"parameters\[1\].min: 8 is more than max, 5"),
    (LEGACY.replace('default_value: "no"', "default_value: maybe"), r"'maybe' is none of the options"),
    (LEGACY.replace('enum_values: ["no", yes, on]', "enum_values: []"), r"must name at least one value"),
    (LEGACY.replace('enum_values: ["no", yes, on], ', ""), r"an enum needs 'options'"),
    (
        LEGACY.replace('pattern: "@"', 'pattern: "("'),
        r"7:\d+: .*validation_pattern: is no regular expression",
    ),
    (LEGACY.replace("required: true", "required: yes"), r"'required' must be true or false, not text"),
    (LEGACY.replace("name: retries", "name: to"), r"nodes\[0\].parameters: has two entries named 'to'"),
    (LEGACY.replace("max_connections: 4", "max_connections: 0"), r"max_connections: 0 must be 1 or more"),
    (LEGACY.replace("schema: {type: object}, e", "schema: '{', e"), r"data_format.schema: is no JSON"),
    (LEGACY + LEGACY, r"nodes\[1\]: ACTION.SEND_MAIL is in this pack twice"),
    (LEGACY + "    attached_nodes: []\n", r"belongs to the modern format, but 'node_type' to the legacy one"),
    (LEGACY + "    examples: [{name: x, configurations: {too: 1}}]\n", r"configurations.too: .*mean 'to'"),
    (LEGACY + "    examples: [{name: x, configurations: {kind: z}}]\n", r"kind: 'z' is not allowed"),
    (LEGACY + "    examples: [{name: x, configurations: {retries: many}}]\n", r"'many' is no number"),
    (LEGACY + "    examples: [hello]\n", r"1 problem:\n.*'nodes\[0\].examples\[0\]' must be a mapping"),
    (LEGACY + "    examples: [{name: x, configurations: [1]}]\n", r"'configurations' must be a mapping"),
    (LEGACY + "    successor: ACTION.NEW\n", r"successor: there is no node ACTION.NEW"),
    (LEGACY + "    tags: [a, 1]\n", r"'nodes\[0\].tags\[1\]' must be text, not the number 1"),
    (MODERN, r"attached_nodes\[0\]: there is no node or type ACTION"),
    (LEGACY + MODERN.replace("default: 0.5", "defautl: 0.5"), r"temperature.defautl: .*mean 'default'"),
    (
        LEGACY + MODERN.replace("Answer.", "Answer, of sorts."),
        r"A text with a comma inside \{ \} has to be in",
    ),
    (LEGACY + MODERN.replace("{type: float,", "{type: string,"), r"min: only numbers have a range"),
    (
        LEGACY.replace("    subtype", "    node_type: X\n    subtype"),
        r"4:5: .+: the key 'node_type' is given twice",
    ),
    ("  - [1", r"\d+:\d+: "),
    ("  - &a [*a]", r"3:5: .+: this alias refers to a value that contains the alias itself"),
    ("  - !!python/object:os.system x", r"is not supported"),
    ("  - <<: {a: 1}", r"merge keys"),
    ("  - text", r"3:5: nodes\[0\]: 'nodes\[0\]' must be a mapping, not text"),
    ("", r"the pack has no 'nodes'"),
]


def test_errors_name_file_line_and_key(subtests):
    for text, what in WRONG:
        with subtests.test(text=text, what=what):
            with pytest.raises(PackError) as caught:
                parsed(text)
            assert re.search(r"f\.yaml has \d+ problems?:\nf\.yaml:\d+:\d+: ", str(caught.value))
            assert re.search(what, str(caught.value)), caught.value
            assert "docs/node-packs.md" in str(caught.value)


def test_all_errors_are_told_at_once_in_the_order_of_the_file():
    text = LEGACY.replace("min: 0", "min: 8").replace("SEND_MAIL", "send").replace("name: to,", "")
    with pytest.raises(PackError) as caught:
        parsed(text)
    lines = [int(line) for line in re.findall(r"^f\.yaml:(\d+):", str(caught.value), re.MULTILINE)]
    assert len(lines) >= 3
    assert lines == sorted(lines)


def test_the_documented_pack_can_be_used():
    page = (Path(__file__).parents[3] / "docs" / "node-packs.md").read_text("utf-8")
    (written,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert [node.id for node in parse_pack(written, file="f.yaml").nodes] == [
        "ACTION.SEND_MAIL",
        "AI_AGENT.MY_MODEL",
    ]


def test_a_billion_laughs_is_refused():
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for number, name in enumerate("bcdefghij"):
        bomb += f"{name}: &{name} [{', '.join(['*' + 'abcdefghi'[number]] * 10)}]\n"
    with pytest.raises(PackError, match="more than 200000 values"):
        parse_pack(bomb, file="f.yaml")


def test_a_file_in_another_encoding_says_so(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_bytes((HEAD + LEGACY.replace("Sends.", "Schlüssel")).encode("latin-1"))
    with pytest.raises(PackError, match="is no UTF-8 text"):
        read_pack(path)


def test_the_packs_that_come_along_are_right():
    packs = [read_pack(path) for path in own_packs()]
    assert [pack.name for pack in packs] == ["workflow-engine"]
    for pack in packs:
        for node in pack.nodes:
            assert node.tags, node.id
            assert node.keywords, node.id
            assert node.examples, node.id
