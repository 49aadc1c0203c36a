"""The authorization object of OAuth: tokens for one MCP server, obtained, renewed and shared by its threads.

Every failure is raised as `AuthError`, also that of an authorization server, so that it is not mistaken for a
failure of the MCP server.
"""

import dataclasses
import hashlib
import logging
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Final

from ...system import try_to_lock
from ...types.errors import AuthError, ConnectError, ProtocolError, SettingInvalid, TimedOut
from ...types.texts import origin_and_path
from ..clock import IsCanceled, Wait
from ..limits import Timeouts
from ..network import NetworkSettings, checked_url
from ..refusals import BearerChallenge
from . import dpop
from .answers import UNKNOWN_CLIENT, GrantRefused, tokens_from
from .discovery import (
    Discovered,
    canonical_resource,
    covers,
    discover,
    granted,
    is_same_issuer,
    resource_for,
    union,
    with_offline,
)
from .grants import (
    AuthorizationCode,
    ClientCredentials,
    Grant,
    Situation,
    client_key,
    token_request,
)
from .guard import GUARD_TIMEOUTS, Guard
from .logins import KeyringStore, Login, MemoryStore, Tokens, TokenStore, login_from_text, to_text

_logger = logging.getLogger(__name__)
_MOST_LOGINS: Final = 3
_WINDOW_SECONDS: Final = 600.0
_LONGEST_LOGIN: Final = Timeouts(idle=900, total=900)
_PAUSE_AFTER_FAILURE: Final = 30.0  # between attempts to renew a token that still holds
_MOST_SECRETS: Final = 64
_LOCK_SECONDS: Final = 0.05  # between looks whether another process has refreshed the login
_REFUSAL_SECONDS: Final = 5.0  # for which a refusal is told again, so that a batch does not ask per row


# One thread at a time obtains or renews the tokens of a (store, MCP server, client).
_flights: Final[weakref.WeakValueDictionary[tuple[str, str, str], threading.Lock]] = (
    weakref.WeakValueDictionary()
)
_flights_lock: Final = threading.Lock()


class _ThreadState(threading.local):
    """The tokens that a thread sent last, the nonce of their proof, and its check of the cancel button."""

    tokens: Tokens | None = None
    uses: int | None = None  # requests since the tokens were renewed because of a refusal; None if never
    nonce: str | None = None
    is_canceled: IsCanceled | None = None


