"""Secure connections: a server that stalls in the handshake is nobody else's concern."""

import socket
import ssl
import threading

import trustme

from knime_mcp.client.network import NetworkSettings
from knime_mcp.tools import MCPClient, Timeouts
from knime_mcp.types.errors import ConnectError
from tests.faults.rows import run_rows, script_for
from tests.support.scripted_server import ScriptedServer


def test_a_handshake_that_stalls_does_not_stop_other_servers(tmp_path):
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    network = NetworkSettings(ca_file=str(tmp_path / "ca.pem"))
    failures = []

    def stall():
        try:
            MCPClient(silent_url, network=network, timeouts=Timeouts(connect=60)).connect()
        except ConnectError as error:
            failures.append(error)

    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        ScriptedServer(script_for("modern-json", None), tls=context) as server,
    ):
        silent_url = f"https://127.0.0.1:{silent.getsockname()[1]}/mcp"
        thread = threading.Thread(target=stall)
        thread.start()
        stalled, _ = silent.accept()
        assert stalled.recv(1)  # it has begun
        with MCPClient(server.url, network=network, timeouts=Timeouts(connect=10)) as client:
            assert all(row.good for row in run_rows(client, bad=()))
        stalled.close()
        thread.join(30)
    assert failures[0].phase == "tls"
