"""Runs of the trial extension's nodes, and what is compared of their outcomes.

As a script it runs all of them on the host of the process and prints the outcomes as JSON.
"""

import inspect
import json
import os
import sys
from pathlib import Path

from tests.standin.api import cases, tools

KNIME_YML = Path(__file__).parent / "extension" / "knime.yml"
#: The tables of the node Tables, see there.
TABLE_KINDS = (
    *("plain", "empty", "nothing", "surrogate", "nulls", "ids", "late ids", "same ids", "same names"),
    *("everything", "zoned", "chunks", "batches", "no batches", "no table", "none", "two", "json"),
)
BAD_SETTINGS = {
    "text for number": {"number": "x"},
    "too large": {"number": 99.0},
    "too small": {"made": -1},
    "true for number": {"made": True},
    "text for whole number": {"made": "x"},
    "half for whole number": {"made": 0.5},
    "one for boolean": {"flag": 1},
    "none for text": {"naive": None},
    "number for text": {"naive": 1},
    "number for lines": {"lines": 1},
    "no option": {"mode": "LOUDER"},
    "too large in an array": {"arguments": [{"name": "n", "value": 99.0}]},
    "invalid combination": {"mode": "HIDDEN"},
    "unknown setting": {"nonsense": 1},
}
SAVED = {
    "new": ({"first": "1", "second": "2"}, "1.2.0"),
    "old": ({"first": "1"}, "1.0.0"),
    "old without version": ({"first": "1"}, None),
    "old and odd": ({"first": "1", "nonsense": 3}, "1.0.0"),
    "new but incomplete": ({"first": "1"}, "1.1.0"),
    "renamed": ({"zeroth": "0", "first": "1"}, "1.0.0"),
    "bad": ({"first": 1}, "1.0.0"),
}


def scenarios(host):
    """Outcomes by name, as functions to call."""
    import pyarrow as pa

    text = pa.table({"t": ["a", None], "u": ["b", "c"]})
    found = {}

    def run(name, node, inputs=(), settings=None, **options):
        found[name] = lambda: outcome(host.run(node, inputs, settings or {}, **options))

    for kind in TABLE_KINDS:
        run(f"table {kind}", "Tables", (), {"kind": kind})
    for kind, row_ids in [
        *((kind, "keep") for kind in ("plain", "ids", "late ids", "nothing")),
        *((kind, "generate") for kind in ("same names", "ids", "nothing")),
        ("plain", "other"),
    ]:
        run(f"table {kind}, RowIDs {row_ids}", "Tables", (), {"kind": kind, "row_ids": row_ids})
    for promise in ("name", "type", "zoned", "two", "text", "double"):
        run(f"promise {promise}", "Tables", (), {"promise": promise})
    nothing = (None, [], None)
    for attempt in ("odd variable", "list variable", "tuple variable", "few", "no view"):
        run(f"attempt {attempt}", "Context", nothing, {"what": attempt})
    run(
        "context",
        "Context",
        (text, [text, text], host.credential_port("token", expires_after=86400.5)),
        {"credential": "c"},
        credentials={"c": ("user", "secret")},
        flow_variables={"v": [1, 2], "knime.workspace": "/"},
        output_groups={"Copies": 2},
    )
    run("context, no credential", "Context", nothing, {"credential": "x"})
    run("context, not executed", "Context", (None, [], host.credential_port(available=False)))
    run("canceled at the end", "Context", nothing, cancel=True)
    run("canceled inside", "Context", nothing, {"what": "cancel"}, cancel=1)
    run("canceled later", "Context", nothing, {"what": "cancel"}, cancel=3)
    run("only configured", "Context", nothing, execute=False)
    run("settings", "Settings", (None,))
    items = [{"name": "a", "value": 1.0}, {"name": "b", "value": 2.0}]
    run("settings changed", "Settings", (text,), {"mode": "LOUD", "arguments": items})
    for name, settings in BAD_SETTINGS.items():
        run(f"settings, {name}", "Settings", (text,), settings)
    run("read", "Read", (text,))
    run("read no rows", "Read", (text.slice(0, 0),))
    for kind in ("everything", "chunks", "json"):
        found[f"read {kind}"] = lambda k=kind: outcome(
            host.run("Read", (host.run("Tables", (), {"kind": k}).outputs[0].as_input(),))
        )
    run("words", "Speak")
    run("wrong words", "Speak", (), {"wrong": True})
    for number, name in enumerate(("words", "louder words", "other")):
        found[f"{name} heard"] = lambda n=number: outcome(
            host.run("Listen", (host.port_object(host.run("Speak").outputs[n]),))
        )
    found |= {
        "tool": lambda: tool(host, lambda *given: answered(given)),
        "tool with a message": lambda: tool(host, lambda *given: "just this"),
        "tool fails": lambda: tool(host, lambda *given: ("it broke", None)),
        "tool crashes": lambda: tool(host, lambda *given: 1 / 0),
        "no tools": lambda: tool(host, None),
        "hints are no text": lambda: tool(host, lambda *given: "x", {"bad_hints": True}),
        "dialog of settings": lambda: dialog(host, "Settings", [None], {}),
        "dialog with columns": lambda: dialog(host, "Settings", [text], {"mode": "LOUD"}),
        "dialog with credentials": lambda: [
            dialog(host, "Settings", [None], {}, credentials={"c1": ("u", "p"), "c2": ("u", "p")}),
            outcome(host.run("Settings", (None,)))["outputs"][0]["rows"],
        ],
        "dialog of columns, unconnected": lambda: dialog(host, "Read", None, {}),
        "dialog of versions": lambda: dialog(host, "versions", None, {}),
        "dialog of context": lambda: dialog(host, "Context", [text, [text], host.credential_port("t")], {}),
        "description": lambda: described(host),
        "names": public_names,
    }
    numbers = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, 1.5, None]})
    for name, (case, _) in cases.CASES.items():
        found[f"api, {name}"] = lambda c=case: tools.outcome(c, host.table(numbers))
    for name in cases.RUNNING:
        found[f"api, {name}"] = lambda n=name: tools.script(host, n)
    for name, (saved, version) in SAVED.items():
        found[f"saved {name}"] = lambda d={"model": saved}, v=version: loaded(host, d, v)
    return found


