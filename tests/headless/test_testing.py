"""``knime.extension.testing``, with which extensions test their nodes: the same outcomes on both hosts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Run in a process of its own, because importing the module changes what works in all of it.
SCRIPT = '''
import json, sys
if REAL:
    from tests.support.real_knime.sources import API_FOLDERS
    sys.path[:0] = API_FOLDERS
else:
    from knime_mcp.headless import use_standin
    use_standin()
import knime.extension as knext
import knime.extension.testing as ktest


CATEGORY = knext.category("/community", "copies", "Copies", "", "icon.png")


@knext.node("Copy", knext.NodeType.OTHER, "icon.png", CATEGORY)
@knext.input_table("In", "")
@knext.input_table("More", "", optional=True)
@knext.input_table_group("Others", "")
@knext.input_port("Key", "", knext.PortType.CREDENTIAL)
@knext.output_table("Out", "")
class Copy:
    """Copies a column."""

    column = knext.StringParameter("Column", "", "a")

    def configure(self, ctx, schema):
        ctx.set_warning("none")
        ctx.flow_variables["knime.x"] = self.column
        return schema.append(knext.Column(schema[self.column].ktype, "copy"))

    def execute(self, ctx, table):
        ctx.set_progress(0.5)
        frame = table.to_pandas()
        frame["copy"] = frame[self.column]
        return [knext.Table.from_pandas(frame), ctx.is_canceled()]


def tried(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def configured():
    node, context = Copy(), ktest.TestingConfigurationContext()
    node.column = "b"
    schema = knext.Schema.from_columns([knext.Column(knext.string(), "b")])
    return [str(node.configure(context, schema)), dict(context.flow_variables)]


class Words(knext.PortObject):
    def serialize(self):
        return b""

    @classmethod
    def deserialize(cls, spec, storage):
        return cls(spec)


class Spec(knext.PortObjectSpec):
    def serialize(self):
        return {}

    @classmethod
    def deserialize(cls, data):
        return cls()


from knime.extension import nodes
COPY = nodes._nodes["Copy"]
context = ktest.TestingExecutionContext()
outcomes = {
    "configure": tried(configured),
    "node": COPY.to_dict(),
    "ports": [[port.name for port in ports] for ports in (COPY.input_ports, COPY.output_ports)],
    "views": COPY.views,
    "category": [category.to_dict() for category in nodes._categories],
    "port type": tried(lambda: knext.port_type("Words", Words, Spec)),
    "port type by id": tried(lambda: nodes.get_port_type_for_id("x")),
    "credentials": tried(lambda: context.get_credentials("x")),
    "credential names": tried(context.get_credential_names),
    "folder": tried(context.get_workflow_temp_dir),
    "connected": tried(context.get_connected_input_port_numbers),
    "of Arrow": tried(lambda: knext.Table.from_pyarrow(None)),
    "batches": tried(lambda: knext.BatchOutputTable.create("nonsense").num_batches),
    "schema of no batches": tried(lambda: knext.BatchOutputTable.create().schema.column_names),
}
if PANDAS:
    import datetime as dt
    import pandas as pd

    def table(**columns):
        return knext.Table.from_pandas(pd.DataFrame(columns))

    def executed():
        result, canceled = Copy().execute(context, table(a=[1, 2], b=["x", None]))
        return [result.to_pandas().to_dict("list"), list(result.column_names), result.num_rows, canceled]

    def batched():
        out = knext.BatchOutputTable.create()
        out.append(pd.DataFrame({"a": [1]}))
        out.append(table(a=[2]))
        shape = [out.num_batches, out.num_rows, out.num_columns, list(out.column_names), list(out.schema)]
        return [*shape, out.to_pandas()["a"].tolist(), [part.num_rows for part in out.batches()]]

    outcomes |= {
        "execute": tried(executed),
        "batched": tried(batched),
        "types": tried(lambda: str(table(a=[1], b=[0.5], c=["x"], d=pd.array([1], "int32")).schema)),
        "shape": tried(lambda: list(table(a=[1, 2]).shape)),
        "parts": tried(lambda: [part.num_rows for part in table(a=[1, 2]).batches()]),
        "selected": tried(lambda: table(a=[1])[["a"]].to_pandas()),
        "rows": tried(lambda: table(a=[1])[:, :1].to_pandas()),
        "Arrow": tried(lambda: table(a=[1]).to_pyarrow()),
        "RowIDs": tried(lambda: knext.Table.from_pandas(pd.DataFrame({"a": [1]}), row_ids="keep")),
        "booleans": tried(lambda: table(a=[True]).schema),
        "moments": tried(lambda: table(a=pd.Series([dt.datetime(2024, 2, 29)], dtype=object)).schema),
        "lists": tried(lambda: table(a=[[1]]).schema),
        "no values": tried(lambda: table(a=pd.Series([None], dtype=object)).schema),
        "batch of a list": tried(lambda: knext.BatchOutputTable.create().append([1])),
    }
print(json.dumps(outcomes))
'''


def port(name, kind, index, *, group=False, optional=False):
    return {
        "name": name,
        "type_string": kind,
        "description": "",
        "description_index": index,
        "group": group,
        "optional": optional,
    }


KNOWN = {
    "configure": ["Schema<\n\tColumn<'b', String>,\n\tColumn<'copy', String>>", {"knime.x": "b"}],
    "node": {
        "id": "Copy",
        "name": "Copy",
        "node_type": "Other",
        "is_deprecated": False,
        "is_hidden": False,
        "icon_path": "icon.png",
        "category": "/community/copies",
        "after": None,
        "keywords": [],
        "input_port_specifier": [
            port("In", "PortType.TABLE", 0),
            port("More", "PortType.TABLE", 1, optional=True),
            port("Others", "PortType.TABLE", 1, group=True),
            port("Key", "PortType.CREDENTIAL", 1),
        ],
        "output_port_specifier": [port("Out", "PortType.TABLE", 0)],
        "views": [],
    },
    "ports": [["In", "More", "Others", "Key"], ["Out"]],
    "views": [None],
    "category": [
        {
            "path": "/community",
            "level_id": "copies",
            "name": "Copies",
            "description": "",
            "icon": "icon.png",
            "after": "",
            "locked": True,
        }
    ],
    "port type": None,
    "port type by id": "RuntimeError",
    "credentials": "RuntimeError",
    "credential names": "RuntimeError",
    "folder": "RuntimeError",
    "connected": "AttributeError",
    "of Arrow": "RuntimeError",
    "batches": 0,
    "schema of no batches": [],
}
FRAMES = {
    "execute": [
        {"a": [1, 2], "b": ["x", None], "copy": [1, 2]},
        ["a", "b", "copy"],
        2,
        False,
    ],
    "batched": [2, 2, 1, ["a"], ["a"], [1, 2], [1, 1]],
    "types": "Schema<\n\tColumn<'a', Number (Long Integer)>,\n\tColumn<'b', Number (Float)>,"
    "\n\tColumn<'c', String>,\n\tColumn<'d', Number (Integer)>>",
    "shape": [1, 2],
    "parts": [2],
    "selected": "RuntimeError",
    "rows": "RuntimeError",
    "Arrow": "RuntimeError",
    "RowIDs": "RuntimeError",
    "booleans": "RuntimeError",
    "moments": "RuntimeError",
    "lists": "RuntimeError",
    "no values": "IndexError",
    "batch of a list": "RuntimeError",
}
PLUGIN = """<plugin><extension point="org.knime.python3.types.PythonValueFactory">
<Module modulePath="py" moduleName="money_types"><PythonValueFactory PythonClassName="MoneyFactory"
ValueFactory="org.example.MoneyFactory" ValueTypeName="money_types.Money"/></Module></extension>
<extension point="another"><Module modulePath="no"/></extension></plugin>"""
TYPES = """
from knime.api.types import PythonValueFactory
class Money: pass
class MoneyFactory(PythonValueFactory):
    def __init__(self): super().__init__(Money)
