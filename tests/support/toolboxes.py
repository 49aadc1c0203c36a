"""Toolboxes over real servers, without a model."""

from contextlib import contextmanager

from knime_mcp.agents._tool import LangchainToolConverter
from knime_mcp.agents.toolbox.data_registry import DataRegistry
from knime_mcp.agents.toolbox.replies import ToolRequest
from knime_mcp.agents.toolbox.tool_executor import ToolExecutor
from knime_mcp.agents.toolbox.toolset import Toolset
from knime_mcp.audit.secrets import SecretMarker
from knime_mcp.client.limits import Timeouts
from knime_mcp.client.mcp_client import SessionPool
from knime_mcp.runs.checked_calls import Definitions, pinned_tool
from knime_mcp.runs.engine import Run, RunRecords
from knime_mcp.tools.node_settings.connection import client_for
from knime_mcp.types.routing import ServerRoute


class Box:
    """A toolbox and its records."""

    def __init__(self, executor, toolset, records):
        self.executor, self.toolset, self.records = executor, toolset, records

    def call(self, name, arguments=None, *, is_canceled=lambda: False, iteration=1, error=None):
        request = ToolRequest(id="c1", name=name, arguments=arguments, iteration=iteration, error=error)
        reply = self.executor.run(request, is_canceled=is_canceled)
        assert reply.request is request
        return reply

    def langchain_tool(self, name):
        """A tool as agents of others get it."""
        bound = self.toolset.by_name[name]
        return LangchainToolConverter(self.executor).to_langchain_tool(bound.tool, name)

    @property
    def names(self):
        return [definition["function"]["name"] for definition in self.executor.definitions()]


def toolbox(pool, tools, *, run_workflow=None, secrets=(), registry=None, options=None, **more):
    """A toolbox whose calls go through the sessions of `pool`."""
    registry = DataRegistry() if registry is None else registry
    records = []
    run = Run(
        id="run-1",
        pool=pool,
        definitions=Definitions(pool),
        secrets=SecretMarker(secrets),
        run_workflow=run_workflow,
        records=RunRecords(on_record=records.append),
        **more,
    )
    toolset = Toolset(tools)
    executor = ToolExecutor(toolset, run, registry=registry, options=options)
    return Box(executor, toolset, records)


def sessions():
    """The sessions of a run."""
    return SessionPool(lambda route: client_for(route, None, timeouts=Timeouts()))


def tools_at(pool, url):
    """The tools of a server, pinned as the Provider pins them."""
    route = ServerRoute.parse(url)
    listed = pool.client(route).list_tools()
    return [pinned_tool(definition, route, shown_name=definition.name) for definition in listed]


@contextmanager
def made_box(url):
    """A toolbox with all tools of a server."""
    with sessions() as pool:
        yield toolbox(pool, tools_at(pool, url))
