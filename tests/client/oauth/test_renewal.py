"""Tokens that end, scopes that are missing, servers that move: once, together, and alone if possible."""

import dataclasses
import threading
import time

import pytest

from knime_mcp.client.mcp_client import MCPClient
from knime_mcp.client.oauth.grants import AuthorizationCode
from knime_mcp.client.oauth.logins import MemoryStore, RegisteredClient, to_text
from knime_mcp.client.oauth.oauth import OAuth, login_key
from knime_mcp.types.errors import AuthError, Canceled
from tests.client.oauth.world import Canned, in_trouble
from tests.support.waiting import until


def logged_in(world, person, store=None, **options):
    authorization = OAuth(world.url, AuthorizationCode(person), store=store, **options)
    authorization.log_in()
    return authorization


def test_a_token_is_refreshed_before_it_expires(world, person):
    world.auth.expires_in = 0
    authorization = logged_in(world, person)
    world.auth.expires_in = 3600
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert world.auth.grants == ["authorization_code", "refresh_token"]
    assert len(person.pages) == 1


def test_a_token_that_expires_in_the_middle_of_a_batch_costs_one_refresh_and_no_row(world, person):
    authorization = logged_in(world, person)
    with MCPClient(world.url, auth=authorization) as client:
        answers = []
        for row in range(10):
            if row == 5:
                world.expire_all()
            answers.append(client.call_tool("ask", {}).text)
    assert answers == ["answer"] * 10
    assert world.auth.grants == ["authorization_code", "refresh_token"]
    assert len(person.pages) == 1


@pytest.mark.parametrize("shared", ["object", "store"])
@pytest.mark.parametrize("how", ["401", "due"])
def test_eight_threads_make_one_refresh(world, person, shared, how):
    store = MemoryStore()
    if how == "due":
        world.auth.expires_in = 0
    first = logged_in(world, person, store)
    world.auth.expires_in = 3600
    same = shared == "object"
    objects = (
        [first] * 8 if same else [OAuth(world.url, AuthorizationCode(person), store=store) for _ in range(8)]
    )
    clients = [MCPClient(world.url, auth=each) for each in objects]
    if how == "401":
        for client in clients:
            client.connect()
        world.expire_all()
    world.auth.refresh_delay = 0.2
    start = threading.Barrier(8)
    answers: list[str] = []
    failures: list[Exception] = []

    def work(client):
        start.wait(30)
        try:
            answers.append(client.call_tool("ask", {}).text)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for client in clients:
        client.close()
    assert failures == []
    assert answers == ["answer"] * 8
    assert world.auth.grants == ["authorization_code", "refresh_token"]
    assert len(person.pages) == 1


def test_a_token_that_lives_for_seconds_is_refreshed_as_often_as_it_ends(world, person):
    # Servers count whole seconds, so the token ends up to one before we think.
    world.auth.expires_in = 2
    authorization = logged_in(world, person)
    with MCPClient(world.url, auth=authorization) as client:
        for _ in range(3):
            assert client.call_tool("ask", {}).text == "answer"
            time.sleep(1.1)
            world.expire_all()
    assert world.auth.grants[0] == "authorization_code"
    assert set(world.auth.grants[1:]) == {"refresh_token"}


def test_a_refresh_keeps_what_the_answer_leaves_out(world, person):
    authorization = logged_in(world, person, scope="a b")
    before = authorization.login
    world.expire_all()
    world.auth.token_extra = {"refresh_token": None}
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert authorization.login.tokens.refresh_token == before.tokens.refresh_token
    assert authorization.login.tokens.access_token != before.tokens.access_token
    assert authorization.login.scope == "a b"
    (_, refresh) = world.auth.http.at("/token")
    assert refresh.fields["resource"] == world.url


def test_a_refresh_token_that_ended_means_a_new_login(world, person):
    authorization = logged_in(world, person)
    world.expire_all()
    world.auth.refuse_refresh = True
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert world.auth.grants == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(person.pages) == 2


def test_where_nobody_sits_a_login_that_ended_is_an_error_that_says_so(world, person):
    store = MemoryStore()
    logged_in(world, person, store)
    world.expire_all()
    world.auth.refuse_refresh = True
    stored = OAuth(world.url, AuthorizationCode(), store=store)
    with pytest.raises(AuthError, match="Run: knime-mcp login"), MCPClient(world.url, auth=stored):
        pass


def test_the_rest_of_a_batch_does_not_ask_for_a_login_that_ended_again_and_again(world, person):
    store = MemoryStore()
    logged_in(world, person, store)
    stored = OAuth(world.url, AuthorizationCode(), store=store)
    with MCPClient(world.url, auth=stored) as client:
        client.list_tools()
        world.expire_all()
        world.auth.refuse_refresh = True
        for _ in range(20):
            with pytest.raises(AuthError, match="wants a person to log in"):
                client.call_tool("ask", {})
    assert world.auth.grants.count("refresh_token") == 1


