"""Whether the gateway works: for clients with a key, and, in fewer words, for load balancers."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response  # noqa: TC002 - FastAPI reads signatures

from ....version import VERSION
from ..envelope import Envelope, answer
from ..errors import UNAVAILABLE
from ..keys import Scope
from ..models import MCPHealth, PublicHealth
from ..routing import gateway_of, record_of, router
from .mcp import PREFIX

_UNHEALTHY = "Something that the tools need cannot be read; the gateway's log says what."


def health_router() -> APIRouter:
    """The endpoint for clients with a key."""
    group = router(Envelope.PLAIN, scope=Scope.HEALTH_CHECK, errors=())

    @group.get(
        f"{PREFIX}/health",
        response_model=MCPHealth,
        tags=["health"],
        responses={UNAVAILABLE: {"model": MCPHealth, "description": "The tools do not work."}},
    )
    async def health(request: Request) -> Response:
        """Say whether the tools work."""
        record, gateway = record_of(request), gateway_of(request)
        problem = gateway.problem()
        record.error = problem
        tools = gateway.registry.get_available_tools() if gateway.settings.mcp_enabled else []
        body = MCPHealth(
            healthy=problem is None,
            version=VERSION,
            available_tools=[tool.name for tool in tools],
            timestamp=int(time.time()),
            error=None if problem is None else _UNHEALTHY,
            request_id=record.request_id,
            processing_time_ms=record.elapsed_ms,
        )
        return answer(body, status=200 if problem is None else UNAVAILABLE)

    return group


def public_health_router() -> APIRouter:
    """The endpoint without a key."""
    group = router(Envelope.PLAIN, scope=None, errors=())

    @group.get(
        "/api/v1/public/health",
        response_model=PublicHealth,
        tags=["health"],
        responses={UNAVAILABLE: {"model": PublicHealth, "description": "The gateway does not work."}},
    )
    async def public_health(request: Request) -> Response:
        """Say whether the gateway works."""
        record_of(request).error = problem = gateway_of(request).problem()
        body = PublicHealth(
            status="healthy" if problem is None else "unhealthy", version=VERSION, timestamp=int(time.time())
        )
        return answer(body, status=200 if problem is None else UNAVAILABLE)

    return group
