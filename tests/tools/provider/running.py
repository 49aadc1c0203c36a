"""Ways to run the node, and what it gave."""

import pyarrow as pa

NODE = "mcp_tool_provider"
NOBODY = "http://127.0.0.1:9/mcp"
"""Where nobody listens."""


def tool(name, description="", schema=None, **more):
    """A tool's definition."""
    return {"name": name, "description": description, "inputSchema": schema or {"type": "object"}, **more}


def list_tools(host, url=None, *, servers=None, port=None, **settings):
    options = {name: settings.pop(name) for name in ("credentials_in", "flow", "cancel") if name in settings}
    parameters = {} if url is None else {"server_url": url}
    return host.run(
        NODE,
        [None if servers is None else host.table(servers), port],
        {**parameters, **settings},
        credentials=options.get("credentials_in"),
        flow_variables=options.get("flow"),
        cancel=options.get("cancel", False),
    )


def rows(result, output=0):
    assert result.ok, result.failure
    assert result.problems == []
    return result.outputs[output].to_pylist()


def servers_table(*urls, **columns):
    return pa.table(
        {"URL": pa.array(urls, pa.string()), **{n: pa.array(v, pa.string()) for n, v in columns.items()}}
    )