def test_a_refresh_that_cannot_reach_the_server_keeps_the_login(world, person):
    store = MemoryStore()
    authorization = logged_in(world, person, store)
    world.expire_all()
    world.auth.http.canned["/token"] = in_trouble(503)
    with pytest.raises(AuthError), MCPClient(world.url, auth=authorization):
        pass
    del world.auth.http.canned["/token"]
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert len(person.pages) == 1


def test_a_due_token_that_cannot_be_renewed_is_used_as_long_as_it_works(world, person):
    world.auth.expires_in = 0
    authorization = logged_in(world, person)
    world.auth.http.canned["/token"] = in_trouble(503)
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
        asked = len(world.auth.http.at("/token"))
        client.list_tools()
    assert len(world.auth.http.at("/token")) == asked, "after a refresh that failed there is a pause"


def test_another_process_that_used_the_refresh_token_is_noticed(world, person):
    """The store changes between our look and the refusal."""
    store = MemoryStore()
    mine = logged_in(world, person, store)
    old = mine.login
    other = OAuth(world.url, AuthorizationCode(), store=store)
    world.expire_all()
    with MCPClient(world.url, auth=other) as client:
        client.list_tools()
    assert mine.login == old, "this one does not know yet"
    with MCPClient(world.url, auth=mine) as client:
        client.list_tools()
    assert world.auth.grants == ["authorization_code", "refresh_token"]


def test_a_refresh_that_lost_a_race_against_another_process_takes_its_login(world, person):
    store = MemoryStore()
    mine = logged_in(world, person, store)
    world.expire_all()
    world.auth.refresh_gate.clear()
    done = []
    thread = threading.Thread(target=lambda: (mine.headers(), done.append(mine.challenged(401, None))))
    thread.start()
    until(lambda: len(world.auth.http.at("/token")) >= 2)
    tokens = dataclasses.replace(mine.login.tokens, access_token="of-the-other")
    store.save(login_key(world.url), to_text(dataclasses.replace(mine.login, tokens=tokens)))
    world.auth.refuse_refresh = True
    world.auth.refresh_gate.set()
    thread.join(30)
    assert done == [True]
    assert mine.headers() == {"Authorization": "Bearer of-the-other"}
    assert len(person.pages) == 1


def test_scopes_are_taken_from_the_challenge_then_the_metadata(world, person):
    world.resource_metadata["scopes_supported"] = ["read", "write"]
    OAuth(world.url, AuthorizationCode(person)).log_in()
    OAuth(world.url, AuthorizationCode(person)).log_in('Bearer scope="files"')
    OAuth(world.url, AuthorizationCode(person), scope="mine").log_in('Bearer scope="files"')
    assert person.scopes() == ["read write", "files", "mine"]


@pytest.mark.parametrize("offered", [True, False])
def test_offline_access_is_asked_for_where_it_is_offered_and_nowhere_else(world, person, offered):
    world.auth.metadata["scopes_supported"] = ["read", "offline_access"] if offered else ["read"]
    OAuth(world.url, AuthorizationCode(person)).log_in('Bearer scope="read offline_access"')
    assert person.scopes() == ["read offline_access" if offered else "read"]
    assert ("prompt=consent" in person.pages[0]) == offered


def test_missing_scopes_are_asked_for_together_with_those_before(world, person):
    world.needed = {"tools/list": "list", "tools/call": "call"}
    world.challenge += ', scope="list"'
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person))) as client:
        client.list_tools()
        assert client.call_tool("ask", {}).text == "answer"
        client.list_tools()
    assert person.scopes() == ["list", "list call"]


def test_scopes_that_were_granted_and_do_not_help_start_no_login(world, person):
    world.forbidden_challenge = 'Bearer error="insufficient_scope", scope="list"'
    world.challenge += ', scope="list"'
    with (
        pytest.raises(AuthError) as caught,
        MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person))) as client,
    ):
        client.list_tools()
    assert caught.value.status == 403
    assert len(person.pages) == 1


@pytest.mark.parametrize("challenge", ['Bearer error="forbidden"', 'Bearer realm="x"'])
def test_a_403_for_other_reasons_starts_no_login(world, person, challenge):
    authorization = logged_in(world, person)
    world.forbidden_challenge = challenge
    with pytest.raises(AuthError), MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert len(person.pages) == 1


def test_a_server_that_moves_gets_a_new_client_and_nothing_of_the_old_one(world, person):
    store = MemoryStore()
    authorization = logged_in(world, person, store)
    old = authorization.login
    second = world.another()
    world.resource_metadata["authorization_servers"] = [second.issuer]
    world.expire_all()
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert authorization.login.issuer == second.issuer
    assert len(second.http.at("/register")) == 1
    told = repr(second.http.seen)
    for secret in (old.client.client_id, old.tokens.access_token, old.tokens.refresh_token):
        assert secret not in told


