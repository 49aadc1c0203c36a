"""Runs of the trial extension's nodes, and what is compared of their outcomes.

As a script it runs all of them on the host of the process and prints the outcomes as JSON.
"""

import inspect
import json
import os
import sys
from pathlib import Path

from tests.standin.api import cases, tools
from tests.standin.trials import ATTEMPTS, BAD_SETTINGS, CALLED, SAVED, TABLE_KINDS

KNIME_YML = Path(__file__).parent / "extension" / "knime.yml"


def scenarios(host):
    """Outcomes by name, as functions to call."""
    import pyarrow as pa

    text = pa.table({"t": ["a", None], "u": ["b", "c"]})
    found = {}
    for kind in TABLE_KINDS:
        found[f"table {kind}"] = lambda kind=kind: outcome(host.run("Tables", (), {"kind": kind}))
    for kind, row_ids in [
        ("plain", "keep"),
        ("ids", "keep"),
        ("int ids", "keep"),
        ("late ids", "keep"),
        ("same names", "generate"),
        ("ids", "generate"),
        ("nothing", "generate"),
        ("nothing", "keep"),
        ("plain", "other"),
    ]:
        settings = {"kind": kind, "row_ids": row_ids}
        found[f"table {kind}, RowIDs {row_ids}"] = lambda s=settings: outcome(host.run("Tables", (), s))
    for promise in ("name", "type", "zoned", "two", "list", "text", "double"):
        settings = {"promise": promise}
        found[f"promise {promise}"] = lambda s=settings: outcome(host.run("Tables", (), s))
    for attempt in ATTEMPTS:
        settings = {"what": attempt}
        found[f"attempt {attempt}"] = lambda s=settings: outcome(host.run("Context", (None, [], None), s))
    found |= {
        "context": lambda: outcome(
            host.run(
                "Context",
                (text, [text, text], host.credential_port("token", expires_after=86400.5)),
                {"credential": "c"},
                credentials={"c": ("user", "secret")},
                flow_variables={"v": [1, 2], "knime.workspace": "/"},
                output_groups={"Copies": 2},
            )
        ),
        "context, no credential": lambda: outcome(host.run("Context", (None, [], None), {"credential": "x"})),
        "context, not executed": lambda: outcome(
            host.run("Context", (None, [], host.credential_port(available=False)))
        ),
        "canceled at the end": lambda: outcome(host.run("Context", (None, [], None), cancel=True)),
        "canceled inside": lambda: outcome(
            host.run("Context", (None, [], None), {"what": "cancel"}, cancel=1)
        ),
        "canceled later": lambda: outcome(
            host.run("Context", (None, [], None), {"what": "cancel"}, cancel=3)
        ),
        "only configured": lambda: outcome(host.run("Context", (None, [], None), execute=False)),
        "settings": lambda: outcome(host.run("Settings", (None,))),
        "settings changed": lambda: outcome(
            host.run(
                "Settings",
                (text,),
                {
                    "mode": "LOUD",
                    "more": {"count": 1, "inner": {"depth": 5}},
                    "arguments": [{"name": "a", "value": 1.0}, {"name": "b", "value": 2.0}],
                },
            )
        ),
        "read": lambda: outcome(host.run("Read", (text,))),
        "read no rows": lambda: outcome(host.run("Read", (text.slice(0, 0),))),
        "read everything": lambda: outcome(
            host.run("Read", (host.run("Tables", (), {"kind": "everything"}).outputs[0].as_input(),))
        ),
        "read chunks": lambda: outcome(
            host.run("Read", (host.run("Tables", (), {"kind": "chunks"}).outputs[0].as_input(),))
        ),
        "read json": lambda: outcome(
            host.run("Read", (host.run("Tables", (), {"kind": "json"}).outputs[0].as_input(),))
        ),
        "schema as text": lambda: str(host.table(text).schema),
        "words": lambda: outcome(host.run("Speak")),
        "wrong words": lambda: outcome(host.run("Speak", (), {"wrong": True})),
        "words heard": lambda: heard(host, 0, [1, 0]),
        "louder words heard": lambda: heard(host, 1, []),
        "other heard": lambda: heard(host, 2, []),
        "tool": lambda: tool(host, lambda *given: answered(given)),
        "tool with a message": lambda: tool(host, lambda *given: "just this"),
        "tool fails": lambda: tool(host, lambda *given: ("it broke", None)),
        "tool crashes": lambda: tool(host, lambda *given: 1 / 0),
        "no tools": lambda: tool(host, None),
        "hints are no text": lambda: tool(host, lambda *given: "x", {"bad_hints": True}),
        "dialog of settings": lambda: dialog(host, "Settings", [None], {}),
        "dialog with columns": lambda: dialog(host, "Settings", [text], {"mode": "LOUD", "path": "/no/such"}),
        "dialog with credentials": lambda: [
            dialog(host, "Settings", [None], {}, credentials={"c1": ("u", "p"), "c2": ("u", "p")}),
            outcome(host.run("Settings", (None,)))["outputs"][0]["rows"],
        ],
        "dialog of columns": lambda: dialog(host, "Read", [text], {}),
        "dialog of columns, unconnected": lambda: dialog(host, "Read", None, {}),
        "dialog of versions": lambda: dialog(host, "versions", None, {}),
        "dialog of context": lambda: dialog(host, "Context", [text, [text], host.credential_port("t")], {}),
        "description": lambda: described(host),
        "names": public_names,
        "features": lambda: {"hidden_choices": bool(sys.modules["trial_settings"].HIDING)},
    }
    for name, settings in BAD_SETTINGS.items():
        found[f"settings, {name}"] = lambda s=settings: outcome(host.run("Settings", (text,), s))
    numbers = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"], "c": [0.5, 1.5, None]})
    for name, (case, _) in cases.CASES.items():
        found[f"api, {name}"] = lambda c=case: tools.outcome(c, host.table(numbers))
    for name in cases.RUNNING:
        found[f"api, {name}"] = lambda n=name: tools.script(host, n)
    for name, (saved, version) in SAVED.items():
        document = {"model": saved}
        found[f"saved {name}"] = lambda d=document, v=version: loaded(host, d, v)
    return found


def public_names():
    """The names in knime.extension, with their arguments where nodes call them."""
    import knime.extension as knext

    found = {}
    for name in [name for name in vars(knext) if not name.startswith("_")]:
        value = getattr(knext, name)
        if inspect.ismodule(value) or getattr(value, "__module__", "").startswith("typing"):
            continue
        found[name] = list(inspect.signature(value).parameters) if name in CALLED else None
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


def tool(host, handler, settings=None):
    import pyarrow as pa
    from knime.types.tool import ToolPort, WorkflowTool

    port = ToolPort("in", "an input", "Table", "spec")
    value = WorkflowTool(
        "Sum", "adds", {"a": {"type": "integer"}}, 0, [port], [port], host.add_file_store("key")
    )
    table = pa.table({"Tool": host.tool_column([value])})
    return outcome(host.run("RunTool", (table,), settings, tool_handler=handler))


def heard(host, first, further):
    outputs = host.run("Speak").outputs
    objects = [host.port_object(output) for output in outputs]
    return outcome(host.run("Listen", (objects[first], [objects[i] for i in further])))


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
        entry = {key: node[key] for key in (*keys, "short_description")}
        for side in ("input_port_specifier", "output_port_specifier"):
            entry[side] = [{key: port[key] for key in ports} for port in node[side]]
        entry["options"] = [option["name"] for option in node["options"]]
        entry["tabs"] = [[tab["name"], [o["name"] for o in tab["options"]]] for tab in node["tabs"]]
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