def public_names():
    """The names in knime.extension; of functions and parameters, the arguments, first those by position."""
    import knime.extension as knext

    found = {}
    for name in [name for name in vars(knext) if not name.startswith("_")]:
        value = getattr(knext, name)
        if inspect.ismodule(value) or getattr(value, "__module__", "").startswith("typing"):
            continue
        is_called = inspect.isfunction(value) or name.endswith("Parameter") or name == "ParameterArray"
        parameters = inspect.signature(value).parameters.values() if is_called else ()
        by_name = [own.name for own in parameters if own.kind is own.KEYWORD_ONLY]
        found[name] = [own.name for own in parameters if own.kind is own.POSITIONAL_OR_KEYWORD], by_name
    return found


def loaded(host, document, version):
    try:
        return host.load_parameters("versions", document, version)
    except (ValueError, TypeError):
        return "refused"


def answered(given):
    import pyarrow as pa

    tool, parameters, tables, hints = given
    message = json.dumps([tool.name, parameters, [t.num_rows for t in tables], hints])
    return message, [pa.table({"r": ["x"]})], ["1#0"]


def tool_table(host):
    import pyarrow as pa
    from knime.types.tool import ToolPort, WorkflowTool

    port = ToolPort("in", "an input", "Table", "spec")
    key = host.add_file_store("key")
    value = WorkflowTool("Sum", "adds", {"a": {"type": "integer"}}, 0, [port], [port], key)
    return pa.table({"Tool": host.tool_column([value])})


def tool(host, handler, settings=None):
    return outcome(host.run("RunTool", (tool_table(host),), settings, tool_handler=handler))


def dialog(host, node_id, schemas, settings, **options):
    found = host.dialog(node_id, schemas, settings, **options)
    return {"data": found["data"], "schema": without_descriptions(found["schema"]), "ui": found["ui_schema"]}


def without_descriptions(document):
    """Descriptions are Markdown on one host, HTML on the other."""
    if isinstance(document, dict):
        return {
            k: without_descriptions(v)
            for k, v in document.items()
            if k != "description" or isinstance(v, dict)
        }
    return document


def described(host):
    found = host.describe()
    keys = ("id", "name", "node_type", "category", "icon_path", "keywords", "after", "is_hidden", "views")
    ports = ("name", "type_string", "group", "optional")
    nodes = []
    for node in found["nodes"]:
        entry = {key: node[key] for key in (*keys, "short_description", "tabs")}
        for side in ("input_port_specifier", "output_port_specifier"):
            entry[side] = [{key: port[key] for key in ports} for port in node[side]]
        entry["options"] = [option["name"] for option in node["options"]]
        nodes.append(entry)
    problems = [[severity, where] for severity, where, _ in found["problems"]]
    return {"nodes": nodes, "categories": found["categories"], "problems": problems}


def outcome(result):
    """What has to be the same on both hosts: everything but the wording of their own errors."""
    failure = result.failure
    return {
        "ok": result.ok,
        "error": None if failure is None else kind_of(failure["details"]),
        "invalid settings": failure is not None and failure["invalid_settings"],
        "outputs": [shown(output) for output in result.outputs],
        "specs": result.specs,
        "warnings": result.warnings,
        "flow variables": result.flow_variables,
        "progress": [list(step) for step in result.progress],
        "view": result.view_html,
        "parameters": result.parameters,
        "problems": sorted(" ".join(problem.split()[:2]) for problem in result.problems),
    }


JAVA_SIDE = {"RigError", "JavaError", "HostError"}


def kind_of(details):
    """The class of an error, from its traceback; errors of the hosts' own make are one class."""
    # Lines that go on, as of a Java error, begin with space or colon.
    lines = [line for line in details.strip().splitlines() if line and line[0] not in " \t:"] or [""]
    kind = lines[-1].partition(":")[0].rpartition(".")[2]
    return "RuntimeError" if kind in JAVA_SIDE else kind


def shown(output):
    if not hasattr(output, "to_pylist"):
        return [part.decode() if isinstance(part, bytes) else part for part in output]
    names = output.column_names
    if len({*names, "<RowID>"}) <= len(names):
        return {"columns": names, "ids": output.row_ids}
    return {
        "columns": names,
        "ids": output.row_ids,
        "types": [str(field.type.storage_type) for field in output.arrow.schema],
        "logical": list(output.logical_types.values()),
        "rows": [[str(value) for value in row.values()] for row in output.to_pylist()],
        "batches": [len(batch) for batch in output.arrow.to_batches()],
    }


def main():
    from tests.support.host import load_host

    if not os.environ.get("KNIME_PYTHON_ROOT"):
        from tests.support.knime_host import use_standin

        use_standin()
    host = load_host(KNIME_YML)
    outcomes = {}
    for name, run in scenarios(host).items():
        try:
            outcomes[name] = run()
        except Exception as error:
            kind = "RuntimeError" if type(error).__name__ in JAVA_SIDE else type(error).__name__
            outcomes[name] = {"raised": kind}
    json.dump(outcomes, sys.stdout, default=str)


if __name__ == "__main__":
    main()
