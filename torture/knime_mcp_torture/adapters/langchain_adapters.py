"""langchain-mcp-adapters: tools as LangChain has them."""

from datetime import timedelta

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from loop import failed, serve_async


async def run(task, answer):
    clock = timedelta(seconds=task["timeout"])
    if "url" in task:
        server = {
            "transport": "streamable_http",
            "url": task["url"],
            "timeout": clock,
            "sse_read_timeout": clock,
        }
    else:
        server = {"transport": "stdio", "command": task["command"][0], "args": task["command"][1:]}
    server["session_kwargs"] = {"read_timeout_seconds": clock}
    async with MultiServerMCPClient({"it": server}).session("it") as session:
        answer["connect"] = {"ok": True}
        try:
            tools = {tool.name: tool for tool in await load_mcp_tools(session)}
            answer["tools"] = list(tools)
        except Exception as error:
            answer["tools_error"] = failed(error)["error"]
            return
        for name in task["calls"]:
            try:
                content = await tools[name].ainvoke({})
                texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
                answer["calls"].append({"text": "".join(texts), "is_error": False})
            except Exception as error:
                answer["calls"].append(failed(error))


serve_async(run)
