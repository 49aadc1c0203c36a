"""The tool ``elasticsearch``: searches allowed indices. It exists only if indices are configured.

`elasticsearch_queries` says which searches are allowed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from knime_mcp.types.errors import SettingInvalid
from knime_mcp.yaml_text import as_mapping

from ..tool_definitions import KnowledgeTool
from .elasticsearch_queries import NAME, AllowedSearches
from .gateway import ToolSource
from .gateway_errors import MCPError, MCPErrorType, unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .gateway_settings import GatewaySettings

_SECONDS: Final = 10
_LARGEST_ANSWER: Final = 4 * 1024 * 1024
_UNAVAILABLE: Final = "Elasticsearch cannot be reached at the moment. Try again later."


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
        self._allowed = AllowedSearches(self._most)
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

    def get_available_tools(self) -> Sequence[KnowledgeTool]:
        return (
            KnowledgeTool(
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
        body = self._allowed.body(arguments["query"])
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
        # How the index is spread over machines is nobody's business.
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


def _refused_by_server(status: int, body: Any) -> MCPError:
    kind = str(as_mapping(as_mapping(body).get("error")).get("type", ""))
    # The only word of the server that goes to the caller: messages quote the query and name hosts.
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
