"""Logins that can be renewed, and the refusal that asks for it."""

from tests.support.scripted_server import http

NO_TOKEN = http(401, '{"hint": "log in"}', headers={"WWW-Authenticate": "Bearer"})


class Renewing:
    """Gets another token whenever it is asked to, until it is told otherwise."""

    identity = "renewing"

    def __init__(self, outcome=lambda count: True):
        self.seen = []
        self._outcome = outcome

    def headers(self, _=None):
        return {"Authorization": f"Bearer token-{len(self.seen)}"}

    def challenged(self, status, challenge, is_canceled=None):
        self.seen.append(status)
        self.is_canceled = is_canceled
        return self._outcome(len(self.seen))

    def describe(self):
        return "a Bearer token"

    def secrets(self):
        return ()
