"""A company's identity instead of a login: from the environment, for every way into the client."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.identity import VARIABLE
from knime_mcp.types.errors import AuthError, SettingInvalid
from tests.client.oauth.test_machines import pem
from tests.client.oauth.world import CANARY, Canned, basic

pytestmark = pytest.mark.quick


TOKEN = f"eyJ.workload-{CANARY}.sig"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@pytest.fixture
def company(world, tmp_path, monkeypatch):
    """Writes the company's file; by default for a workload."""

    def write(servers=None, **more):
        (tmp_path / "token").write_text(TOKEN + "\n", encoding="utf-8")
        said = {
            "token_file": str(tmp_path / "token"),
            "authorization_servers": {world.auth.issuer: {}} if servers is None else servers,
        } | more
        file = tmp_path / "identity.json"
        text = json.dumps({name: value for name, value in said.items() if value is not None})
        file.write_text(text, encoding="utf-8")
        monkeypatch.setenv(VARIABLE, str(file))
        return tmp_path / "token"

    return write


def call(world):
    with MCPClient(world.url) as client:
        return client.call_tool("ask", {}).text


def test_a_workload_needs_no_client_and_no_secret(world, company):
    company()
    assert call(world) == "answer"
    (sent,) = world.auth.http.at("/token")
    assert sent.fields == {"grant_type": BEARER, "assertion": TOKEN, "resource": world.url}
    assert "authorization" not in sent.headers
    assert not any(TOKEN in str(seen.headers) for seen in world.mcp.seen)


def test_the_token_is_read_anew_for_each_request(world, company):
    file = company()
    with MCPClient(world.url) as client:
        client.call_tool("ask", {})
        world.expire_all()
        file.write_text("eyJ.rotated.sig", encoding="utf-8")
        assert client.call_tool("ask", {}).text == "answer"
    assert [seen.fields["assertion"] for seen in world.auth.http.at("/token")] == [TOKEN, "eyJ.rotated.sig"]


def test_the_identity_goes_to_no_other_authorization_server(world, company):
    company({"https://login.company.example": {}})
    with pytest.raises(AuthError, match="none of those that may get the company's identity") as caught:
        call(world)
    assert VARIABLE in str(caught.value)
    assert world.auth.http.at("/token") == []


def test_of_several_authorization_servers_the_companys_is_taken(world, company):
    other = world.another()
    world.resource_metadata["authorization_servers"] = [other.issuer, world.auth.issuer]
    company()
    assert call(world) == "answer"
    assert other.http.seen == []


def test_the_identity_provider_makes_an_assertion_for_this_server(world, company, monkeypatch):
    provider = world.another()
    monkeypatch.setenv("AS_SECRET", f"secret-{CANARY}")
    monkeypatch.setenv("IDP_SECRET", f"idp-{CANARY}")
    company(
        {world.auth.issuer: {"client_id": "knime", "client_secret_env": "AS_SECRET"}},
        identity_provider={
            "issuer": provider.issuer,
            "client_id": "sso",
            "client_secret_env": "IDP_SECRET",
        },
    )
    assert call(world) == "answer"
    (exchange,) = provider.http.at("/token")
    names = "urn:ietf:params:oauth:token-type:"
    assert exchange.fields["subject_token"] == TOKEN
    assert exchange.fields["subject_token_type"] == names + "id_token"
    assert exchange.fields["requested_token_type"] == names + "id-jag"
    assert exchange.fields["audience"] == world.auth.issuer
    assert exchange.fields["resource"] == world.url
    assert basic(exchange.headers["authorization"]) == ("sso", f"idp-{CANARY}")
    (sent,) = world.auth.http.at("/token")
    assert sent.fields["assertion"].startswith("jag-")
    assert basic(sent.headers["authorization"]) == ("knime", f"secret-{CANARY}")
    assert TOKEN not in str(world.auth.http.seen)


def test_a_key_proves_who_presents_the_assertion(world, company, tmp_path):
    world.auth.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    (tmp_path / "key.pem").write_text(pem(ec.generate_private_key(ec.SECP384R1())), encoding="utf-8")
    company({world.auth.issuer: {"client_id": "knime", "private_key_file": str(tmp_path / "key.pem")}})
    assert call(world) == "answer"
    (sent,) = world.auth.http.at("/token")
    assert sent.fields["client_assertion"].count(".") == 2


@pytest.mark.parametrize("which", ["provider", "server"])
def test_a_refusal_is_not_repeated_and_shows_no_secret(world, company, which):
    provider = world.another()
    refusing = provider if which == "provider" else world.auth
    said = {"error": "invalid_grant", "error_description": f"{TOKEN} has expired"}
    refusing.http.canned["/token"] = Canned(400, said)
    company(**({"identity_provider": {"issuer": provider.issuer}} if which == "provider" else {}))
    with pytest.raises(AuthError, match="invalid_grant") as caught:
        call(world)
    assert "The identity token may have expired" in str(caught.value)
    assert CANARY not in str(caught.value)
    assert len(refusing.http.at("/token")) == 1


def test_a_provider_without_this_grant_is_named(world, company):
    provider = world.another()
    provider.token_extra = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    company(identity_provider={"issuer": provider.issuer})
    with pytest.raises(AuthError, match="gave no assertion for others"):
        call(world)
    assert world.auth.http.at("/token") == []


def test_a_credential_of_ones_own_wins(world, company):
    company()
    world.valid["mine"] = set()
    with MCPClient(world.url, headers={"Authorization": "Bearer mine"}) as client:
        assert client.call_tool("ask", {}).text == "answer"
    assert world.auth.http.seen == []


def test_a_server_that_lets_everybody_in_learns_nothing(world, company):
    company()
    world.valid[""] = set()
    assert call(world) == "answer"
    assert world.auth.http.seen == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"servers": {}}, "'authorization_servers' has to name"),
        ({"token_env": "X"}, "either 'token_file' or 'token_env'"),
        ({"token_file": None}, "either 'token_file' or 'token_env'"),
        ({"tokenfile": "x"}, "the file has 'tokenfile'; known are token_file"),
        ({"servers": {"https://a": {"client_secret_env": "X"}}}, "a client has 'client_id'"),
        ({"servers": {"https://a": {"client_id": "x", "client_secret_env": "NOT_SET_HERE"}}}, "not set"),
        ({"identity_provider": {"issuer": "https://a", "token_type": "cookie"}}, "'token_type' one of"),
        ({"identity_provider": []}, "no JSON object"),
    ],
)
def test_a_file_that_cannot_work_is_explained(world, company, wrong, said):
    company(**wrong)
    with pytest.raises(SettingInvalid, match=said) as caught:
        call(world)
    assert VARIABLE in str(caught.value)
    assert world.mcp.seen == []


def test_a_token_that_is_not_there_is_an_error_of_the_call(world, company):
    company().unlink()
    with pytest.raises(SettingInvalid, match="cannot be read"):
        call(world)