def test_a_client_that_was_registered_by_hand_does_not_move(world, person):
    grant = AuthorizationCode(person, client=RegisteredClient("by-hand"))
    authorization = OAuth(world.url, grant)
    authorization.log_in()
    second = world.another()
    world.resource_metadata["authorization_servers"] = [second.issuer]
    world.expire_all()
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert "by-hand" not in repr(second.http.seen)


def test_a_document_as_client_id_moves(world, person):
    document = "https://example.org/client.json"
    second = world.another()
    for each in (world.auth, second):
        each.metadata["client_id_metadata_document_supported"] = True
    authorization = OAuth(world.url, AuthorizationCode(person, client_metadata_url=document))
    authorization.log_in()
    world.resource_metadata["authorization_servers"] = [second.issuer]
    world.expire_all()
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert second.http.at("/authorize")[0].query["client_id"] == document


def test_a_named_issuer_does_not_move(world, person):
    authorization = logged_in(world, person, issuer=world.auth.issuer)
    second = world.another()
    world.resource_metadata["authorization_servers"] = [second.issuer]
    world.expire_all()
    with pytest.raises(AuthError, match="change the issuer"), MCPClient(world.url, auth=authorization):
        pass
    assert second.http.seen == []


@pytest.mark.parametrize("listed", ["", "/"])
@pytest.mark.parametrize("stated", ["", "/"])
@pytest.mark.parametrize("named", [None, "", "/"])
def test_a_slash_at_the_end_makes_no_other_issuer(world, person, listed, stated, named):
    issuer = world.auth.issuer
    world.resource_metadata["authorization_servers"] = [issuer + listed]
    world.auth.metadata["issuer"] = issuer + stated
    options = {} if named is None else {"issuer": issuer + named}
    authorization = logged_in(world, person, **options)
    assert authorization.login.issuer == issuer + stated
    world.expire_all()
    with MCPClient(world.url, auth=authorization) as client:
        client.list_tools()
    assert world.auth.grants == ["authorization_code", "refresh_token"]


def test_of_several_issuers_the_named_one_is_used(world, person):
    second = world.another()
    world.resource_metadata["authorization_servers"] = [world.auth.issuer, second.issuer]
    authorization = logged_in(world, person, issuer=second.issuer)
    assert authorization.login.issuer == second.issuer
    assert world.auth.http.seen == []


def test_a_client_that_the_server_has_forgotten_is_registered_again(world, person):
    store = MemoryStore()
    logged_in(world, person, store)
    world.auth.http.canned["/token"] = Canned(401, {"error": "invalid_client"})
    with pytest.raises(AuthError, match="invalid_client"):
        logged_in(world, person, store)
    del world.auth.http.canned["/token"]
    logged_in(world, person, store)
    assert len(world.auth.http.at("/register")) == 2


def test_cancel_ends_a_wait_for_somebody_elses_login(world, person):
    store = MemoryStore()
    logged_in(world, person, store)
    world.auth.refresh_gate.clear()
    world.expire_all()
    slow = OAuth(world.url, AuthorizationCode(), store=store)
    canceled = threading.Event()
    waiting = OAuth(world.url, AuthorizationCode(), store=store)
    waiting.headers()
    thread = threading.Thread(target=lambda: (slow.headers(), slow.challenged(401, None)))
    thread.start()
    until(lambda: len(world.auth.http.at("/token")) >= 2)
    canceled.set()
    with pytest.raises(Canceled):
        waiting.challenged(401, None, canceled.is_set)
    assert thread.is_alive(), "the other one goes on"
    world.auth.refresh_gate.set()
    thread.join(30)
    assert not thread.is_alive()


def test_identity_is_stable_and_tells_callers_apart(world, person):
    store = MemoryStore()
    mine = OAuth(world.url, AuthorizationCode(person), store=store)
    before = mine.identity
    mine.log_in()
    assert mine.identity == before
    assert OAuth(world.url, AuthorizationCode(), store=store).identity == before
    assert OAuth(world.url, AuthorizationCode()).identity != before
    assert OAuth(world.url, AuthorizationCode(client=RegisteredClient("x")), store=store).identity != before


def test_an_expired_token_and_a_missing_scope_on_one_request(world, person):
    world.resource_metadata["scopes_supported"] = ["mcp"]
    with MCPClient(world.url, auth=OAuth(world.url, AuthorizationCode(person))) as client:
        client.list_tools()
        world.expire_all()
        world.needed["tools/call"] = "mcp extra"
        before = len(world.posts())
        assert not client.call_tool("echo").is_error
    assert world.posts()[before:] == ["tools/call"] * 3  # 401, 403, done
