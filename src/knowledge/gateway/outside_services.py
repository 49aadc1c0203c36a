"""Services outside that may be configured: Supabase for `node_knowledge_retriever`, and Elasticsearch.

Supabase is asked through PostgREST (https://docs.postgrest.org/en/stable/references/api/functions.html). Its
function ``match_node_knowledge`` of the design documents takes ``query_embedding``. If no service for
embeddings is configured, the function gets ``query_text`` instead; see `docs/gateway.md`. The tool
``elasticsearch`` searches allowed indices, and exists only if indices are configured.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpx

from ...types.errors import SettingInvalid
from ..tool_definitions import ToolDefinition
from .gateway import ToolSource, TTLCache, does_not_fit
from .gateway_bodies import NodeKnowledgeResult
from .gateway_errors import MCPError, MCPErrorType, unavailable
from .node_retriever import NodeKnowledgeRetriever

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .gateway_settings import GatewaySettings


FUNCTION: Final = "match_node_knowledge"
_AT_ONCE: Final = 8
_TIMEOUT: Final = httpx.Timeout(10.0, connect=5.0)
_LARGEST: Final = 16 * 1024 * 1024
_AWAY: Final = frozenset({429, 502, 503, 504})
_FOR_CALLERS: Final = "The node knowledge cannot be reached at the moment. Try again later."

NAME: Final = "elasticsearch"
_SECONDS: Final = 10
_LARGEST_ANSWER: Final = 4 * 1024 * 1024
_DEFAULT_SIZE: Final = 10
_SEARCH_KEYS: Final = frozenset({"query", "size", "from", "sort", "_source", "fields", "highlight", "aggs"})
_REFUSED: Final = frozenset(
    {"index", "_index", "indexed_shape", "percolate", "wrapper", "script", "script_score", "scripted_metric"}
)
"""Parts of queries that read other indices, run scripts, or hide a query."""

_UNAVAILABLE: Final = "Elasticsearch cannot be reached at the moment. Try again later."


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
            metadata={**_object(row.get("metadata")), **named},
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
    code = _object(found).get("code")
    if not isinstance(code, str) or not code.isalnum():
        return ""
    # PostgREST's code for a function that does not exist, or not with these arguments.
    why = f": there is no such {FUNCTION}, see docs/gateway.md" if code == "PGRST202" else ""
    return f" ({code}){why}"


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _database(message: str) -> MCPError:
    return MCPError(
        MCPErrorType.DATABASE_ERROR,
        message,
        "The database of the node knowledge answered with an error. The gateway's log says more.",
    )


class ElasticsearchTool(ToolSource):
    """The source of the tool. Threads may share it. Call `close` at the end."""

    def __init__(self, settings: GatewaySettings) -> None:
        try:
            from elasticsearch import Elasticsearch
        except ModuleNotFoundError:
            raise SettingInvalid(
                "ELASTICSEARCH_INDICES is set, but the client is not installed",
                setting="ELASTICSEARCH_INDICES",
                fix="Install it with: pip install 'elasticsearch>=9,<10'",
            ) from None
        self._indices = settings.elasticsearch_indices
        self._most = settings.mcp_max_results_per_tool
        host = settings.elasticsearch_host
        key = settings.elasticsearch_api_key
        try:
            url = urlsplit(host if "://" in host else f"http://{host}")
            if url.scheme not in ("http", "https"):
                raise ValueError(url.scheme)
            if url.port is None:
                url = url._replace(netloc=f"{url.netloc}:{settings.elasticsearch_port}")
            self._client = Elasticsearch(
                url.geturl(),
                api_key=key.get_secret_value() if key else None,
                request_timeout=_SECONDS + 2,
                max_retries=1,
                retry_on_timeout=False,
            )
        except ValueError:  # the message may contain the setting, with a password
            raise SettingInvalid(
                "ELASTICSEARCH_HOST is neither a host nor a URL",
                setting="ELASTICSEARCH_HOST",
                fix="Such as localhost, or https://search.example:9200.",
            ) from None

    def get_available_tools(self) -> Sequence[ToolDefinition]:
        return (
            ToolDefinition(
                name=NAME,
                title="Search Elasticsearch",
                description="Search Elasticsearch: a query in its Query DSL, in one of the allowed indices.",
                parameters={
                    "type": "object",
                    "properties": {
                        "index": {
                            "type": "string",
                            "enum": list(self._indices),
                            "description": "Name of the index",
                        },
                        "query": {
                            "type": "object",
                            "description": "Query DSL, such as {'match': {'title': 'joiner'}}; or a search"
                            " body: query with size, from, sort, _source, fields, highlight, aggs.",
                        },
                    },
                    "required": ["index", "query"],
                    "additionalProperties": False,
                },
                category="search",
                tags=("search", "elasticsearch"),
                workflow_guidance=f"At most {self._most} hits per call; 'from' goes on.",
                usage_examples=({"index": self._indices[0], "query": {"match_all": {}}},),
            ),
        )

    def invoke_tool(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        del name
        _check(arguments["query"], "/query")
        body = self._body(arguments["query"])
        from elastic_transport import ConnectionError as NotReached
        from elastic_transport import ConnectionTimeout
        from elasticsearch import ApiError, TransportError

        try:
            found = self._client.search(
                index=arguments["index"], body=body | {"timeout": f"{_SECONDS}s"}, allow_no_indices=False
            ).body
        except (NotReached, ConnectionTimeout) as error:
            why = f"Elasticsearch does not answer ({type(error).__name__})"
            raise unavailable(why, _UNAVAILABLE) from None
        except ApiError as error:
            raise _refused_by_server(error.status_code, error.body) from None
        except TransportError as error:
            raise unavailable(f"Elasticsearch: {type(error).__name__}", _UNAVAILABLE) from None
        answer: dict[str, Any] = {key: value for key, value in found.items() if key != "_shards"}
        if len(json.dumps(answer)) > _LARGEST_ANSWER:
            raise MCPError(
                MCPErrorType.SERVICE_ERROR,
                "Elasticsearch: an answer that is too large",
                f"The answer is larger than {_LARGEST_ANSWER} bytes. Ask for fewer hits, or fewer fields.",
            )
        return answer

    def close(self) -> None:
        self._client.close()

    def _body(self, query: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = dict(query) if set(query) & _SEARCH_KEYS else {"query": query}
        unknown = sorted(set(body) - _SEARCH_KEYS)
        if unknown:
            listed, allowed = ", ".join(unknown)[:200], ", ".join(sorted(_SEARCH_KEYS))
            what = f"A search body may not have {listed}. Allowed: {allowed}."
            raise does_not_fit(NAME, "/query", what)
        size = body.setdefault("size", min(_DEFAULT_SIZE, self._most))
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= self._most:
            raise does_not_fit(NAME, "/query/size", f"size is a whole number from 0 to {self._most}")
        return body


def _check(value: Any, pointer: str) -> None:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            if key in _REFUSED or key.startswith("script"):
                why = "is not allowed in a query: it could reach other indices or run programs"
                raise does_not_fit(NAME, pointer, f"'{key[:40]}' {why}")
            _check(inner, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"[:200])
    elif isinstance(value, list):
        for place, inner in enumerate(cast("list[Any]", value)):
            _check(inner, f"{pointer}/{place}"[:200])


def _refused_by_server(status: int, body: Any) -> MCPError:
    kind = str(_object(_object(body).get("error")).get("type", ""))
    kind = kind if kind.replace("_", "").isalnum() else ""
    message = f"Elasticsearch answered {status}{f' ({kind})' if kind else ''}"
    if status == 400:
        return MCPError(
            MCPErrorType.PARAMETER_ERROR,
            message,
            f"Elasticsearch does not take this query{f' ({kind})' if kind else ''}.",
            details={"pointer": "/query"},
        )
    if status == 429 or status >= 500:
        return unavailable(message, _UNAVAILABLE)
    return MCPError(
        MCPErrorType.SERVICE_ERROR,
        message,
        "Elasticsearch does not let this gateway search there. The gateway's log says more.",
    )
