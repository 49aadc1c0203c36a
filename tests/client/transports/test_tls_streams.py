"""Bytes over TLS: the system's sockets never block, and what TLS has read already no poll sees."""

import socket
import ssl
import threading

import h11
import pytest
import trustme

from knime_mcp.client.clock import Wait
from knime_mcp.client.network import Dialer
from knime_mcp.client.protocol.outcomes import Moment
from knime_mcp.client.transports.base import Delivery
from knime_mcp.client.transports.connections import HttpConnection
from knime_mcp.tools import NetworkSettings, Timeouts

MUCH = 5_000_000


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def answering(sock, context, size):
    """Takes a request with that many bytes, in pieces, and says them again."""
    with context.wrap_socket(sock, server_side=True) as secure:
        taken = bytearray()
        while (end := taken.find(b"\r\n\r\n")) < 0 or len(taken) < end + 4 + size:
            taken += secure.recv(1_000)
        secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + taken[end + 4 :])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 20_000, MUCH])
def test_what_goes_out_comes_back(authority, version, size):
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("server.example").configure_cert(accepting)
    accepting.maximum_version = version
    calling = ssl.create_default_context()
    authority.configure_trust(calling)
    ours, theirs = socket.socketpair()
    server = threading.Thread(target=answering, args=(theirs, accepting, size), daemon=True)
    server.start()
    wait, delivery = Wait(Timeouts(idle=60)), Delivery()
    sent = bytes(index % 251 for index in range(size))
    secure = Dialer(NetworkSettings(), None).handshake(ours, calling, "server.example", wait)
    assert secure.version() == version.name.replace("v1_", "v1.")
    connection = HttpConnection(secure)
    headers = [("Host", "server.example"), ("Content-Length", str(size))]
    connection.send(h11.Request(method="POST", target="/", headers=headers), sent, wait, delivery)
    assert connection.receive(wait)[0] == 200
    back = bytearray()
    while (chunk := connection.chunk(wait)) is not None:
        back += chunk
    server.join(30)
    connection.close()
    assert back == sent
    assert delivery.moment is Moment.SENT
