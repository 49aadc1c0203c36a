"""Loading an extension: what KNIME needs of knime.yml, icons and descriptions, and what it drops."""

import sys

import pytest

from tests.support.knime_host import HostError, load_extension

NODE = '''
@knext.node("{name}", knext.NodeType.SOURCE, {icon}, "/community")
@knext.output_table("Out", "a table")
{more}class {name}:
    """{doc}

    And more.
    """

    def configure(self, ctx): return None
    def execute(self, ctx): return None
'''


def node(name="Some", doc="Does something.", icon='"icon.png"', more=""):
    return NODE.format(name=name, doc=doc, icon=icon, more=more)


def test_an_extension_has_its_nodes_and_categories(trial):
    assert (trial.id, trial.version) == ("org.example.trial", "1.2.0")
    names = ["Context", "Listen", "Read", "RunTool", "Script", "Settings", "Speak", "Tables", "versions"]
    assert sorted(trial.nodes) == names
    assert trial.describe()["problems"] == []
    assert trial.categories[0].to_dict()["level_id"] == "trial"


def test_an_extension_is_loaded_once(trial):
    assert load_extension(trial.root) is trial
    assert load_extension(trial.root / "knime.yml") is trial


def test_only_the_extensions_own_nodes(trial, make_extension):
    other = load_extension(make_extension("loading_other", node("Other")))
    assert list(other.nodes) == ["Other"]
    assert "Other" not in trial.nodes


def test_an_extension_in_a_folder_of_another_one(make_extension, tmp_path):
    written = make_extension("loading_inner", node("Inner")).parent
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("knime.yml", "loading_inner.py", "icon.png"):
        (written / name).rename(inner / name)
    outer = make_extension("loading_outer", node("Outer"))
    assert [list(load_extension(path).nodes) for path in (inner, outer)] == [["Inner"], ["Outer"]]


@pytest.mark.parametrize(
    ("yml", "message"),
    [
        ("name: {name}\ngroup_id: org.example\nversion: 1.0\n", "quotes"),
        ('name: {name}\ngroup_id: org.example\nversion: "1.0"\n', "1.0.0"),
        ('name: {name}\nversion: "1.0.0"\n', "group_id"),
        ('name: 1\ngroup_id: org.example\nversion: "1.0.0"\n', "name"),
    ],
)
def test_what_knime_does_not_take_in_a_knime_yml_is_named(make_extension, yml, message):
    with pytest.raises((HostError, ValueError), match=message):
        load_extension(make_extension("loading_bad_yml", node(), yml))


def test_no_version_is_zero(make_extension):
    host = load_extension(
        make_extension("loading_no_version", node(), "name: {name}\ngroup_id: org.example\n")
    )
    assert host.version == "0.0.0"


def test_a_knime_yml_that_is_missing_or_has_another_name(tmp_path):
    with pytest.raises(HostError, match="there is no"):
        load_extension(tmp_path)
    (tmp_path / "other.yml").write_text("name: x\n")
    with pytest.raises(HostError, match=r"other\.yml"):
        load_extension(tmp_path / "other.yml")


@pytest.mark.parametrize(
    ("module", "body", "message"),
    [
        ("loading_amp", node(doc="This & that."), "first line of the docstring"),
        ("loading_less", node(doc="a < b"), "first line of the docstring"),
        (
            "loading_empty",
            node().replace('    """Does something.\n\n    And more.\n    """', "    ''"),
            "empty",
        ),
        ("loading_no_icon", node(icon="None"), "icon_path"),
        ("loading_view", node(more='@knext.output_view("V", "a < b")\n'), "description of the view"),
        ("loading_crash", "1 / 0", "division by zero"),
        ("loading_import", "import nowhere_at_all", "nowhere_at_all"),
        ("loading_category", "knext.category('/community', 'x', 'X', None, 'icon.png')", "description"),
    ],
)
def test_extension_is_dropped(make_extension, module, body, message):
    with pytest.raises(HostError, match=message):
        load_extension(make_extension(module, body))
    sys.modules.pop(module, None)


def test_escaped_text_is_fine(make_extension):
    assert load_extension(make_extension("loading_escaped", node("Escaped", doc="This &amp; that."))).nodes


def test_missing_icon_and_description_are_warnings(make_extension):
    body = node("Bare", icon='"nowhere.png"').replace("    And more.\n", "")
    problems = load_extension(make_extension("loading_warnings", body)).describe()["problems"]
    assert [(severity, where) for severity, where, _ in problems] == [("warning", "node Bare")]
    assert "nowhere.png" in problems[0][2]


def test_two_optional_ports_of_one_name(make_extension):
    ports = '@knext.input_table("In", "x", optional=True)\n' * 2
    with pytest.raises(HostError, match="'In'"):
        load_extension(make_extension("loading_ports", node("Ports", more=ports)))


def test_two_groups_of_one_name(make_extension):
    ports = '@knext.input_table_group("In", "x")\n' * 2
    with pytest.raises(HostError, match="In"):
        load_extension(make_extension("loading_groups", node("Groups", more=ports)))


def test_version_is_unknown_during_import(make_extension):
    """KNIME sets the extension's version after the import: a default that asks for it then fails."""
    body = "class Owner:\n    n = knext.IntParameter('N', '', lambda version: version.major)\nOwner().n\n"
    with pytest.raises(HostError, match="after the import"):
        load_extension(make_extension("loading_version", body))


def test_nodes_are_made_at_decoration(make_extension):
    body = node("Made").replace(
        "    def configure", "    def __init__(self): MADE.append(1)\n\n    def configure"
    )
    host = load_extension(make_extension("loading_made", "MADE = []\n" + body))
    assert sys.modules["loading_made"].MADE
    assert host.declared("Made").name == "Made"


def test_parameters_do_not_belong_into_init(make_extension):
    init = "    def __init__(self): self.n = knext.IntParameter('N', '')\n\n    def configure"
    with pytest.raises(HostError, match="class of a node"):
        load_extension(make_extension("loading_init", node("Init").replace("    def configure", init)))


def test_port_types_need_an_extension():
    import knime.extension as knext
    from knime.extension import nodes

    loaded, nodes.port_types = nodes.port_types, None
    try:
        with pytest.raises(AttributeError, match="being loaded"):
            knext.port_type("P", knext.PortObject, knext.PortObjectSpec)
    finally:
        nodes.port_types = loaded


def test_port_type_classes_and_ids_are_unique(trial):
    import trial_ports as module

    trial.make_current()
    import knime.extension as knext

    with pytest.raises(ValueError, match="object class"):
        knext.port_type("P", module.Words, knext.PortObjectSpec)
    assert module.words.id == "org.example.trial.trial_ports.Words"
    with pytest.raises(ValueError, match="id"):
        knext.port_type("P", type("New", (), {}), type("NewSpec", (), {}), id="org.example.loud")


def test_an_unknown_node_names_the_known_ones(trial):
    with pytest.raises(HostError, match="Settings"):
        trial.run_node("Setings")
