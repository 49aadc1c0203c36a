"""A small extension that uses what this project's nodes use, to try both hosts with."""

import datetime as dt
import inspect
import json
import threading

import knime.extension as knext

category = knext.category("/community", "trial", "Trial", "Nodes to try things with", "icons/icon.png")


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


class Mode(knext.EnumParameterOptions):
    PLAIN = ("Plain", "as it is")
    LOUD = ("Loud", "in capitals")
    HIDDEN = ("Hidden", "nobody sees it")


# KNIME 5.8 has no hidden_choices yet.
HIDING = (
    {"hidden_choices": lambda ctx: [Mode.HIDDEN] if ctx else []}
    if "hidden_choices" in inspect.signature(knext.EnumParameter.__init__).parameters
    else {}
)


class Many(knext.EnumParameterOptions):
    A = ("A", "a")
    B = ("B", "b")
    C = ("C", "c")
    D = ("D", "d")
    E = ("E", "e")


@knext.parameter_group("Inner")
class Inner:
    depth = knext.IntParameter("Depth", "how deep", 2)


@knext.parameter_group("More", layout_direction=knext.LayoutDirection.HORIZONTAL)
class More:
    """More of it."""

    count = knext.IntParameter("Count", "how many", 3, min_value=1, max_value=9)
    text = knext.MultilineStringParameter("Text", "some text", "a\nb", number_of_lines=4)
    inner = Inner()

    def validate(self, values):
        if values["text"] == "forbidden":
            raise ValueError("this text is forbidden")


@knext.parameter_group("Late", since_version="1.1.0", is_advanced=True)
class Late:
    level = knext.StringParameter("Level", "since 1.1.0", "new", since_version="1.1.0")


@knext.parameter_group("Argument")
class Argument:
    name = knext.StringParameter("Name", "its name", "n")
    value = knext.DoubleParameter("Value", "its value", 0.5)


def detailed(ctx):
    return [
        knext.StringParameter.Choice("<none>", "None"),
        *(
            knext.StringParameter.Choice(name, name.upper(), f"called {name}")
            for name in ctx.get_credential_names()
        ),
    ]


@knext.node("Settings", knext.NodeType.SOURCE, "icons/icon.png", category, keywords=["trial"])
@knext.input_table("In", "a table", optional=True)
@knext.output_table("Out", "the settings")
class Settings:
    """Writes its settings into a table.

    All kinds of them.
    """

    mode = knext.EnumParameter(
        "Mode", "the mode", Mode.PLAIN.name, Mode, style=knext.EnumParameter.Style.VALUE_SWITCH
    )
    seen = knext.EnumParameter("Seen", "a part", Mode.PLAIN.name, Mode, **HIDING)
    several = knext.EnumSetParameter("Several", "any of them", ["A", "B"], Many)
    many = knext.EnumParameter("Many", "one of many", "C", Many, is_advanced=True)
    credential = knext.StringParameter("Credential", "whose", "<none>", choices=detailed)
    naive = knext.StringParameter(
        "Naive", "adopts the first choice", choices=lambda ctx: ctx.get_credential_names()
    )
    fixed = knext.StringParameter("Fixed", "a list", enum=["x", "y"])
    described = knext.StringParameter(
        "Described", "a list", choices=[knext.StringParameter.Choice("p", "P", "the p"), "q"]
    )
    flag = knext.BoolParameter("Flag", "a flag", True)
    number = knext.DoubleParameter("Number", "a number", 1.5, max_value=2.5)
    made = knext.IntParameter("Made", "depends on the version", lambda version: version.minor)
    column = knext.ColumnParameter(
        "Column", "a column", include_none_column=True, schema_provider=lambda ctx: _first(ctx)
    )
    columns = knext.MultiColumnParameter(
        "Columns", "several columns", column_filter=lambda c: c.ktype == knext.string()
    )
    path = knext.LocalPathParameter("Path", "a path", "choose one")
    more = More()
    late = Late()
    arguments = knext.ParameterArray(
        Argument(), "Arguments", "name and value", button_text="Add", array_title="Argument"
    )

    more_shown = knext.BoolParameter("Shown", "rules", False, is_advanced=True).rule(
        knext.And(
            knext.OneOf(More.count, [1, 2]), knext.Or(knext.Contains(several, "A"), knext.OneOf(flag, [True]))
        ),
        knext.Effect.SHOW,
    )
    with_input = knext.BoolParameter("With input", "rules", False).rule(
        knext.DialogContextCondition(lambda ctx: ctx.get_input_specs()[0] is not None), knext.Effect.ENABLE
    )

    @number.validator
    def check_number(self):
        if self < 0:
            raise ValueError("no negative numbers")

    def _modify_parameters(self, parameters):
        if "old_flag" in parameters:
            parameters["flag"] = parameters["old_flag"]
        return parameters

    def configure(self, ctx, schema):
        if self.mode == "HIDDEN":
            raise knext.InvalidParametersError("hidden is not possible")
        if self.column is None and schema is not None:
            self.column = schema.column_names[0]
        ctx.set_warning("first")
        ctx.set_warning("second")
        return knext.Schema.from_columns(
            [knext.Column(knext.string(), "name"), knext.Column(knext.string(), "value")]
        )

    def execute(self, ctx, table):
        values = {
            "mode": self.mode,
            "count": self.more.count,
            "depth": self.more.inner.depth,
            "level": self.late.level,
            "column": self.column,
            "arguments": [[a.name, a.value] for a in self.arguments],
            "several": self.several,
            "credential": self.credential,
            "naive": self.naive,
            "made": self.made,
        }
        self.flag = False
        self.more.count = 7
        return as_table(list(values), [json.dumps(v) for v in values.values()])


