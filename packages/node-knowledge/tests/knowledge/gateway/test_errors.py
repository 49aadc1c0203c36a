"""The six types of errors: what callers get of each, whatever it was that failed."""

import pytest

from knime_mcp.types.errors import ArgumentsInvalid
from knime_mcp.types.errors import MCPError as BaseError
from knime_node_knowledge.catalogue_file import CatalogueError
from knime_node_knowledge.gateway.api_keys import KeyStoreError
from knime_node_knowledge.gateway.gateway_errors import MCPError, MCPErrorType
from knime_node_knowledge.node_service import NodeKnowledgeMCPService

V1 = "/api/v1/mcp"
INVALID = ArgumentsInvalid("There is no node 'X'", pointer="/node", tool="t", fix="Search for it.")
OWN = MCPError(
    MCPErrorType.SERVICE_ERROR,
    "hush",
    "Try it later.",
    status=503,
    details={"after": 5},
    headers={"Retry-After": "5"},
)


@pytest.mark.requirement("W6", "W7", "W11")
@pytest.mark.parametrize(
    ("error", "status", "code", "error_type", "told"),
    [
        (INVALID, 404, -32602, "PARAMETER_ERROR", "There is no node 'X'. Search for it."),
        (CatalogueError("hush"), 500, -32603, "DATABASE_ERROR", "has to build it again"),
        (KeyStoreError("hush"), 500, -32603, "DATABASE_ERROR", "Keys cannot be looked up"),
        (BaseError("The service refused", fix="hush"), 500, -32603, "SERVICE_ERROR", "The service refused"),
        (TimeoutError("hush"), 503, -32603, "SERVICE_ERROR", "The tool took too long."),
        (RuntimeError("hush"), 500, -32603, "INTERNAL_ERROR", "Its log says more under this request id."),
        (OWN, 503, -32603, "SERVICE_ERROR", "Try it later."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_any_failure_of_a_tool_has_a_type_and_a_text_for_the_caller(
    client, monkeypatch, error, status, code, error_type, told
):
    def fail(*_):
        raise error

    monkeypatch.setattr(NodeKnowledgeMCPService, "invoke_tool", fail)
    response = client.post(f"{V1}/invoke", json={"name": "get_node_types"})
    found = response.json()["error"]
    assert (response.status_code, found["code"]) == (status, code)
    assert found["data"]["error_type"] == error_type
    assert told in found["data"]["user_message"]
    assert "hush" not in response.text
    if error is INVALID:
        assert found["data"]["details"]["pointer"] == "/node"
    if error is OWN:
        assert (found["data"]["details"], response.headers["retry-after"]) == ({"after": 5}, "5")


@pytest.mark.requirement("W6")
def test_a_request_without_a_tool_and_a_tool_that_is_not_there_have_the_other_two_types(client):
    found = [client.post(f"{V1}/invoke", json=body).json()["error"] for body in ({}, {"name": "get_node"})]
    assert [error["data"]["error_type"] for error in found] == ["VALIDATION_ERROR", "TOOL_NOT_FOUND"]
    assert {kind.value for kind in MCPErrorType} == {
        "VALIDATION_ERROR", "TOOL_NOT_FOUND", "PARAMETER_ERROR", "SERVICE_ERROR", "DATABASE_ERROR",
        "INTERNAL_ERROR",
    }  # fmt: skip
