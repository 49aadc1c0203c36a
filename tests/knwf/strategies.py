"""Workflows, settings and parameters for property tests."""

from hypothesis import strategies as st

from examples.knime_nodes import Column, table_creator
from knime_mcp.knwf import (
    Annotation,
    CanvasPosition,
    Config,
    Connection,
    DeclaredPort,
    SettingsEntry,
    VariableControl,
    Workflow,
    WorkflowCredential,
    WorkflowVariable,
    extension_node,
)
from knime_mcp.knwf.settings_xml import NOT_XML

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
DOUBLE = st.floats(allow_nan=False)
#: Text with many characters that are escaped.
TEXT = st.one_of(
    st.text(max_size=20),
    st.text(st.sampled_from("%0123456789a\t\n\r\x00\x1f\x7f\x85 <>&\"'\ud7ff\ue000\uffff😀𐀀é"), max_size=30),
)
#: Keys of settings: anything that XML can hold.
KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=12)

_ENTRIES = {
    "xstring": st.none() | TEXT,
    "xpassword": st.none() | TEXT,
    "xtransientstring": st.none() | TEXT,
    "xchar": st.characters(exclude_categories=["Cs"]),
    "xint": INT,
    "xlong": LONG,
    "xshort": st.integers(-(2**15), 2**15 - 1),
    "xbyte": st.integers(-(2**7), 2**7 - 1),
    "xdouble": DOUBLE,
    "xfloat": DOUBLE,
    "xboolean": st.booleans(),
}


def entries(key):
    return st.sampled_from(sorted(_ENTRIES)).flatmap(
        lambda t: st.builds(SettingsEntry, st.just(key), st.just(t), _ENTRIES[t])
    )


def _config(key, child):
    keys = st.lists(KEYS, max_size=4, unique=True)
    children = keys.flatmap(lambda names: st.tuples(*(child(name) for name in names)))
    return st.builds(Config, st.just(key), children)


def configs(key="settings.xml", depth=3):
    if not depth:
        return _config(key, entries)
    return _config(key, lambda name: entries(name) | configs(name, depth - 1))


_SCALARS = [
    ({"type": "string"}, st.none() | TEXT),
    ({"oneOf": [{"const": "a", "title": "A"}]}, TEXT),
    ({"type": "integer", "format": "int32"}, INT),
    ({"type": "integer"}, INT),
    ({"type": "integer", "format": "int64"}, LONG),
    ({"type": "number", "format": "double"}, DOUBLE | INT),
    ({"type": "number"}, DOUBLE),
    ({"type": "number", "format": "float"}, DOUBLE),
    ({"type": "boolean"}, st.booleans()),
]
_NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)


def _with_schema(pair):
    schema, values = pair
    return values.map(lambda value: (schema, value))


def _scalar():
    return st.sampled_from(_SCALARS).flatmap(_with_schema)


def _array():
    def make(pair):
        items, values = pair
        schema = {"type": "array", "items": items} if "oneOf" not in items else {"anyOf": items["oneOf"]}
        return (st.none() | st.lists(values, max_size=4)).map(lambda value: (schema, value))

    return st.sampled_from(_SCALARS).flatmap(make)


def _object(depth):
    members = st.dictionaries(_NAMES, typed(depth - 1), max_size=4)
    return members.map(
        lambda own: (
            {"type": "object", "properties": {key: schema for key, (schema, _) in own.items()}},
            {key: value for key, (_, value) in own.items()},
        )
    )


@st.composite
def _groups(draw):
    """A list of groups, as ParameterArray has it."""
    fields = draw(st.dictionaries(_NAMES, st.sampled_from(_SCALARS), min_size=1, max_size=3))
    schema = {"type": "object", "properties": {key: own for key, (own, _) in fields.items()}}
    rows = st.fixed_dictionaries({key: values for key, (_, values) in fields.items()})
    return {"type": "array", "items": schema}, draw(st.none() | st.lists(rows, max_size=3))


