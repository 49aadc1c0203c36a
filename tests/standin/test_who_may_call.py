"""Who may call what when: a node's process and KNIME's Java side, in each of the four things a node does.

The tables are those of KNIME's Java: of the callbacks and contexts that `CloseablePythonNodeProxy` makes, and
of `DefaultViewCallback` and `DefaultViewContext`. What is not there (-) fails with *Method … does not exist*.
"""

import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

PHASES = ("dialog", "configure", "execute", "view")

CALLBACK = """
log                                yes  yes      yes      yes
get_auth_schema                    yes  yes      yes      yes
get_auth_parameters                yes  yes      yes      yes
get_expires_after                  yes  yes      yes      yes
set_failure                        yes  yes      yes      -
get_flow_variables                 yes  yes      yes      -
set_flow_variables                 -    yes      yes      -
get_preferred_value_types_as_json  -    yes      yes      yes
create_sink                        -    refuses  yes      yes
create_filestore_file              -    refuses  yes      -
create_view_sink                   -    refuses  yes      -
create_file_store                  -    -        yes      -
file_store_key_to_absolute_path    -    -        yes      yes
"""
CONTEXT = """
get_credential_names               yes  yes      yes      yes
get_credentials                    yes  yes      yes      yes
get_input_port_map                 yes  yes      yes      yes
get_output_port_map                yes  yes      yes      yes
get_input_specs                    yes  -        -        -
set_warning                        -    yes      yes      -
get_node_id                        -    yes      yes      -
set_progress                       -    -        yes      -
is_canceled                        -    -        yes      -
get_workflow_temp_dir              -    -        yes      -
get_workflow_dir                   -    -        yes      -
get_knime_home_dir                 -    -        yes      -
execute_tool                       -    -        yes      yes
get_view_data                      -    -        yes      yes
init_combined_tools_workflow       -    -        refuses  yes
execute_tool_in_combined_workflow  -    -        refuses  yes
get_combined_tools_workflow        -    -        yes      refuses
"""
#: Not here: what no node of ours asks for, such as the combined workflow, which needs ports of workflows.
NOT_IN_STANDIN = {
    *("get_combined_tools_workflow", "execute_tool_in_combined_workflow", "get_knime_home_dir"),
    *("get_input_port_map", "get_input_specs"),
}


def table(text):
    """(method, phase) -> yes, refuses or -."""
    rows = [line.split() for line in text.strip().splitlines()]
    return {(name, phase): may for name, *cells in rows for phase, may in zip(PHASES, cells, strict=True)}


@pytest.mark.real_knime
@pytest.mark.parametrize(("text", "kind"), [(CALLBACK, "Callback"), (CONTEXT, "Context")])
def test_the_rig_refuses_what_knime_refuses(text, kind):
    from py4j.protocol import Py4JError, Py4JJavaError

    from tests.support.real_knime import callbacks, contexts

    modules = {"Callback": callbacks, "Context": contexts}

    def found(name, phase):
        made = getattr(modules[kind], phase.capitalize() + kind)(None)
        if hasattr(type(made), name):
            try:
                getattr(made, name)()
            except Py4JJavaError:
                return "refuses"
            except Exception:  # wants arguments, or a node
                return "yes"
            return "yes"
        with pytest.raises(Py4JError, match="does not exist"):
            getattr(made, name)()
        return "-"

    wanted = table(text)
    assert {cell: found(*cell) for cell in wanted} == wanted


@pytest.mark.real_knime
def test_the_tables_are_those_of_knimes_java():
    """Methods that came with a later release than that of these sources are not compared."""
    found = java_methods(Path(os.environ["KNIME_PYTHON_ROOT"]))
    for text, kind in ((CALLBACK, "Callback"), (CONTEXT, "Context")):
        there = {name for phase in PHASES for name in found[phase, kind]}
        wanted = {cell: may for cell, may in table(text).items() if cell[0] in there}
        assert {cell: found[cell[1], kind].get(cell[0], "-") for cell in wanted} == wanted
        assert there <= {name for name, _ in wanted}


def java_methods(root):
    """(phase, Callback or Context) -> the methods that Python can call, and what they do: yes or refuses."""
    folder = root / "org.knime.python3.nodes/src/main/java/org/knime/python3/nodes"
    proxy = parsed(folder / "CloseablePythonNodeProxy.java")
    methods = {"getDialogRepresentation": "dialog", "configure": "configure", "execute": "execute"}
    found = {}
    for method in of_kind(proxy, "method_declaration"):
        phase = methods.get(named(method))
        for made in of_kind(method, "object_creation_expression") if phase else ():
            kind = made.child_by_field_name("type").text.decode()
            for end in ("Callback", "Context"):
                if kind.endswith(end):
                    found.setdefault((phase, end), {}).update(pythonic(made))
    for end in ("Callback", "Context"):
        found["view", end] = pythonic(parsed(folder / f"DefaultView{end}.java"))
    inherited = parsed(folder / "proxy/PythonNodeViewProxy.java")
    for method in of_kind(inherited, "method_declaration"):
        if method.child_by_field_name("body") is not None:  # of an interface: a default
            found["view", "Callback"][named(method)] = "yes"
    return found


