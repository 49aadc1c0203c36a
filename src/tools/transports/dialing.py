"""Opening a TCP connection to a host that may have several addresses."""

import errno
import os
import selectors
import socket
import time
from typing import Any, Final, cast

from ..clock import Wait

Address = tuple[Any, ...]
"""As `socket.getaddrinfo` gives them."""

_RACE_SECONDS: Final = 0.25  # RFC 8305 §5: head start of one address before the next one is tried
_KEEP_ALIVE_SECONDS: Final = 60


def dial(addresses: list[Address], wait: Wait) -> tuple[socket.socket, Address]:
    """Races the addresses of a host, each with a head start over the next one (RFC 8305).

    Args:
        addresses: Where to connect to, the best one first.
        wait: Clocks and cancel.

    Returns:
        A connected socket, and to which address.

    Raises:
        OSError: None of them can be reached; that of the last one.
    """
    waiting_for = list(addresses)
    last_error: OSError = OSError("no address")
    with selectors.DefaultSelector() as selector:
        try:
            next_start = 0.0
            while waiting_for or selector.get_map():
                now = time.monotonic()
                if waiting_for and (now >= next_start or not selector.get_map()):
                    address = waiting_for.pop(0)
                    try:
                        selector.register(_begin(address), selectors.EVENT_WRITE, address)
                        next_start = now + _RACE_SECONDS
                    except OSError as error:
                        last_error = error
                    continue
                pause = wait.slice()
                for key, _ in selector.select(min(pause, next_start - now) if waiting_for else pause):
                    sock = cast("socket.socket", key.fileobj)
                    selector.unregister(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code == 0:
                        return sock, key.data
                    last_error = OSError(code, os.strerror(code))
                    sock.close()
            raise last_error
        finally:
            for key in list(selector.get_map().values()):
                cast("socket.socket", key.fileobj).close()


def _begin(address: Address) -> socket.socket:
    family, kind, protocol, _, target = address
    sock = socket.socket(family, kind, protocol)
    try:
        _set_options(sock)  # now: a connection that the server has reset at once takes none any more
        sock.setblocking(False)
        code = sock.connect_ex(target)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Routers forget a call on which nothing is said for minutes: so the system says that we are there.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):  # names differ between systems
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _KEEP_ALIVE_SECONDS)


def is_ip(host: str) -> bool:
    """Returns whether a host is an address and not a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
