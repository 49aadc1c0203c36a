"""Keys, a server for time-stamps and signed journals for tests."""

import contextlib
import hashlib
import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from knime_mcp.audit.journal import Journal
from knime_mcp.audit.journal_reading import SentCall
from knime_mcp.audit.record import content_digests
from knime_mcp.audit.signatures import add_key
from knime_mcp.client.protocol.tools import ImageContent
from tests.audit.calls import record

PICTURE = b"\x89PNG a picture"
_CONFIG = """
[tsa]
default_tsa = tsa1
[tsa1]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
ess_cert_id_chain = no
[req]
distinguished_name = dn
prompt = no
[dn]
CN = a server for time-stamps
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[stamps]
basicConstraints = CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@contextlib.contextmanager
def time_stamps(folder):
    """A real server for time-stamps, made of the openssl command: its URL, and its root certificate."""
    folder.mkdir(exist_ok=True)
    (folder / "openssl.cnf").write_text(_CONFIG)
    (folder / "serial").write_text("01\n")

    def openssl(*words):
        command = ["openssl", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)

    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem"),
        *("-days", "2", "-subj", "/CN=root", "-config", "openssl.cnf", "-extensions", "root"),
    )
    openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "tsa.key", "-out", "tsa.csr"),
        *("-config", "openssl.cnf"),
    )
    openssl(
        *("x509", "-req", "-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-out", "tsa.pem", "-days", "2", "-extfile", "openssl.cnf", "-extensions", "stamps"),
    )

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            (folder / "request.tsq").write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            openssl(
                *("ts", "-reply", "-config", "openssl.cnf", "-queryfile", "request.tsq"),
                *("-signer", "tsa.pem", "-inkey", "tsa.key", "-out", "reply.tsr"),
            )
            self.send_response(200)
            self.end_headers()
            self.wfile.write((folder / "reply.tsr").read_bytes())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", (folder / "ca.pem").read_bytes()
    finally:
        server.shutdown()
        server.server_close()


def new_key(file, name="auditor"):
    return add_key(file, name, "2026-01-31T12:00:00Z", keyring=False)


def write_journal(path, runs=("a", "b"), calls=3):
    """A journal of agents' runs, with a saved picture beside it."""
    for run in runs:
        with Journal(path, run=run, append=True, what={"kind": "agent", "model": "m"}) as journal:
            journal.note("prompt", {"row": "Row0", "text": "how many?", "history": None})
            for number in range(1, calls + 1):
                line = {"row": "Row0", "iteration": number, "text": "look", "calls": [], "usage": {}}
                journal.note("turn", line)
                journal.sent(SentCall(key=f"{run}{number}", plan=f"p{number}", tool_name="pay"))
                picture = path.parent / f"{run}{number}.png"
                picture.write_bytes(PICTURE + str(number).encode())
                content = content_digests(
                    [ImageContent(picture.read_bytes(), "image/png")], lambda value: value
                )
                saved = {"files": (picture.name,), "image": picture.name, "content": content}
                told = {"key": f"{run}{number}", "result": f"paid {number}"}
                journal.append(record(number, run=run, **told, **saved))
            journal.note("answer", {"row": "Row0", "text": "three", "ending": "answer"})
    return path


def remade_last(entries):
    """The last of some lines, given as objects, with its ``chain`` made anew."""
    entry = {name: value for name, value in entries[-1].items() if name != "chain"}
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)[:-1]
    chain = hashlib.sha256(f"{entries[-2]['chain']}\n{text}".encode()).hexdigest()
    return f'{text},"chain":"{chain}"}}\n'.encode()


def rechained(entries):
    """Lines with the values that are given, and the chain of the lines made anew."""
    lines, chain = [], ""
    for entry in entries:
        said = {name: value for name, value in entry.items() if name != "chain"}
        # Lone surrogates are no UTF-8, but can be escaped.
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii="\\ud800" in str(said))
        chain = hashlib.sha256(f"{chain}\n{text[:-1]}".encode()).hexdigest()
        lines.append(f'{text[:-1]},"chain":"{chain}"}}\n'.encode())
    return lines