def parsed(file):
    import tree_sitter
    import tree_sitter_java

    language = tree_sitter.Language(tree_sitter_java.language())
    return tree_sitter.Parser(language).parse(file.read_bytes()).root_node


def of_kind(node, kind):
    for child in node.children:
        if child.type == kind:
            yield child
        yield from of_kind(child, kind)


def named(method):
    return method.child_by_field_name("name").text.decode()


def pythonic(node):
    """The methods that have Python's names, as all have that Python calls."""
    found = {}
    for method in of_kind(node, "method_declaration"):
        body = method.child_by_field_name("body")
        does = [child.type for child in body.named_children if "comment" not in child.type]
        if named(method) == "log" or "_" in named(method):
            found[named(method)] = "refuses" if does == ["throw_statement"] else "yes"
    return found


def test_the_standin_has_the_methods_of_knimes_contexts():
    from tests.support.knime_host import node_run

    wanted = {cell: may for cell, may in table(CONTEXT).items() if cell[0] not in NOT_IN_STANDIN}
    services = {phase: getattr(node_run, f"{phase.capitalize()}Services") for phase in PHASES}
    found = {(name, phase): hasattr(services[phase], name) for name, phase in wanted}
    assert found == {cell: may == "yes" for cell, may in wanted.items()}
    public = {name for own in services.values() for name in dir(own) if not name.startswith("_")}
    assert public == {name for name, _ in wanted}


PROBE = """
import pyarrow as pa
from knime.api.types import FileStorePythonValueFactory

class Store(FileStorePythonValueFactory):
    def __init__(self):
        super().__init__(str)
    def write(self, create, value):
        return create() and None
    def read(self, paths, data):
        return paths[0]

MADE = {
    "create_file_store": lambda: Store().encode("x"),
    "file_store_key_to_absolute_path": lambda: Store().decode({"0": "known", "1": None}),
    "create_sink": lambda: knext.Table.from_pyarrow(pa.table({"a": [1]})),
}
SEEN = {}

def tried(phase, value=None):
    for name, call in MADE.items():
        try:
            call()
            SEEN[name, phase] = "yes"
        except Exception as error:
            SEEN[name, phase] = f"{type(error).__name__}: {error}"
    return value

class Service:
    def ask(self):
        return tried("view")
    def get_view_data(self):
        tried("hand on")
        return {"data": {}, "ports": [knext.Table.from_pyarrow(pa.table({"a": [1]}))], "portIds": []}
"""


def test_the_standin_makes_files_and_tables_when_knime_does(make_source):
    host = make_source(
        before=PROBE,
        body='what = knext.StringParameter("What", "what", "x", choices=lambda ctx: tried("dialog", ["x"]))\n'
        '    def get_data_service(self, ctx): return tried("service", Service())',
        configure='tried("configure")',
        execute='tried("execute")',
    )
    host.file_stores.add("known", b"")
    seen = sys.modules[host.nodes["Source"].module].SEEN
    host.get_dialog("Source")
    host.run_node("Source")
    view = host.data_service("Source")
    view("ask")
    assert view.view_data()["ports"][0].to_pyarrow().num_rows == 1

    wanted = table(CALLBACK)
    names = {name for name, _ in seen}
    assert len(names) == 3
    for moment in ("service", "hand on"):
        wanted |= {(name, moment): wanted[name, "view"] for name in names}
    assert {(name, when): may == "yes" for (name, when), may in seen.items()} == {
        (name, when): wanted[name, when] == "yes" for name, when in seen
    }
    assert len(seen) == 3 * len([*PHASES, "service", "hand on"])
    assert "hand the value on to execute()" in seen["create_file_store", "view"]


def test_the_view_of_one_node_and_the_execution_of_another_do_not_disturb_each_other(trial):
    from knime.api.types import FileStorePythonValueFactory

    class Store(FileStorePythonValueFactory):
        def write(self, file_store_creator, value):
            file_store_creator()

    with trial.tables_usable(in_view=True):
        with trial.tables_usable():
            assert Store(str).encode("x")["0"]
        with pytest.raises(RuntimeError, match="in a view"):
            Store(str).encode("x")
        assert trial.table(pa.table({"a": [1]})).num_rows == 1
