"""The client that the official conformance suite drives: one scenario per process, exit code 0 on success.

The suite says by environment what it plays (`MCP_CONFORMANCE_SCENARIO`), with which data
(`MCP_CONFORMANCE_CONTEXT`, JSON) and in which revision (`MCP_CONFORMANCE_PROTOCOL_VERSION`), and gives the
server's URL as the last argument. The client is the product's, with its defaults: it negotiates, nothing is
pinned.

The suite's login page redirects at once, so one GET stands for the person and the browser. Where the suite
gives a client id with a secret, the issuer is named, as by a person who registered the client there: our
client sends no secret to an issuer that nobody has named.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import httpx

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.discovery import discover
from knime_mcp.client.oauth.grants import AuthorizationCode, ClientCredentials
from knime_mcp.client.oauth.guard import Guard
from knime_mcp.client.oauth.identity import IdentityAssertion, IdentityProvider
from knime_mcp.client.oauth.logins import RegisteredClient
from knime_mcp.client.oauth.oauth import OAuth
from knime_mcp.types.errors import MCPError

CIMD_CLIENT_ID = "https://conformance-test.local/client-metadata.json"
REDIRECT_URI = "http://localhost:3000/callback"


class Redirected:
    """Stands for a person with a browser: the suite's login page redirects at once."""

    def redirect_uri(self, registered: str | None) -> str:
        return registered or REDIRECT_URI

    def authorize(self, url: str, is_canceled: Callable[[], bool] | None) -> str:
        answer = httpx.get(url, follow_redirects=False, timeout=10, trust_env=False)
        if "location" not in answer.headers:
            raise RuntimeError(f"the login page answers {answer.status_code} without a redirect")
        return answer.headers["location"]


def list_only(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        client.list_tools()


def list_twice(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        client.list_tools()
        client.list_tools()


def add_numbers(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        client.list_tools()
        result = client.call_tool("add_numbers", {"a": 5, "b": 3})
        assert not result.is_error, result.text


def elicitation_defaults(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url, elicitation="defaults") as client:
        say_version(client)
        client.list_tools()
        client.call_tool("test_client_elicitation_defaults", {})


def reconnection(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        client.list_tools()
        client.call_tool("test_reconnection", {})


def request_state(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url, elicitation="defaults") as client:
        say_version(client)
        for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
            client.call_tool(f"test_mrtr_{name}", {})


def call_everything(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        for tool in client.list_tools():
            client.call_tool(tool.name, example(tool.input_schema))
        for name, reason in client.dropped_tools:
            print(f"left out {name!r}: {reason}", file=sys.stderr)


def custom_headers(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        client.list_tools()
        for call in context["toolCalls"]:
            client.call_tool(call["name"], call.get("arguments") or {})


def echo_schema(url: str, context: dict[str, Any]) -> None:
    with MCPClient(url) as client:
        say_version(client)
        tools = {tool.name: tool for tool in client.list_tools()}
        client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


def code_flow(url: str, context: dict[str, Any]) -> None:
    preregistered = None
    issuer = None
    if "client_id" in context:
        preregistered = RegisteredClient(context["client_id"], context.get("client_secret"))
        issuer = discover(url, Guard(url)).server.issuer  # as a person would, who registered the client there
    grant = AuthorizationCode(Redirected(), client=preregistered, client_metadata_url=CIMD_CLIENT_ID)
    use(url, OAuth(url, grant, issuer=issuer))


def client_credentials(url: str, context: dict[str, Any]) -> None:
    client = RegisteredClient(
        context["client_id"],
        secret=context.get("client_secret"),
        private_key=context.get("private_key_pem"),
        algorithm=context.get("signing_algorithm", "ES256"),
    )
    use(url, OAuth(url, ClientCredentials(client), issuer=discover(url, Guard(url)).server.issuer))


def identity(url: str, context: dict[str, Any]) -> None:
    """As `KNIME_MCP_IDENTITY` does it: from a file that the company has written."""
    issuer = discover(url, Guard(url)).server.issuer
    if "idp_id_token" not in context:
        token, client, provider = (
            context["valid_jwt"],
            RegisteredClient(context["client_id"], method="none"),
            None,
        )
    else:
        token, client = (
            context["idp_id_token"],
            RegisteredClient(context["client_id"], context["client_secret"]),
        )
        provider = IdentityProvider(
            context["idp_issuer"], RegisteredClient(context["idp_client_id"], method="none")
        )
    use(url, OAuth(url, IdentityAssertion(lambda: token, {issuer: client}, provider)))


def use(url: str, authorization: OAuth) -> None:
    """Two calls at least: several scenarios change their mind after the first one."""
    with MCPClient(url, auth=authorization) as client:
        say_version(client)
        for tool in client.list_tools():
            client.call_tool(tool.name, {})
        client.list_tools()
        client.call_tool("test-tool", {})


def say_version(client: MCPClient) -> None:
    wanted = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "any")
    print(f"negotiated {client.server.protocol_version}, the suite plays {wanted}", file=sys.stderr)


def example(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a simple schema accepts."""
    values = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}
    properties = schema.get("properties", {})
    return {name: values.get(each.get("type"), "text") for name, each in properties.items()}


SCENARIOS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "initialize": list_only,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": reconnection,
    "request-metadata": list_twice,
    "sep-2322-client-request-state": request_state,
    "http-standard-headers": call_everything,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": call_everything,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
    "auth/wif-jwt-bearer": identity,
    "auth/enterprise-managed-authorization": identity,
    "auth/cross-app-access-complete-flow": identity,
    "auth/client-credentials-basic": client_credentials,
    "auth/client-credentials-jwt": client_credentials,
}


def main() -> int:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    scenario = SCENARIOS.get(name) or (code_flow if name.startswith("auth/") else list_only)
    try:
        scenario(sys.argv[-1], context)
    except MCPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