def _first(ctx):
    schema = ctx.get_input_specs()[0]
    return schema if schema is not None else knext.Schema.from_columns([])


def as_table(names, values):
    import pyarrow as pa

    return knext.Table.from_pyarrow(
        pa.table({"name": pa.array(names, pa.string()), "value": pa.array(values, pa.string())})
    )


@knext.node("Old and new", knext.NodeType.OTHER, "icons/icon.png", category, id="versions")
@knext.output_table("Out", "nothing")
class Versions:
    """Has settings of several versions.

    They are loaded from old documents.
    """

    first = knext.StringParameter("First", "since the beginning", "one")
    second = knext.StringParameter("Second", "since 1.1.0", lambda v: f"two of {v}", since_version="1.1.0")
    late = Late()

    def _modify_parameters(self, parameters):
        if "zeroth" in parameters:
            parameters["first"] = parameters["zeroth"]
        return parameters

    def configure(self, ctx):
        return None

    def execute(self, ctx):
        return as_table([], [])


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
            "sizes": [ctx.get_connected_input_port_numbers(), ctx.get_connected_output_port_numbers()],
            "members": sorted(name for name in dir(ctx) if not name.startswith("_")),
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
            case "knime variable":
                ctx.flow_variables["knime.x"] = 1
            case "odd variable":
                ctx.flow_variables["x"] = object()
            case "delete variable":
                del ctx.flow_variables["configured"]
            case "number as name":
                ctx.flow_variables[1] = 1
            case "list variable":
                ctx.flow_variables["x"] = ["a", "b"]
            case "progress text":
                ctx.set_progress("half")
            case "progress":
                ctx.set_progress(1.5)
            case "progress message":
                ctx.set_progress(0.5, 1)
            case "cancel":
                if ctx.is_canceled():
                    raise RuntimeError("stopped")


