"""Bytes over TLS: the system's sockets never block, and what TLS has read already no poll sees."""

import socket
import ssl
import threading

import pytest
import trustme

from knime_mcp.client.clock import Wait
from knime_mcp.client.transports.sockets import Backend, Stream, waiting
from knime_mcp.tools import NetworkSettings, Timeouts

MUCH = 5_000_000


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def answering(sock, context, size):
    """Takes that many bytes, in pieces, and says them again."""
    with context.wrap_socket(sock, server_side=True) as secure:
        taken = bytearray()
        while len(taken) < size and (data := secure.recv(1_000)):
            taken += data
        secure.sendall(taken)


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
    wait = Wait(Timeouts(idle=60))
    sent = bytes(index % 251 for index in range(size))
    with waiting(wait):
        secure = Backend(NetworkSettings(), None).handshake(ours, calling, "server.example")
        stream = Stream(secure, Backend(NetworkSettings(), None))
        assert stream.get_extra_info("ssl_object").version() == version.name.replace("v1_", "v1.")
        stream.write(sent[:1])
        stream.write(sent[1:])
        back = bytearray()
        while len(back) < size:
            back += stream.read(7)  # less than a TLS record
            if size == MUCH:
                back += stream.read(65_536)
    server.join(30)
    stream.close()
    assert back == sent
    assert not wait.unsent
