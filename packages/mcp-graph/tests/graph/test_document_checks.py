"""Graph checks: dead ends, ways to nowhere, misused branches, expressions; and the servers asked."""

import re
import sys

import pytest

from knime_mcp.yaml_text import Severity
from knime_mcp_graph.document_loading import STARTER, check_text
from knime_mcp_graph.online_checks import check_online

from .graphs import one_tool, texts, tool, transform, yaml

pytestmark = pytest.mark.quick


ENTRY, EXIT = "{id: entry, type: entry, next: a}", "{id: exit, type: exit}"
A = "{id: a, type: transform, transform: {expr: entry}, next: exit}"
SERVER = """
import sys, json
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "add", "inputSchema": {"type": "object", "required": ["a", "b"],
                  "properties": {"a": {"type": "number"}},
                  "allOf": [{"properties": {"b": {"type": "number"}}}]}}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}),
              flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def switch(*conditions: str, default: str = "exit") -> str:
    return f"{{id: a, type: switch, conditions: [{', '.join(conditions)}], next: {default}}}"


def standard(*conditions: str) -> str:
    return switch(*conditions).replace("type: switch", "type: switch, jsonLogic: standard")


def test_errors(subtests):
    for nodes, said in [
        ([EXIT], 'Tool "t" has no entry node'),
        ([ENTRY, A], 'Tool "t" has no exit node'),
        ([ENTRY, A, EXIT, "{id: e2, type: exit}"], 'Tool "t" has multiple exit nodes: exit, e2'),
        ([ENTRY, EXIT], 'Node "entry" in tool "t" references non-existent next node "a"'),
        ([ENTRY, switch(default="b"), EXIT], 'references non-existent default next node "b"'),
        (
            [ENTRY, switch("{rule: true, next: b}"), EXIT],
            'Switch node "a" in tool "t" references non-existent next',
        ),
        (
            [ENTRY, "{id: a, type: mcp, server: s, tool: x, args: {}, next: exit}", EXIT],
            'non-existent server "s"',
        ),
        (
            [ENTRY, A.replace("next: exit", "next: a"), EXIT],
            'exit node "exit" is not reachable from entry node "entry"',
        ),
        (
            [ENTRY, A.replace("next", "onError: gone, next"), EXIT],
            'references non-existent onError node "gone"',
        ),
        (
            [ENTRY, switch("{rule: {var: [x, 1]}, next: exit}"), EXIT],
            "var operation must have a string value, got object",
        ),
        (
            [
                ENTRY,
                A.replace(
                    "transform, transform: {expr: entry}", "switch, jsonLogic: jsonata, conditions: []"
                ),
                EXIT,
            ],
            "'jsonLogic' must be 'standard', not 'jsonata'",
        ),
        (
            [ENTRY, switch('{rule: {var: "$f("}, next: exit}'), EXIT],
            "Invalid JSON Logic syntax in condition 1: Invalid JSONata",
        ),
        ([ENTRY, "{id: a, type: parallel, branches: [b], next: exit}", EXIT], 'non-existent branch "b"'),
        ([ENTRY, "{id: a, type: parallel, branches: [exit], next: exit}", EXIT], "is empty"),
        (
            [ENTRY, "{id: a, type: forEach, items: '(', do: b, next: exit}", EXIT],
            "Invalid JSONata syntax in items",
        ),
        ([ENTRY, "{id: a, type: tool, tool: tt, args: {}, next: exit}", EXIT], "Did you mean 't'?"),
        (
            [
                ENTRY,
                "{id: a, type: parallel, branches: [b, c], next: j}",
                "{id: b, type: transform, transform: {expr: '1'}, next: d}",
                "{id: c, type: transform, transform: {expr: '1'}, next: d}",
                "{id: d, type: transform, transform: {expr: '1'}, next: j}",
                "{id: j, type: transform, transform: {expr: '1'}, next: exit}",
                EXIT,
            ],
            'node "d" is in more than one branch of node "a"',
        ),
        (
            [
                ENTRY,
                "{id: a, type: forEach, items: entry.x, do: b, next: j}",
                "{id: b, type: transform, transform: {expr: '1'}, onError: exit, next: j}",
                "{id: j, type: transform, transform: {expr: '1'}, next: exit}",
                EXIT,
            ],
            'a path leads from branch "b" of node "a" to "exit" without passing "j"',
        ),
    ]:
        with subtests.test(nodes=nodes, said=said):
            checked = check_text(one_tool(*nodes), dialect="next")
            assert checked.document is None
            assert said in "\n".join(texts(checked))
            assert all(problem.position.line > 1 for problem in checked.problems)


def test_branches_that_lead_back_are_one_mistake_each():
    nodes = [
        "{id: a, type: parallel, branches: [b, c], next: j}",
        "{id: b, type: transform, transform: {expr: '1'}, next: a}",
        "{id: c, type: forEach, items: '[1]', do: d, next: a}",
        "{id: d, type: transform, transform: {expr: '1'}, next: c}",
        "{id: j, type: transform, transform: {expr: '{}'}, next: exit}",
    ]
    checked = check_text(one_tool("{id: entry, type: entry, next: a}", *nodes, EXIT), dialect="next")
    said = [(problem.message.partition(", which")[0], problem.fix) for problem in checked.problems]
    assert said == [
        ('a path leads from branch "b" back to node "a"', "Write next: j at its last node"),
        ('a path leads from branch "c" back to node "a"', "Write next: j at its last node"),
        ('a path leads from branch "d" back to node "c"', "Write next: a at its last node"),
    ]


@pytest.mark.parametrize(
    ("expression", "message", "fix"),
    [
        ("$entry.n", "has no '$entry', and", "The output of the node 'entry' is written without $"),
        ("$upercase(entry.n)", "has no '$upercase', and", "Did you mean 'uppercase'?"),
        ("entry.n == 1", "cannot be used as a unary operator", "JSONata compares with = and !="),
        ("entry.n && true", "cannot be used as a unary operator", "JSONata has 'and' instead of &&"),
        ("a || b", "Syntax error", "JSONata has 'or' instead of ||"),
        ("!entry.n", "Unknown operator", "JSONata has $not(...) instead of !"),
        ("$map(a, x => x)", "cannot be used", "JSONata's functions are written function($x) { ... }"),
        ("{{entry.n}}", "Expected", "Write the expression without {{ and }}"),
        ("'==' + ", "Unexpected end", None),
    ],
)
def test_habits_of_other_languages_in_expressions(expression, message, fix):
    checked = check_text(one_tool(ENTRY, transform(expression, node="a"), EXIT), dialect="next")
    (problem,) = checked.problems
    assert message in problem.message
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("transform: {expr: {a: entry.n}}", "'expr' must be text, not a mapping. Put it in quotes."),
        ("transform: {expr: [entry.n]}", "'expr' must be text, not a list. Put it in quotes."),
        (
            "transform: entry.n",
            "'transform' must be a mapping, not text. Write it as transform: {expr: ...}.",
        ),
        ("expr: entry.n", "'transform' is missing. Write it as transform: {expr: ...}."),
    ],
)
def test_transforms_in_another_form(node, message):
    checked = check_text(one_tool(ENTRY, f"{{id: a, type: transform, {node}, next: exit}}", EXIT))
    assert message in [re.sub(r" \(at .*?\)", "", text).partition("error: ")[2] for text in texts(checked)]


@pytest.mark.parametrize(
    "expression",
    [
        "($a := 1; $f := function($b, $c) { $a + $b + $c }; $f(1, 2) ~> $string)",
        "entry.rows@$row#$i.[$row, $i, $, $$]",
        "[$previousNode(), $executionCount('a'), $nodeExecution('a', 0), $nodeExecutions('a')]",
        "entry ~> |rows|{'n': $uppercase(n)}| ~> λ($r) { $r }",
        "'$text' & entry.`$name` & $eval('$late')",
    ],
)
def test_variables_that_an_expression_may_use(expression):
    node = transform(f"{{'r': {expression}}}", node="a")
    assert not check_text(one_tool(ENTRY, node, EXIT), dialect="next").problems


def test_what_the_reference_runs_is_only_a_warning(subtests):
    for nodes, said in [
        ([ENTRY, A, EXIT, A.replace("id: a", "id: b")], 'Node "b" in tool "t" is never reached'),
        (
            [ENTRY, A, EXIT, A.replace("entry", "$")],
            'the id "a" in tool "t" is also used on line 10; the last one counts',
        ),
        ([ENTRY, A, EXIT.replace("}", ", next: a}")], "its 'next' is ignored"),
        (
            [ENTRY, switch("{rule: {some: [{var: entry.l}, {var: entry.n}]}, next: exit}"), EXIT],
            "inside of some, 'entry.n' is a path in the entry (condition 1)",
        ),
        (
            [ENTRY, switch('{rule: {map: [{var: entry.l}, {var: "a * 2"}]}, next: exit}'), EXIT],
            "JSONata begins with $ there",
        ),
        (
            [ENTRY, standard('{rule: {var: "a * 2"}, next: exit}'), EXIT],
            "inside of a rule of the standard, 'a * 2' is a path",
        ),
        ([ENTRY, switch("{next: exit}"), EXIT], "never holds"),
        ([ENTRY, A.replace("next", "nxt: b, next"), EXIT], "Did you mean 'next'?"),
    ]:
        with subtests.test(nodes=nodes, said=said):
            checked = check_text(one_tool(*nodes), dialect="next")
            assert checked.document is not None, texts(checked)
            assert said in "\n".join(texts(checked, Severity.WARNING))
            assert checked.document.warnings == checked.problems


def test_what_surely_fails_when_it_runs_is_an_error_and_the_rest_can_be_used(subtests):
    numbers = "{type: object, properties: {n: {type: integer}}, required: [n]}"
    for node, said in [
        (
            switch('{rule: {"=<": [1, 2]}, next: exit}'),
            "JSON Logic has no operator '=<' (condition 1); a run",
        ),
        (switch('{rule: {"<<": [{var: entry.n}, 2]}, next: exit}'), "JSON Logic has no operator '<<'"),
        (switch('{rule: {var: ""}, next: exit}'), "a run fails here"),
        (switch('{rule: {var: "$entyr(1)"}, next: exit}'), "JSONata has no '$entyr'"),
        (transform("$upercase(entry.n)", node="a"), "JSONata has no '$upercase'"),
        ("{id: a, type: transform, transform: {expr: '1'}, next: a}", "a run that gets there never ends"),
        (
            "{id: a, type: tool, tool: u, args: {n: {expr: 5}}, next: exit}",
            "must be a string, got number; a run",
        ),
        ("{id: a, type: tool, tool: u, args: {}, next: exit}", 'requires the argument "n"'),
        ("{id: a, type: tool, tool: u, args: {n: five}, next: exit}", 'the argument "n" of the tool "u":'),
    ]:
        with subtests.test(node=node, said=said):
            more = tool("{id: entry, type: entry, next: exit}", EXIT, name="u", schema=numbers)
            choice = switch("{rule: {var: entry.x}, next: a}").replace("id: a", "id: way")
            tools = tool(ENTRY.replace("next: a", "next: way"), choice, node, EXIT)
            checked = check_text(yaml(tools, more, servers=""), dialect="next")
            (error,) = texts(checked)
            assert said in error
            assert checked.document is not None


def test_what_may_not_be_evaluated_is_no_error(subtests):
    for expression, is_error in [
        ("{'x': $exists(entry.k) ? $foo(1) : 2}", False),
        ("$foo(1) ? 1 : 2", True),
        ("entry.a and $foo(1)", False),
        ("$foo(1) or entry.a", True),
        ("entry.a[$foo(1)]", False),
        ("entry.a.$foo(1)", False),
        ("{entry.a: $foo(1)}", False),
        ("{'a': [1 + $foo(1)]}", True),
        ("$map(entry.a, function($x) { $foo($x) })", False),
        ("($y := $string($foo(1)); $y)", True),
    ]:
        with subtests.test(expression=expression):
            checked = check_text(one_tool(ENTRY, transform(expression, node="a"), EXIT))
            severity = Severity.ERROR if is_error else Severity.WARNING
            assert "JSONata has no '$foo'" in "\n".join(texts(checked, severity))
    for rule, is_error in [
        ('{if: [{var: entry.n}, {var: "$foo(1)"}, 2]}', False),
        ('{and: [{var: "$foo(1)"}, 2]}', True),
        ('{some: [{var: entry.l}, {"=<": [1, 2]}]}', False),
    ]:
        with subtests.test(rule=rule):
            checked = check_text(one_tool(ENTRY, switch(f"{{rule: {rule}, next: exit}}"), EXIT))
            assert bool(texts(checked)) == is_error
            assert len(checked.problems) > 0


def test_a_misspelt_server_of_the_users_own_is_named(tmp_path, monkeypatch):
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"weather": {"command": "python3"}}}')
    monkeypatch.setenv("KNIME_MCP_SERVERS", str(file))
    call = "{id: a, type: mcp, server: wether, tool: x, args: {}, next: exit}"
    (error,) = texts(check_text(one_tool(ENTRY, call, EXIT)))
    assert "Did you mean 'weather'?" in error


def test_the_standards_vars_inside_of_loops_are_fine():
    rules = (
        '{filter: [{var: entry.l}, {">": [{var: qty}, {var: $.entry.n}]}]}',
        '{map: [{var: entry.l}, {var: ""}]}',
        "{map: [{var: entry.l}, {var: [a.b, {var: c}]}]}",
        "{reduce: [{var: entry.l}, {+: [{var: current}, {var: accumulator}]}, 0]}",
    )
    for rule in rules:
        nodes = [ENTRY, switch(f"{{rule: {rule}, next: exit}}"), EXIT]
        assert texts(check_text(one_tool(*nodes), dialect="next"), Severity.WARNING) == []


def test_the_last_node_of_an_id_and_the_first_tool_of_a_name_count():
    text = one_tool(ENTRY, A, EXIT, A.replace("{expr: entry}", "{expr: second}"))
    tool = text[text.index("  - name: t") :]
    checked = check_text(text + tool.replace("description: d", "description: other"))
    assert checked.document.tools[0].by_id["a"].expression.text == "second"
    assert [found.description for found in checked.document.tools] == ["d"]
    assert 'the tool "t" is also defined on line 4' in "\n".join(texts(checked, Severity.WARNING))


def test_schemas_are_kept_and_wrong_ones_are_named():
    text = one_tool(ENTRY, A, EXIT)
    odd = text.replace(
        "inputSchema: {type: object}", "inputSchema: {type: object, properties: {a: {type: any}}}"
    )
    checked = check_text(odd)
    assert checked.document.tools[0].input_schema["properties"] == {"a": {"type": "any"}}
    assert "Arguments are not checked" in "\n".join(texts(checked, Severity.WARNING))
    wrong = text.replace("inputSchema: {type: object}", "inputSchema: {type: object, required: yes}")
    assert "'required' must be a list of names" in "\n".join(texts(check_text(wrong)))


def test_the_starter_has_no_problems():
    checked = check_text(STARTER.read_text(), environ={})
    assert checked.problems == ()
    assert [tool.name for tool in checked.document.tools] == ["greet"]


@pytest.mark.requirement("G19")
def test_a_path_begins_in_the_documents_folder_unless_cwd_is_given(tmp_path):
    def warnings(more=""):
        servers = f"mcpServers: {{s: {{command: python3, args: [x, ./counting]{more}}}}}\n"
        text = one_tool(ENTRY, A, EXIT, more=servers)
        return texts(check_text(text, path=tmp_path / "graph.yaml", dialect="next"), Severity.WARNING)

    (said,) = warnings()
    assert said.startswith("f:3:46: warning: there is no ./counting in ")
    assert str(tmp_path) in said
    assert "(at mcpServers.s.args[1])" in said
    (tmp_path / "tests" / "counting").mkdir(parents=True)
    assert len(warnings()) == 1
    assert warnings(", cwd: tests") == []
    assert len(warnings(", cwd: nowhere")) == 1  # said about the folder
    (tmp_path / "counting").mkdir()
    assert warnings() == []


@pytest.mark.requirement("G19")
def test_a_path_that_is_only_in_the_commands_folder_is_found_there(tmp_path, monkeypatch):
    def checked(*args):
        servers = f"mcpServers: {{s: {{command: python3, args: [x, {', '.join(args)}]}}}}\n"
        return check_text(
            one_tool(ENTRY, A, EXIT, more=servers), path=tmp_path / "a" / "g.yaml", dialect="next"
        )

    (tmp_path / "a" / "mine").mkdir(parents=True)
    (tmp_path / "here" / "counting").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    found = checked("./counting")
    assert texts(found, Severity.WARNING) == []
    assert found.document.servers["s"].cwd == tmp_path / "here"
    assert checked("./mine").document.servers["s"].cwd == tmp_path / "a"
    assert len(texts(checked("./mine", "./counting"), Severity.WARNING)) == 1  # neither folder has both


ONCE_MORE = "{id: a, type: tool, tool: t, args: {}, next: exit}"


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([tool(ENTRY, ONCE_MORE, EXIT)], [('"t"', '"t"')]),
        (
            [
                tool(ENTRY, ONCE_MORE.replace("tool: t", "tool: u"), EXIT),
                tool(ENTRY, ONCE_MORE, EXIT, name="u"),
            ],
            [('"t"', '"u"'), ('"u"', '"t"')],
        ),
        (
            [
                tool(
                    ENTRY,
                    "{id: a, type: parallel, branches: [b, c], next: exit}",
                    ONCE_MORE.replace("id: a", "id: b"),
                    "{id: c, type: transform, transform: {expr: entry}, next: exit}",
                    EXIT,
                )
            ],
            [('"t"', '"t"')],
        ),
        (
            [
                tool(
                    ENTRY,
                    switch("{rule: {var: entry.n}, next: b}"),
                    ONCE_MORE.replace("id: a", "id: b"),
                    EXIT,
                )
            ],
            [],
        ),
        ([tool(ENTRY, ONCE_MORE.replace("args", "onError: exit, args"), EXIT)], []),
        (
            [
                tool(
                    ENTRY,
                    "{id: a, type: forEach, items: entry.l, do: b, next: exit}",
                    ONCE_MORE.replace("id: a", "id: b"),
                    EXIT,
                )
            ],
            [],
        ),
    ],
)
def test_recursion_that_never_ends_is_named(tools, said):
    checked = check_text(yaml(*tools, servers=""), dialect="next")
    assert checked.document is not None
    found = [text for text in texts(checked) if "calls itself" in text]
    assert len(found) == len(said)
    for text, (name, called) in zip(found, said, strict=True):
        assert f"every way through the tool {name} calls {called}" in text


def test_a_file_that_a_server_makes_need_not_be_there(tmp_path):
    servers = "mcpServers: {{s: {{command: python3, args: [x, {}]}}}}\n"

    def warnings(path):
        text = one_tool(ENTRY, A, EXIT, more=servers.format(path))
        return texts(check_text(text, path=tmp_path / "graph.yaml", dialect="next"), Severity.WARNING)

    assert warnings("./notes.db") == []
    assert len(warnings("./nowhere/notes.db")) == 1


def online(call: str, command: str = sys.executable):
    text = one_tool(
        ENTRY, call, EXIT, more=f"mcpServers: {{s: {{command: {command!r}, args: ['-c', {SERVER!r}]}}}}\n"
    )
    # YAML has no escapes in single quotes: the program goes in as a plain value.
    checked = check_text(text.replace(repr(SERVER), "PROGRAM"), dialect="next")
    assert checked.document is not None, texts(checked)
    server = checked.document.servers["s"]
    object.__setattr__(server, "args", ("-c", SERVER))
    return [
        (problem.severity.value, problem.text("f")) for problem in check_online(checked.document).problems
    ]


def test_online():
    call = "{id: a, type: mcp, server: s, tool: %s, args: %s, next: exit}"
    assert online(call % ("add", "{a: 1, b: {expr: entry.b}}")) == []
    ((severity, text),) = online(call % ("ad", "{}"))
    assert (severity, "Did you mean 'add'?" in text) == ("error", True)
    found = dict.fromkeys(severity + text for severity, text in online(call % ("add", "{a: one, c: 1}")))
    assert len(found) == 3
    joined = "\n".join(found)
    assert 'requires the argument "b"' in joined
    assert 'has no argument "c"' in joined
    assert 'the argument "a" of the tool "add"' in joined
    ((severity, text),) = online(call % ("add", "{}"), command="/nowhere/at-all")
    assert (severity, "the server 's' could not be asked" in text) == ("warning", True)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("etnry.city", "'etnry' is no node of the tool, so there is nothing to find Did you mean 'entry'?"),
        ("$count(lookup.count)", "'lookup' is no node of the tool"),
        ("$.lookup.count", "'lookup' is no node of the tool"),
        ("entry.ctiy", "the inputSchema has no argument 'ctiy' Did you mean 'city'?"),
        ("entry.city & $map(entry.list, function($v) {$v.name})[first = 1]", None),
        ("entry.other", None),
        ("entry.(nothing.here)", None),
        ("(entry.city; $x := a; $x.r)", None),
    ],
)
def test_names_that_are_not_there_are_found(expression, said):
    text = one_tool(ENTRY, transform(f"{{'r': {expression}}}", "a", "exit"), EXIT)
    schema = "inputSchema: {type: object, properties: {city: {type: string}, list: {type: array}}}"
    problems = check_text(re.sub("inputSchema: .*", schema, text)).problems
    assert [problem.severity for problem in problems] == ([] if said is None else [Severity.WARNING])
    assert said is None or f"{problems[0].message} {problems[0].fix}".find(said) > 0


def test_a_switch_without_next_is_told_once():
    way = "{id: a, type: switch, conditions: [{rule: {'==': [1, 1]}, next: exit}]}"
    checked = check_text(one_tool(ENTRY, way, EXIT))
    assert len(texts(checked)) == 1
    assert "the switch 'a' has no 'next'" in texts(checked)[0]
    assert texts(checked, Severity.WARNING) == []


def test_whole_numbers_that_become_others_are_said_wherever_they_stand(subtests):
    number = 2**53 + 1
    written = [number, f"{number}.0", hex(number), f"!!int {number}", f"[{{deep: {number}}}]"]
    arguments = [f"v: {value}" for value in written] + [f"{number}: 1", f"v: {{expr: 'entry = {number}.0'}}"]
    for where, nodes, schema in [
        *(
            (f"argument {args}", (f"{{id: x, type: tool, tool: t, args: {{{args}}}, next: exit}}",), "{}")
            for args in arguments
        ),
        ("a default", (transform("1"),), f"{{properties: {{v: {{default: {number}}}}}}}"),
        ("an expression", (transform(f"entry.v = {number}"),), "{}"),
        (
            "a rule",
            (f"{{id: x, type: switch, conditions: [{{rule: {{'==': [1, {number}]}}, next: exit}}]}}",),
            "{}",
        ),
    ]:
        with subtests.test(where=where):
            text = yaml(tool(ENTRY, *nodes, EXIT, schema=schema), servers="")
            (said,) = [line for line in texts(check_text(text), Severity.WARNING) if "2^53" in line]
            assert f"becomes {number - 1}" in said
    expression = f"'{number}' & \"{number}\" & {number - 1} & entry.`{number}`"
    exact = yaml(tool(ENTRY, transform(expression), EXIT), servers="")
    assert "2^53" not in str(check_text(exact).problems)