@knext.node("Tables", knext.NodeType.OTHER, "icons/icon.png", category)
@knext.output_table("Out", "a table")
class Tables:
    """Makes tables of all kinds.

    Some of them KNIME refuses.
    """

    kind = knext.StringParameter("Kind", "which table", "plain")
    row_ids = knext.StringParameter("RowIDs", "how they are made", "auto")
    promise = knext.StringParameter("Promise", "what configure says", "")

    def configure(self, ctx):
        columns = [knext.Column(knext.int64(), "a")]
        match self.promise:
            case "":
                return None
            case "name":
                columns = [knext.Column(knext.int64(), "b")]
            case "type":
                columns = [knext.Column(knext.int32(), "a")]
            case "zoned":
                columns = [knext.Column(knext.datetime(True, True, True), "a")]
            case "double":
                columns = columns * 2
            case "two":
                schema = knext.Schema.from_columns(columns)
                return schema, schema
            case "list":
                return [knext.Schema.from_columns(columns)]
            case "text":
                return "a schema"
        return knext.Schema.from_columns(columns)

    def execute(self, ctx):
        return self.outcome(ctx)

    def outcome(self, ctx):
        import pyarrow as pa

        made = {
            "plain": lambda: pa.table({"a": [1, 2]}),
            "empty": lambda: pa.table({"a": pa.array([], pa.int64())}),
            "nothing": lambda: pa.table({}),
            "int8": lambda: pa.table({"a": pa.array([1], pa.int8())}),
            "float32": lambda: pa.table({"a": pa.array([0.5], pa.float32())}),
            "large_string": lambda: pa.table({"a": pa.array(["x"], pa.large_string())}),
            "binary": lambda: pa.table({"a": pa.array([b"x"])}),
            "struct": lambda: pa.table({"a": [{"x": 1}]}),
            "list of struct": lambda: pa.table({"a": [[{"x": 1}]]}),
            "nested list": lambda: pa.table({"a": [[[1]]]}),
            "surrogate": lambda: pa.table({"a": ["\ud800"]}),
            "nulls": lambda: pa.table({"a": pa.nulls(2)}),
            "dictionary": lambda: pa.table({"a": pa.array(["x", None, "x"]).dictionary_encode()}),
            "ids": lambda: pa.table({"<RowID>": ["x", "y"], "a": [1, 2]}),
            "int ids": lambda: pa.table({"<RowID>": [7, 8], "a": [1, 2]}),
            "odd ids": lambda: pa.table({"<RowID>": [0.5, 1.5], "a": [1, 2]}),
            "late ids": lambda: pa.table({"a": [1, 2], "<RowID>": ["x", "y"]}),
            "same ids": lambda: pa.table({"<RowID>": ["x", "x"], "a": [1, 2]}),
            "same names": lambda: pa.table([[1], [2]], names=["a", "a"]),
            "everything": lambda: everything(pa),
            "zoned": lambda: pa.table({"a": pa.array([MOMENT], pa.timestamp("us", "UTC"))}),
            "chunks": lambda: pa.table({"a": pa.chunked_array([[1, 2], [3, 4], [5]])}),
            "odd chunks": lambda: pa.table({"a": pa.chunked_array([[1, 2], [3], [4, 5]])}),
            "large chunk": lambda: pa.table({"a": pa.chunked_array([[1], [2, 3]])}),
        }
        match self.kind:
            case "batches":
                return knext.BatchOutputTable.from_batches(
                    pa.table({"a": part}) for part in ([1, 2], [3, 4], [5])
                )
            case "large batch":
                return knext.BatchOutputTable.from_batches(pa.table({"a": part}) for part in ([1], [2, 3]))
            case "batch after last":
                return knext.BatchOutputTable.from_batches(
                    pa.table({"a": part}) for part in ([1, 2], [3], [4, 5])
                )
            case "kept batches":
                out = knext.BatchOutputTable.create()
                out.append(pa.table({"id": ["x"], "a": [1]}))
                out.append(knext.Table.from_pyarrow(pa.table({"a": [2]})))
                return out
            case "no RowIDs kept":
                return knext.BatchOutputTable.from_batches([pa.table({"a": [1]})], row_ids="keep")
            case "other batch":
                return knext.BatchOutputTable.from_batches([pa.table({"a": [1]}), pa.table({"b": ["x"]})])
            case "no table":
                return "a table"
            case "none":
                return None
            case "two":
                table = knext.Table.from_pyarrow(pa.table({"a": [1]}))
                return table, table
            case "view of columns":
                return knext.Table.from_pyarrow(pa.table({"b": ["x", "y", "z"], "a": [1, 2, 3]}))[["a"], 1:]
            case "view in a list":
                return [[knext.Table.from_pyarrow(pa.table({"b": ["x"], "a": [1]}))[["a"]]]]
            case "json":
                return knext.Table.from_pyarrow(pa.table({"a": column_of(dict, [{"x": [1]}, None])}))
        return knext.Table.from_pyarrow(made[self.kind](), row_ids=self.row_ids)


MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=dt.UTC)


def everything(pa):
    plain = MOMENT.replace(tzinfo=None)
    return pa.table(
        {
            "int": pa.array([1, None], pa.int32()),
            "long": pa.array([2**40, None], pa.int64()),
            "double": [0.5, None],
            "bool": [True, None],
            "string": ["ä", None],
            "ints": pa.array([[1, None], None], pa.list_(pa.int32())),
            "longs": [[1, 2], None],
            "doubles": [[0.5], None],
            "bools": [[True], None],
            "strings": [["a", None], None],
            "date": [plain.date(), None],
            "time": [plain.time(), None],
            "moment": pa.array([plain, None], pa.timestamp("us")),
            "before": pa.array([plain.replace(year=1912), None], pa.timestamp("us")),
            "zoned": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "duration": pa.array([dt.timedelta(days=-1, microseconds=5), None], pa.duration("us")),
        }
    )


def column_of(value_type, values):
    import pyarrow as pa

    dtype = knext.logical(value_type).to_pyarrow()
    return pa.ExtensionArray.from_storage(
        dtype, pa.array([dtype.encode(v) for v in values], dtype.storage_type)
    )


@knext.node("Read", knext.NodeType.SINK, "icons/icon.png", category)
@knext.input_table("In", "a table")
@knext.output_table("Out", "what was seen")
class Read:
    """Looks at a table.

    In several ways.
    """

    column = knext.ColumnParameter("Column", "one", column_filter=lambda c: c.ktype == knext.string())

    def configure(self, ctx, schema):
        self.column = self.column or schema.column_names[-1]
        return

    def execute(self, ctx, table):
        data = table.to_pyarrow()
        names = table.column_names
        rows = {
            "schema": [[str(c.ktype), c.name, c.metadata] for c in table.schema],
            "names": data.schema.names,
            "types": [str(t) for t in data.schema.types if not hasattr(t, "logical_type")],
            "values": [str(v) for v in data.column(names[-1]).to_pylist()],
            "batches": [batch.num_rows for batch in table.batches()],
            "selected": table[names[:1]].to_pyarrow().schema.names,
            "rows": table[names[:1], 1:].to_pyarrow().num_rows,
            "shape": list(table.shape),
            "column": self.column,
            "removed": table.schema.remove(names[0]).get().column_names,
            "inserted": table.schema.insert(knext.Column(knext.string(), "new"), 0).get().column_names,
            "appended": table.schema.append(knext.Column(knext.string(), "new")).get().column_names,
            "type of one": str(table.schema[names[-1]].ktype),
        }
        return as_table(list(rows), [json.dumps(value) for value in rows.values()])


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
@knext.input_port_group("Further", "more words", words)
@knext.input_binary("Bytes", "some bytes", "org.example.bytes", optional=True)
@knext.output_binary("Bytes", "the words", "org.example.bytes")
class Listen:
    """Takes words.

    Any number.
    """

    def configure(self, ctx, spec, further, data):
        ctx.set_warning(f"{spec.language} {len(further)} {None if data is None else data.id}")
        return knext.BinaryPortObjectSpec("org.example.bytes")

    def execute(self, ctx, heard, further, data):
        return "; ".join([type(heard).__name__, heard.text, *(w.text for w in further), str(data)]).encode()


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
