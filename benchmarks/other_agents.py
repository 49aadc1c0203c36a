"""One question to an agent of others with the tools of a server: ``WAY MODEL_URL MCP_URL QUESTION``."""

import asyncio
import os
import sys


async def langchain(model_url: str, mcp_url: str, question: str) -> str:
    """LangChain with its adapter for MCP."""
    from langchain.agents import create_agent
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI

    client = MultiServerMCPClient({"shop": {"transport": "streamable_http", "url": mcp_url}})
    model = ChatOpenAI(model="test-model", base_url=model_url, api_key="none", max_retries=0)
    agent = create_agent(model, await client.get_tools())
    return (await agent.ainvoke({"messages": question}))["messages"][-1].text


async def openai_agents(model_url: str, mcp_url: str, question: str) -> str:
    """The agents SDK of OpenAI."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStreamableHttp
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)
    async with MCPServerStreamableHttp({"url": mcp_url}) as server:
        model = OpenAIChatCompletionsModel("test-model", client)
        agent = Agent(name="agent", model=model, mcp_servers=[server])
        return (await Runner.run(agent, question)).final_output


async def pydantic_ai(model_url: str, mcp_url: str, question: str) -> str:
    """Pydantic AI."""
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("test-model", provider=OpenAIProvider(base_url=model_url, api_key="none"))
    return (await Agent(model, toolsets=[MCPToolset(mcp_url)]).run(question)).output


if __name__ == "__main__":
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    ways = {"langchain": langchain, "openai_agents": openai_agents, "pydantic_ai": pydantic_ai}
    print(asyncio.run(ways[sys.argv[1]](*sys.argv[2:])))