"""


def run(script, *, real=False, pandas=False):
    script = f"REAL, PANDAS = {real}, {pandas}\n{script}"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    if not real:
        environment.pop("KNIME_PYTHON_ROOT", None)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nodes_are_tested_without_a_host():
    assert json.loads(run(SCRIPT)) == KNOWN


@pytest.mark.real_knime
@pytest.mark.parametrize("real", [False, True])
def test_same_on_both(real):
    assert json.loads(run(SCRIPT, real=real, pandas=True)) == KNOWN | FRAMES


def test_value_factories_of_a_plugin(tmp_path):
    (tmp_path / "plugin.xml").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "py").mkdir()
    (tmp_path / "py" / "money_types.py").write_text(TYPES, encoding="utf-8")
    names = "{'org.example.MoneyFactory': 'Money'}"
    script = f"""
from knime_mcp.headless import use_standin
use_standin()
import knime.extension as knext, knime.extension.testing as ktest
for names in (None, {names}):
    ktest.register_extension({str(tmp_path / "plugin.xml")!r}, names)
    from money_types import Money
    print(knext.logical(Money), knext.logical(Money).storage_type)
"""
    assert run(script).split("\n")[:2] == [
        "MyDummyTypeName struct<String, blob>",
        "Money struct<String, blob>",
    ]
