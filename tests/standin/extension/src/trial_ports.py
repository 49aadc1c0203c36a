"""Nodes with all kinds of ports, and with a view; what contexts answer."""

import json
import threading

import knime.extension as knext
from trial_base import as_table, category


class WordsSpec(knext.PortObjectSpec):
    def __init__(self, language):
        self.language = language

    def serialize(self):
        return {"language": self.language}

    @classmethod
    def deserialize(cls, data):
        return cls(data["language"])


class Words(knext.PortObject):
    def __init__(self, spec, text):
        super().__init__(spec)
        self.text = text

    def serialize(self):
        return self.text.encode()

    @classmethod
    def deserialize(cls, spec, storage):
        return cls(spec, storage.decode())


class LoudSpec(WordsSpec):
    pass


class Loud(Words):
    pass


class OtherSpec(knext.PortObjectSpec):
    def serialize(self):
        return {}

    @classmethod
    def deserialize(cls, data):
        return cls()


class Other(knext.PortObject):
    def serialize(self):
        return b""

    @classmethod
    def deserialize(cls, spec, storage):
        return cls(spec)


words = knext.port_type("Words", Words, WordsSpec)
loud = knext.port_type("Loud words", Loud, LoudSpec, id="org.example.loud")
other = knext.port_type("Other", Other, OtherSpec)


@knext.node("Context", knext.NodeType.OTHER, "icons/icon.png", category)
@knext.input_table("First", "optional one", optional=True)
@knext.input_table_group("Others", "any number")
@knext.input_port("Auth", "a credential", knext.PortType.CREDENTIAL, optional=True)
@knext.output_table("Out", "what the context says")
@knext.output_table_group("Copies", "copies")
@knext.output_view("Page", "a page")
class Context:
    """Asks its context for everything.

    Each answer is a row.
    """

    what = knext.StringParameter("What", "what to try", "")
    credential = knext.StringParameter("Credential", "a name", "")

    def configure(self, ctx, first, others, auth):
        self._members = sorted(name for name in dir(ctx) if not name.startswith("__"))
        if self.what == "few":
            return knext.Schema.from_columns([])
        schema = knext.Schema.from_columns(
            [knext.Column(knext.string(), "name"), knext.Column(knext.string(), "value")]
        )
        ctx.flow_variables["configured"] = True
        return schema, [schema] * ctx.get_connected_output_port_numbers()[1]

    def execute(self, ctx, first, others, auth):
        rows = {
            "state": hasattr(self, "_members"),
            "thread": threading.current_thread() is threading.main_thread(),
            "first": None if first is None else [first.num_rows, first.num_columns, first.column_names],
            "others": [table.num_rows for table in others],
            "auth": None
            if auth is None
            else [auth.spec.auth_schema, auth.spec.auth_parameters, str(auth.spec.expires_after)],
            "names": ctx.get_credential_names(),
            "sizes": ctx.get_connected_output_port_numbers(),
            "variables": dict(ctx.flow_variables),
            "data area": ctx.get_workflow_data_area_dir().replace("\\", "/").rsplit("/", 1)[1],
        }
        if self.credential:
            credential = ctx.get_credentials(self.credential)
            rows["credential"] = [credential.username, credential.password, credential.credential_name]
        self.attempt(ctx)
        ctx.set_progress(1, "done")
        out = as_table(list(rows), [json.dumps(value) for value in rows.values()])
        copies = [out] * ctx.get_connected_output_port_numbers()[1]
        if self.what == "no view":
            return None
        return out, copies, knext.view_html("<!DOCTYPE html><p>page</p>")

    def attempt(self, ctx):
        match self.what:
            case "odd variable":
                ctx.flow_variables["x"] = object()
            case "tuple variable":
                ctx.flow_variables["x"] = (1, 2)
            case "list variable":
                ctx.flow_variables["x"] = ["a", "b"]
            case "cancel":
                if ctx.is_canceled():
                    raise RuntimeError("stopped")


@knext.node("Speak", knext.NodeType.SOURCE, "icons/icon.png", category)
@knext.output_port("Words", "some words", words)
@knext.output_port("Loud", "loud words", loud)
@knext.output_port("Other", "something else", other)
class Speak:
    """Gives words.

    Loud ones, too.
    """

    wrong = knext.BoolParameter("Wrong", "gives the wrong kind", False)

    def configure(self, ctx):
        return WordsSpec("en"), LoudSpec("en"), OtherSpec()

    def execute(self, ctx):
        spec = OtherSpec() if self.wrong else WordsSpec("en")
        return Words(spec, "hello"), Loud(LoudSpec("en"), "HELLO"), Other(OtherSpec())


@knext.node("Listen", knext.NodeType.SINK, "icons/icon.png", category)
@knext.input_port("Words", "some words", words)
@knext.output_table("Heard", "the words")
class Listen:
    """Takes words.

    Loud ones, too.
    """

    def configure(self, ctx, spec):
        ctx.set_warning(spec.language)
        return

    def execute(self, ctx, heard):
        return as_table(["heard"], [f"{type(heard).__name__}; {heard.text}"])


@knext.node("Tool", knext.NodeType.OTHER, "icons/icon.png", category)
@knext.input_table("Tools", "a column of tools")
@knext.output_table("Out", "what it said")
class RunTool:
    """Runs a workflow tool.

    The first one of a table.
    """

    bad_hints = knext.BoolParameter("Bad hints", "hints that are no text", False)

    def configure(self, ctx, schema):
        import knime.types.tool as kt

        names = [c.name for c in schema if c.ktype == knext.logical(kt.WorkflowTool)]
        ctx.set_warning(",".join(names))
        return

    def execute(self, ctx, tools):
        import pyarrow as pa

        tool = tools.to_pyarrow().column(tools.column_names[-1]).to_pylist()[0]
        given = knext.Table.from_pyarrow(pa.table({"q": [1, 2, 3]}))
        hints = {"execution-mode": 1 if self.bad_hints else "DETACHED"}
        message, outputs, views = ctx._execute_tool(tool, {"a": 1}, [given], hints)
        rows = [
            message,
            tool.name,
            [t.num_rows for t in outputs],
            views,
            len(tool.input_ports),
            tool._filestore_keys,
        ]
        return as_table(["answer"], [json.dumps(rows)])
