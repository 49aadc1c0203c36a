"""Hypothesis strategies for tools, routes and JSON, shared by the tests of src/types."""

import json
import string

from hypothesis import strategies as st

from knime_mcp.types.routing import TEMPLATES, ServerRoute
from knime_mcp.types.tool import MCPTool, ToolPort, WorkflowTool

# Surrogates are tested on their own; everything else may occur in a server's texts.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = texts.filter(bool)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)


@st.composite
def json_texts(draw):
    """JSON of an object in a layout that the project's writers never use."""
    indent = draw(st.sampled_from([None, 0, 3]))
    return json.dumps(draw(json_objects), indent=indent, ensure_ascii=draw(st.booleans()))


ports = st.builds(ToolPort, texts, texts, st.just("Table"), st.none() | texts)
port_lists = st.lists(ports, max_size=3).map(tuple)
keys = st.text("0123456789abcdef-", min_size=1, max_size=12)

workflow_tools = st.builds(
    WorkflowTool,
    name=names,
    description=texts,
    parameter_schema=json_objects | json_texts() | st.just(""),
    message_output_port_index=st.integers(-1, 9),
    input_ports=port_lists,
    output_ports=port_lists,
    filestore_keys=st.none() | st.lists(keys, min_size=1, max_size=2).map(";".join),
)

hosts = st.from_regex(r"[a-z]([a-z0-9-]{0,9}[a-z0-9])?(\.[a-z]{2,5})?(:[1-9][0-9]{0,3})?", fullmatch=True)
segments = st.text(string.ascii_letters + string.digits + "-_.~%25@:", max_size=8)
queries = st.sampled_from(
    [
        "",
        "?v=2",
        "?a=b%20c&d=",
        *(f"?api_key={template}&x=1" for template in TEMPLATES),
        "?tool=1&transport=2",
    ]
)
http_urls = st.builds(
    lambda scheme, host, path, query: f"{scheme}://{host}/{path}{query}",
    st.sampled_from(["http", "https"]),
    hosts,
    st.lists(segments, max_size=3).map("/".join),
    queries,
)
stdio_urls = st.text(string.ascii_letters + "-_0123456789", min_size=1, max_size=10).map("stdio:{}".format)
urls = http_urls | stdio_urls

header_names = st.sampled_from(["X-Team", "Accept-Language", "x-trace.id", "X-Api-Key", "Authorization"])


@st.composite
def headers(draw):
    name = draw(header_names)
    if name in {"X-Api-Key", "Authorization"}:
        return name, f"Bearer {draw(st.sampled_from(TEMPLATES))}"
    return name, draw(st.text(string.ascii_letters + " :=&#%ü", max_size=12)).strip()


digests = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:{}".format)
routes = st.builds(
    ServerRoute,
    url=urls,
    credential=st.none() | names,
    send_credentials_as=st.sampled_from(["bearer", "basic", "header", "client_credentials"]),
    header_name=st.none() | header_names,
    issuer=st.none() | st.sampled_from(["https://login.host", "https://login.host:8443/realm/a%20b"]),
    scope=st.none() | st.sampled_from(["a", "tools.read tools:call", "https://h/a.b&c=d"]),
    headers=st.lists(headers(), max_size=2).map(tuple),
    transport=st.sampled_from(["auto", "http", "sse"]),
    tool=st.none() | names,
    digest=st.none() | digests,
)

mcp_tools = st.builds(
    MCPTool,
    name=names,
    description=texts,
    parameter_schema=json_objects | json_texts(),
    server_uri=routes.map(lambda route: route.uri),
    tool_name=names,
    output_schema=st.none() | json_objects,
    annotations=st.none() | json_objects,
    title=st.none() | texts,
)

tools = workflow_tools | mcp_tools
cells = st.none() | tools
columns = st.lists(cells, max_size=6)
