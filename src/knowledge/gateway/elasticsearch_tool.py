"""The tool ``elasticsearch``, which searches allowed indices. It exists only if indices are configured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ...types.errors import SettingInvalid
from ..tool_definitions import ToolDefinition
from .errors import MCPError, MCPErrorType, unavailable
from .tool_registry import ToolSource, does_not_fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .settings import GatewaySettings

NAME: Final = "elasticsearch"
_SECONDS: Final = 10
_LARGEST: Final = 4 * 1024 * 1024
_DEFAULT_SIZE: Final = 10
_SEARCH_KEYS: Final = frozenset({"query", "size", "from", "sort", "_source", "fields", "highlight", "aggs"})
_REFUSED: Final = frozenset(
    {"index", "_index", "indexed_shape", "percolate", "wrapper", "script", "script_score", "scripted_metric"}
)
"""Parts of queries that read other indices, run scripts, or hide a query."""
_UNAVAILABLE: Final = "Elasticsearch cannot be reached at the moment. Try again later."


class ElasticsearchTool(ToolSource):
    """The source of the tool. Threads may share it. Call `close` at the end.

    Args:
        settings: The settings for host, key, allowed indices and number of results.

    Raises:
        SettingInvalid: The client library is not installed, or the host is not valid.
    """

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
        """The tool."""
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
        """Runs a search.

        Raises:
            MCPError: The query has parts that are not allowed, or Elasticsearch refuses the query or does not
                answer.
        """
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
        if len(json.dumps(answer)) > _LARGEST:
            raise MCPError(
                MCPErrorType.SERVICE_ERROR,
                "Elasticsearch: an answer that is too large",
                f"The answer is larger than {_LARGEST} bytes. Ask for fewer hits, or fewer fields.",
            )
        return answer

    def close(self) -> None:
        """Closes the connections."""
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
    kind = ""
    if isinstance(body, dict):
        error = cast("dict[str, Any]", body).get("error")
        kind = str(cast("dict[str, Any]", error).get("type", "")) if isinstance(error, dict) else ""
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
