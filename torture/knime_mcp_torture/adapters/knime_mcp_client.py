"""knime-mcp's own client."""

from loop import failed, serve

from knime_mcp.tools import MCPClient, StdioServer, Timeouts


def run(task, answer):
    seconds = task["timeout"]
    timeouts = Timeouts(connect=seconds, idle=seconds, total=seconds)
    if "url" in task:
        client = MCPClient(task["url"], timeouts=timeouts)
    else:
        client = MCPClient(stdio=StdioServer("torture", task["command"]), timeouts=timeouts)
    try:
        client.connect()
        answer["connect"] = {"ok": True}
        answer["tools"] = [tool.name for tool in client.list_tools()]
    except Exception as error:
        answer["connect" if not answer["connect"] else "tools_error"] = failed(error)
    for name in task["calls"] if answer["connect"].get("ok") else ():
        try:
            result = client.call_tool(name, {"text": "hi"})
            texts = [block.text for block in result.content if type(block).__name__ == "TextContent"]
            answer["calls"].append({"text": "".join(texts), "is_error": result.is_error})
        except Exception as error:
            answer["calls"].append(failed(error))
    client.close()


serve(run)