class OAuth:
    """Authorization by OAuth 2.1; give it to `MCPClient` as ``auth``.

    Args:
        server_url: The MCP server.
        grant: The way to get tokens.
        store: The store of logins; in memory by default. Objects with the same store share logins.
        issuer: The only authorization server to accept. Required for a client secret.
        scope: Scopes to ask for, instead of those that the server names.
        network: Trust store and proxy.
        timeouts: The clocks of one request to an authorization server.

    Raises:
        SettingInvalid: A URL is not valid, or the keyring does not answer.
    """

    def __init__(
        self,
        server_url: str,
        grant: Grant,
        *,
        store: TokenStore | None = None,
        issuer: str | None = None,
        scope: str | None = None,
        network: NetworkSettings = NetworkSettings(),  # noqa: B008 - frozen
        timeouts: Timeouts = GUARD_TIMEOUTS,
    ) -> None:
        server_url = checked_url(server_url)
        self._server_url = server_url
        self._grant = grant
        self._store = MemoryStore() if store is None else store
        self._issuer = issuer
        self._scope = scope
        trusted = (*grant.issuers, *filter(None, (issuer,)))
        self._guard = Guard(
            server_url, network=network, timeouts=timeouts, trusted=trusted, is_canceled=self._is_canceled
        )
        self._key = login_key(server_url)
        self._found: Discovered | None = None
        self._thread_state = _ThreadState()
        self._logins: list[float] = []
        self._refusal: tuple[str | None, int, GrantRefused, float] | None = None
        self._pause_until = 0.0
        self._nonce: str | None = None  # the server's, for proofs
        self._seen_secrets: list[str] = []  # of logins; the last ones
        flight = (self._store.identity, canonical_resource(server_url), grant.client_id)
        with _flights_lock:
            self._flight = _flights.setdefault(flight, threading.Lock())
        self._login = self._load()

    def __repr__(self) -> str:
        return f"<OAuth: {self.describe()}>"

    @property
    def login(self) -> Login | None:
        return self._login

    @property
    def identity(self) -> str:
        """A key for the caller in caches: stable over renewals, different per store, client and server."""
        parts = ("oauth", self._store.identity, self._key, self._grant.name, self._grant.client_id)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def describe(self) -> str:
        """The kind of credential and its issuer, for error messages."""
        login = self._login
        if login is None:
            return "no Bearer token yet (OAuth)"
        return f"a {_scheme(login.tokens)} token from {origin_and_path(login.issuer)}"

    def secrets(self) -> tuple[str, ...]:
        """Tokens, secrets and keys of this object, past ones included."""
        return (*self._grant.secrets, *self._seen_secrets)

    def headers(self, is_canceled: IsCanceled | None = None, /) -> dict[str, str]:
        """The header with the token, which is renewed first if it is about to expire."""
        self._thread_state.is_canceled = is_canceled
        login = self._login
        if login is not None and login.tokens.is_due and time.monotonic() >= self._pause_until:
            login = self._renew_early(login)
        tokens = self._thread_state.tokens = login.tokens if login is not None else None
        if self._thread_state.uses is not None:
            self._thread_state.uses += 1
        return {"Authorization": f"{_scheme(tokens)} {tokens.access_token}"} if tokens is not None else {}

    def proof(self, method: str, url: str, body: bytes | None, /) -> dict[str, str]:
        """The proof for a request with the token that this thread got last, if that is bound to a key."""
        tokens, nonce = self._thread_state.tokens, self._nonce
        if tokens is None or tokens.proof_key is None:
            return {}
        self._thread_state.nonce = nonce
        key = dpop.proof_key(tokens.proof_key)
        return {"DPoP": key.proof(method, url, nonce=nonce, token=tokens.access_token, body=body)}

    def take_nonce(self, nonce: str, /) -> None:
        self._nonce = nonce

    def challenged(
        self, status: int, challenge: str | None, is_canceled: IsCanceled | None = None, /
    ) -> bool:
        """Gets a token that the server accepts.

        True if there is another token than the one that the calling thread sent last.
        """
        self._thread_state.is_canceled = is_canceled
        bearer = BearerChallenge.read(challenge)
        if not bearer.wants_token or status not in {401, 403}:
            return False
        if status == 403 and bearer.error != "insufficient_scope":
            return False
        # RFC 9449 §9: not the token is refused, but a proof without the server's nonce, which `take_nonce`
        # has got meanwhile.
        if bearer.error == dpop.WANTS_NONCE:
            return self._nonce != self._thread_state.nonce
        tokens = self._thread_state.tokens
        sent = tokens.access_token if tokens is not None else None
        with self._exclusive():
            # From the store, which other processes share: a refresh token can often be used once only.
            login = self._login = self._load() or self._login
            is_new = login is not None and login.tokens.access_token != sent and not login.tokens.is_over
            if not is_new:  # else another thread or process was faster
                self._check_refusal(sent, status)
                try:
                    if status == 403:
                        return self._step_up(bearer)
                    self._renew(bearer)
                except GrantRefused as refusal:
                    self._refusal = (sent, status, refusal, time.monotonic())
                    raise
            self._thread_state.uses = 0
            return True

    def _check_refusal(self, sent: str | None, status: int) -> None:
        """Raises the last refusal again for a few seconds, so that a batch does not ask once per row."""
        if self._refusal is not None:
            token, before, refusal, at = self._refusal
            if (token, before) == (sent, status) and time.monotonic() - at < _REFUSAL_SECONDS:
                raise refusal.at()

    def log_in(self, challenge: str | None = None, is_canceled: IsCanceled | None = None) -> Login:
        """Gets a new login now, even if one is stored; `challenge` is the server's, if it refused."""
        self._thread_state.is_canceled = is_canceled
        bearer = BearerChallenge.read(challenge)
        with self._exclusive():
            discovered = self._discover(bearer.resource_metadata)
            return self._obtain(
                discovered,
                self._first_scope(discovered, bearer),
                self._previous_issuer(discovered),
                _wanted_key(discovered, bearer),
            )

    def _renew(self, bearer: BearerChallenge) -> Login:
        """Gets new tokens after 401: refreshes once, else logs in. The server may have changed its issuer."""
        discovered = self._discover(bearer.resource_metadata)
        login = self._login
        previous = self._previous_issuer(discovered)
        if login is not None and not is_same_issuer(login.issuer, discovered.server.issuer):
            # https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#authorization-server-binding
            self._store.delete(self._key)
            login = self._login = None
        # Another refresh would not help if the token is refused that was renewed for this very request.
        if login is not None and login.tokens.refresh_token is not None and self._thread_state.uses != 1:
            try:
                return self._refresh(login, discovered)
            except GrantRefused as refusal:
                self._forget_client(refusal, login.issuer)
                other = self._load()
                if other is not None and other.tokens.access_token != login.tokens.access_token:
                    self._login = other  # another process has used the refresh token
                    return other
                _logger.debug("refresh refused: %s", refusal.error)
        scope = union(login.scope if login is not None else None, self._first_scope(discovered, bearer))
        return self._obtain(discovered, scope, previous, _wanted_key(discovered, bearer))

    def _renew_early(self, login: Login) -> Login:
        """Renews the token before it expires. A failure is only logged, as the token may still be valid."""
        with self._exclusive():
            current = self._load() or login
            self._login = current
            if not current.tokens.is_due or time.monotonic() < self._pause_until:
                return current
            try:
                discovered = self._found or self._discover(None)
                # A refresh token must not go to another server; the next 401 settles it in `_renew`.
                if not is_same_issuer(discovered.server.issuer, current.issuer):
                    return current
                if current.tokens.refresh_token is not None:
                    return self._refresh(current, discovered, is_patient=False)  # it may still be valid
                if self._grant.name != "authorization_code":
                    return self._obtain(discovered, current.scope, current.issuer, _key_of(current))
            except AuthError as error:
                _logger.warning("the token could not be renewed before it expires: %s", error.what)
            # The token still holds for a minute: without a pause each row of a batch would ask the failing
            # server again.
            self._pause_until = time.monotonic() + _PAUSE_AFTER_FAILURE
            return current

    def _step_up(self, bearer: BearerChallenge) -> bool:
        """Asks for more scopes after 403 ``insufficient_scope``: the scopes so far and the missing ones.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#step-up-authorization-flow
        """
        login = self._login
        so_far = union(login.scope, login.tokens.scope) if login is not None else None
        if bearer.scope is None or covers(so_far, bearer.scope):
            return False  # a login with the same scopes would be refused the same way
        discovered = self._discover(bearer.resource_metadata)
        scope = union(so_far, bearer.scope)
        self._obtain(
            discovered,
            with_offline(scope, discovered.server.scopes_supported, refreshable=self._grant.refreshable),
            self._previous_issuer(discovered),
            # The token that lacks a scope is bound, so the next one is, too, whatever the challenge names.
            (login and _key_of(login)) or _wanted_key(discovered, bearer),
        )
        return True

    def _refresh(self, login: Login, discovered: Discovered, *, is_patient: bool = True) -> Login:
        # RFC 9700 §4.14.2: a server that sees a refresh token twice may end the login of both who sent it.
        with self._only_process():
            other = self._load()
            if other is not None and other.tokens.access_token != login.tokens.access_token:
                self._login = other
                return other
            key = _key_of(login)
            fields = {
                "grant_type": "refresh_token",
                "refresh_token": login.tokens.refresh_token,
                "scope": granted(login.scope, login.tokens.scope),
                "resource": discovered.resource if login.resource else None,
            }
            server = discovered.server
            request = partial(
                token_request, self._guard, server, login.client, proof_key=key, is_patient=is_patient
            )
            try:
                answer = request(fields)
            except GrantRefused as refusal:
                if refusal.error != "invalid_scope" or fields["scope"] is None:
                    raise
                # RFC 6749 §6: without it the scopes stay the same. Some servers grant less than they say.
                answer = request(fields | {"scope": None})
            new = tokens_from(answer, server.issuer, key)
            # RFC 6749 §5.1, §6: refresh token and scope stay the same if the answer has none.
            tokens = dataclasses.replace(
                new,
                refresh_token=new.refresh_token or login.tokens.refresh_token,
                scope=new.scope or login.tokens.scope,
            )
            _logger.debug("refreshed the token for %s", origin_and_path(self._server_url))
            return self._keep(dataclasses.replace(login, tokens=tokens))

    def _obtain(
        self,
        discovered: Discovered,
        scope: str | None,
        previous_issuer: str | None,
        proof_key: dpop.ProofKey | None,
    ) -> Login:
        if self._grant.asks_person:
            self._count_login()
        situation = Situation(
            server_url=self._server_url,
            guard=self._guard,
            found=discovered,
            store=self._store,
            pinned=self._issuer is not None,
            previous_issuer=previous_issuer,
            resource=resource_for(discovered, scope, chosen=self._scope),
            proof_key=proof_key,
        )
        issuer = discovered.server.issuer
        try:
            client, tokens = self._grant.obtain(situation, scope)
        except GrantRefused as refusal:
            self._forget_client(refusal, issuer)
            raise
        _logger.debug("logged in for %s", origin_and_path(self._server_url))
        return self._keep(Login(issuer, situation.resource or "", client, tokens, scope, self._grant.name))

    def _forget_client(self, refusal: GrantRefused, issuer: str) -> None:
        """Forgets a client that the server no longer knows, so that the next login registers another."""
        if refusal.error in UNKNOWN_CLIENT:
            self._store.delete(client_key(issuer))

    def _count_login(self) -> None:
        """Counts logins, as a server that refuses every token would ask the person again and again."""
        now = time.monotonic()
        self._logins = [at for at in self._logins if now - at < _WINDOW_SECONDS]
        if len(self._logins) >= _MOST_LOGINS:
            raise AuthError(
                f"The server still refuses access after {_MOST_LOGINS} logins",
                fix="Ask whoever runs it which scopes and which account it wants",
            )
        self._logins.append(now)

    def _first_scope(self, discovered: Discovered, bearer: BearerChallenge) -> str | None:
        """The scope of a first authorization, None to leave the parameter out.

        The person's setting takes precedence over the server's challenge, and that over metadata.
        """
        chosen = self._scope or bearer.scope or " ".join(discovered.resource_scopes or ()) or None
        return with_offline(chosen, discovered.server.scopes_supported, refreshable=self._grant.refreshable)

    def _previous_issuer(self, discovered: Discovered) -> str | None:
        if self._login is not None:
            return self._login.issuer
        return (
            self._found.server.issuer if self._found is not None and self._found is not discovered else None
        )

    def _discover(self, metadata_url: str | None) -> Discovered:
        discovered = discover(
            self._server_url,
            self._guard,
            metadata_url=metadata_url,
            issuer=self._issuer,
            known=self._grant.issuers,
        )
        self._found = discovered
        return discovered

    def _load(self) -> Login | None:
        login = login_from_text(self._store.load(self._key) or "")
        if login is None or (self._grant.client_id and login.client.client_id != self._grant.client_id):
            return None
        self._remember_secrets(login)
        return login

    def _keep(self, login: Login) -> Login:
        self._remember_secrets(login)
        self._store.save(self._key, to_text(login))
        self._login = login
        self._pause_until = 0.0
        return login

    def _remember_secrets(self, login: Login) -> None:
        tokens = login.tokens
        mine = (tokens.access_token, tokens.refresh_token, tokens.proof_key, login.client.secret)
        # Past ones stay, as a server may still repeat them; bounded, as a run may last for days.
        fresh = [secret for secret in mine if secret and secret not in self._seen_secrets]
        if fresh:
            self._seen_secrets = [*self._seen_secrets, *fresh][-_MOST_SECRETS:]

    def _is_canceled(self) -> bool:
        """Returns whether the request of this thread was canceled."""
        is_canceled = self._thread_state.is_canceled
        return is_canceled is not None and is_canceled()

    @contextmanager
    def _only_process(self) -> Generator[None, None, None]:
        """A context in which no other process refreshes the login, if others have it."""
        if not isinstance(self._store, KeyringStore):
            yield
            return
        path = self._store.lock_file(self._key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        except OSError:  # without a place for the file, who is second takes the login of the first
            yield
            return
        wait = Wait(GUARD_TIMEOUTS, is_canceled=self._is_canceled)
        with file:
            while not try_to_lock(file):
                wait.sleep(_LOCK_SECONDS)
            yield

    @contextmanager
    def _exclusive(self) -> Generator[None, None, None]:
        """A context in which no other thread obtains these tokens. Raises `AuthError` and `Canceled` only."""
        wait = Wait(_LONGEST_LOGIN, is_canceled=self._is_canceled)
        try:
            wait.for_lock(self._flight)
            try:
                yield
            finally:
                self._flight.release()
        except (ConnectError, TimedOut, ProtocolError) as error:
            raise AuthError(f"No login: {error.what}", fix=error.fix) from None


def _scheme(tokens: Tokens) -> str:
    return "Bearer" if tokens.proof_key is None else "DPoP"


def _key_of(login: Login) -> dpop.ProofKey | None:
    """The key that a login's tokens are bound to."""
    return dpop.proof_key(login.tokens.proof_key) if login.tokens.proof_key is not None else None


def _wanted_key(discovered: Discovered, challenge: BearerChallenge) -> dpop.ProofKey | None:
    """A new key if the MCP server takes tokens that are bound to one; Bearer is the way out if it is."""
    offered = discovered.server.proof_algorithms
    is_offered = dpop.ALGORITHM in (offered or ())
    must = discovered.wants_proof or not challenge.takes_bearer
    if not must and not (challenge.takes_proof and is_offered):
        return None
    if offered is not None and not is_offered:
        raise AuthError(
            f"The server wants tokens that are bound to a key (DPoP), and its authorization server takes "
            f"{', '.join(offered)[:200] or 'none'} for that; this client signs with {dpop.ALGORITHM}",
            fix="Ask whoever runs the authorization server",
        )
    return dpop.ProofKey()


def login_key(server_url: str) -> str:
    return f"login {canonical_resource(server_url)}"


def stored_login(
    server_url: str, *, network: NetworkSettings | None = None, store: TokenStore | None = None
) -> OAuth | None:
    """Makes the authorization from a login that ``knime-mcp login`` stored; None if there is none.

    It renews its token but never asks a person.
    """
    try:
        place = KeyringStore() if store is None else store
        known = login_from_text(place.load(login_key(server_url)) or "")
    except SettingInvalid:
        return None
    if known is None:
        return None
    grant = ClientCredentials(known.client) if known.grant == "client_credentials" else AuthorizationCode()
    return OAuth(server_url, grant, store=place, issuer=known.issuer, network=network or NetworkSettings())
