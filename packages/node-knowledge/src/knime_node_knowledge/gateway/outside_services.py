"""Supabase, which answers `node_knowledge_retriever` if it is configured.

It is asked through PostgREST (https://docs.postgrest.org/en/stable/references/api/functions.html). Its
function ``match_node_knowledge`` of the design documents takes ``query_embedding``. If no service for
embeddings is configured, the function gets ``query_text`` instead; see `docs/gateway.md`.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from knime_mcp.yaml_text import as_mapping

from .gateway import TTLCache
from .gateway_bodies import NodeKnowledgeResult
from .gateway_errors import MCPError, MCPErrorType, unavailable
from .node_retriever import NodeKnowledgeRetriever

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .gateway_settings import GatewaySettings


FUNCTION: Final = "match_node_knowledge"
_AT_ONCE: Final = 8
_TIMEOUT: Final = httpx.Timeout(10.0, connect=5.0)
_LARGEST: Final = 16 * 1024 * 1024
_AWAY: Final = frozenset({429, 502, 503, 504})
_FOR_CALLERS: Final = "The node knowledge cannot be reached at the moment. Try again later."


class SupabaseKnowledge(NodeKnowledgeRetriever):
    """Knowledge from a Supabase project. Threads may share it. Call `close` at the end."""

    def __init__(self, settings: GatewaySettings, *, on_lookup: Callable[[bool], None] | None = None) -> None:
        project = settings.supabase()
        if project is None:
            raise ValueError("no Supabase project is configured")
        url, key = project
        self._threshold = settings.node_knowledge_default_threshold
        self._cache: TTLCache[NodeKnowledgeResult] = TTLCache(
            seconds=settings.gateway_cache_seconds, on_lookup=on_lookup
        )
        secret = key.get_secret_value()
        self._project = _Service(
            name="Supabase",
            url=f"{url}/rest/v1/rpc/{FUNCTION}",
            headers={"apikey": secret, "Authorization": f"Bearer {secret}", "Accept": "application/json"},
        )
        self._embeddings = _embeddings(settings)
        self._model = settings.node_knowledge_embeddings_model
        self._client = httpx.Client(timeout=_TIMEOUT, limits=httpx.Limits(max_connections=_AT_ONCE * 4))

    def know(self, names: Sequence[str]) -> list[NodeKnowledgeResult]:

        def ask(name: str) -> NodeKnowledgeResult:
            found = self._cache.get(name)
            if found is None:
                found = self._query_supabase(name)
                self._cache.put(name, found)
            return found

        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(names) or 1)) as pool:
            return list(pool.map(ask, names))

    def close(self) -> None:
        self._client.close()

    def _query_supabase(self, node_name: str) -> NodeKnowledgeResult:
        arguments: dict[str, Any] = {
            "match_threshold": self._threshold,
            "match_count": 1,
            "node_type_filter": None,
        }
        if self._embeddings is None:
            arguments["query_text"] = node_name
        else:
            arguments["query_embedding"] = self._embedding(self._embeddings, node_name)
        rows = self._project.post(self._client, arguments)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in cast("list[Any]", rows)):
            raise _database(f"Supabase: {FUNCTION} gave no list of rows")
        found = cast("list[dict[str, Any]]", rows)
        if not found:
            metadata = {"error": "No node is similar enough to this name."}
            return NodeKnowledgeResult(node_name=node_name, knowledge="", metadata=metadata)
        row = found[0]
        score = row.get("similarity")
        if not isinstance(score, (int, float)) or isinstance(score, bool):
            raise _database(f"Supabase: {FUNCTION} gave a row without similarity")
        named = {key: row[key] for key in ("id", "node_type", "node_subtype", "title") if row.get(key)}
        return NodeKnowledgeResult(
            node_name=node_name,
            knowledge=str(row.get("content") or row.get("description") or ""),
            metadata={**as_mapping(row.get("metadata")), **named},
            similarity_score=float(score),
        )

    def _embedding(self, service: _Service, text: str) -> list[float]:
        found = service.post(self._client, {"model": self._model, "input": text})
        try:
            return [float(number) for number in found["data"][0]["embedding"]]
        except (KeyError, IndexError, TypeError, ValueError):
            raise unavailable("Embeddings: an answer without an embedding", _FOR_CALLERS) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """A service that takes JSON requests. Errors never quote answers, which may repeat the request."""

    name: str
    url: str
    headers: dict[str, str] = field(repr=False)

    def post(self, client: httpx.Client, body: Any) -> Any:
        try:
            with client.stream("POST", self.url, json=body, headers=self.headers) as response:
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    if len(content) > _LARGEST:
                        raise _database(f"{self.name} sent more than {_LARGEST} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unavailable(f"{self.name} does not answer ({type(error).__name__})", _FOR_CALLERS) from None
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            found = None
        # Before the body is looked at: a proxy that stands in for the service answers in HTML.
        if response.status_code in _AWAY:
            raise unavailable(f"{self.name} answered {response.status_code}", _FOR_CALLERS)
        if response.status_code >= 300:
            raise _database(f"{self.name} answered {response.status_code}{_code(found)}")
        if found is None:
            raise _database(f"{self.name} sent no JSON")
        return found


def _embeddings(settings: GatewaySettings) -> _Service | None:
    url, key = settings.node_knowledge_embeddings_url, settings.node_knowledge_embeddings_key
    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    return _Service(name="Embeddings", url=f"{url.rstrip('/')}/embeddings", headers=headers) if url else None


def _code(found: Any) -> str:
    code = as_mapping(found).get("code")
    if not isinstance(code, str) or not code.isalnum():
        return ""
    # PostgREST's code for a function that does not exist, or not with these arguments.
    why = f": there is no such {FUNCTION}, see docs/gateway.md" if code == "PGRST202" else ""
    return f" ({code}){why}"


def _database(message: str) -> MCPError:
    return MCPError(
        MCPErrorType.DATABASE_ERROR,
        message,
        "The database of the node knowledge answered with an error. The gateway's log says more.",
    )
