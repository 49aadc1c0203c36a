"""Opens a TCP connection to a host that may have several addresses."""

import errno
import os
import selectors
import socket
import time
from typing import Any, Final, cast

from ..clock import Wait

Address = tuple[Any, ...]
"""An address as returned by `socket.getaddrinfo`."""

_RACE_SECONDS: Final = 0.25  # RFC 8305 §5: head start of an address before the next address is tried
_KEEP_ALIVE_SECONDS: Final = 60


def dial(addresses: list[Address], wait: Wait) -> tuple[socket.socket, Address]:
    """Connects to the first address of a host that answers; each has a head start over the next (RFC 8305).

    Args:
        addresses: The addresses, the best first.
        wait: Clocks and cancel.

    Returns:
        A connected socket, and its address.

    Raises:
        OSError: No address can be reached; the error of the last address.
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
        _set_options(sock)  # before connecting, as a connection that was reset at once takes no options
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
    # Keep-alive packets, as routers drop connections without traffic after minutes.
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
