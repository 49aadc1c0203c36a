# The part that is used here: an extra, which not everybody who checks types has installed.
import httpx
import httpx2

class APIStatusError(Exception):
    message: str
    body: object | None
    status_code: int
    response: httpx.Response

class APIConnectionError(Exception): ...

class AsyncClient:
    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        max_retries: int,
        http_client: httpx2.AsyncClient,
    ) -> None: ...
