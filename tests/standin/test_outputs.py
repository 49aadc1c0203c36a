"""What nodes give: port objects and how they are kept, and promises that KNIME cannot keep."""

import pytest

from tests.support.knime_host import load_extension

pytestmark = pytest.mark.quick


TEXTS = '''
class Spec(knext.PortObjectSpec):
    def serialize(self): return {}
    @classmethod
    def deserialize(cls, data): return cls()

class TextSpec(Spec): pass

class Text(knext.PortObject):
    def __init__(self, spec, text): self._spec, self.text = spec, text
    def serialize(self): return self.text
    @classmethod
    def deserialize(cls, spec, storage): return cls(spec, storage)

text = knext.port_type("Text", Text, TextSpec)

class Node:
    """Gives.

    Objects.
    """
    def configure(self, ctx, *inputs): return None

@knext.node("Broken", knext.NodeType.SOURCE, "icon.png", "/community")
@knext.output_port("Text", "a text", text)
class Broken(Node):
    has_spec = knext.BoolParameter("Has spec", "")
    def execute(self, ctx): return Text(TextSpec() if self.has_spec else None, "no bytes")
'''


@pytest.mark.parametrize(("has_spec", "message"), [(True, "bytes"), (False, "no spec")])
def test_port_objects_that_cannot_be_stored(make_extension, has_spec, message):
    host = load_extension(make_extension(f"nodes_broken_{has_spec}", TEXTS))
    result = host.run_node("Broken", parameters={"has_spec": has_spec})
    assert message in result.failure["message"]


PROMISES = '''
@knext.node("Promise", knext.NodeType.SOURCE, "icon.png", "/community")
@knext.output_table("Out", "a table")
class Promise:
    """Promises.

    What KNIME cannot have.
    """
    def configure(self, ctx): return knext.Schema.from_columns([knext.Column(knext.{kind}, "a")] * {count})
    def execute(self, ctx):
        import pyarrow as pa
        return knext.Table.from_pyarrow(pa.table({{"a": [1]}}))
'''


def test_doubled_names_are_a_failure_of_the_node(make_extension):
    body = PROMISES.format(kind="int64()", count=2)
    result = load_extension(make_extension("nodes_doubled", body)).run_node("Promise")
    assert "unique" in result.failure["message"]
    assert result.specs == []


@pytest.mark.parametrize("kind", ["struct(knext.int32())", "LogicalType('x', knext.int32())"])
def test_promised_types_that_knime_does_not_have(make_extension, kind):
    name = f"nodes_promise_{kind[:4]}"
    host = load_extension(make_extension(name, PROMISES.format(kind=kind, count=1)))
    assert "Java has no columns of the type" in host.run_node("Promise").problems[0]