def typed(depth=2):
    """A parameter: its schema and a value."""
    simple = [_scalar(), _array(), _groups()]
    return st.one_of(*simple, _object(depth)) if depth else st.one_of(*simple)


@st.composite
def parameters(draw):
    """The schema of a node's parameters, and parameters."""
    schema, value = draw(_object(3))
    return {"type": "object", "properties": {"model": schema}}, {"model": value}


VARIABLES = st.one_of(
    st.tuples(st.just("STRING"), st.none() | TEXT),
    st.tuples(st.just("INTEGER"), INT),
    st.tuples(st.just("LONG"), LONG),
    st.tuples(st.just("DOUBLE"), DOUBLE),
    st.tuples(st.just("BOOLEAN"), st.booleans()),
    st.tuples(st.just("STRINGARRAY"), st.lists(TEXT, max_size=3).map(tuple)),
    st.tuples(st.just("INTARRAY"), st.lists(INT, max_size=3).map(tuple)),
    st.tuples(st.just("LONGARRAY"), st.lists(LONG, max_size=3).map(tuple)),
    st.tuples(st.just("DOUBLEARRAY"), st.lists(DOUBLE, max_size=3).map(tuple)),
    st.tuples(st.just("BOOLEANARRAY"), st.lists(st.booleans(), max_size=3).map(tuple)),
)
_NOT_EMPTY = TEXT.filter(lambda text: text.strip() and not text.startswith("knime."))
_PIXELS = st.integers(-(10**6), 10**6)
POSITIONS = st.builds(CanvasPosition, _PIXELS, _PIXELS, _PIXELS, _PIXELS)


@st.composite
def extension_nodes(draw, node_id):
    schema, values = draw(parameters())
    group = DeclaredPort(name="Data inputs", group=True, present=draw(st.integers(0, 3)))
    optional = DeclaredPort(
        name=draw(KEYS), optional=True, present=draw(st.integers(0, 1)), type="PortType.CREDENTIAL"
    )
    return extension_node(
        node_id,
        draw(_NOT_EMPTY),
        extension_id="org.example",
        extension_node_id="a_node",
        version="1.2.3",
        parameters=values,
        schema=schema,
        inputs=[DeclaredPort(name=draw(KEYS)), group] + [optional] * (optional.name != group.name),
        outputs=[DeclaredPort(name=draw(KEYS), type="PortType.BINARY")],
        variables=[VariableControl((key,), "v", None) for key in values["model"]],
        position=draw(POSITIONS),
        annotation=draw(TEXT),
    )


@st.composite
def workflows(draw):
    count = draw(st.integers(0, 3))
    nodes = [draw(extension_nodes(node_id)) for node_id in range(count)]
    cells = tuple(draw(st.lists(TEXT.filter(bool), min_size=1, max_size=3)))
    nodes.append(table_creator(count, [Column(draw(_NOT_EMPTY), "string", cells)], annotation=draw(TEXT)))
    connections = [Connection(count, 1, node_id, 1) for node_id in range(count)]
    variables = draw(st.dictionaries(_NOT_EMPTY, VARIABLES, max_size=3))
    return Workflow(
        name=draw(_NOT_EMPTY),
        nodes=tuple(nodes),
        connections=tuple(connections),
        annotations=tuple(draw(st.lists(st.builds(Annotation, TEXT, INT, INT, INT, INT), max_size=2))),
        credentials=tuple(
            WorkflowCredential(name, draw(st.none() | TEXT))
            for name in draw(st.lists(_NOT_EMPTY, max_size=2, unique=True))
        ),
        variables=tuple(WorkflowVariable(name, kind, value) for name, (kind, value) in variables.items()),
        description=draw(st.none() | _NOT_EMPTY.filter(lambda text: not NOT_XML.search(text))),
        files=draw(st.dictionaries(st.sampled_from(["data/a", "data/😀/b.csv"]), st.binary(max_size=20))),
    )
